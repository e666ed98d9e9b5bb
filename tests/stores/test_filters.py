"""What a metadata filter means, by the reference evaluator, and what metadata may be stored."""

from __future__ import annotations

import copy
import enum
import json
import math
from collections import OrderedDict
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmemory.errors import FilterError, ValidationError
from agentmemory.stores.filters import (
    MAX_CONDITIONS,
    MAX_DEPTH,
    MAX_FILTER_DEPTH,
    AllOf,
    AnyOf,
    Compare,
    Contains,
    Equals,
    Exists,
    Fields,
    Not,
    OneOf,
    Scalar,
    canonical_text,
    matches,
    parse_filter,
    plain_value,
    string_leaves,
    validate_metadata,
)

CASES = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "cases" / "filters.jsonl")
    .read_text("utf-8")
    .splitlines()
]

NAIVE = datetime(2026, 3, 1)  # noqa: DTZ001 - what the library refuses
NINE_IN_ZURICH = datetime(2026, 3, 1, 9, tzinfo=timezone(timedelta(hours=1)))


def answer(metadata, raw):
    return matches(parse_filter(raw), validate_metadata(metadata))


@pytest.mark.parametrize("case", CASES, ids=[case["why"] for case in CASES])
def test_every_shared_case_has_its_answer(case):
    if case["match"] == "error":
        with pytest.raises(FilterError, match="`metadata_filter`"):
            parse_filter(case["filter"])
    else:
        assert answer(case["metadata"], case["filter"]) is case["match"]


