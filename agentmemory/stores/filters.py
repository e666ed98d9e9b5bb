"""The metadata filter language: its syntax tree, its parser and its reference evaluator.

Pure; may import `agentmemory.errors` and its sibling `metadata` only. `matches` defines what a
filter means. Each store compiles the same tree to its own query language and has to give the same
answer.

**Values.** Metadata is a JSON object; `validate_metadata` says what may be stored. A value has
exactly one type: null, boolean, number, text, array or object. Values of different types are never
equal and never ordered, so `True` is not `1`, `"3"` is not `3` and null is not a missing key.

- Numbers compare by mathematical value, integers and floats alike: `1` equals `1.0`, and
  `2**53 + 1` differs from `2.0**53`. `-0.0` equals `0`. Integers lie within ±(2**63 - 1), and
  numbers are finite.
- Text compares by code point; case and normalisation form count.
- *Time text* stands for its canonical form before any comparison, so that one instant is one value
  whatever its offset: `YYYY-MM-DDTHH:MM:SS.ffffffZ`, in UTC, whose order by code point is the
  order of time. Time text is what `TIME_TEXT` matches whole, names a date of the calendar and lies
  within the years 1 to 9999 of UTC: a full date, `T`, `t` or one space, hours and minutes,
  optionally seconds with one to nine decimals (what is finer than a microsecond is cut off), then
  `Z`, `z`, `±HH`, `±HHMM` or `±HH:MM`. Any other text is only text: a date alone, a time without
  an offset, basic format, week dates, 24:00, second 60. It compares with the canonical form of
  time text by code point as well, so `{"$gte": "2026-03-01"}` finds every instant from the start
  of that day in UTC. A `datetime` object, which needs a time zone, is the time text of its
  instant.
- Arrays are equal when they have equal elements in the same order, objects when they have the same
  keys with equal values in any order. Inside an array or a literal, objects compare whole.
- A key is one key of one object, never a path: dots, quotes, spaces, the empty key and any Unicode
  are themselves. Keys starting with `$` are operators in a filter and cannot be stored.

**Filters.** A filter is a mapping; all of its entries must hold.

- `{key: raw}` with a scalar or a list: the key is there and its value is equal.
- `{key: {…plain keys…}}`: the value is an object and each named key holds in turn (a partial
  match); `{key: {}}`: the value is an object.
- `{key: {…operators…}}`: every operator holds. Operators and plain keys do not mix.
- At the top, and in the entries of a top `$and`, `$or`, `$not`: `$and`, `$or` (non-empty lists of
  filters) and `$not` (a filter) stand next to plain keys. `{}` as such an entry always holds.

Operators on a key:

- `$eq`, `$ne`: equal to a literal, and its exact negation. A mapping is compared whole here.
- `$gt`, `$gte`, `$lt`, `$lte`: on that side of a number or a text of the same type; no other type
  has an order.
- `$in`, `$nin`: equal to one literal of a non-empty list, and its exact negation.
- `$exists`: true when the key is there, null included; false when it is missing.
- `$array_contains`: the value is an array holding the scalar, or each scalar of a non-empty list.
- `$array_contains_any`: the value is an array holding one scalar of a non-empty list.
- `$not`: the exact negation of whatever may follow a key, raw values included.
- `$and`, `$or`: a non-empty list of whatever may follow a key, all applied to this key's value.

A missing key meets nothing except `$exists: false` and negations; `$ne`, `$nin` and `$not`
therefore hold for it. A plain key inside a mapping, whatever follows it, requires that mapping's
value to be an object.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias, assert_never

from agentmemory.errors import FilterError
from agentmemory.stores.metadata import (
    MAX_DEPTH,
    MAX_INTEGER,
    TIME_TEXT,
    Place,
    canonical_text,
    canonical_time,
    check_depth,
    check_key,
    plain,
    show,
    show_place,
    string_leaves,
    validate_metadata,
)

__all__ = [
    "MAX_CONDITIONS",
    "MAX_DEPTH",
    "MAX_FILTER_DEPTH",
    "MAX_INTEGER",
    "MISSING",
    "TIME_TEXT",
    "AllOf",
    "AnyOf",
    "ArrayLiteral",
    "Compare",
    "Contains",
    "Equals",
    "Exists",
    "Fields",
    "Filter",
    "Missing",
    "Not",
    "ObjectLiteral",
    "OneOf",
    "Scalar",
    "Value",
    "canonical_text",
    "canonical_time",
    "holds",
    "matches",
    "parse_filter",
    "plain_value",
    "string_leaves",
    "validate_metadata",
]

MAX_FILTER_DEPTH: Final = 64
"""How deep a filter may nest; the filter itself is level 1."""

MAX_CONDITIONS: Final = 500
"""How many keys, operators, and arrays or objects inside literals one filter may have in all."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A literal without parts.

    Args:
        kind: Its type; `time` is text that is time text. Keeps `Scalar` of `True` and `1` apart,
            which Python counts as equal.
        value: The value; the canonical form for `time`.
    """

    kind: Literal["null", "boolean", "number", "string", "time"]
    value: bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class ArrayLiteral:
    """A literal array."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class ObjectLiteral:
    """A literal object: pairs of distinct keys and values."""

    items: tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True)
