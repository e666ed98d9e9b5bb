"""Keyword search end to end: our tokens in a real FTS5 table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentmemory.errors import ValidationError
from agentmemory.requests import QueryTerm
from agentmemory.text.analyzer import MAX_QUERY_TERMS, analyze, analyze_query
from agentmemory.text.fts5 import FTS5_TOKENIZER, fts5_match

CASES = [
    json.loads(line)
    for line in (Path(__file__).parent.parent / "cases" / "text_search.jsonl")
    .read_text("utf-8")
    .splitlines()
]


QUERY_CHARACTERS = "aZé09_-.:'\"()*+^#@/,{}[]&| \n\tがカ茶素한\u0301\u3099🙂"
queries = st.one_of(
    st.text(st.sampled_from(QUERY_CHARACTERS), max_size=40),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    st.lists(
        st.sampled_from(["AND", "OR", "NOT", "NEAR(a b, 2)", "a*", '"', "content:x", "-x", "^y"])
    ).map(" ".join),
)
# The table is emptied by each example itself.
fuzz = settings(
    deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


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


@fuzz
@given(text=queries, other=queries)
def test_any_text_is_a_valid_query_and_finds_itself(
    database: apsw.Connection, text: str, other: str
) -> None:
    database.execute("DELETE FROM f")
    put(database, {"text": text, "other": other})
    found = find(database, text)
    assert (1 in found) == bool(analyze(text))


@fuzz
@given(text=queries)
def test_tokens_pass_through_fts5_unchanged(database: apsw.Connection, text: str) -> None:
    database.execute("DELETE FROM f")
    put(database, {"text": text})
    stored = [
        row[0] for row in database.execute('SELECT term FROM v ORDER BY doc, "offset"').fetchall()
    ]
    assert stored == analyze(text)


def test_every_character_passes_through_fts5_unchanged(database: apsw.Connection) -> None:
    tokens = {token for code in _codes() for token in analyze(f"{chr(code)} x{chr(code)}")}
    database.execute("INSERT INTO f(content) VALUES (?)", (" ".join(sorted(tokens)),))
    stored = {row[0] for row in database.execute("SELECT DISTINCT term FROM v").fetchall()}
    assert stored == tokens


def _codes() -> Iterator[int]:
    yield from range(0xD800)
    yield from range(0xE000, 0x11000)
    yield from range(0x1B000, 0x1B300)
    yield from range(0x1D400, 0x1FB00)


def test_all_ascii_punctuation_can_be_part_of_a_token(database: apsw.Connection) -> None:
    punctuation = "".join(chr(code) for code in range(33, 127) if not chr(code).isalnum())
    database.execute("INSERT INTO f(content) VALUES (?)", (f"a{punctuation}b c",))
    found = database.execute(
        "SELECT count(*) FROM f WHERE f MATCH ?",
        (fts5_match([QueryTerm(f"a{punctuation}b")]),),
    ).fetchall()
    assert found == [(1,)]
    stored = {row[0] for row in database.execute("SELECT term FROM v").fetchall()}
    assert stored == {f"a{punctuation}b", "c"}


def test_largest_query_is_accepted(database: apsw.Connection) -> None:
    put(database, {"x": "w1 w2"})
    query = " ".join(f"w{number}" for number in range(MAX_QUERY_TERMS))
    expression = fts5_match(analyze_query(query), columns=["content", "turn"])
    rows = database.execute("SELECT rowid FROM f WHERE f MATCH ?", (expression,)).fetchall()
    assert rows == [(1,)]


def test_columns_narrow_the_match(database: apsw.Connection) -> None:
    database.execute("INSERT INTO f(rowid, content, turn) VALUES (1, 'tea', 'x'), (2, 'x', 'tea')")
    terms = analyze_query("tea or coffee")
    for columns, rows in ((["content"], [1]), (["turn"], [2]), (["content", "turn"], [1, 2])):
        found = database.execute(
            "SELECT rowid FROM f WHERE f MATCH ? ORDER BY rowid", (fts5_match(terms, columns),)
        ).fetchall()
        assert [row[0] for row in found] == rows


def test_expression_joins_quoted_tokens_by_or() -> None:
    assert fts5_match([QueryTerm('a"b'), QueryTerm("茶", prefix=True)]) == '"a""b" OR "茶"*'


def test_no_terms_make_no_expression() -> None:
    assert fts5_match([]) is None
    assert fts5_match((), columns=["content"]) is None


def test_empty_columns_are_refused() -> None:
    with pytest.raises(ValidationError, match="`columns` is empty") as caught:
        fts5_match([QueryTerm("a")], columns=[])
    assert caught.value.argument == "columns"


def test_symbols_decide_between_texts_that_share_their_letters(database: apsw.Connection) -> None:
    put(
        database,
        {
            "plain": "Plan C, part C: the C language, C again and C once more.",
            "plus": "We migrated the billing service from C++ to Rust.",
            "sharp": "The C# client is older.",
        },
    )
    assert find(database, "C++") == [2]
    assert find(database, "C#") == [3]


def test_version_is_found_with_and_without_its_letter(database: apsw.Connection) -> None:
    put(database, {"a": "release v2.3.1 is out", "b": "version 2.3.1 failed", "c": "version 3.1"})
    assert sorted(find(database, "v2.3.1")) == [1, 2]
    assert sorted(find(database, "2.3.1")) == [1, 2]


def test_exact_identifier_ranks_before_its_parts(database: apsw.Connection) -> None:
    put(database, {"a": "case 4021 was closed", "b": "ticket E-4021 is open", "c": "see E-4022"})
    assert find(database, "E-4021") == [2, 1]


@pytest.mark.parametrize("query", ["식사", "식사가", "레스토랑으로"])
def test_korean_noun_is_found_whatever_particle_it_carries(
    database: apsw.Connection, query: str
) -> None:
    put(database, {"a": "저녁 식사는 조용한 레스토랑에서 하고 싶어요.", "b": "커피를 마신다"})
    assert find(database, query) == [1]


@pytest.mark.parametrize("text", ["茶叶在这里", "喝茶吗", "喜欢绿茶", "茶", "绿茶 好"])
def test_single_character_is_found_wherever_it_stands(database: apsw.Connection, text: str) -> None:
    put(database, {"a": text, "b": "他喜欢咖啡"})
    assert find(database, "茶") == [1]
