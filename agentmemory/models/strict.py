"""Schemas as providers' strict modes want them.

May import: providers of this room. Strict modes hold a model to a schema while it writes, and
accept a subset only: the root is an object, every object is closed and requires all its keys,
what is optional is nullable instead, and few words bound a value. What cannot be said is moved
into the description, and checked here when the answer is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agentmemory.models.providers import Bounds

_WRAPPED: Final = "value"
_KEPT: Final = ("type", "enum", "const", "description", "$ref", "pattern")
_TOLD: Final = {
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
}


_STATED: Final[Mapping[Bounds, tuple[str, ...]]] = {
    "none": (),
    "counts": ("minItems", "maxItems"),
    "all": tuple(_TOLD),
}


def with_object_root(schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """Put a schema whose root is no object into an object.

    Returns:
        The schema, and whether values of it are now found under the key `"value"`.
    """
    found: Mapping[str, Any] = schema
    if "$ref" in schema:
        for step in str(schema["$ref"]).lstrip("#/").split("/"):
            found = found.get(step, {})
    if found.get("type") == "object" or "properties" in found:
        return schema, False
    shared = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    inner = {key: part for key, part in schema.items() if key not in shared}
    wrapped = {
        "type": "object",
        "properties": {_WRAPPED: inner},
        "required": [_WRAPPED],
        "additionalProperties": False,
        **shared,
    }
    return wrapped, True


def unwrapped(value: Mapping[str, Any]) -> Any:
    """Take a value out of the object that `with_object_root` put around it."""
    return value[_WRAPPED]


def strict_schema(schema: Mapping[str, Any], *, bounds: Bounds = "counts") -> dict[str, Any] | None:
    """Write a schema in the strict subset.

    Args:
        schema: A checked schema whose root is an object.
        bounds: Which bounds the provider accepts.

    Returns:
        The strict schema, or None if there is none: an object whose keys are not known.
    """
    try:
        return _strict(schema, bounds=bounds)
    except _OpenObjectError:
        return None


class _OpenObjectError(Exception):
    pass


def _strict(schema: Any, *, bounds: Bounds) -> dict[str, Any]:
    if not isinstance(schema, Mapping):
        raise _OpenObjectError
    result: dict[str, Any] = {key: schema[key] for key in _KEPT if key in schema}
    told = [text.format(schema[key]) for key, text in _TOLD.items() if key in schema]
    if told:
        note = f"({', '.join(told)})"
        result["description"] = f"{result.get('description', '')} {note}".strip()
    result |= {key: schema[key] for key in _STATED[bounds] if key in schema}
    branches = schema.get("anyOf") or schema.get("oneOf")
    if branches:
        result["anyOf"] = [_strict(part, bounds=bounds) for part in branches]
    for key in ("$defs", "definitions"):
        if key in schema:
            result[key] = {name: _strict(part, bounds=bounds) for name, part in schema[key].items()}
    names = schema.get("type")
    is_object = names == "object" or (isinstance(names, list) and "object" in names)
    if is_object or "properties" in schema:
        if not schema.get("properties") or schema.get("additionalProperties", False) is not False:
            raise _OpenObjectError
        required = schema.get("required", ())
        result["properties"] = {
            key: _strict(part, bounds=bounds)
            if key in required
            else _nullable(_strict(part, bounds=bounds))
            for key, part in schema["properties"].items()
        }
        result["required"] = list(schema["properties"])
        result["additionalProperties"] = False
    if "items" in schema:
        result["items"] = _strict(schema["items"], bounds=bounds)
    return _nullable(result) if schema.get("nullable") else result


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    names = schema.get("type")
    if "enum" in schema and None not in schema["enum"]:
        schema = {**schema, "enum": [*schema["enum"], None]}
    if isinstance(names, str) and "const" not in schema:
        return schema if names == "null" else {**schema, "type": [names, "null"]}
    if isinstance(names, list):
        return schema if "null" in names else {**schema, "type": [*names, "null"]}
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    if "enum" in schema:
        return schema
    return {"anyOf": [schema, {"type": "null"}]}