class Fields:
    """The value is an object, and each named key meets its condition."""

    fields: tuple[tuple[str, Filter], ...]


@dataclass(frozen=True, slots=True)
class Equals:
    """The value equals a literal."""

    value: Value


@dataclass(frozen=True, slots=True)
class Compare:
    """The value has the operand's type and lies on the given side of it.

    Args:
        operator: Which side.
        operand: A number, string or time.
    """

    operator: Literal["$gt", "$gte", "$lt", "$lte"]
    operand: Scalar


@dataclass(frozen=True, slots=True)
class OneOf:
    """The value equals one of the literals."""

    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Exists:
    """There is a value, null included."""


@dataclass(frozen=True, slots=True)
class Contains:
    """The value is an array with one of the scalars in it, or with every one."""

    values: tuple[Scalar, ...]
    every: bool


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every part holds."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one part holds."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold."""

    part: Filter


Value: TypeAlias = Scalar | ArrayLiteral | ObjectLiteral
"""A literal in a filter."""

Filter: TypeAlias = Fields | Equals | Compare | OneOf | Exists | Contains | AllOf | AnyOf | Not
"""A condition on one value that may be missing; a whole filter is one on the metadata object."""


class Missing:
    """The type of `MISSING`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()
"""Stands for the value of a key that is not there."""


def parse_filter(
    raw: Mapping[str, Any] | None, *, argument: str = "metadata_filter"
) -> Filter | None:
    """Read a filter as the caller wrote it.

    Args:
        raw: The filter, in the language this module's documentation describes.
        argument: What errors call the filter.

    Returns:
        The syntax tree, with all text in canonical form; None when there is nothing to filter by
        (`raw` is None or empty).

    Raises:
        FilterError: The filter has no meaning; the message names the place.
    """
    if raw is None:
        return None
    parsed = _Parser(argument).root(raw, (), 1)
    return None if parsed == Fields(()) else parsed


def matches(condition: Filter | None, metadata: Mapping[str, Any]) -> bool:
    """Say whether metadata meets a filter: the reference for every store.

    Args:
        condition: What `parse_filter` returned; None matches everything.
        metadata: What `validate_metadata` returned.

    Returns:
        True when it does.
    """
    return condition is None or holds(condition, metadata)


def holds(condition: Filter, value: object) -> bool:
    """Say whether one value, or `MISSING`, meets a condition.

    Args:
        condition: A node of the syntax tree.
        value: A JSON value, or `MISSING`.

    Returns:
        True when it does; always defined.
    """
    match condition:
        case Fields(fields):
            return isinstance(value, Mapping) and all(
                holds(part, value.get(key, MISSING)) for key, part in fields
            )
        case Equals(literal):
            return _identity(value) == _identity(plain_value(literal))
        case Compare(name, operand):
            return _in_order(name, operand, value)
        case OneOf(literals):
            identity = _identity(value)
            return any(identity == _identity(plain_value(literal)) for literal in literals)
        case Exists():
            return value is not MISSING
        case Contains(scalars, every):
            if not isinstance(value, list):
                return False
            elements = {_identity(element) for element in value}
            return (all if every else any)(
                _identity(scalar.value) in elements for scalar in scalars
            )
        case AllOf(parts):
            return all(holds(part, value) for part in parts)
        case AnyOf(parts):
            return any(holds(part, value) for part in parts)
        case Not(part):
            return not holds(part, value)
        case _:
            assert_never(condition)


