"""Metadata filters as SQL conditions over a column of JSON text; may import filters and orjson.

The condition is pure SQL for SQLite 3.50 or later: keys and values travel as parameters only, and
objects are searched by `json_each(…) WHERE key = ?`, which needs no path syntax and so no quoting.
`agentmemory.stores.filters` says what each node means.

A condition on a value, however deep its key lies, becomes one EXISTS over a chain of `json_each`
from the column down to it, never a subquery inside a subquery per level: SQLite bounds the depth
of expressions and counts nested subqueries twice. Every expression made here is 0 or 1, never
NULL, so that NOT is exact. `json_each` of NULL has no rows: the parts of a value are read by making
its argument NULL when the value is of another type, for a planner may evaluate AND in any order.
SQLite compares integers with floats exactly, and text of a UTF-8 database by its bytes, which is
the order of code points. It reads every float of JSON text exactly since 3.53; before that, floats
beyond 1e60 or below 1e-60 may be read one unit in the last place off.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from typing import Any, Final, Literal, NamedTuple, TypeAlias, assert_never

import orjson

from agentmemory.errors import ValidationError
from agentmemory.stores.filters import (
    MISSING,
    AllOf,
    AnyOf,
    ArrayLiteral,
    Compare,
    Contains,
    Equals,
    Exists,
    Fields,
    Filter,
    Not,
    ObjectLiteral,
    OneOf,
    Scalar,
    Value,
    holds,
)

_COLUMN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")

_OPERATORS: Final = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}

_MIDDLE: Final = "substr({v}, 17, length({v}) - 16 - length(zone))"
# `zone` is the offset and what is before it after the minutes the middle: `:SS.decimals` or less.
# No row, or NULL for what leaves the years 1 to 9999: it is not time text.
_CANONICAL_TEXT: Final = (
    "CASE WHEN {v} GLOB "
    "'[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][Tt ][0-2][0-9]:[0-5][0-9]*' "
    "THEN coalesce((SELECT CASE WHEN utc BETWEEN '0001' AND ':' THEN "
    "replace(utc, ' ', 'T') || '.' || substr(decimals || '000000', 1, 6) || 'Z' END "
    f"FROM (SELECT substr({_MIDDLE}, 5) AS decimals, "
    f"datetime(substr({{v}}, 1, 10) || ' ' || substr({{v}}, 12, 5) || substr({_MIDDLE}, 1, 3), "
    "CASE substr(zone, 1, 1) WHEN '-' THEN '+' ELSE '-' END || "
    "substr(substr(zone, 2, 2) || '00', 1, 2) || ':' || "
    "substr(substr(replace(zone, ':', ''), 4) || '00', 1, 2)) AS utc "
    "FROM (SELECT ltrim(substr({v}, 17), ':.0123456789') AS zone) "
    "WHERE substr({v}, 1, 10) >= '0001' AND date(substr({v}, 1, 10)) = substr({v}, 1, 10) "
    "AND substr({v}, 12, 2) < '24' AND (zone IN ('Z', 'z') OR (substr(zone, 2, 2) < '24' "
    "AND (zone GLOB '[+-][0-2][0-9]:[0-5][0-9]' OR zone GLOB '[+-][0-2][0-9][0-5][0-9]' "
    f"OR zone GLOB '[+-][0-2][0-9]'))) AND ({_MIDDLE} = '' OR {_MIDDLE} GLOB ':[0-5][0-9]' "
    f"OR ({_MIDDLE} GLOB ':[0-5][0-9].[0-9]*' AND length({_MIDDLE}) <= 13 "
    f"AND substr({_MIDDLE}, 5) NOT GLOB '*[^0-9]*')))), {{v}}) ELSE {{v}} END"
)

_DAY: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")


class _Sql(NamedTuple):
    """A piece of SQL and the values of its parameters in order."""

    text: str
    binds: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class _Slot:
    """Where a value that is there can be read.

    Args:
        type: SQL of its type's name, as `json_each` calls it.
        value: SQL of the value; JSON text if it is an array or object.
    """

    type: str
    value: str

    def parts(self, kind: str) -> str:
        """Return a FROM item of the value's parts; it is empty unless the value is of `kind`."""
        if self.type == f"'{kind}'":
            return f"json_each({self.value})"
        return f"json_each(CASE WHEN {self.type} = '{kind}' THEN {self.value} END)"

    @property
    def text(self) -> str:
        """SQL of the canonical form of a value that is text."""
        return _CANONICAL_TEXT.format(v=self.value)