MEANINGS = [
    # Numbers
    ({"n": 2**53 + 1}, {"n": 2.0**53}, False, "integers beyond float precision stay themselves"),
    ({"n": 2**53 + 1}, {"n": {"$gt": 2.0**53}}, True, "and are ordered exactly against floats"),
    ({"n": 2**63 - 1}, {"n": {"$lt": 2.0**63}}, True, "at the very end as well"),
    ({"n": 2**63 - 1}, {"n": 2**63 - 1}, True, "the largest integer"),
    ({"n": -(2**63) + 1}, {"n": {"$lt": -(2**63) + 2}}, True, "the smallest integer"),
    ({"n": -0.0}, {"n": 0}, True, "minus zero is zero"),
    ({"n": 0.1}, {"n": {"$gt": 0.1}}, False, "a float is itself"),
    ({"n": 1e300}, {"n": {"$gt": 2**62}}, True, "large floats"),
    ({"n": True}, {"n": {"$gt": 0}}, False, "a boolean has no place among numbers"),
    ({"n": None}, {"n": {"$lt": 1}}, False, "nor has null"),
    ({"n": [2]}, {"n": {"$gt": 1}}, False, "nor has an array"),
    # Types
    ({"x": 0}, {"x": False}, False, "zero is not false"),
    ({"x": None}, {"x": False}, False, "null is not false"),
    ({"x": ""}, {"x": None}, False, "empty text is not null"),
    ({"x": {}}, {"x": []}, False, "an empty object is not an empty list"),
    ({"x": []}, {"x": {}}, False, "and the other way round"),
    ({"x": {}}, {"x": {}}, True, "an empty object is an object"),
    ({"x": "null"}, {"x": None}, False, "a word is not null"),
    ({"x": False}, {"x": {"$in": [0, None, ""]}}, False, "membership keeps types apart"),
    ({"x": None}, {"x": {"$in": [0, None]}}, True, "null can be a member"),
    ({"x": None}, {"x": {"$ne": None}}, False, "null equals null"),
    ({}, {"x": {"$ne": None}}, True, "a missing key differs from null"),
    ({"x": None}, {"x": {"$nin": [1, None]}}, False, "null in a negated list"),
    # Text
    ({"s": "b"}, {"s": {"$gt": "B"}}, True, "upper case comes first"),
    ({"s": "\U0001f600"}, {"s": {"$gt": "\uffff"}}, True, "by code point, not by UTF-16 unit"),
    ({"s": "é"}, {"s": "e\u0301"}, False, "normalisation forms are different text"),
    ({"s": "z"}, {"s": {"$lt": "é"}}, True, "no alphabet of any language"),
    ({"s": "a"}, {"s": {"$lt": "a\u0001"}}, True, "a prefix comes first"),
    ({"s": ""}, {"s": {"$gte": ""}}, True, "empty text equals itself"),
    ({"s": "10"}, {"s": {"$lt": "9"}}, True, "digits are characters"),
    # Times
    ({"t": "2026-03-01T09:00:00Z"}, {"t": "2026-03-01T10:00:00+01:00"}, True, "one clock"),
    ({"t": "2026-03-01 10:00+01"}, {"t": "2026-03-01T09:00:00.000Z"}, True, "short forms"),
    ({"t": "2026-03-01t10:00:00+0100"}, {"t": "2026-03-01T09:00:00z"}, True, "lower case"),
    ({"t": "2026-03-01T08:00:00Z"}, {"t": NINE_IN_ZURICH}, True, "a datetime is its instant"),
    (
        {"t": NINE_IN_ZURICH},
        {"t": {"$lt": "2026-03-01T08:00:00.000001Z"}},
        True,
        "and is stored so",
    ),
    ({"t": NINE_IN_ZURICH}, {"t": {"$in": [1, NINE_IN_ZURICH]}}, True, "also in lists"),
    ({"t": "2026-03-01T23:30:00-01:00"}, {"t": {"$gt": "2026-03-02T00:00:00Z"}}, True, "offsets"),
    ({"t": "2026-03-01T09:00:00.1234569Z"}, {"t": "2026-03-01T09:00:00.123456Z"}, True, "cut off"),
    (
        {"t": "2026-03-01T09:00:00.12Z"},
        {"t": {"$lt": "2026-03-01T09:00:00.123Z"}},
        True,
        "decimals",
    ),
    ({"t": "2026-03-01T09:00:00"}, {"t": "2026-03-01T09:00:00Z"}, False, "no offset, no time"),
    ({"t": "2026-02-30T09:00:00Z"}, {"t": "2026-03-02T09:00:00Z"}, False, "no such day"),
    ({"t": "2026-03-01T24:00:00Z"}, {"t": "2026-03-02T00:00:00Z"}, False, "no hour 24"),
    ({"t": "2026-03-01T09:00:60Z"}, {"t": "2026-03-01T09:01:00Z"}, False, "no second 60"),
    ({"t": "20260301T090000Z"}, {"t": "2026-03-01T09:00:00Z"}, False, "no basic format"),
    ({"t": "2026-W09-7T09:00:00Z"}, {"t": "2026-03-01T09:00:00Z"}, False, "no week dates"),
    (
        {"t": "2026-03-01T01:00:00+02:00"},
        {"t": {"$gte": "2026-03-01"}},
        False,
        "still February in UTC",
    ),
    (
        {"t": "2026-02-28T23:00:00-02:00"},
        {"t": {"$gte": "2026-03-01"}},
        True,
        "already March in UTC",
    ),
    (
        {"t": "0001-01-01T00:00:00+01:00"},
        {"t": "0001-01-01T00:00:00+01:00"},
        True,
        "before year 1: text",
    ),
    (
        {"t": "9999-12-31T23:59:59-01:00"},
        {"t": {"$gt": "9999-12-31T23:59:59Z"}},
        False,
        "after 9999: text",
    ),
    ({"t": ["2026-03-01T09:00:00Z"]}, {"t": ["2026-03-01T10:00:00+01:00"]}, True, "in arrays"),
    (
        {"t": ["2026-03-01T09:00:00Z"]},
        {"t": {"$array_contains": NINE_IN_ZURICH}},
        False,
        "another instant",
    ),
    # Arrays and objects
    ({"a": [1, "x", None, True]}, {"a": [1.0, "x", None, True]}, True, "elements by value"),
    ({"a": [1]}, {"a": [True]}, False, "elements by type"),
    ({"a": []}, {"a": []}, True, "an empty list"),
    ({"a": [[1], []]}, {"a": [[1], []]}, True, "lists in lists"),
    ({"a": [[1], []]}, {"a": [[], [1]]}, False, "in order"),
    ({"a": [{"k": 1, "l": 2}]}, {"a": [{"l": 2, "k": 1}]}, True, "keys of an object have no order"),
    ({"a": [{"k": 1, "l": 2}]}, {"a": [{"k": 1}]}, False, "an object in a list is compared whole"),
    ({"a": (1, 2)}, {"a": (1, 2)}, True, "tuples are lists"),
    ({"o": {"k": 1, "l": 2}}, {"o": {"k": 1}}, True, "an object in a filter is a partial match"),
    ({"o": {"k": 1, "l": 2}}, {"o": {"$eq": {"k": 1}}}, False, "`$eq` compares it whole"),
    ({"o": {"k": 1, "l": 2}}, {"o": {"$eq": {"l": 2, "k": 1}}}, True, "whatever the order"),
    ({"o": {"k": 1, "l": 2}}, {"o": {"$ne": {"k": 1}}}, True, "`$ne` is its negation"),
    ({"o": {"k": {"l": []}}}, {"o": {"$in": [1, {"k": {"l": []}}]}}, True, "objects as members"),
    ({"o": {"k": 1}}, {"o": {"k": {"$gt": 0, "$lt": 2}}}, True, "operators under nested keys"),
    ({"o": {}}, {"o": {"k": {"$ne": 1}}}, True, "a missing nested key"),
    ({}, {"o": {"k": {"$ne": 1}}}, False, "but its object has to be there"),
    ({"o": "text"}, {"o": {"k": {"$exists": False}}}, False, "and has to be an object"),
    ({}, {"o": {"$not": {"k": 1}}}, True, "a negated object may be missing"),
    ({"o": {"": {" ": 1}}}, {"o": {"": {" ": 1}}}, True, "empty and blank keys"),
    ({"a": [1]}, {"a": {"0": 1}}, False, "a position is not a key"),
    ({"a.b": 1}, {"a": {"b": {"$exists": False}}}, False, "a dot is no path"),
    # Membership
    ({"a": [1, 1]}, {"a": {"$array_contains": [1, 1.0]}}, True, "each of a list, repeated or not"),
    ({"a": [None]}, {"a": {"$array_contains": None}}, True, "null in an array"),
    ({"a": []}, {"a": {"$array_contains": None}}, False, "nothing in an empty one"),
    ({"a": [[1]]}, {"a": {"$array_contains": 1}}, False, "only its own elements"),
    ({"a": [0]}, {"a": {"$array_contains_any": [False, ""]}}, False, "by type"),
    ({"a": {"x": "x"}}, {"a": {"$array_contains": "x"}}, False, "an object is no array"),
    ({}, {"a": {"$array_contains_any": [1]}}, False, "nor is a missing key"),
    # Logic
    ({}, {"$not": {}}, False, "not everything is nothing"),
    ({}, {"$or": [{}, {"x": 1}]}, True, "an empty entry always holds"),
    ({"x": 1}, {"x": 1, "$or": [{"y": 1}, {"x": {"$gt": 0}}]}, True, "logic next to keys"),
    ({"x": 1}, {"x": 1, "$not": {"x": 1}}, False, "all of it holds or none"),
    ({"x": 5}, {"x": {"$or": [{"$lt": 2}, {"$gt": 4}]}}, True, "logic under a key"),
    ({"x": 3}, {"x": {"$or": [{"$lt": 2}, {"$gt": 4}, 7]}}, False, "raw values as branches"),
    ({"x": 3}, {"x": {"$and": [{"$gt": 2}, {"$not": {"$gt": 3}}]}}, True, "both"),
    ({}, {"x": {"$not": {"$not": {"$exists": True}}}}, False, "double negation"),
    ({"x": 1}, {"x": {"$not": {"$exists": False}}}, True, "negated absence"),
    ({"x": 1}, {"x": {"$exists": False}}, False, "it is there"),
    ({"o": {"k": 1}}, {"o": {"$or": [{"k": 2}, {"k": 1}]}}, True, "objects as branches"),
]


