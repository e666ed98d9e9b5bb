"""Metadata filters as SQL conditions over stored metadata terms; may import filters and terms.

Every elementary condition is one `JSON_EXISTS` with a constant path and bound terms: the list of
terms holds one that equals a bind, or lies between two. `metadata_terms` makes that exact for
every condition of the language, so the answer is that of `agentmemory.stores.filters` without a
second look. No key and no value of the caller's is part of the text.

An index for it, where filters on metadata without a scope are common: a multivalue index on
`metadata_terms` serves both forms. Within a scope the condition is checked on the scope's rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, assert_never

from agentmemory.stores.filters import (
    MISSING,
    AllOf,
    AnyOf,
    Compare,
    Contains,
    Equals,
    Exists,
    Fields,
    Filter,
    Not,
    OneOf,
    Scalar,
    Value,
    holds,
    plain_value,
)
from agentmemory.stores.oracle.metadata_terms import (
    ELEMENT,
    LAST,
    ROOT,
    VALUE,
    key_place,
    text_segments,
    value_term,
)

_MOST_TERMS: Final = 32
"""How many terms one path compares; longer lists become several paths."""

_AFTER_SEGMENT: Final = "g"
_AFTER_DIGEST: Final = "h"


class _Range(NamedTuple):
    """Terms from one to another, the ends included as their flags say."""

    low: str
    high: str
    with_low: bool = True
    with_high: bool = False


def compile_filter(
    condition: Filter | None, column: str, prefix: str
) -> tuple[str, dict[str, str]]:
    """Turn a metadata filter into a condition for a WHERE clause.

    Args:
        condition: What `parse_filter` returned; None holds for every row.
        column: The column of metadata terms, as `r.metadata_terms`.
        prefix: What names of binds begin with, so that several filters fit into one statement.

    Returns:
        The condition, true or false for every row, and its binds. It can stand next to other
        conditions as it is.
    """
    if condition is None:
        return "1 = 1", {}
    compiler = _Compiler(column, prefix)
    return compiler.condition(condition, ROOT, within=True), compiler.binds


class _Compiler:
    """One compilation for one column; numbers the binds."""

    def __init__(self, column: str, prefix: str) -> None:
        self.binds: dict[str, str] = {}
        self._column = column
        self._prefix = prefix

    def condition(self, condition: Filter, place: str, *, within: bool = False) -> str:
        """Compile a condition on the value at a place, which may be missing.

        Args:
            condition: The condition.
            place: The place.
            within: Whether an object is known to be there.
        """
        match condition:
            case Fields(fields):
                return self._fields(fields, place, within=within)
            case Equals(literal):
                return self._any_of((value_term(VALUE, place, plain_value(literal)),))
            case Compare(name, operand):
                return self._compare(name, operand, place)
            case OneOf(literals):
                return self._one_of(VALUE, literals, place)
            case Exists():
                return self._between(_Range(f"{VALUE}{place}", f"{VALUE}{place}{LAST}"))
            case Contains(scalars, every):
                if every:
                    return _join("AND", [self._one_of(ELEMENT, (item,), place) for item in scalars])
                return self._one_of(ELEMENT, scalars, place)
            case AllOf(parts):
                return _join("AND", [self.condition(part, place, within=within) for part in parts])
            case AnyOf(parts):
                return _join("OR", [self.condition(part, place, within=within) for part in parts])
            case Not(part):
                return f"NOT ({self.condition(part, place, within=within)})"
            case _:
                assert_never(condition)

    def _fields(self, fields: Sequence[tuple[str, Filter]], place: str, *, within: bool) -> str:
        parts = [self.condition(part, key_place(place, key)) for key, part in fields]
        # A condition that fails for a missing key already requires the object around it.
        if not within and all(holds(part, MISSING) for _, part in fields):
            parts.append(self._between(_Range(f"{VALUE}{place}o", f"{VALUE}{place}o{LAST}")))
        return _join("AND", parts) if parts else "1 = 1"

    def _one_of(self, mark: str, literals: Sequence[Value], place: str) -> str:
        terms = dict.fromkeys(value_term(mark, place, plain_value(item)) for item in literals)
        listed = list(terms)
        starts = range(0, len(listed), _MOST_TERMS)
        return _join("OR", [self._any_of(listed[at : at + _MOST_TERMS]) for at in starts])

    def _compare(self, name: str, operand: Scalar, place: str) -> str:
        upwards = name.startswith("$gt")
        equal = name.endswith("e")
        if operand.kind == "number":
            head = f"{VALUE}{place}d"
            return self._between(
                _side(head, value_term(VALUE, place, operand.value), upwards, equal)
            )
        *earlier, last = text_segments(place, str(operand.value))
        # Text that shares a whole segment with the operand is decided by the next one.
        ranges = [
            _Range(f"{head}{segment}{_AFTER_DIGEST}", f"{head}{LAST}")
            if upwards
            else _Range(head, f"{head}{segment}{_AFTER_SEGMENT}")
            for head, segment in earlier
        ]
        ranges.append(_side(last[0], "".join(last), upwards, equal))
        return _join("OR", [self._between(item) for item in ranges])

    def _any_of(self, terms: Sequence[str]) -> str:
        names = [self._bind(term) for term in _padded(terms)]
        test = " || ".join(f"@ == $v{place}" for place in range(len(names)))
        return self._exists(test, names)

    def _between(self, item: _Range) -> str:
        low, high = (">=" if item.with_low else ">"), ("<=" if item.with_high else "<")
        names = [self._bind(item.low), self._bind(item.high)]
        return self._exists(f"@ {low} $v0 && @ {high} $v1", names)

    def _exists(self, test: str, names: Iterable[str]) -> str:
        passing = ", ".join(f':{name} AS "v{place}"' for place, name in enumerate(names))
        return f"JSON_EXISTS({self._column}, '$[*]?({test})' PASSING {passing})"

    def _bind(self, term: str) -> str:
        name = f"{self._prefix}m{len(self.binds)}"
        self.binds[name] = term
        return name


def _side(head: str, term: str, upwards: bool, equal: bool) -> _Range:  # noqa: FBT001 - a pair
    """Return the terms of one type at one place that lie on one side of a term."""
    if upwards:
        return _Range(term, f"{head}{LAST}", with_low=equal)
    return _Range(head, term, with_high=equal)


def _padded(terms: Sequence[str]) -> list[str]:
    """Repeat the last term up to a power of two, so that few texts of statements differ."""
    size = 1 << (len(terms) - 1).bit_length()
    return [*terms, *itertools.repeat(terms[-1], size - len(terms))]


def _join(word: str, parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"({f' {word} '.join(parts)})"
