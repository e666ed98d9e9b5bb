"""Does a value fit a JSON schema, and can it be brought to fit without guessing?

May import: errors. A subset of JSON Schema, enough for what models are asked to give: `type`,
`properties`, `required`, `additionalProperties`, `items`, `enum`, `const`, `anyOf`, `oneOf`,
`$ref` into `$defs`, `nullable`, `default`, and the bounds of lengths, counts and numbers. Other
words that would restrict a value are refused, for a schema that is checked in part only is a trap.

Keys that an object does not list are dropped, unless `additionalProperties` says otherwise. Small
slips are mended where there is one sensible reading: letter case of enum values and keys,
numbers and booleans as text, a null for what may be absent, a single item where a list is asked
for. Of the outermost lists, items that do not fit are left out and reported; anywhere else a
misfit is a misfit.
"""

from __future__ import annotations

import copy
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agentmemory.errors import ValidationError

_COMBINING: Final = frozenset({"anyOf", "oneOf", "$ref", "$defs", "definitions"})
_BOUNDS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "minimum": operator.ge,
    "maximum": operator.le,
    "exclusiveMinimum": operator.gt,
    "exclusiveMaximum": operator.lt,
}
_CHECKED: Final = (
    _COMBINING
    | _BOUNDS.keys()
    | {
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "enum",
        "const",
        "nullable",
        "default",
        "minLength",
        "maxLength",
        "pattern",
        "minItems",
        "maxItems",
    }
)
_IGNORED: Final = frozenset(
    {
        "title",
        "description",
        "examples",
        "example",
        "format",
        "deprecated",
        "readOnly",
        "writeOnly",
        "$schema",
        "$id",
        "$comment",
    }
)
_TYPES: Final = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})


class MisfitError(Exception):
    """A value does not fit; the text says where and what would, without showing the value."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A value that fits.

    Args:
        value: The value, mended.
        rejected: Items of its outermost lists that were left out, as they were.
        problems: Why, one for each.
    """

    value: Any
    rejected: tuple[Any, ...] = ()
    problems: tuple[str, ...] = ()


def check_schema(schema: Any, *, argument: str = "response_json_schema") -> Mapping[str, Any]:
    """Make sure that a schema can be checked in full.

    Raises:
        ValidationError: It is no schema, or uses words beyond the subset.
    """
    if not isinstance(schema, Mapping):
        raise ValidationError(
            f"`{argument}` must be a JSON schema (a mapping), not {schema!r}", argument=argument
        )
    _check_part(schema, "$", argument, schema)
    return schema


def _check_part(schema: Any, path: str, argument: str, root: Mapping[str, Any]) -> None:
    def refuse(what: str) -> ValidationError:
        return ValidationError(f"`{argument}` at {path}: {what}", argument=argument)

    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        raise refuse(f"{schema!r} is not a schema")
    unknown = sorted(set(schema) - _CHECKED - _IGNORED)
    if unknown:
        raise refuse(f"{unknown[0]!r} is not supported; accepted are {', '.join(sorted(_CHECKED))}")
    names = schema.get("type", [])
    for name in [names] if isinstance(names, str) else names:
        if name not in _TYPES:
            raise refuse(f"type {name!r} is unknown; accepted are {', '.join(sorted(_TYPES))}")
    if "$ref" in schema:
        _resolve(schema["$ref"], root, refuse)
    for word in ("properties", "$defs", "definitions"):
        for key, part in schema.get(word, {}).items():
            _check_part(part, f"{path}.{key}", argument, root)
    for word in ("anyOf", "oneOf"):
        for number, part in enumerate(schema.get(word, ())):
            _check_part(part, f"{path}.{word}[{number}]", argument, root)
    for word in ("items", "additionalProperties"):
        if word in schema:
            _check_part(schema[word], f"{path}.{word}", argument, root)


def fit(value: Any, schema: Mapping[str, Any]) -> Fitted:
    """Bring a value to fit a schema.

    Args:
        value: Decoded JSON.
        schema: A schema that `check_schema` accepts.

    Returns:
        The value as it fits, and what had to be left out.

    Raises:
        MisfitError: It does not fit. A list of which no item fits does not fit either: nothing
            is not what was said.
    """
    fitter = _Fitter(schema)
    fitted = fitter.fit(_outermost(value, schema, schema), schema, "$")
    if fitter.rejected and not fitter.kept:
        raise MisfitError(f"no item fits: {'; '.join(fitter.problems[:3])}")
    return Fitted(fitted, tuple(fitter.rejected), tuple(fitter.problems))