@pytest.mark.parametrize(
    ("metadata", "raw", "expected", "why"), MEANINGS, ids=[f"{m[3]} {m[1]}" for m in MEANINGS]
)
def test_a_filter_means_what_its_sentence_says(metadata, raw, expected, why):
    assert answer(metadata, raw) is expected


@pytest.mark.parametrize(
    ("metadata", "raw", "expected", "why"), MEANINGS, ids=[f"{m[3]} {m[1]}" for m in MEANINGS]
)
def test_negation_is_exact_at_the_top_and_under_a_key(metadata, raw, expected, why):
    assert answer(metadata, {"$not": raw}) is not expected
    for key, condition in raw.items():
        if len(raw) == 1 and not key.startswith("$"):
            assert answer(metadata, {key: {"$not": condition}}) is not expected


@pytest.mark.parametrize("raw", [None, {}, MappingProxyType({}), OrderedDict()])
def test_an_empty_filter_is_no_filter(raw):
    assert parse_filter(raw) is None
    assert matches(None, {"anything": 1})


def test_the_tree_of_a_filter_is_plain_to_read():
    assert parse_filter({"tier": "gold", "n": {"$gte": 3, "$ne": True}}) == Fields(
        (
            ("tier", Equals(Scalar("string", "gold"))),
            (
                "n",
                AllOf((Compare("$gte", Scalar("number", 3)), Not(Equals(Scalar("boolean", True))))),
            ),
        )
    )
    assert parse_filter(
        {"$or": [{"a": {"$exists": True}}, {"b": {"$array_contains": 1}}]}
    ) == AnyOf(
        (
            Fields((("a", Exists()),)),
            Fields((("b", Contains((Scalar("number", 1),), every=True)),)),
        )
    )
    assert parse_filter({"t": {"$in": ["2026-03-01T10:00+01:00", "2026-03-01"]}}) == Fields(
        (
            (
                "t",
                OneOf(
                    (Scalar("time", "2026-03-01T09:00:00.000000Z"), Scalar("string", "2026-03-01"))
                ),
            ),
        )
    )


