"""Metadata filters find in an emulated database what the reference evaluator finds."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import oracledb
import pytest

from agentmemory.stores.filters import (
    MAX_CONDITIONS,
    MAX_DEPTH,
    MAX_FILTER_DEPTH,
    canonical_text,
    matches,
    parse_filter,
    validate_metadata,
)
from agentmemory.stores.oracle.filter_sql import compile_filter
from agentmemory.stores.oracle.metadata_terms import metadata_terms
from tests.support.generated_filters import (
    INJECTIONS,
    KEYS,
    NEARLY_TIMES,
    TEXTS,
    TIME_TEXTS,
    FilterMaker,
    near_time_text,
)
from tests.support.oracle.store import DSN, LOGIN, oracle_server

CASES = [
    case
    for line in (Path(__file__).parents[2] / "cases" / "filters.jsonl")
    .read_text("utf-8")
    .splitlines()
    if (case := json.loads(line))["match"] != "error"
]


class Table:
    """A table of metadata and its terms, asked through the driver and by the evaluator."""

    def __init__(self, connection: oracledb.Connection) -> None:
        self._cursor = connection.cursor()
        self.documents: list[dict[str, Any]] = []

    def fill(self, documents) -> None:
        self.documents = [validate_metadata(document) for document in documents]
        self._cursor.execute("DELETE FROM r")
        self._cursor.setinputsizes(m=oracledb.DB_TYPE_JSON, t=oracledb.DB_TYPE_JSON)
        self._cursor.executemany(
            "INSERT INTO r (id, metadata, terms) VALUES (:id, :m, :t)",
            [
                {"id": number, "m": document, "t": metadata_terms(document)}
                for number, document in enumerate(self.documents)
            ],
        )

    def found(self, raw) -> set[int]:
        """Return the rows the SQL finds, having compared it with its negation."""
        sql, binds = compile_filter(parse_filter(raw), "r.terms", "f_")
        found = self._rows(f"SELECT r.id FROM r WHERE {sql}", binds)
        others = self._rows(f"SELECT r.id FROM r WHERE NOT ({sql})", binds)
        assert found | others == set(range(len(self.documents)))
        assert not found & others
        return found

    def expected(self, raw) -> set[int]:
        """Return the rows the evaluator finds."""
        condition = parse_filter(raw)
        return {
            number for number, document in enumerate(self.documents) if matches(condition, document)
        }

    def _rows(self, sql, binds) -> set[int]:
        self._cursor.execute(sql, binds)
        return {number for (number,) in self._cursor.fetchall()}

    def close(self) -> None:
        self._cursor.close()


@pytest.fixture(scope="module")
def table():
    with oracle_server() as server, oracledb.connect(DSN, **LOGIN) as connection:
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE r (id NUMBER(10) PRIMARY KEY, metadata JSON, terms JSON)")
        made = Table(connection)
        yield made
        made.close()
        connection.rollback()
        server.check_clean()


@pytest.mark.parametrize("case", CASES, ids=[case["why"] for case in CASES])
def test_every_shared_case_has_its_answer(table, case):
    table.fill([case["metadata"]])
    assert table.found(case["filter"]) == ({0} if case["match"] else set())


def test_generated_filters_find_the_same_documents(table):
    maker = FilterMaker(Random(20260301), extreme_floats=False)
    pairs: Counter[bool] = Counter()
    for _ in range(80):
        table.fill(maker.document() for _ in range(16))
        for _ in range(8):
            raw = maker.filter(maker.some(table.documents))
            expected = table.expected(raw)
            assert table.found(raw) == expected, (raw, table.documents)
            if raw:
                pairs[True] += len(expected)
                pairs[False] += len(table.documents) - len(expected)
    assert pairs.total() >= 7_500
    assert min(pairs.values()) > 0.15 * pairs.total()


def test_texts_and_times_have_the_same_order(table):
    random = Random(7)
    texts = [near_time_text(random) for _ in range(200)]
    texts = sorted({*texts, *TEXTS, *TIME_TEXTS, *NEARLY_TIMES, *KEYS}, key=canonical_text)
    table.fill({"s": text} for text in texts)
    for operand in random.sample(texts, 60):
        for name in ("$eq", "$gt", "$gte", "$lt", "$lte"):
            raw = {"s": {name: operand}}
            assert table.found(raw) == table.expected(raw), raw


def test_numbers_have_the_same_order(table):
    random = Random(11)
    numbers: list[float] = [
        sign * (2**bits + step)
        for bits in (0, 52, 53, 54, 62)
        for step in (-1, 0, 1)
        for sign in (1, -1)
    ]
    numbers += [float(number) for number in numbers]
    numbers += [random.uniform(-1, 1) * 10 ** random.randint(-20, 20) for _ in range(20)]
    table.fill({"n": number} for number in numbers)
    for operand in numbers:
        for raw in ({"n": {"$gt": operand}}, {"n": {"$in": [operand, "x"]}}, {"n": operand}):
            assert table.found(raw) == table.expected(raw), raw


@pytest.mark.parametrize("evil", INJECTIONS)
def test_user_text_never_becomes_sql(table, evil):
    table.fill([{"tier": "gold"}, {evil: evil}, {"list": [evil], "object": {evil: [evil]}}])
    for raw, found in (
        ({"tier": {"$ne": evil}}, {0, 1, 2}),
        ({evil: {"$exists": True}}, {1}),
        ({evil: {"$in": [evil, 1]}}, {1}),
        ({"list": {"$array_contains": [evil, evil]}}, {2}),
        ({"object": {evil: [evil]}}, {2}),
        ({"object": {evil: {"$array_contains_any": [1, evil]}}}, {2}),
    ):
        assert table.found(raw) == found == table.expected(raw), raw


def test_the_largest_accepted_filters_run(table):
    def nested(levels, leaf):
        for _ in range(levels):
            leaf = {"k": leaf}
        return leaf

    wide = {f"k{n}": n for n in range(MAX_CONDITIONS)}
    table.fill([nested(MAX_DEPTH, 1), wide, {"k": list(range(1_000))}, {}])
    for raw in (
        nested(MAX_DEPTH, {"$ne": 1}),
        nested(MAX_FILTER_DEPTH - 1, {"$gt": "2026-03-01T00:00:00Z"}),
        wide,
        {"k": list(range(1_000))},
        {"k": {"$array_contains": list(range(1_000))}},
        {"k": {"$array_contains_any": list(range(-1_000, 1))}},
        {"k1": {"$in": list(range(1_000))}},
    ):
        assert table.found(raw) == table.expected(raw)
