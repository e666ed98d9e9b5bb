"""Keyword search end to end: our tokens in a real FTS5 table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import apsw
import pytest

from agentmemory.text.analyzer import analyze, analyze_query
from agentmemory.text.fts5 import FTS5_TOKENIZER, fts5_match

CASES = [
    json.loads(line)
    for line in (Path(__file__).parent.parent / "cases" / "text_search.jsonl")
    .read_text("utf-8")
    .splitlines()
]


@pytest.fixture
def database() -> Iterator[apsw.Connection]:
    connection = apsw.Connection(":memory:")
    connection.execute(
        f'CREATE VIRTUAL TABLE f USING fts5(content, turn, tokenize="{FTS5_TOKENIZER}")'
    )
    connection.execute("CREATE VIRTUAL TABLE v USING fts5vocab(f, 'instance')")
    yield connection
    connection.close()


def put(database: apsw.Connection, documents: Mapping[str, str]) -> dict[int, str]:
    names: dict[int, str] = {}
    for number, (name, text) in enumerate(documents.items(), start=1):
        database.execute(
            "INSERT INTO f(rowid, content) VALUES (?, ?)", (number, " ".join(analyze(text)))
        )
        names[number] = name
    return names


def find(database: apsw.Connection, query: str) -> list[int]:
    expression = fts5_match(analyze_query(query))
    if expression is None:
        return []
    rows = database.execute("SELECT rowid FROM f WHERE f MATCH ? ORDER BY rank", (expression,))
    return [row[0] for row in rows]


@pytest.mark.parametrize("case", CASES, ids=[case["why"] for case in CASES])
def test_keyword_search_case(database: apsw.Connection, case: dict[str, Any]) -> None:
    names = put(database, case["docs"])
    found = {names[row] for row in find(database, case["query"])}
    assert set(case["hits"]) <= found
    assert not found & set(case["misses"])