def test_trees_tell_true_from_one_so_that_they_can_be_cache_keys():
    one, true = parse_filter({"n": 1}), parse_filter({"n": True})
    assert one != true
    assert len({one, true}) == 2


def test_parsing_a_filter_does_not_change_it():
    raw = {"a": {"$in": [1, [2], {"k": [NINE_IN_ZURICH]}]}, "$or": [{"b": (1,)}, {}]}
    before = copy.deepcopy(raw)
    parse_filter(raw)
    assert raw == before


REFUSED_FILTERS = [
    ("tier", "is 'tier'"),
    ([{"a": 1}], "is [{'a': 1}]"),
    ({1: 2}, "has the key 1"),
    ({"a": {1: 2}}, "['a'] has the key 1"),
    ({"$gt": 1}, "unknown operator '$gt'"),
    ({"$nor": [{"a": 1}]}, "unknown operator '$nor'"),
    ({"a": {"$regex": "x"}}, "['a'] has the unknown operator '$regex'"),
    ({"a": {"$EQ": 1}}, "unknown operator '$EQ'"),
    ({"a": {"$": 1}}, "unknown operator '$'"),
    ({"a": {"b": {"$like": 1}}}, "['a']['b'] has the unknown operator '$like'"),
    ({"a": {"$gt": 1, "b": 2}}, "mixes the operator '$gt' with the plain key 'b'"),
    ({"a": {"b": 2, "$gt": 1}}, "mixes the operator '$gt' with the plain key 'b'"),
    ({"$and": []}, "['$and'] is []"),
    ({"$or": {}}, "['$or'] is {}"),
    ({"$or": [1]}, "['$or'][0] is 1"),
    ({"$and": "ab"}, "['$and'] is 'ab'"),
    ({"$not": []}, "['$not'] is []"),
    ({"$not": None}, "['$not'] is None"),
    ({"a": {"$and": []}}, "['a']['$and'] is []"),
    ({"a": {"$in": []}}, "['a']['$in'] is []"),
    ({"a": {"$in": "gold"}}, "['a']['$in'] is 'gold'"),
    ({"a": {"$nin": {"x": 1}}}, "['a']['$nin'] is {'x': 1}"),
    ({"a": {"$nin": []}}, "['a']['$nin'] is []"),
    ({"a": {"$in": {1, 2}}}, "['a']['$in'] is {1, 2}"),
    ({"a": {"$in": [1, math.nan]}}, "['a']['$in'][1] is nan"),
    ({"a": {"$in": [{"$gt": 1}]}}, "['a']['$in'][0] has the key '$gt'"),
    ({"a": {"$eq": {"$gt": 1}}}, "['a']['$eq'] has the key '$gt'"),
    ({"a": [{"$gt": 1}]}, "['a'][0] has the key '$gt'"),
    ({"a": {"$array_contains": []}}, "['a']['$array_contains'] is []"),
    ({"a": {"$array_contains": [[1]]}}, "['a']['$array_contains'][0] is [1]"),
    ({"a": {"$array_contains": {"x": 1}}}, "['a']['$array_contains'] is {'x': 1}"),
    ({"a": {"$array_contains_any": []}}, "['a']['$array_contains_any'] is []"),
    ({"a": {"$array_contains_any": "x"}}, "['a']['$array_contains_any'] is 'x'"),
    ({"a": {"$exists": 1}}, "['a']['$exists'] is 1"),
    ({"a": {"$exists": None}}, "['a']['$exists'] is None"),
    ({"a": {"$gt": None}}, "['a']['$gt'] is None"),
    ({"a": {"$gte": True}}, "['a']['$gte'] is True"),
    ({"a": {"$lt": [1]}}, "['a']['$lt'] is [1]"),
    ({"a": {"$lte": {}}}, "['a']['$lte'] is {}"),
    ({"a": {"$gt": math.nan}}, "['a']['$gt'] is nan"),
    ({"a": math.nan}, "['a'] is nan"),
    ({"a": -math.inf}, "['a'] is -inf"),
    ({"a": {"b": math.inf}}, "['a']['b'] is inf"),
    ({"a": 2**63}, "['a'] is 9223372036854775808"),
    ({"a": 10**5000}, "['a'] is a number too long to show"),
    ({"a": {"$in": 10**5000}}, "['a']['$in'] is a number too long to show"),
    ({"a": NAIVE}, "['a'] is datetime.datetime(2026, 3, 1, 0, 0)"),
    ({"a": date(2026, 3, 1)}, "['a'] is datetime.date(2026, 3, 1)"),
    ({"a": b"x"}, "['a'] is b'x'"),
    ({"a": {1, 2}}, "['a'] is {1, 2}"),
    ({"a": "\0"}, "['a'] is '\\x00'"),
    ({"a": "\ud800"}, "['a'] is '\\ud800'"),
    ({"a\0": 1}, "has the key 'a\\x00'"),
    ({"a": {"\udfff": 1}}, "['a'] has the key '\\udfff'"),
]