def plain_value(literal: Value) -> Any:
    """Turn a literal back into the JSON value it stands for, with time text in canonical form.

    Args:
        literal: A literal of the syntax tree.

    Returns:
        A JSON value.
    """
    match literal:
        case Scalar(_, value):
            return value
        case ArrayLiteral(items):
            return [plain_value(item) for item in items]
        case ObjectLiteral(pairs):
            return {key: plain_value(item) for key, item in pairs}
        case _:
            assert_never(literal)


_ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def _identity(value: object) -> Hashable:
    """Give what two values have in common exactly when they are equal."""
    if value is None or value is MISSING:
        return repr(value)
    if isinstance(value, bool):
        return "boolean", value
    if isinstance(value, int | float):
        return "number", value
    if isinstance(value, str):
        return "text", canonical_text(value)
    if isinstance(value, list):
        return "array", tuple(map(_identity, value))
    if isinstance(value, Mapping):
        return "object", frozenset((key, _identity(item)) for key, item in value.items())
    raise AssertionError(value)


def _in_order(name: str, operand: Scalar, value: object) -> bool:
    holds_between = _ORDER[name]
    if operand.kind == "number":
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and holds_between(value, operand.value)
    return isinstance(value, str) and holds_between(canonical_text(value), operand.value)


_LOGICAL: Final = ("$and", "$or", "$not")
_OPERATORS: Final = (
    "$eq",
    "$ne",
    *_ORDER,
    "$in",
    "$nin",
    "$exists",
    "$array_contains",
    "$array_contains_any",
    *_LOGICAL,
)


