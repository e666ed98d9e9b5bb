"""JSON out of model answers: what is understood, and what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmemory.errors import ValidationError
from agentmemory.text.json_repair import parse_json

CASES = [
    json.loads(line)
    for line in (Path(__file__).parent.parent / "cases" / "model_output.jsonl")
    .read_text("utf-8")
    .splitlines()
]
# What only the schema decides is decided where the schema is.
WRAPPED_BY_SCHEMA = {"bare list instead of the object", "enum in other case"}
READABLE = [case for case in CASES if "value" in case and case["why"] not in WRAPPED_BY_SCHEMA]
UNREADABLE = [
    case for case in CASES if case["why"] in {"empty answer", "prose is not an empty list"}
]
thorough = settings(deadline=None, max_examples=120)

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    lambda children: (
        st.lists(children, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=12), children, max_size=4
        )
    ),
    max_leaves=8,
)
containers = values.filter(lambda value: isinstance(value, dict | list))
records = st.dictionaries(
    st.sampled_from(["memories", "text", "type"]),
    st.lists(st.dictionaries(st.sampled_from(["text", "type"]), st.text(st.characters(exclude_categories=["Cs"]), max_size=12), min_size=1), min_size=1),
    min_size=1,
)  # fmt: skip


@pytest.mark.parametrize("case", READABLE, ids=[case["why"] for case in READABLE])
def test_answer_is_understood(case: dict[str, Any]) -> None:
    assert parse_json(case["raw"]) == case["value"]


@pytest.mark.parametrize("case", UNREADABLE, ids=[case["why"] for case in UNREADABLE])
def test_answer_without_json_is_refused(case: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="`raw`") as caught:
        parse_json(case["raw"])
    assert isinstance(caught.value, ValueError)
    assert caught.value.argument == "raw"


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        # Around the value.
        ("null", None),
        ("42", 42),
        ('"plain"', "plain"),
        ("```\n[1, 2]\n```", [1, 2]),
        ("```json\r\n{}\r\n```", {}),
        ('Here:\n```json\n{"a": 1}\n```\nand ```json\n{"b": 2}\n```', {"a": 1}),
        ('As [1] says {nothing}: {"a": [1]}', {"a": [1]}),
        ("Nothing found: []", []),
        ("I saw [1, maybe 2] and [see {'a': 1}]", {"a": 1}),
        ('{"x": 1, oops} no, rather {"a": 1}', {"a": 1}),
        ('{"a": 1}{"b": 2}', {"a": 1}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        ('"[note] buy tea"', "[note] buy tea"),
        # Thinking.
        ('<think>\n\n</think>\n\n{"a": 1}', {"a": 1}),
        ('<THINKING>{"x": 0}</THINKING>{"a": 1}', {"a": 1}),
        ('maybe {"x": 0}</think>{"a": 1}', {"a": 1}),
        ('maybe {"x": [1, 2</think>{"a": 1}', {"a": 1}),
        ('<think>a <think>b</think> {"x": 0} c</think>{"a": 1}', {"a": 1}),
        ('{"a": "uses <think> tags"} <think>{"x": 0}</think>', {"a": "uses <think> tags"}),
        # Nearly JSON.
        ("{'a': 'User's dog', 'b': None, 'c': True, 'd': False}", {"a": "User's dog", "b": None, "c": True, "d": False}),
        ('{"a": "He said "hi" and left", "b": 1}', {"a": 'He said "hi" and left', "b": 1}),
        ('{"a": "He said "hi", then left"}', {"a": 'He said "hi", then left'}),
        ("{a: 1, b-c: [.5, +2, 3.], // note\n /* more */ d: 'x' # end\n}", {"a": 1, "b-c": [0.5, 2, 3.0], "d": "x"}),
        ("{“a”: “b”, ‘c’: ‘d’}", {"a": "b", "c": "d"}),
        ('{"a": 1 "b": 2\n"c": [1 2]}', {"a": 1, "b": 2, "c": [1, 2]}),
        ('{"a": "line\nbreak\ttab"}', {"a": "line\nbreak\ttab"}),
        ('{"a": "C:\\Program \\d \\\' \\u00e9 \\uZZ",}', {"a": "C:\\Program \\d ' é \\uZZ"}),
        ("{1: 'one'}", {"1": "one"}),
        ("[1,,2,]", [1, 2]),
        ('{"a": undefined, "b": NaN, "c": -Infinity, "d": 1e999}', {"a": None, "b": None, "c": None, "d": None}),
        ("{'a': nan, 'b': " + "9" * 5000 + "}", {"a": None, "b": None}),
        # Brackets missing or mixed up.
        ('{"a": [1, 2}', {"a": [1, 2]}),
        ('{"a": [{"b": 1}, {"c": 2}', {"a": [{"b": 1}, {"c": 2}]}),
        ('```json\n{"a": [1, 2\n```\nHope this helps!', {"a": [1, 2]}),
        ('{"a": [{"b": 1}]\nAnything else?', {"a": [{"b": 1}]}),
        ("[1, 2 and that is all", [1, 2]),
        # Cut off: what was cut is left out.
        ('{"a": [{"b": "x"}, {"b": "half a sen', {"a": [{"b": "x"}]}),
        ('{"a": 1, "b": tr', {"a": 1}),
        ('{"a": 1, "b"', {"a": 1}),
        ('{"a": 1, "b":', {"a": 1}),
        ('{"a": 1, "b": -', {"a": 1}),
        ('{"a": 1, "b": "x\\', {"a": 1}),
        ('[{"a": 1}, {"b": [', [{"a": 1}]),
    ],
)  # fmt: skip
def test_one_sensible_reading_is_taken(raw: str, value: Any) -> None:
    assert parse_json(raw) == value


@pytest.mark.parametrize(
    "raw",
    [
        " ",
        "```json\n```",
        "{placeholder}",
        "[see note]",
        "{'a', 'b'}",
        '<think>{"a": 1}</think>',
        '<think>{"a": 1}',
        '{"a": "cut',
        '{"x": 1 </think> nothing found',
        '{"memories": [',
        '{"memories": [{"text": "cut',
        '{"a": 2026-01-05}',
        '{"a": maybe}',
        '{"text": "x" (unsure), "type": "fact"}',
        '{"a": 1] and {more}',
        '{"note": "x" (unsure), "memories": [{"text": "fragment"}]}',
        '[{"text": "a"}, oops, {"text": "b"}]',
        "[" * 100_000,
        '{"a":' * 10_000,
        "[1, " * 3_000,
    ],
)  # fmt: skip
def test_what_has_no_sensible_reading_is_refused(raw: str) -> None:
    with pytest.raises(ValidationError):
        parse_json(raw)


def test_data_is_found_behind_much_prose_in_brackets() -> None:
    assert parse_json("[see] {x} " * 200 + '{"a": 1}') == {"a": 1}


def test_lone_surrogates_are_replaced_and_pairs_are_kept() -> None:
    assert parse_json(r'{"a": "x\ud83dy", "b": "\ude00", "c": "\ud83d\ude00"}') == {
        "a": "x\ufffdy",
        "b": "\ufffd",
        "c": "😀",
    }
    assert parse_json(r'{"a": "\\ud83d"}') == {"a": r"\ud83d"}
    assert parse_json(r"{'a': '\ud83d\ude00 \ud83d'}") == {"a": "😀 \ufffd"}


def test_error_shows_the_answer_but_not_all_of_it() -> None:
    with pytest.raises(ValidationError) as caught:
        parse_json("no data here " * 1000)
    assert "no data here" in str(caught.value)
    assert len(str(caught.value)) < 500


@thorough
@given(values)
def test_json_is_read_as_json(value: Any) -> None:
    raw = json.dumps(value)
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        return
    assert parse_json(raw) == value
    assert parse_json(json.dumps(value, ensure_ascii=False, indent=2)) == value


@thorough
@given(records)
def test_value_is_found_in_a_fence_and_in_chatter(value: Any) -> None:
    raw = json.dumps(value, ensure_ascii=False)
    assert parse_json(f"Sure!\n```json\n{raw}\n```\nAnything else?") == value
    assert parse_json(f"\ufeffHere it is: {raw} Bye.") == value
    assert parse_json(f"<think>hm [] {{}}</think>{raw}") == value


@thorough
@given(records)
def test_missing_closing_brackets_are_added(value: Any) -> None:
    raw = json.dumps(value).rstrip("]}")
    assert parse_json(raw) == value


@thorough
@given(records.map(repr))
def test_python_literals_are_read(raw: str) -> None:
    import ast

    assert parse_json(raw) == ast.literal_eval(raw)


@thorough
@given(containers, st.data())
def test_cut_answer_gives_a_beginning_of_the_value_or_nothing(
    value: Any, data: st.DataObject
) -> None:
    raw = json.dumps(value)
    cut = raw[: data.draw(st.integers(0, len(raw)))]
    try:
        got = parse_json(cut)
    except ValidationError:
        return
    assert _begins(value, got)


def _begins(whole: Any, part: Any) -> bool:
    if isinstance(whole, dict) and isinstance(part, dict):
        return all(key in whole and _begins(whole[key], part[key]) for key in part)
    if isinstance(whole, list) and isinstance(part, list):
        return len(part) <= len(whole) and all(map(_begins, whole, part))
    if isinstance(whole, int | float) and isinstance(part, int | float):
        # A number may be cut within its digits.
        return True
    return bool(whole == part)


@thorough
@given(
    st.text(
        st.one_of(
            st.sampled_from("{}[]\"'“”:,\\/#*<>`-+.0123ntfuae \n\ufeff"),
            st.characters(),
        )
    )
)
def test_any_text_is_read_or_refused(raw: str) -> None:
    try:
        value = parse_json(raw)
    except ValidationError:
        return
    assert not _has_non_finite(value)
    json.dumps(value, ensure_ascii=False).encode("utf-8")


def _has_non_finite(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_non_finite, value.values()))
    if isinstance(value, list):
        return any(map(_has_non_finite, value))
    return isinstance(value, float) and not math.isfinite(value)