class _Fitter:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root
        self.rejected: list[Any] = []
        self.problems: list[str] = []
        self.kept = 0
        self._inside_item = False
        self._exact = False

    def fit(self, value: Any, schema: Any, path: str) -> Any:
        if schema is True:
            return value
        if schema is False:
            raise MisfitError(f"{path} must be absent")
        if "$ref" in schema:
            schema = _resolve(schema["$ref"], self.root, MisfitError)
        if value is None and schema.get("nullable"):
            return None
        if "const" in schema:
            return self._one_of(value, [schema["const"]], path)
        if "enum" in schema:
            return self._one_of(value, schema["enum"], path)
        branches = schema.get("anyOf") or schema.get("oneOf")
        if branches:
            # Words beside the choice count for every branch, as `properties` often do.
            shared = {key: word for key, word in schema.items() if key not in {"anyOf", "oneOf"}}
            return self._first_fit(value, [_merged(shared, part) for part in branches], path)
        names = schema.get("type")
        if names is None:
            names = "object" if "properties" in schema else "array" if "items" in schema else []
        if isinstance(names, str):
            return self._fit_type(value, names, schema, path)
        if names:
            return self._first_fit(value, [{**schema, "type": name} for name in names], path)
        return value

    def _first_fit(self, value: Any, branches: Sequence[Any], path: str) -> Any:
        """Take the branch that fits as it is, else the first that fits when mended."""
        problems: list[str] = []
        was_exact = self._exact
        for exact in (True,) if was_exact else (True, False):
            for branch in branches:
                mark = (len(self.rejected), len(self.problems), self.kept)
                self._exact = exact
                try:
                    return self.fit(value, branch, path)
                except MisfitError as misfit:
                    problems.append(str(misfit))
                    del self.rejected[mark[0] :], self.problems[mark[1] :]
                    self.kept = mark[2]
                finally:
                    self._exact = was_exact
        raise MisfitError(problems[-1] if len(branches) == 1 else " or ".join(_unique(problems)))

    def _one_of(self, value: Any, accepted: Sequence[Any], path: str) -> Any:
        for one in accepted:
            if type(one) is type(value) and one == value:
                return one
        if not self._exact:
            folded = _folded(value)
            same = [one for one in accepted if _folded(one) == folded]
            if len(same) == 1:
                return same[0]
        raise MisfitError(f"{path} must be one of {', '.join(repr(one) for one in accepted)}")

    def _fit_type(self, value: Any, name: str, schema: Mapping[str, Any], path: str) -> Any:
        match name:
            case "object":
                return self._object(value, schema, path)
            case "array":
                return self._array(value, schema, path)
            case "string":
                return self._string(value, schema, path)
            case "integer" | "number":
                return self._number(value, name, schema, path)
            case "boolean":
                if not self._exact and isinstance(value, str):
                    value = {"true": True, "false": False}.get(value.strip().lower())
                if isinstance(value, bool):
                    return value
                raise MisfitError(f"{path} must be true or false")
            case _:
                if value is None:
                    return None
                raise MisfitError(f"{path} must be null")

    def _string(self, value: Any, schema: Mapping[str, Any], path: str) -> str:
        if not self._exact and isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str):
            raise MisfitError(f"{path} must be a string")
        shortest = schema.get("minLength", 0)
        # Blanks are no content: they do not make an empty text long enough.
        if len(value.strip()) < shortest:
            raise MisfitError(f"{path} must have at least {shortest} characters that are no blanks")
        if len(value) > schema.get("maxLength", math.inf):
            raise MisfitError(f"{path} must have at most {schema['maxLength']} characters")
        if "pattern" in schema and not re.search(schema["pattern"], value):
            raise MisfitError(f"{path} must match {schema['pattern']!r}")
        return value

    def _number(self, value: Any, name: str, schema: Mapping[str, Any], path: str) -> int | float:
        if not self._exact and isinstance(value, str):
            value = _number_in(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise MisfitError(f"{path} must be a number")
        number: int | float = value
        if isinstance(number, float):
            if not math.isfinite(number):
                raise MisfitError(f"{path} must be a finite number")
            if name == "integer":
                if not number.is_integer():
                    raise MisfitError(f"{path} must be a whole number")
                number = int(number)
        for word, holds in _BOUNDS.items():
            if word in schema and not holds(number, schema[word]):
                raise MisfitError(f"{path} must respect {word} {schema[word]}")
        return number

    def _object(self, value: Any, schema: Mapping[str, Any], path: str) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise MisfitError(f"{path} must be an object")
        properties: Mapping[str, Any] = schema.get("properties", {})
        required = schema.get("required", ())
        given = dict(value) if self._exact else _with_known_keys(value, properties)
        result: dict[str, Any] = {}
        for key, part in properties.items():
            if key not in given:
                if key in required:
                    result[key] = self._filled(part, f"{path}.{key}")
                continue
            if given[key] is None and key not in required and not self._allows_null(part):
                # Strict modes must name every key; null is how they say that it is absent.
                continue
            result[key] = self.fit(given[key], part, f"{path}.{key}")
        extra = schema.get("additionalProperties", not properties)
        for key, member in given.items():
            if key not in properties and extra is not False:
                result[key] = self.fit(member, extra, f"{path}.{key}")
        for key in required:
            if key not in result:
                raise MisfitError(f"{path}.{key} is missing")
        return result

    def _filled(self, part: Any, path: str) -> Any:
        if isinstance(part, Mapping) and not self._exact:
            if "default" in part:
                return copy.deepcopy(part["default"])
            if part and self._allows_null(part):
                return None
        raise MisfitError(f"{path} is missing")

    def _allows_null(self, part: Any) -> bool:
        if isinstance(part, bool):
            return part
        try:
            _Fitter(self.root).fit(None, part, "$")
        except MisfitError:
            return False
        return True

    def _array(self, value: Any, schema: Mapping[str, Any], path: str) -> list[Any]:
        if not isinstance(value, list):
            if self._exact or value is None:
                raise MisfitError(f"{path} must be a list")
            value = [value]
        part = schema.get("items", True)
        most = schema.get("maxItems", math.inf)
        least = schema.get("minItems", 0)
        if self._inside_item:
            if len(value) > most:
                raise MisfitError(f"{path} must have at most {most} items")
            result = [self.fit(item, part, f"{path}[{n}]") for n, item in enumerate(value)]
        else:
            result = self._outer_items(value, part, most, path)
        if len(result) < least:
            left_out = f" ({'; '.join(self.problems[:3])})" if self.problems else ""
            raise MisfitError(f"{path} must have at least {least} items{left_out}")
        return result

    def _outer_items(self, items: list[Any], part: Any, most: float, path: str) -> list[Any]:
        result: list[Any] = []
        for number, item in enumerate(items):
            where = f"{path}[{number}]"
            self._inside_item = True
            try:
                fitted = self.fit(item, part, where)
                if len(result) >= most:
                    raise MisfitError(f"{path} must have at most {most} items")
                result.append(fitted)
                self.kept += 1
            except MisfitError as misfit:
                self.rejected.append(item)
                self.problems.append(str(misfit))
            finally:
                self._inside_item = False
        return result


def _outermost(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    """Undo what models do around an answer: a list or an object too many, or one too few."""
    if "$ref" in schema:
        schema = _resolve(schema["$ref"], root, MisfitError)
    properties: Mapping[str, Any] = schema.get("properties", {})
    required = set(schema.get("required", ()))
    if schema.get("type") != "object" or not properties:
        return value
    lists = [
        (key, part)
        for key, part in properties.items()
        if isinstance(part, Mapping) and part.get("type") == "array"
    ]
    if isinstance(value, list):
        if len(value) == 1 and isinstance(value[0], Mapping) and required & _folded_keys(value[0]):
            return value[0]
        if len(lists) == 1 and required <= {lists[0][0]}:
            return {lists[0][0]: value}
        return value
    if not isinstance(value, Mapping) or not required or required & _folded_keys(value):
        return value
    if len(lists) == 1 and required <= {lists[0][0]}:
        items = lists[0][1].get("items")
        item_keys = set(items.get("required", ())) if isinstance(items, Mapping) else set()
        if item_keys and item_keys <= _folded_keys(value):
            return {lists[0][0]: [value]}
    inner = [one for one in value.values() if isinstance(one, Mapping)]
    if len(inner) == 1 and len(value) == 1 and required <= _folded_keys(inner[0]):
        return inner[0]
    return value


def _folded_keys(value: Mapping[Any, Any]) -> set[str]:
    return {str(key) for key in value} | {str(key).strip().lower() for key in value}


def _with_known_keys(value: Mapping[Any, Any], properties: Mapping[str, Any]) -> dict[str, Any]:
    """Give keys that differ from a property in letter case or blanks only that property's name."""
    known = {key.lower(): key for key in properties}
    result: dict[str, Any] = {}
    for key, member in value.items():
        name = key if key in properties else known.get(str(key).strip().lower(), str(key))
        if name == key or (name not in value and name not in result):
            result[name] = member
    return result


def _merged(shared: Mapping[str, Any], part: Any) -> Any:
    return {**shared, **part} if isinstance(part, Mapping) else part


def _folded(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value).strip().casefold()


def _number_in(text: str) -> int | float | None:
    text = text.strip()
    if re.fullmatch(r"[+-]?\d{1,18}", text):
        return int(text)
    if re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", text):
        return float(text)
    return None


def _unique(texts: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(texts))


def _resolve(reference: Any, root: Mapping[str, Any], error: Any) -> Any:
    found: Any = root
    if not isinstance(reference, str) or not reference.startswith("#"):
        raise error(f"$ref {reference!r} leads out of the schema")
    for step in reference[1:].strip("/").split("/") if reference != "#" else ():
        step_key = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, Mapping) or step_key not in found:
            raise error(f"$ref {reference!r} leads nowhere")
        found = found[step_key]
    return found
