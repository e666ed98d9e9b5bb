"""Argument checks that every room shares; imports errors only.

Each check returns the value it was given, so that it can stand where the value is used, and
raises `ValidationError` naming the argument before anything is written.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from agentmemory.errors import ValidationError

MAX_ID_BYTES = 128
"""Longest id, in UTF-8 bytes; the bound Oracle's id columns keep."""

MAX_CONTENT_CHARS = 1_000_000
"""Longest content of one record, in characters; far above any message a model can read."""


def _has_lone_surrogate(text: str) -> bool:
    if text.isascii():
        return False
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def check_text(value: Any, *, argument: str, allow_empty: bool = False) -> str:
    """Accept text that every store and every XML parser can hold.

    Raises:
        ValidationError: Not a `str`, empty or only white space (unless allowed), a NUL
            character or a lone surrogate inside, or longer than `MAX_CONTENT_CHARS`.
    """
    if not isinstance(value, str):
        msg = f"`{argument}` must be text (str), not {type(value).__name__}: {_shown(value)}"
        raise ValidationError(msg, argument=argument)
    if not allow_empty and not value.strip():
        msg = f"`{argument}` is empty: {value!r}; accepted: text with a visible character"
        raise ValidationError(msg, argument=argument)
    if len(value) > MAX_CONTENT_CHARS:
        msg = f"`{argument}` has {len(value)} characters; at most {MAX_CONTENT_CHARS} are accepted"
        raise ValidationError(msg, argument=argument)
    if "\x00" in value:
        msg = f"`{argument}` holds a NUL character: {_shown(value)}; remove it"
        raise ValidationError(msg, argument=argument)
    if _has_lone_surrogate(value):
        msg = (
            f"`{argument}` holds a lone surrogate: {_shown(value)}; "
            "only text that can be encoded as UTF-8 is accepted"
        )
        raise ValidationError(msg, argument=argument)
    return value


def check_id(value: Any, *, argument: str) -> str:
    """Accept an id: text of 1 to 128 UTF-8 bytes without NUL or lone surrogates."""
    text = check_text(value, argument=argument)
    size = len(text) if text.isascii() else len(text.encode("utf-8"))
    if size > MAX_ID_BYTES:
        msg = f"`{argument}` has {size} bytes: {_shown(text)}; at most {MAX_ID_BYTES} are accepted"
        raise ValidationError(msg, argument=argument)
    return text


def check_optional_id(value: Any, *, argument: str) -> str | None:
    """Accept an id or None."""
    return None if value is None else check_id(value, argument=argument)


def check_time(value: Any, *, argument: str) -> datetime:
    """Accept an aware datetime and return it in UTC.

    Raises:
        ValidationError: Not a datetime, or without a time zone.
    """
    if not isinstance(value, datetime):
        msg = f"`{argument}` must be an aware datetime, not {type(value).__name__}: {_shown(value)}"
        raise ValidationError(msg, argument=argument)
    if value.tzinfo is None or value.utcoffset() is None:
        msg = (
            f"`{argument}` has no time zone: {value!r}; an aware datetime is accepted, "
            "for example datetime.now(timezone.utc)"
        )
        raise ValidationError(msg, argument=argument)
    try:
        return value.astimezone(UTC)
    except OverflowError:
        msg = f"`{argument}` lies outside the years 1 to 9999 in UTC: {value!r}"
        raise ValidationError(msg, argument=argument) from None


def check_time_or_text(value: Any, *, argument: str) -> datetime:
    """Accept an aware datetime or ISO-8601 text with an offset; return UTC."""
    if isinstance(value, str):
        try:
            parsed = datetime.fromisoformat(value)
        except ValueError:
            msg = f"`{argument}` is not an ISO-8601 time: {_shown(value)}"
            raise ValidationError(msg, argument=argument) from None
        return check_time(parsed, argument=argument)
    return check_time(value, argument=argument)


def check_optional_time(value: Any, *, argument: str) -> datetime | None:
    """Accept an aware datetime, ISO-8601 text with an offset, or None."""
    return None if value is None else check_time_or_text(value, argument=argument)


def check_int(
    value: Any, *, argument: str, minimum: int | None = None, maximum: int | None = None
) -> int:
    """Accept a whole number in a range; a bool is not a number here."""
    if isinstance(value, bool) or not isinstance(value, int):
        msg = f"`{argument}` must be a whole number, not {type(value).__name__}: {_shown(value)}"
        raise ValidationError(msg, argument=argument)
    if (minimum is not None and value < minimum) or (maximum is not None and value > maximum):
        msg = f"`{argument}` is {value}; accepted: {_range_text(minimum, maximum)}"
        raise ValidationError(msg, argument=argument)
    return value


def check_number(
    value: Any, *, argument: str, minimum: float | None = None, maximum: float | None = None
) -> float:
    """Accept a finite number in a range."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        msg = f"`{argument}` must be a number, not {type(value).__name__}: {_shown(value)}"
        raise ValidationError(msg, argument=argument)
    number = float(value)
    too_small = minimum is not None and number < minimum
    too_large = maximum is not None and number > maximum
    if not math.isfinite(number) or too_small or too_large:
        msg = f"`{argument}` is {value!r}; accepted: {_range_text(minimum, maximum)}"
        raise ValidationError(msg, argument=argument)
    return number


def check_bool(value: Any, *, argument: str) -> bool:
    """Accept True or False and nothing that merely looks like them."""
    if not isinstance(value, bool):
        msg = f"`{argument}` must be True or False, not {_shown(value)}"
        raise ValidationError(msg, argument=argument)
    return value


def check_choice(value: Any, *, argument: str, choices: Collection[str]) -> str:
    """Accept one of the given words."""
    if not isinstance(value, str) or value not in choices:
        msg = f"`{argument}` is {_shown(value)}; accepted: {', '.join(map(repr, choices))}"
        raise ValidationError(msg, argument=argument)
    return value


def check_list(value: Any, *, argument: str, of: str) -> Sequence[Any]:
    """Accept a list or tuple; a bare string is not a list of its letters."""
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        msg = f"`{argument}` must be a list of {of}, not {type(value).__name__}: {_shown(value)}"
        raise ValidationError(msg, argument=argument)
    return value


def check_duration(value: Any, *, argument: str) -> timedelta:
    """Accept a non-negative timedelta, or a number of days."""
    if isinstance(value, timedelta):
        if value < timedelta(0):
            msg = f"`{argument}` is negative: {value!r}; zero or more is accepted"
            raise ValidationError(msg, argument=argument)
        return value
    days = check_number(value, argument=argument, minimum=0, maximum=3_650_000)
    return timedelta(days=days)


def _range_text(minimum: float | None, maximum: float | None) -> str:
    if minimum is not None and maximum is not None:
        return f"{minimum} to {maximum}"
    if minimum is not None:
        return f"{minimum} or more"
    if maximum is not None:
        return f"{maximum} or less"
    return "any finite number"


def _shown(value: Any) -> str:
    """Show a value in an error without flooding it."""
    text = ascii(value) if isinstance(value, str) and _has_lone_surrogate(value) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