@dataclass(frozen=True, slots=True)
class _Part(_Slot):
    """A row of `json_each`.

    Args:
        alias: What the query calls it.
    """

    alias: str


_Step: TypeAlias = tuple[Literal["array", "object"], str | int]
"""From a container of that type to the part with that key or position."""


def compile_filter(condition: Filter | None, column: str) -> tuple[str, list[object]]:
    """Turn a metadata filter into a condition for a WHERE clause.

    Args:
        condition: What `parse_filter` returned; None holds for every row.
        column: The column of JSON objects as UTF-8 text, in a form SQL needs no quotes for:
            `metadata` or `r.metadata`. NULL counts as an empty object.

    Returns:
        The condition, with `?` parameters and never NULL, and their values in order. It can stand
        next to other conditions as it is.

    Raises:
        ValidationError: `column` is not a plain column name.
    """
    if not _COLUMN.fullmatch(column):
        raise ValidationError(
            f"`column` is {column!r}; accepted is a plain name, or two with a dot between",
            argument="column",
        )
    if condition is None:
        return "1", []
    compiled = _Compiler(_Slot("'object'", column)).condition(condition, ())
    return f"({compiled.text})", list(compiled.binds)


class _Compiler:
    """One compilation for one column; names the subqueries apart."""

    def __init__(self, root: _Slot) -> None:
        self._root = root
        self._aliases = 0

    def condition(self, condition: Filter, path: tuple[_Step, ...]) -> _Sql:
        """Compile a condition on the value at a path, which may be missing."""
        if not _has_fields(condition):
            return self._at(path, condition)
        match condition:
            case Fields(fields):
                parts = [self.condition(part, (*path, ("object", key))) for key, part in fields]
                # A condition that fails for a missing key already requires the object around it.
                if path and all(holds(part, MISSING) for _, part in fields):
                    parts.append(self._exists(self._root, path, _is_object))
                return _join("AND", parts) if parts else _Sql("1")
            case AllOf(parts):
                return _join("AND", [self.condition(part, path) for part in parts])
            case AnyOf(parts):
                return _join("OR", [self.condition(part, path) for part in parts])
            case Not(part):
                return _not(self.condition(part, path))
            case _:
                raise AssertionError(condition)

    def _at(self, path: tuple[_Step, ...], condition: Filter) -> _Sql:
        if not path:
            return self._value(condition, self._root)
        if holds(condition, MISSING):
            return _not(
                self._exists(self._root, path, lambda slot: _not(self._value(condition, slot)))
            )
        return self._exists(self._root, path, lambda slot: self._value(condition, slot))

    def _exists(
        self, start: _Slot, path: Sequence[_Step], condition: Callable[[_Slot], _Sql]
    ) -> _Sql:
        tables: list[str] = []
        tests: list[_Sql] = []
        slot = start
        for kind, key in path:
            table, part = self._table(slot, kind)
            tables.append(table)
            tests.append(_Sql(f"{part.alias}.key = ?", (key,)))
            slot = part
        tests.append(condition(slot))
        # CROSS JOIN: the order is given, the planner has nothing to search.
        return _Sql(
            f"EXISTS (SELECT 1 FROM {' CROSS JOIN '.join(tables)} "
            f"WHERE {' AND '.join(test.text for test in tests)})",
            tuple(bind for test in tests for bind in test.binds),
        )

    def _table(self, slot: _Slot, kind: str) -> tuple[str, _Part]:
        self._aliases += 1
        alias = f"mf{self._aliases}"
        return f"{slot.parts(kind)} {alias}", _Part(f"{alias}.type", f"{alias}.value", alias)

    def _value(self, condition: Filter, slot: _Slot) -> _Sql:
        match condition:
            case Equals(literal):
                return self._equal(literal, slot)
            case Compare(name, operand):
                return _in_order(name, operand, slot)
            case OneOf(literals):
                return self._one_of(literals, slot)
            case Exists():
                return _Sql("1")
            case Contains(scalars, every):
                return self._contains(scalars, slot, every=every)
            case AllOf(parts):
                return _join("AND", [self._value(part, slot) for part in parts])
            case AnyOf(parts):
                return _join("OR", [self._value(part, slot) for part in parts])
            case Not(part):
                return _not(self._value(part, slot))
            case Fields():
                raise AssertionError(condition)
            case _:
                assert_never(condition)

    def _equal(self, literal: Value, slot: _Slot) -> _Sql:
        if isinstance(literal, Scalar):
            return _equal_scalar(literal, slot)
        conditions: list[_Sql] = []
        for path, container in _containers(literal, ()):
            if path:
                conditions.append(
                    self._exists(slot, path, partial(_equal_but_for_containers, container))
                )
            else:
                conditions.append(_equal_but_for_containers(container, slot))
        return _join("AND", conditions)

    def _one_of(self, literals: Sequence[Value], slot: _Slot) -> _Sql:
        scalars = [literal for literal in literals if isinstance(literal, Scalar)]
        choices = [
            self._equal(literal, slot) for literal in literals if not isinstance(literal, Scalar)
        ]
        if len(scalars) == 1:
            choices.append(_equal_scalar(scalars[0], slot))
        elif scalars:
            choices.append(_in(scalars, slot))
        return _join("OR", choices)

    def _contains(self, scalars: Sequence[Scalar], slot: _Slot, *, every: bool) -> _Sql:
        if every and len(scalars) > 1:
            return _Sql(
                f"({slot.type} = 'array' AND NOT EXISTS (SELECT {_KIND}, value FROM json_each(?) "
                f"EXCEPT SELECT {_KIND}, {_compared(scalars)} FROM {slot.parts('array')}))",
                (_json([scalar.value for scalar in scalars]),),
            )
        table, part = self._table(slot, "array")
        inner = self._one_of(scalars, part)
        return _Sql(f"EXISTS (SELECT 1 FROM {table} WHERE {inner.text})", inner.binds)


