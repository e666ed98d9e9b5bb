"""The schema subset: checking, mending, and strict modes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmemory.errors import ValidationError
from agentmemory.models.schema import MisfitError, check_schema, fit
from agentmemory.models.strict import strict_schema, with_object_root

NODE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
    },
    "required": ["name"],
}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer", "minimum": 1, "exclusiveMaximum": 5}, 4),
        ({"type": "number"}, 0.5),
        ({"type": ["integer", "null"]}, None),
        ({"type": "string", "nullable": True}, None),
        ({"const": 3}, 3),
        ({"enum": [1, "1", None]}, "1"),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "5"),
        ({"oneOf": [{"type": "boolean"}, {"type": "null"}]}, None),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2}, [1, 2]),
        ({"type": "object"}, {"any": "thing"}),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1}),
        ({"type": "string", "pattern": "^a+$", "maxLength": 3}, "aaa"),
        ({"$ref": "#/$defs/node", "$defs": {"node": NODE}}, {"name": "a", "children": []}),
        ({}, [1, {"a": None}]),
    ],
)
def test_what_fits_stays_as_it_is(schema: dict[str, Any], value: Any) -> None:
    assert fit(value, check_schema(schema)).value == value


@pytest.mark.parametrize(
    ("schema", "value", "mended"),
    [
        ({"type": "integer"}, "12", 12),
        ({"type": "integer"}, 3.0, 3),
        ({"type": "number"}, " 2.5e1 ", 25.0),
        ({"type": "boolean"}, "True", True),
        ({"enum": ["Yes", "No"]}, "yes", "Yes"),
        ({"enum": [1, 2]}, "2", 2),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "7", 7),
        ({"type": "array", "items": {"type": "integer"}}, 4, [4]),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "integer", "default": 9}},
                "required": ["a"],
            },
            {},
            {"a": 9},
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"type": ["integer", "null"]}},
                "required": ["a"],
            },
            {},
            {"a": None},
        ),
    ],
)
def test_small_slips_are_mended(schema: dict[str, Any], value: Any, mended: Any) -> None:
    result = fit(value, check_schema(schema)).value
    assert result == mended
    assert type(result) is type(mended)


@pytest.mark.parametrize(
    ("schema", "value", "where"),
    [
        ({"type": "integer"}, True, r"\$ must be a number"),
        ({"type": "integer"}, 1.5, "whole number"),
        ({"type": "integer"}, "1.5", "whole number"),
        ({"type": "integer", "maximum": 3}, 4, "maximum 3"),
        ({"type": "boolean"}, 1, "true or false"),
        ({"type": "null"}, 0, "null"),
        ({"type": "string"}, True, "string"),
        ({"type": "string", "maxLength": 2}, "abc", "at most 2"),
        ({"type": "string", "pattern": "^a$"}, "b", "must match"),
        ({"enum": ["a", "A"]}, " a ", "must be one of"),
        ({"enum": [True]}, 1, "must be one of"),
        ({"type": "array"}, None, "list"),
        ({"type": "array", "minItems": 2}, [1], "at least 2"),
        ({"type": "object"}, [1, 2], "object"),
        ({"type": "object", "properties": {"a": {}}, "required": ["a"]}, {"b": 1}, r"\$\.a"),
        ({"type": "object", "properties": {"a": False}}, {"a": 1}, "absent"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "x", "number or .* null"),
        (
            {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"tags": {"type": "array", "items": {"type": "integer"}}},
                },
            },
            [{"tags": [1, "x"]}],
            r"\$\[0\]\.tags\[1\]",
        ),
        (
            {"$ref": "#/$defs/node", "$defs": {"node": NODE}},
            {"name": "a", "children": [{}]},
            "name is missing",
        ),
    ],
)
def test_what_does_not_fit_is_told_by_its_place(
    schema: dict[str, Any], value: Any, where: str
) -> None:
    with pytest.raises(MisfitError, match=where):
        fit(value, check_schema(schema))


def test_items_above_the_limit_are_left_out() -> None:
    fitted = fit([1, 2, 3], {"type": "array", "items": {"type": "integer"}, "maxItems": 2})
    assert (fitted.value, fitted.rejected) == ([1, 2], (3,))


def test_of_two_lists_one_may_lose_all_its_items() -> None:
    part = {"type": "array", "items": {"type": "integer"}}
    schema = {"type": "object", "properties": {"a": part, "b": part}, "required": ["a", "b"]}
    fitted = fit({"a": [1], "b": ["x"]}, schema)
    assert fitted.value == {"a": [1], "b": []}
    assert fitted.rejected == ("x",)
    assert fitted.problems == ("$.b[0] must be a number",)
    with pytest.raises(MisfitError, match="no item fits"):
        fit({"a": ["y"], "b": ["x"]}, schema)


@pytest.mark.parametrize(
    ("schema", "word"),
    [
        ({"type": "object", "patternProperties": {}}, "patternProperties"),
        ({"allOf": [{}]}, "allOf"),
        ({"type": "text"}, "text"),
        ({"properties": {"a": {"not": {}}}}, "not"),
        ({"items": 3}, "3"),
        ({"$ref": "#/$defs/none"}, "leads nowhere"),
        ({"$ref": "https://example.org/schema"}, "leads out"),
        ([], "mapping"),
    ],
)
def test_schemas_that_could_be_checked_in_part_only_are_refused(schema: Any, word: str) -> None:
    with pytest.raises(ValidationError, match=word) as caught:
        check_schema(schema)
    assert caught.value.argument == "response_json_schema"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
FULL: dict[str, Any] = {
    "type": "object",
    "properties": {
        "memories": {"type": "array", "items": NODE, "maxItems": 3},
        "note": {"type": ["string", "null"]},
    },
    "required": ["memories"],
    "$defs": {"node": NODE},
}


@given(JSON)
def test_whatever_comes_fits_or_is_refused_and_fits_again_once_it_fits(value: Any) -> None:
    for schema in (FULL, {"type": "array", "items": {"type": "number"}}):
        try:
            fitted = fit(value, schema)
        except MisfitError:
            continue
        again = fit(fitted.value, schema)
        assert again.value == fitted.value
        assert not again.rejected


def test_a_strict_schema_closes_objects_and_makes_optional_keys_nullable() -> None:
    schema = {
        "type": "object",
        "title": "dropped",
        "properties": {
            "text": {"type": "string", "minLength": 1, "description": "What was said."},
            "kind": {"enum": ["a", "b"]},
            "both": {"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 0}]},
            "node": {"$ref": "#/$defs/node"},
            "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
        },
        "required": ["text"],
        "$defs": {"node": NODE},
    }
    node = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "children": {"type": ["array", "null"], "items": {"$ref": "#/$defs/node"}},
        },
        "required": ["name", "children"],
        "additionalProperties": False,
    }
    tags = {"items": {"type": "string"}, "description": "(at most 3 items)"}
    expected = {
        "type": "object",
        "properties": {
            "text": {
                "type": "string",
                "description": "What was said. (at least 1 characters)",
            },
            "kind": {"enum": ["a", "b", None]},
            "both": {
                "anyOf": [
                    {"type": "string"},
                    {"type": "integer", "description": "(at least 0)"},
                    {"type": "null"},
                ]
            },
            "node": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
            "tags": {"type": ["array", "null"], **tags, "maxItems": 3},
        },
        "required": ["text", "kind", "both", "node", "tags"],
        "additionalProperties": False,
        "$defs": {"node": node},
    }
    assert strict_schema(schema) == expected
    without = strict_schema(schema, bounds="none")
    assert without is not None
    assert without["properties"]["tags"] == {"type": ["array", "null"], **tags}
    full = strict_schema(schema, bounds="all")
    assert full is not None
    assert full["properties"]["text"]["minLength"] == 1
    assert full["properties"]["both"]["anyOf"][1]["minimum"] == 0


def test_too_few_items_are_told_with_what_was_left_out() -> None:
    schema = {"type": "array", "items": {"type": "string", "maxLength": 2}, "minItems": 1}
    with pytest.raises(MisfitError, match=r"at least 1 items \(\$\[0\] must have at most 2 char"):
        fit(["abc"], schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {"a": {"type": "object"}}},
        {"type": "object", "properties": {"a": {}}, "additionalProperties": True},
        {"type": "object", "properties": {"a": True}},
    ],
)
def test_open_objects_have_no_strict_schema(schema: dict[str, Any]) -> None:
    assert strict_schema(schema) is None


def test_definitions_stay_at_the_root_when_it_is_wrapped() -> None:
    schema = {"type": "array", "items": {"$ref": "#/$defs/node"}, "$defs": {"node": NODE}}
    rooted, wrapped = with_object_root(schema)
    assert wrapped
    assert rooted["$defs"] == {"node": NODE}
    assert fit({"value": [{"name": "a"}]}, check_schema(rooted)).value == {"value": [{"name": "a"}]}
    by_reference = {"$ref": "#/$defs/node", "$defs": {"node": NODE}}
    assert with_object_root(by_reference) == (by_reference, False)
