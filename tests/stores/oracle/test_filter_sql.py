"""Metadata filters over terms give the answers of the reference evaluator.

The conditions are run here by a small interpreter of the one form they have; the emulated
database runs them as SQL in the other tests of the store.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from random import Random
from types import CodeType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmemory.stores.filters import (
    MAX_DEPTH,
    MAX_FILTER_DEPTH,
    Equals,
    ObjectLiteral,
    Scalar,
    canonical_text,
    matches,
    parse_filter,
    validate_metadata,
)
from agentmemory.stores.oracle.filter_sql import compile_filter
from agentmemory.stores.oracle.metadata_terms import SEGMENT_BYTES, metadata_terms
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
    for line in (Path(__file__).parents[2] / "cases" / "filters.jsonl")
    .read_text("utf-8")
    .splitlines()
    if (case := json.loads(line))["match"] != "error"
]

_EXISTS = re.compile(r"JSON_EXISTS\(m, '\$\[\*\]\?\(([^)]*)\)' PASSING ([^)]*)\)")
_PASSED = re.compile(r':(\w+) AS "(v\d+)"')
_WORDS = {"AND": "and", "OR": "or", "NOT": "not", "1": "1", "=": "==", "0": "0"}


def runs(sql: str, binds: dict[str, str]):
    """Return a function that tells whether a list of terms meets a compiled condition."""
    tests: list[tuple[CodeType, dict[str, str]]] = []

    def keep(found: re.Match[str]) -> str:
        # Variables of the path become attributes of nothing else than names.
        test = found[1].replace("||", " or ").replace("&&", " and ").replace("@", "term")
        passed = {name: binds[bind] for bind, name in _PASSED.findall(found[2])}
        assert len(passed) == found[2].count(":")
        tests.append((compile(test.replace("$", "").strip(), "path", "eval"), passed))
        return f"some({len(tests) - 1})"

    rest = _EXISTS.sub(keep, sql)
    assert "'" not in rest
    python = re.sub(r"[A-Z=]+|\b[01]\b", lambda word: _WORDS[word[0]], rest)

    def holds(terms: list[str]) -> bool:
        def some(place: int) -> bool:
            test, passed = tests[place]
            return any(eval(test, {"term": term, **passed}) for term in terms)

        return eval(python, {"some": some})

    return holds


def found(raw, documents) -> set[int]:
    """Return which documents the compiled condition finds."""
    sql, binds = compile_filter(parse_filter(raw), "m", "f_")
    assert sorted(re.findall(r":(f_m\d+)", sql)) == sorted(binds)
    holds = runs(sql, binds)
    return {
        number
        for number, document in enumerate(documents)
        if holds(metadata_terms(validate_metadata(document)))
    }


def expected(raw, documents) -> set[int]:
    """Return which documents the evaluator finds."""
    condition = parse_filter(raw)
    return {
        number
        for number, document in enumerate(documents)
        if matches(condition, validate_metadata(document))
    }


@pytest.mark.parametrize("case", CASES, ids=[case["why"] for case in CASES])
def test_every_shared_case_has_its_answer(case):
    assert found(case["filter"], [case["metadata"]]) == ({0} if case["match"] else set())


def test_generated_filters_find_the_same_documents_as_the_evaluator():
    maker = FilterMaker(Random(20260301))
    pairs: Counter[bool] = Counter()
    for _ in range(100):
        documents = [maker.document() for _ in range(8)]
        for _ in range(8):
            raw = maker.filter(maker.some(documents))
            right = expected(raw, documents)
            assert found(raw, documents) == right, (raw, documents)
            if raw:
                pairs[True] += len(right)
                pairs[False] += len(documents) - len(right)
    assert pairs.total() > 5_000
    assert min(pairs.values()) > 0.15 * pairs.total()


@settings(max_examples=100, derandomize=True, database=None)
@given(st.randoms(use_true_random=False))
def test_both_agree_on_examples_that_shrink(random):
    maker = FilterMaker(random)
    documents = [maker.document()]
    raw = maker.filter(documents)
    assert found(raw, documents) == expected(raw, documents), (raw, documents)


def test_every_pair_of_texts_has_its_order():
    random = Random(7)
    texts = sorted(
        {*TEXTS, *TIME_TEXTS, *NEARLY_TIMES, *KEYS} | {near_time_text(random) for _ in range(100)},
        key=canonical_text,
    )
    documents = [{"s": text} for text in texts]
    for operand in texts[::3]:
        at = canonical_text(operand)
        below = {row for row, text in enumerate(texts) if canonical_text(text) < at}
        equal = {row for row, text in enumerate(texts) if canonical_text(text) == at}
        assert found({"s": {"$lt": operand}}, documents) == below
        assert found({"s": {"$gt": operand}}, documents) == set(range(len(texts))) - below - equal
        assert found({"s": operand}, documents) == equal


@pytest.mark.parametrize("unit", ["b", "ü", "凧"])
def test_texts_longer_than_a_term_have_their_order_too(unit):
    per_segment = SEGMENT_BYTES // len(unit.encode())
    lengths = (1, per_segment - 1, per_segment, per_segment + 1, 2 * per_segment + 1)
    ends = ("", "a", "c", "\U0010ffff")
    texts = [unit * length + end for length in lengths for end in ends]
    texts += [unit * 3 * per_segment, unit * per_segment + "a" + unit * per_segment, "", "a"]
    documents = [{"s": text} for text in texts]
    for operand in texts:
        for name in ("$eq", "$gt", "$gte", "$lt", "$lte", "$ne"):
            raw = {"s": {name: operand}}
            assert found(raw, documents) == expected(raw, documents), (name, len(operand))
        assert found({"s": {"$in": [operand]}}, documents) == expected({"s": operand}, documents)


def test_every_pair_of_numbers_has_its_order():
    random = Random(11)
    numbers: list[float] = [
        sign * (2**bits + step)
        for bits in (0, 52, 53, 54, 62)
        for step in (-1, 0, 1)
        for sign in (1, -1)
    ]
    numbers += [float(number) for number in numbers]
    numbers += [random.uniform(-1, 1) * 10 ** random.randint(-300, 300) for _ in range(20)]
    numbers += [0, -0.0, 2**63 - 1, -(2**63 - 1), 5e-324, -5e-324, 1.7e308]
    documents = [{"n": number} for number in numbers]
    for operand in numbers:
        for name in ("$eq", "$gt", "$gte", "$lt", "$lte"):
            raw = {"n": {name: operand}}
            assert found(raw, documents) == expected(raw, documents), raw


def filters_with(word):
    return (
        {"tier": {"$ne": word}},
        {word: {"$exists": True}},
        {word: word},
        {"list": {"$array_contains": [word, "other"]}},
        {"object": {word: {"$array_contains_any": [1, word]}}},
        {"object": {"$eq": {word: [word]}}},
        {word: {"$gt": word[:-1]}},
    )


@pytest.mark.parametrize("evil", INJECTIONS)
def test_user_text_never_becomes_sql(evil):
    documents = [{"tier": "gold"}, {evil: evil}, {"list": [evil], "object": {evil: [evil]}}]
    for raw, harmless in zip(filters_with(evil), filters_with("harmless"), strict=True):
        sql, _ = compile_filter(parse_filter(raw), "m", "f_")
        assert sql == compile_filter(parse_filter(harmless), "m", "f_")[0]
        assert found(raw, documents) == expected(raw, documents), raw


def test_two_filters_of_one_form_have_one_text():
    def sql(key, text, number, time):
        raw = {
            key: {"$gt": text, "$ne": time, "$in": [number, text, None]},
            key + "2": {key: {"$array_contains": text}, text: [text, [number]]},
            "$or": [{key: {"$lt": time}}, {key: {"$eq": {key: text}}}],
        }
        return compile_filter(parse_filter(raw), "m", "f_")[0]

    assert sql("a", "x", 1, "2026-03-01T00:00:00Z") == sql(
        "') --", "'x", -2.5, "2001-01-01T00:00+01"
    )


def test_lists_are_padded_so_that_few_texts_differ():
    def sql(size):
        return compile_filter(parse_filter({"a": {"$in": list(range(size))}}), "m", "f_")[0]

    assert sql(5) == sql(6) == sql(8) != sql(9)
    assert sql(33).count("JSON_EXISTS") == 2
    documents = [{"a": 1_234}, {"a": 5_000}]
    assert found({"a": {"$in": list(range(5_000))}}, documents) == {0}


def test_binds_of_two_filters_stay_apart():
    first = compile_filter(parse_filter({"a": 1}), "m", "x_")
    second = compile_filter(parse_filter({"a": 1}), "m", "y_")
    assert not first[1].keys() & second[1].keys()


def test_no_filter_holds_for_every_row():
    assert compile_filter(None, "m", "f_") == ("1 = 1", {})
    assert found({"a": {"$not": {"b": 1}}}, [{}, {"a": {"b": 1}}]) == {0}


def test_the_largest_filters_and_documents_are_compiled():
    def nested(levels, leaf):
        for _ in range(levels):
            leaf = {"k": leaf}
        return leaf

    deep = nested(MAX_DEPTH, 1)
    lists = {"k": [[number, "x"] for number in range(300)]}
    documents = [deep, lists, {"k": list(range(1_000))}, {}]
    for raw in (
        deep,
        nested(MAX_DEPTH, {"$ne": 1}),
        nested(MAX_FILTER_DEPTH - 1, {"$gt": "2026-03-01T00:00:00Z"}),
        lists,
        {"k": list(range(1_000))},
        {"k": {"$array_contains": list(range(100))}},
        {"k": {"$array_contains_any": list(range(-100, 1))}},
    ):
        assert found(raw, documents) == expected(raw, documents)


def test_trees_made_by_hand_are_compiled_too():
    whole = Equals(ObjectLiteral((("a", Scalar("number", 1)),)))
    sql, binds = compile_filter(whole, "m", "f_")
    assert runs(sql, binds)(metadata_terms({"a": 1}))
    assert not runs(sql, binds)(metadata_terms({"a": 2}))


def test_terms_fit_into_a_bind_and_hold_only_what_sorts_by_code():
    terms = metadata_terms({"a": "\U0010ffff" * 5_000, "b": [None, True, -1.5, "x", {"c": []}]})
    assert max(map(len, terms)) < 4_000
    assert all(re.fullmatch(r"[0-9a-z]+", term) for term in terms)