class _Parser:
    """One reading of one filter; counts its conditions."""

    def __init__(self, argument: str) -> None:
        self._argument = argument
        self._conditions = 0

    def root(self, raw: Any, place: Place, depth: int) -> Filter:
        """Read a filter on a whole metadata object."""
        if not isinstance(raw, Mapping):
            raise self._refuse(place, f"is {show(raw)}; accepted is a mapping from keys to values")
        self._enter(place, depth)
        fields: list[tuple[str, Filter]] = []
        parts: list[Filter] = []
        for raw_key, entry in raw.items():
            key = check_key(raw_key, place, self._refuse)
            inner = (*place, key)
            if not key.startswith("$"):
                self._count()
                fields.append((key, self.condition(entry, inner, depth + 1)))
            elif key in _LOGICAL:
                parts.append(self._logical(key, entry, inner, depth + 1, self.root))
            else:
                hint = "; it belongs under a key" if key in _OPERATORS else ""
                raise self._unknown(key, place, _LOGICAL, hint)
        if fields or not parts:
            parts.insert(0, Fields(tuple(fields)))
        return _all(parts)

    def condition(self, raw: Any, place: Place, depth: int) -> Filter:
        """Read whatever may follow a key."""
        if not isinstance(raw, Mapping):
            return Equals(self._literal(raw, place, depth))
        self._enter(place, depth)
        keys = [check_key(key, place, self._refuse) for key in raw]
        operators = [key for key in keys if key.startswith("$")]
        if not operators:
            self._count(len(keys))
            return Fields(
                tuple(
                    (key, self.condition(entry, (*place, key), depth + 1))
                    for key, entry in zip(keys, raw.values(), strict=True)
                )
            )
        if len(operators) < len(keys):
            plain = next(key for key in keys if not key.startswith("$"))
            raise self._refuse(
                place,
                f"mixes the operator {show(operators[0])} with the plain key {show(plain)}; "
                "accepted are only operators or only plain keys",
            )
        return _all(
            [
                self._operator(key, operand, (*place, key), depth + 1)
                for key, operand in zip(keys, raw.values(), strict=True)
            ]
        )

    def _operator(self, name: str, operand: Any, place: Place, depth: int) -> Filter:
        self._count()
        match name:
            case "$eq":
                return Equals(self._literal(operand, place, depth))
            case "$ne":
                return Not(Equals(self._literal(operand, place, depth)))
            case "$gt" | "$gte" | "$lt" | "$lte":
                return Compare(name, self._ordered(operand, place, depth))
            case "$in":
                return OneOf(self._literals(operand, place, depth))
            case "$nin":
                return Not(OneOf(self._literals(operand, place, depth)))
            case "$exists":
                if not isinstance(operand, bool):
                    raise self._refuse(place, f"is {show(operand)}; accepted are True and False")
                return Exists() if operand else Not(Exists())
            case "$array_contains":
                if isinstance(operand, list | tuple):
                    return Contains(self._elements(operand, place, depth), every=True)
                return Contains((self._element(operand, place),), every=True)
            case "$array_contains_any":
                return Contains(self._elements(operand, place, depth), every=False)
            case "$and" | "$or" | "$not":
                return self._logical(name, operand, place, depth, self.condition)
            case _:
                raise self._unknown(name, place[:-1], _OPERATORS)

    def _logical(
        self,
        name: str,
        operand: Any,
        place: Place,
        depth: int,
        read: Callable[[Any, Place, int], Filter],
    ) -> Filter:
        self._count()
        if name == "$not":
            return Not(read(operand, place, depth))
        entries = self._list(operand, place, depth)
        parts = [read(entry, (*place, at), depth + 1) for at, entry in enumerate(entries)]
        return _all(parts) if name == "$and" else AnyOf(tuple(parts))

    def _list(self, operand: Any, place: Place, depth: int) -> list[Any] | tuple[Any, ...]:
        if not isinstance(operand, list | tuple) or not operand:
            raise self._refuse(place, f"is {show(operand)}; accepted is a non-empty list")
        self._enter(place, depth)
        return operand

    def _literal(self, raw: Any, place: Place, depth: int) -> Value:
        return self._frozen(plain(raw, place, depth, MAX_FILTER_DEPTH, self._refuse))

    def _literals(self, operand: Any, place: Place, depth: int) -> tuple[Value, ...]:
        entries = self._list(operand, place, depth)
        return tuple(
            self._literal(entry, (*place, at), depth + 1) for at, entry in enumerate(entries)
        )

    def _elements(self, operand: Any, place: Place, depth: int) -> tuple[Scalar, ...]:
        entries = self._list(operand, place, depth)
        return tuple(self._element(entry, (*place, at)) for at, entry in enumerate(entries))

    def _element(self, raw: Any, place: Place) -> Scalar:
        if isinstance(raw, Mapping | list | tuple):
            raise self._refuse(
                place, f"is {show(raw)}; accepted as elements of an array are only scalars"
            )
        return _scalar(plain(raw, place, 1, MAX_FILTER_DEPTH, self._refuse))

    def _ordered(self, operand: Any, place: Place, depth: int) -> Scalar:
        if isinstance(operand, bool) or not isinstance(operand, int | float | str | datetime):
            raise self._refuse(
                place,
                f"is {show(operand)}; accepted are a number, a string or a datetime with a time "
                "zone: nothing else has an order",
            )
        return _scalar(plain(operand, place, depth, MAX_FILTER_DEPTH, self._refuse))

    def _frozen(self, value: Any) -> Value:
        if isinstance(value, dict):
            self._count()
            return ObjectLiteral(tuple((key, self._frozen(item)) for key, item in value.items()))
        if isinstance(value, list):
            self._count()
            return ArrayLiteral(tuple(self._frozen(item) for item in value))
        return _scalar(value)

    def _enter(self, place: Place, depth: int) -> None:
        check_depth(place, depth, MAX_FILTER_DEPTH, self._refuse)

    def _count(self, more: int = 1) -> None:
        self._conditions += more
        if self._conditions > MAX_CONDITIONS:
            raise self._refuse(
                (), f"has more than the accepted {MAX_CONDITIONS} keys, operators and containers"
            )

    def _refuse(self, place: Place, problem: str) -> FilterError:
        return FilterError(
            f"`{self._argument}`{show_place(place)} {problem}", argument=self._argument
        )

    def _unknown(
        self, name: str, place: Place, accepted: tuple[str, ...], hint: str = ""
    ) -> FilterError:
        known = ", ".join(f"`{each}`" for each in accepted)
        return self._refuse(
            place, f"has the unknown operator {show(name)}; accepted here are {known}{hint}"
        )


def _scalar(value: Any) -> Scalar:
    if value is None:
        return Scalar("null", None)
    if isinstance(value, bool):
        return Scalar("boolean", value)
    if isinstance(value, str):
        canonical = canonical_time(value)
        return Scalar("string", value) if canonical is None else Scalar("time", canonical)
    return Scalar("number", value)


def _all(parts: list[Filter]) -> Filter:
    return parts[0] if len(parts) == 1 else AllOf(tuple(parts))
