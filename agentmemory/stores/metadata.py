"""What metadata may be stored, and the form in which its text is compared.

Pure; may import `agentmemory.errors` only. The meaning of comparisons is described in
`agentmemory.stores.filters`, which passes on what callers need of this module.
"""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

from agentmemory.errors import ValidationError

MAX_DEPTH: Final = 32
"""How deep metadata may nest; the metadata object itself is level 1."""

MAX_INTEGER: Final = 2**63 - 1
"""The largest magnitude of a stored integer: exact in SQLite, JSON text and Oracle's NUMBER."""

TIME_TEXT: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([01][0-9]|2[0-3]):([0-5][0-9])"
    r"(?::([0-5][0-9])(?:\.([0-9]{1,9}))?)?"
    r"(?:[Zz]|([+-])([01][0-9]|2[0-3])(?::?([0-5][0-9]))?)"
)
"""The syntax of time text, to be matched whole."""

Place: TypeAlias = tuple[str | int, ...]
"""The keys and positions that lead to a value."""

Refuse: TypeAlias = Callable[[Place, str], ValidationError]
"""Makes the error for a place and what is wrong there."""


def validate_metadata(
    metadata: Mapping[str, Any] | None, *, argument: str = "metadata"
) -> dict[str, Any]:
    """Check that metadata can be stored and give it the form in which it is.

    Accepts JSON values with string keys, tuples as arrays, and `datetime` objects that have a
    time zone, which become ISO 8601 text in UTC (`2026-03-01T10:00:00Z`, with microseconds only
    where there are any). Keys must not start with `$`, text holds neither NUL nor lone surrogates,
    integers lie within ±(2**63 - 1), floats are finite, and nesting ends at level `MAX_DEPTH`.

    Args:
        metadata: The caller's metadata; it is not changed. None is empty metadata.
        argument: What errors call it.

    Returns:
        A new dict that shares no container with the input and holds only `dict`, `list`, `str`,
        `int`, `float`, `bool` and None.

    Raises:
        ValidationError: It cannot be stored; the message names the place.
    """

    def refuse(place: Place, problem: str) -> ValidationError:
        return ValidationError(f"`{argument}`{show_place(place)} {problem}", argument=argument)

    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise refuse((), f"is {show(metadata)}; accepted is a mapping from string keys to values")
    return _plain_object(metadata, (), 1, MAX_DEPTH, refuse)


def string_leaves(metadata: Mapping[str, Any]) -> list[str]:
    """List every text value of metadata, at any depth, in the order in which it is written.

    Args:
        metadata: What `validate_metadata` returned.

    Returns:
        The text values; keys are not among them.
    """
    leaves: list[str] = []
    pending: list[object] = [metadata]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            leaves.append(value)
        elif isinstance(value, Mapping):
            pending.extend(reversed(list(value.values())))
        elif isinstance(value, list):
            pending.extend(reversed(value))
    return leaves


def canonical_text(text: str) -> str:
    """Give the form in which text is compared: that of its instant if it is time text, else itself.

    Args:
        text: Any text.

    Returns:
        `YYYY-MM-DDTHH:MM:SS.ffffffZ` for time text, otherwise `text`.
    """
    return canonical_time(text) or text