@pytest.mark.parametrize(
    ("raw", "said"), REFUSED_FILTERS, ids=[said for _, said in REFUSED_FILTERS]
)
def test_a_filter_without_meaning_is_an_error_that_names_the_place(raw, said):
    with pytest.raises(FilterError) as caught:
        parse_filter(raw)
    message = str(caught.value)
    assert message.startswith("`metadata_filter`")
    assert said in message
    assert "accepted" in message
    assert caught.value.argument == "metadata_filter"


def test_an_error_names_the_argument_it_was_told():
    with pytest.raises(FilterError, match=r"`where`\['a'\]\['\$in'\]") as caught:
        parse_filter({"a": {"$in": []}}, argument="where")
    assert caught.value.argument == "where"


def deep(levels, leaf=1, key="k"):
    for _ in range(levels):
        leaf = {key: leaf}
    return leaf


def test_filters_nest_to_their_limit_and_no_further():
    assert parse_filter(deep(MAX_FILTER_DEPTH)) is not None
    too_deep: list[dict] = [
        deep(MAX_FILTER_DEPTH + 1),
        deep(5000),
        {"a": deep(5000, key="$not")},
        deep(5000, leaf={}, key="$not"),
        {"a": {"$in": [deep(5000)]}},
    ]
    for raw in too_deep:
        with pytest.raises(
            FilterError, match=f"deeper than the accepted {MAX_FILTER_DEPTH} levels"
        ):
            parse_filter(raw)