# The type of a row of `json_each`, with one name for all numbers.
_KIND: Final = "CASE type WHEN 'integer' THEN 'real' ELSE type END"


def _compared(scalars: Iterable[Scalar], type_: str = "type", value: str = "value") -> str:
    """Return SQL of what stands for a value that is compared with these scalars.

    Text that is not time text equals only itself, so without a time the canonical form is idle.
    """
    if not any(scalar.kind == "time" for scalar in scalars):
        return value
    return f"CASE {type_} WHEN 'text' THEN {_CANONICAL_TEXT.format(v=value)} ELSE {value} END"


def _has_fields(condition: Filter) -> bool:
    match condition:
        case Fields():
            return True
        case AllOf(parts) | AnyOf(parts):
            return any(map(_has_fields, parts))
        case Not(part):
            return _has_fields(part)
        case _:
            return False


def _is_object(slot: _Slot) -> _Sql:
    return _Sql(f"{slot.type} = 'object'")


def _containers(
    literal: ArrayLiteral | ObjectLiteral, path: tuple[_Step, ...]
) -> Iterator[tuple[tuple[_Step, ...], ArrayLiteral | ObjectLiteral]]:
    """Yield a literal and every container inside it, with the way to each."""
    yield path, literal
    if isinstance(literal, ArrayLiteral):
        for position, item in enumerate(literal.items):
            if not isinstance(item, Scalar):
                yield from _containers(item, (*path, ("array", position)))
    else:
        for key, item in literal.items:
            if not isinstance(item, Scalar):
                yield from _containers(item, (*path, ("object", key)))


def _equal_but_for_containers(literal: ArrayLiteral | ObjectLiteral, slot: _Slot) -> _Sql:
    """Compare type, number of parts and all parts that are scalars."""
    kind = "array" if isinstance(literal, ArrayLiteral) else "object"
    parts = slot.parts(kind)
    scalars = [item for item in _items(literal) if isinstance(item, Scalar)]
    if not scalars:
        return _Sql(
            f"({slot.type} = '{kind}' AND (SELECT count(*) FROM {parts}) = ?)",
            (len(literal.items),),
        )
    return _Sql(
        f"({slot.type} = '{kind}' AND (SELECT count(*) = ? AND total((key, {_KIND}, "
        f"coalesce({_compared(scalars)}, '')) IN (SELECT key, {_KIND}, coalesce(value, '') "
        f"FROM json_each(?) WHERE type NOT IN ('array', 'object'))) = ? FROM {parts}))",
        (len(literal.items), _json(_without_nesting(literal)), len(scalars)),
    )