def canonical_time(text: str) -> str | None:
    """Give the canonical form of time text.

    Args:
        text: Any text.

    Returns:
        `YYYY-MM-DDTHH:MM:SS.ffffffZ`, in UTC, or None if `text` is not time text.
    """
    found = TIME_TEXT.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second, decimals, sign, hours, minutes = found.groups()
    try:
        local = datetime(
            int(year),
            int(month),
            int(day),
            int(hour),
            int(minute),
            int(second or 0),
            int((decimals or "")[:6].ljust(6, "0")),
            tzinfo=UTC,
        )
        shift = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
        instant = local + shift if sign == "-" else local - shift
    except (ValueError, OverflowError):
        return None
    return instant.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def plain(value: Any, place: Place, depth: int, max_depth: int, refuse: Refuse) -> Any:
    """Check one value and reduce it to plain JSON types.

    Args:
        value: Anything.
        place: Where it stands.
        depth: The level it would have as a container.
        max_depth: The deepest level a container may have.
        refuse: Makes the error to raise.

    Returns:
        A new value of `dict`, `list`, `str`, `int`, `float`, `bool` or None.

    Raises:
        ValidationError: What `refuse` made.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _check_text(value, place, "is", refuse)
    if isinstance(value, int | float):
        return _plain_number(value, place, refuse)
    if isinstance(value, datetime):
        return _time_text(value, place, refuse)
    if isinstance(value, Mapping):
        return _plain_object(value, place, depth, max_depth, refuse)
    if isinstance(value, list | tuple):
        check_depth(place, depth, max_depth, refuse)
        return [
            plain(item, (*place, index), depth + 1, max_depth, refuse)
            for index, item in enumerate(value)
        ]
    raise refuse(
        place,
        f"is {show(value)}; accepted are None, booleans, numbers, strings, datetimes with a time "
        "zone, lists and mappings",
    )


def check_key(key: object, place: Place, refuse: Refuse) -> str:
    """Accept a key that is text which can be stored.

    Args:
        key: Anything.
        place: Where its object stands.
        refuse: Makes the error to raise.

    Returns:
        The key.

    Raises:
        ValidationError: What `refuse` made.
    """
    if not isinstance(key, str):
        raise refuse(place, f"has the key {show(key)}; accepted as keys are strings")
    return _check_text(key, place, "has the key", refuse)


def check_depth(place: Place, depth: int, max_depth: int, refuse: Refuse) -> None:
    """Refuse a container below the deepest level.

    Args:
        place: Where it stands.
        depth: Its level.
        max_depth: The deepest level.
        refuse: Makes the error to raise.

    Raises:
        ValidationError: What `refuse` made.
    """
    if depth > max_depth:
        raise refuse(place[:3], f"nests deeper than the accepted {max_depth} levels")


def show(value: object) -> str:
    """Give a short `repr` for a message, whatever the value is.

    Args:
        value: Anything, cyclic or huge values included.

    Returns:
        Text of bounded length.
    """
    try:
        return _short.repr(value)
    except ValueError:
        # Python refuses to write out integers of more than some thousand digits.
        return (
            "a number too long to show" if isinstance(value, int) else f"a {type(value).__name__}"
        )


def show_place(place: Place) -> str:
    """Write a place as Python would index it: `['tags'][0]`.

    Args:
        place: Keys and positions.

    Returns:
        The text; empty for the top.
    """
    return "".join(f"[{show(step)}]" for step in place)


_short = reprlib.Repr()
_short.maxlevel = 3
_short.maxstring = _short.maxother = 80


def _check_text(text: str, place: Place, verb: str, refuse: Refuse) -> str:
    if "\0" in text:
        raise refuse(place, f"{verb} {show(text)}; accepted is text without the character NUL")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise refuse(
                place, f"{verb} {show(text)}; accepted is text without lone surrogates"
            ) from None
    # A subclass, such as an enum member, may have a `__str__` of its own.
    return str.__str__(text)


def _plain_number(value: float, place: Place, refuse: Refuse) -> int | float:
    if isinstance(value, int):
        if abs(value) > MAX_INTEGER:
            raise refuse(
                place, f"is {show(value)}; accepted are integers from -(2**63 - 1) to 2**63 - 1"
            )
        return int(value)
    if not math.isfinite(value):
        raise refuse(place, f"is {value!r}; accepted are finite numbers")
    return float(value)


def _time_text(moment: datetime, place: Place, refuse: Refuse) -> str:
    if moment.utcoffset() is None:
        raise refuse(place, f"is {show(moment)}; accepted is a datetime with a time zone")
    try:
        instant = moment.astimezone(UTC)
    except OverflowError:
        raise refuse(
            place, f"is {show(moment)}; accepted is a datetime within the years 1 to 9999 of UTC"
        ) from None
    return instant.isoformat().removesuffix("+00:00") + "Z"


def _plain_object(
    value: Mapping[Any, Any], place: Place, depth: int, max_depth: int, refuse: Refuse
) -> dict[str, Any]:
    check_depth(place, depth, max_depth, refuse)
    result: dict[str, Any] = {}
    for raw_key, item in value.items():
        key = check_key(raw_key, place, refuse)
        if key.startswith("$"):
            raise refuse(place, f"has the key {show(key)}; accepted are keys without `$` in front")
        result[key] = plain(item, (*place, key), depth + 1, max_depth, refuse)
    return result