@pytest.mark.parametrize("place", ["k", "$not"])
def test_a_filter_inside_itself_is_an_error(place):
    cyclic: dict = {}
    cyclic[place] = cyclic
    with pytest.raises(FilterError, match="nests deeper"):
        parse_filter(cyclic)
    items: list = []
    items.append(items)
    with pytest.raises(FilterError, match="nests deeper"):
        parse_filter({"a": items})


def test_filters_have_a_bounded_number_of_conditions():
    assert parse_filter({f"k{n}": n for n in range(MAX_CONDITIONS)}) is not None
    too_many: list[dict] = [
        {f"k{n}": n for n in range(MAX_CONDITIONS + 1)},
        {"$or": [{"k": n} for n in range(MAX_CONDITIONS)]},
        {"a": [[]] * MAX_CONDITIONS},
    ]
    for refused in too_many:
        with pytest.raises(FilterError, match=f"more than the accepted {MAX_CONDITIONS} "):
            parse_filter(refused)
    assert answer({"a": 77_777}, {"a": {"$in": list(range(100_000))}})


def test_literals_can_be_read_back_as_json():
    raw: list[object] = [1, 2.5, None, True, "x", {"k": ["2026-03-01T10:00:00+01:00"]}, []]
    parsed = parse_filter({"a": raw})
    assert isinstance(parsed, Fields)
    condition = parsed.fields[0][1]
    assert isinstance(condition, Equals)
    assert plain_value(condition.value) == [
        1,
        2.5,
        None,
        True,
        "x",
        {"k": ["2026-03-01T09:00:00.000000Z"]},
        [],
    ]


@settings(max_examples=500, derandomize=True, deadline=None, database=None)
@given(
    st.datetimes(min_value=NAIVE.replace(year=2), max_value=NAIVE.replace(year=9998)),
    st.integers(-23 * 60 - 59, 23 * 60 + 59),
    st.sampled_from(["T", "t", " "]),
)
def test_the_canonical_form_of_a_time_is_its_instant_in_utc(moment, offset, separator):
    local = moment.replace(tzinfo=timezone(timedelta(minutes=offset)))
    expected = local.astimezone(UTC).strftime("%H:%M:%S.%fZ")
    text = local.isoformat().replace("T", separator)
    assert canonical_text(text)[11:] == expected
    assert datetime.fromisoformat(canonical_text(text)) == local
    assert canonical_text(canonical_text(text)) == canonical_text(text)


class Colour(str, enum.Enum):  # noqa: UP042 - its `str()` is not its value
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


def test_metadata_is_stored_as_plain_json_values():
    given_metadata = MappingProxyType(
        {
            "text": Colour.RED,
            "number": Level.HIGH,
            "float": 1.5,
            "flag": True,
            "nothing": None,
            "list": (1, [2, (3,)]),
            "object": OrderedDict(when=NINE_IN_ZURICH),
            "precise": datetime(2026, 3, 1, 9, 0, 0, 5, tzinfo=UTC),
            "a.b": {"": "空", ' "quoted" $': 2**63 - 1},
        }
    )
    stored = validate_metadata(given_metadata)
    assert stored == {
        "text": "red",
        "number": 3,
        "float": 1.5,
        "flag": True,
        "nothing": None,
        "list": [1, [2, [3]]],
        "object": {"when": "2026-03-01T08:00:00Z"},
        "precise": "2026-03-01T09:00:00.000005Z",
        "a.b": {"": "空", ' "quoted" $': 2**63 - 1},
    }
    assert type(stored["text"]) is str
    assert type(stored["number"]) is int
    assert json.loads(json.dumps(stored)) == stored
    assert validate_metadata(stored) == stored