def _items(literal: ArrayLiteral | ObjectLiteral) -> list[Value]:
    if isinstance(literal, ArrayLiteral):
        return list(literal.items)
    return [item for _, item in literal.items]


def _without_nesting(literal: ArrayLiteral | ObjectLiteral) -> Any:
    if isinstance(literal, ArrayLiteral):
        return [item.value if isinstance(item, Scalar) else [] for item in literal.items]
    return {key: item.value if isinstance(item, Scalar) else [] for key, item in literal.items}


def _equal_scalar(scalar: Scalar, slot: _Slot) -> _Sql:
    match scalar.kind:
        case "null":
            return _Sql(f"({slot.type} = 'null')")
        case "boolean":
            return _Sql(f"({slot.type} = '{'true' if scalar.value else 'false'}')")
        case "number":
            left = f"{slot.type} IN ('integer', 'real') AND {slot.value}"
        case "string":
            left = f"{slot.type} = 'text' AND {slot.value}"
        case "time":
            window = _window(str(scalar.value)) or ("", ":")
            left = (
                f"{slot.type} = 'text' AND {slot.value} >= ? AND {slot.value} < ? AND {slot.text}"
            )
            return _Sql(f"({left} = ?)", (*window, scalar.value))
        case _:
            assert_never(scalar.kind)
    return _Sql(f"({left} = ?)", (scalar.value,))


def _in_order(name: str, operand: Scalar, slot: _Slot) -> _Sql:
    sign = _OPERATORS[name]
    if operand.kind == "number":
        return _Sql(
            f"({slot.type} IN ('integer', 'real') AND {slot.value} {sign} ?)", (operand.value,)
        )
    window = _window(str(operand.value))
    if window is None:
        return _Sql(f"({slot.type} = 'text' AND {slot.text} {sign} ?)", (operand.value,))
    below, above = (0, 1) if sign.startswith(">") else (1, 0)
    return _Sql(
        f"({slot.type} = 'text' AND CASE WHEN {slot.value} < ? THEN {below} "
        f"WHEN {slot.value} >= ? THEN {above} ELSE {slot.text} {sign} ? END)",
        (*window, operand.value),
    )


def _window(operand: str) -> tuple[str, str] | None:
    """Bound the stored texts whose side of an operand only their canonical form can tell.

    An offset shifts a time by less than a day. So time text with a date two or more days before or
    after the operand's lies on that side of it, and any other text is compared as it stands.

    Returns:
        Two bounds: text below the first is less than the operand, text from the second on is
        greater. None for an operand that starts with no date.
    """
    found = _DAY.match(operand)
    if found is None:
        return None
    try:
        day = date(*map(int, found.groups()))
    except ValueError:
        return None
    first = (day - timedelta(days=1)).isoformat() if day > date.min else ""
    # ":" comes after every digit.
    last_days = day >= date.max - timedelta(days=1)
    return first, ":" if last_days else (day + timedelta(days=2)).isoformat()


def _in(scalars: Sequence[Scalar], slot: _Slot) -> _Sql:
    # The list is read once for the whole statement, into an index. NULL is never IN anything,
    # hence the coalesce; the type beside it keeps null apart from empty text.
    kind = f"CASE {slot.type} WHEN 'integer' THEN 'real' ELSE {slot.type} END"
    value = _compared(scalars, slot.type, slot.value)
    return _Sql(
        f"(({kind}, coalesce({value}, '')) IN "
        f"(SELECT {_KIND}, coalesce(value, '') FROM json_each(?)))",
        (_json([scalar.value for scalar in scalars]),),
    )


def _not(sql: _Sql) -> _Sql:
    return _Sql(f"(NOT {sql.text})", sql.binds)


def _join(word: str, parts: Sequence[_Sql]) -> _Sql:
    # In halves: a chain of hundreds would be as deep as it is long, and SQLite bounds depth.
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    left, right = _join(word, parts[:middle]), _join(word, parts[middle:])
    return _Sql(f"({left.text} {word} {right.text})", left.binds + right.binds)


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()
