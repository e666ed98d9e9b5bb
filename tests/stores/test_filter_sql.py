"""The SQL of metadata filters gives the answers of the reference evaluator, on a real SQLite."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import apsw
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmemory.errors import ValidationError
from agentmemory.stores.filters import (
    MAX_CONDITIONS,
    MAX_DEPTH,
    MAX_FILTER_DEPTH,
    Equals,
    Scalar,
    canonical_text,
    canonical_time,
    matches,
    parse_filter,
    validate_metadata,
)
from agentmemory.stores.sqlite.filter_sql import compile_filter
from tests.support.generated_filters import (
    INJECTIONS,
    KEYS,
    NEARLY_TIMES,
    TEXTS,
    TIME_TEXTS,
    FilterMaker,
    near_time_text,
)

CASES = [
    case
    for line in (Path(__file__).parents[1] / "cases" / "filters.jsonl")
    .read_text("utf-8")
    .splitlines()
    if (case := json.loads(line))["match"] != "error"
]


class Table:
    """A table of metadata, asked by the SQL and by the evaluator."""

    def __init__(self) -> None:
        self.connection = apsw.Connection(":memory:")
        self.connection.execute("CREATE TABLE r (id INTEGER PRIMARY KEY, metadata TEXT)")
        self.documents: list[dict] = []

    def fill(self, documents) -> None:
        self.documents = [validate_metadata(document) for document in documents]
        self.connection.execute("DELETE FROM r")
        self.connection.executemany(
            "INSERT INTO r VALUES (?, ?)",
            (
                (number, orjson.dumps(document).decode())
                for number, document in enumerate(self.documents)
            ),
        )

    def found(self, raw) -> set[int]:
        """Return the rows the SQL finds, having compared its three uses with one another."""
        sql, binds = compile_filter(parse_filter(raw), "r.metadata")
        assert sql.count("?") == len(binds)
        found = self._rows(f"SELECT id FROM r WHERE {sql}", binds)
        others = self._rows(f"SELECT id FROM r WHERE NOT {sql}", binds)
        values = self._rows(f"SELECT id * 2 + {sql} FROM r", binds)
        assert found | others == set(range(len(self.documents)))
        assert values == {2 * number + (number in found) for number in found | others}
        return found

    def expected(self, raw) -> set[int]:
        """Return the rows the evaluator finds."""
        condition = parse_filter(raw)
        return {
            number for number, document in enumerate(self.documents) if matches(condition, document)
        }

    def _rows(self, sql, binds) -> set[int]:
        return {number for (number,) in self.connection.execute(sql, binds)}


@pytest.fixture
def table() -> Iterator[Table]:
    made = Table()
    yield made
    made.connection.close()


@pytest.mark.parametrize("case", CASES, ids=[case["why"] for case in CASES])
def test_every_shared_case_has_its_answer_in_sql(table, case):
    table.fill([case["metadata"]])
    assert table.found(case["filter"]) == ({0} if case["match"] else set())


# Since 3.53 SQLite reads every float exactly.
EXACT_FLOATS = tuple(map(int, apsw.sqlite_lib_version().split("."))) >= (3, 53)


def test_generated_filters_find_the_same_documents_in_sql_as_in_the_evaluator(table):
    maker = FilterMaker(Random(20260301), extreme_floats=EXACT_FLOATS)
    pairs: Counter[bool] = Counter()
    for _ in range(160):
        table.fill(maker.document() for _ in range(10))
        for _ in range(8):
            raw = maker.filter(maker.some(table.documents))
            expected = table.expected(raw)
            assert table.found(raw) == expected, (raw, table.documents)
            if raw:
                pairs[True] += len(expected)
                pairs[False] += len(table.documents) - len(expected)
    assert pairs.total() >= 10_000
    assert min(pairs.values()) > 0.15 * pairs.total()


@settings(max_examples=100, derandomize=True, deadline=None, database=None)
@given(st.randoms(use_true_random=False))
def test_sql_and_evaluator_agree_on_examples_that_shrink(random):
    maker = FilterMaker(random, extreme_floats=EXACT_FLOATS)
    table = Table()
    table.fill([maker.document()])
    raw = maker.filter(table.documents)
    assert table.found(raw) == table.expected(raw), (raw, table.documents)
    table.connection.close()


def test_sql_and_evaluator_agree_on_what_is_a_time_and_which(table):
    random = Random(7)
    texts = [near_time_text(random) for _ in range(1_500)]
    texts += TIME_TEXTS + NEARLY_TIMES + TEXTS
    table.fill({"t": text} for text in texts)
    times = {canonical for text in texts if (canonical := canonical_time(text))}
    assert 250 < len(times) < len(texts)

    (sql, binds) = compile_filter(parse_filter({"t": {"$in": sorted(times)}}), "metadata")
    found = {row for (row,) in table.connection.execute(f"SELECT id FROM r WHERE {sql}", binds)}
    assert found == {row for row, text in enumerate(texts) if canonical_time(text)}

    operands = [random.choice(texts) for _ in range(20)]
    operands += [
        "",
        "0001-01-01",
        "2026",
        "2026-02-30",
        "2026-03-01",
        "9999-12-31",
        ":",
        "\U0010ffff",
    ]
    operands += ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "9999-12-30T00:00+00:00"]
    for operand in operands:
        for name in ("$eq", "$gt", "$gte", "$lt", "$lte"):
            raw = {"t": {name: operand}}
            assert table.found(raw) == table.expected(raw), raw


def test_every_pair_of_texts_has_the_same_order_in_sql(table):
    texts = sorted({*TEXTS, *TIME_TEXTS, *KEYS}, key=canonical_text)
    table.fill({"s": text} for text in texts)
    for operand in texts:
        at = canonical_text(operand)
        below = {row for row, text in enumerate(texts) if canonical_text(text) < at}
        assert table.found({"s": {"$lt": operand}}) == below
        assert table.found({"s": operand}) == {
            row for row, text in enumerate(texts) if canonical_text(text) == at
        }


def test_every_pair_of_numbers_has_the_same_order_in_sql(table):
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
        assert table.found({"n": {"$gt": operand}}) == {
            row for row, number in enumerate(numbers) if number > operand
        }
        assert table.found({"n": {"$in": [operand, "x"]}}) == {
            row for row, number in enumerate(numbers) if number == operand
        }


@pytest.mark.parametrize("evil", INJECTIONS)
def test_user_text_never_becomes_sql(table, evil):
    table.fill([{"tier": "gold"}, {evil: evil}, {"list": [evil], "object": {evil: [evil]}}])
    for raw, found in (
        ({"tier": evil}, set()),
        ({"tier": {"$ne": evil}}, {0, 1, 2}),
        ({evil: {"$exists": True}}, {1}),
        ({evil: evil}, {1}),
        ({evil: {"$in": [evil, 1]}}, {1}),
        ({"list": {"$array_contains": [evil, evil]}}, {2}),
        ({"list": [evil]}, {2}),
        ({"object": {evil: [evil]}}, {2}),
        ({"object": {"$eq": {evil: [evil]}}}, {2}),
        ({"object": {evil: {"$array_contains_any": [1, evil]}}}, {2}),
    ):
        assert table.found(raw) == found == table.expected(raw), raw
    assert table.connection.execute("SELECT count(*) FROM r").fetchone() == (3,)


def test_two_filters_of_one_form_have_one_sql_text():
    def sql(key, text, number, time):
        raw = {
            key: {"$gt": text, "$ne": time, "$in": [number, text, None]},
            key + "2": {key: {"$array_contains": text}, text: [text, [number]]},
            "$or": [{key: {"$lt": time}}, {key: {"$eq": {key: text}}}],
        }
        return compile_filter(parse_filter(raw), "metadata")[0]

    assert sql("a", "x", 1, "2026-03-01T00:00:00Z") == sql(
        "') --", "'x", -2.5, "2001-01-01T00:00+01"
    )


@pytest.mark.parametrize(
    "column", ["", "a b", "r.", "r.a.b", "1a", "a;b", "metadata --", 'r."metadata"', "é", "a\n"]
)
def test_only_a_plain_column_is_accepted(column):
    with pytest.raises(ValidationError, match="`column` is") as caught:
        compile_filter(parse_filter({"a": 1}), column)
    assert caught.value.argument == "column"


def test_no_filter_holds_for_every_row():
    assert compile_filter(None, "r.metadata") == ("1", [])
    sql, binds = compile_filter(parse_filter({"a": 1}), "metadata")
    assert sql.startswith("(")
    assert binds == ["a", 1]


def test_rows_without_metadata_count_as_empty(table):
    table.connection.execute("INSERT INTO r VALUES (0, NULL), (1, '{}'), (2, '{\"a\":1}')")
    table.documents = [{}, {}, {"a": 1}]
    for raw in (
        {"a": 1},
        {"a": {"$ne": 1}},
        {"$not": {"a": {"$exists": True}}},
        {"$or": [{}, {"a": 2}]},
        {"a": {"$not": {"b": 1}}},
    ):
        assert table.found(raw) == table.expected(raw), raw


def test_the_condition_stands_next_to_others_in_joins_and_subqueries(table):
    table.fill([{"a": 1, "mf1": 1}, {"a": 1}, {"a": 2, "mf1": 1}, {}])
    first, first_binds = compile_filter(parse_filter({"a": 1}), "left_row.metadata")
    second, second_binds = compile_filter(
        parse_filter({"$or": [{"mf1": 1}, {"a": {"$in": [7, 8]}}]}), "right_row.metadata"
    )
    rows = table.connection.execute(
        f"SELECT left_row.id, right_row.id FROM r AS left_row JOIN r AS right_row "
        f"ON {first} AND NOT {second} WHERE left_row.id <= ? "
        f"AND EXISTS (SELECT 1 FROM r WHERE {first} AND r.id = left_row.id) ORDER BY 1, 2",
        (*first_binds, *second_binds, 1, *first_binds),
    ).fetchall()
    assert rows == [(0, 1), (0, 3), (1, 1), (1, 3)]


def nested(levels, leaf):
    for _ in range(levels):
        leaf = {"k": leaf}
    return leaf


def test_the_largest_accepted_filters_run(table):
    deep = nested(MAX_DEPTH, 1)
    wide = {f"k{n}": n for n in range(MAX_CONDITIONS)}
    lists = {"k": [[n, "x"] for n in range(MAX_CONDITIONS - 2)]}
    pit: list[object] = []
    for _ in range(MAX_DEPTH - 2):
        pit = [pit, 1]
    table.fill([deep, wide, lists, {"k": pit}, {"k": list(range(1_000))}, {}])
    negations: object = {"$exists": True}
    for _ in range(MAX_FILTER_DEPTH - 3):
        negations = {"$not": negations}
    for raw in (
        deep,
        nested(MAX_DEPTH, {"$ne": 1}),
        nested(MAX_FILTER_DEPTH - 1, {"$gt": "2026-03-01T00:00:00Z"}),
        wide,
        lists,
        {"k": pit},
        {"k": {"$in": [pit, lists["k"][:10], deep["k"], 1, None]}},
        {"k": list(range(1_000))},
        {"k": {"$array_contains": list(range(1_000))}},
        {"k": {"$array_contains_any": list(range(-1_000, 1))}},
        {"k1": {"$in": list(range(1_000))}},
        {"k1": negations},
        {"$or": [{"k": f"2026-03-01T00:00:{n % 60:02}Z"} for n in range(240)] + [{"k9": 9}]},
    ):
        assert table.found(raw) == table.expected(raw)


def test_trees_made_by_hand_are_compiled_too(table):
    table.fill([{"a": 1}, {"a": {"b": []}}])
    text, binds = compile_filter(Equals(Scalar("null", None)), "metadata")
    assert table.connection.execute(f"SELECT id FROM r WHERE {text}", binds).fetchall() == []
    assert table.found({"a": datetime(2026, 3, 1, tzinfo=UTC)}) == set()