def test_checking_metadata_neither_changes_nor_shares_it():
    inner = {"when": NINE_IN_ZURICH, "list": [1, {"k": (2,)}]}
    metadata = {"inner": inner}
    before = copy.deepcopy(metadata)
    stored = validate_metadata(metadata)
    assert metadata == before
    stored["inner"]["list"][1]["k"].append(3)
    stored["inner"]["new"] = 1
    assert metadata == before


def test_no_metadata_is_empty_metadata():
    assert validate_metadata(None) == {}


REFUSED_METADATA = [
    ("text", "`metadata` is 'text'"),
    ([("a", 1)], "`metadata` is [('a', 1)]"),
    ({1: 2}, "`metadata` has the key 1"),
    ({None: 2}, "`metadata` has the key None"),
    ({"$tier": 1}, "`metadata` has the key '$tier'"),
    ({"a": [{"b": {"$not": 1}}]}, "`metadata`['a'][0]['b'] has the key '$not'"),
    ({"a": math.nan}, "`metadata`['a'] is nan"),
    ({"a": [1, math.inf]}, "`metadata`['a'][1] is inf"),
    ({"a": 2**63}, "`metadata`['a'] is 9223372036854775808"),
    ({"a": -(2**63)}, "`metadata`['a'] is -9223372036854775808"),
    ({"a": 10**5000}, "`metadata`['a'] is a number too long to show"),
    ({"a": "x\0y"}, "`metadata`['a'] is 'x\\x00y'"),
    ({"a": ["\ud83d"]}, "`metadata`['a'][0] is '\\ud83d'"),
    ({"a\0": 1}, "`metadata` has the key 'a\\x00'"),
    ({"\udc00": 1}, "`metadata` has the key '\\udc00'"),
    ({"a": NAIVE}, "`metadata`['a'] is datetime.datetime(2026, 3, 1, 0, 0)"),
    (
        {"a": datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))},
        "within the years 1 to 9999",
    ),
    ({"a": date(2026, 3, 1)}, "`metadata`['a'] is datetime.date(2026, 3, 1)"),
    ({"a": {1}}, "`metadata`['a'] is {1}"),
    ({"a": b"x"}, "`metadata`['a'] is b'x'"),
    ({"a": 1j}, "`metadata`['a'] is 1j"),
    ({"a": object}, "`metadata`['a'] is <class 'object'>"),
]


@pytest.mark.parametrize(
    ("metadata", "said"), REFUSED_METADATA, ids=[said for _, said in REFUSED_METADATA]
)
def test_what_cannot_be_stored_is_an_error_that_names_the_place(metadata, said):
    with pytest.raises(ValidationError) as caught:
        validate_metadata(metadata)
    assert said in str(caught.value)
    assert "accepted" in str(caught.value)
    assert caught.value.argument == "metadata"
    assert not isinstance(caught.value, FilterError)


def test_the_error_of_metadata_names_the_argument_it_was_told():
    with pytest.raises(ValidationError, match=r"`link_metadata`\['a'\]") as caught:
        validate_metadata({"a": math.nan}, argument="link_metadata")
    assert caught.value.argument == "link_metadata"


def test_metadata_nests_to_its_limit_and_no_further():
    assert validate_metadata(deep(MAX_DEPTH)) == deep(MAX_DEPTH)
    assert answer(deep(MAX_DEPTH), deep(MAX_DEPTH))
    assert not answer(deep(MAX_DEPTH), deep(MAX_DEPTH + 1))
    items: list = []
    items.append(items)
    for metadata in (deep(MAX_DEPTH + 1), deep(5000), {"a": items}):
        with pytest.raises(ValidationError, match=f"deeper than the accepted {MAX_DEPTH} levels"):
            validate_metadata(metadata)


def test_text_values_are_listed_in_the_order_they_are_written():
    metadata = {
        "b": "one",
        "key": {"x": ["two", {"y": "three"}, 4, None], "z": "four"},
        "n": 5,
        "a": "",
    }
    assert string_leaves(metadata) == ["one", "two", "three", "four", ""]
    assert string_leaves({}) == []
