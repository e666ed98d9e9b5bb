"""When something happened, from what a model or a person wrote about it and when they did.

Pure; imports nothing of the package.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_PARTIAL: Final = re.compile(r"(\d{4})(?:[-/.年](\d{1,2})(?:[-/.月](\d{1,2})日?|月)?|年)?")
_UNITS: Final = {
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
    "month": timedelta(days=30),
    "year": timedelta(days=365),
    "分钟": timedelta(minutes=1),
    "小时": timedelta(hours=1),
    "天": timedelta(days=1),
    "周": timedelta(weeks=1),
    "个月": timedelta(days=30),
    "年": timedelta(days=365),
}
_NUMBERS: Final = [
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
]
_COUNT: Final = rf"(?P<n>\d+|an?|{'|'.join(_NUMBERS)})"
_AGO: Final = re.compile(rf"{_COUNT}\s+(?P<unit>minute|hour|day|week|month|year)s?\s+ago")
_AHEAD: Final = re.compile(rf"in\s+{_COUNT}\s+(?P<unit>minute|hour|day|week|month|year)s?")
_CHINESE: Final = re.compile(r"(?P<n>\d+)\s*(?P<unit>分钟|小时|天|周|个月|年)(?P<way>前|后)")
_DAYS: Final = {
    "the day before yesterday": -2,
    "yesterday": -1,
    "last night": -1,
    "today": 0,
    "tonight": 0,
    "this morning": 0,
    "tomorrow": 1,
    "the day after tomorrow": 2,
    "last week": -7,
    "next week": 7,
    "前天": -2,
    "昨天": -1,
    "昨晚": -1,
    "今天": 0,
    "今晚": 0,
    "明天": 1,
    "后天": 2,
    "上周": -7,
    "下周": 7,
}
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WEEKDAY: Final = re.compile(rf"(?:(last|this|next|on)\s+)?({'|'.join(_WEEKDAYS)})")


def resolve_time(text: object, said_at: datetime) -> datetime | None:
    """Return the time a text names, in UTC; None if it names none that is understood.

    Args:
        text: ISO-8601 text, whole or in part ("2026", "2026-03", "2026-03-01"); or words that
            count from when they were said: "yesterday", "3 days ago", "next Friday", "昨天".
            A bare or "last" weekday is the latest one before, "next" and "this" the first one
            after. What names no hour is the start of its day, month or year.
        said_at: When it was said, aware.
    """
    if not isinstance(text, str) or not text.strip():
        return None
    words = " ".join(text.casefold().split()).strip(" .。")
    return _absolute(text.strip(), words) or _relative(words, said_at.astimezone(UTC))


def _absolute(text: str, words: str) -> datetime | None:
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        found = _PARTIAL.fullmatch(words)
        if found is None:
            return None
        year, month, day = (int(part or 1) for part in found.groups())
        try:
            return datetime(year, month, day, tzinfo=UTC)
        except ValueError:
            return None
    try:
        return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    except OverflowError:
        return None


def _relative(words: str, said_at: datetime) -> datetime | None:
    midnight = said_at.replace(hour=0, minute=0, second=0, microsecond=0)
    if words in ("now", "just now", "现在", "刚才"):
        return said_at
    if words in _DAYS:
        return _moved(midnight, timedelta(days=_DAYS[words]))
    for pattern, sign in ((_AGO, -1), (_AHEAD, 1), (_CHINESE, 0)):
        found = pattern.fullmatch(words)
        if found is not None:
            way = sign or (-1 if found["way"] == "前" else 1)
            count = _number(found["n"])
            return _counted(said_at, midnight, found["unit"], way * count)
    found = _WEEKDAY.fullmatch(words)
    if found is None:
        return None
    ahead = (_WEEKDAYS.index(found[2]) - midnight.weekday()) % 7
    if found[1] in ("next", "this"):
        return _moved(midnight, timedelta(days=ahead or 7))
    return _moved(midnight, timedelta(days=ahead - 7))


def _number(word: str) -> int:
    if word.isdigit():
        return int(word)
    return _NUMBERS.index(word) + 1 if word in _NUMBERS else 1


def _counted(said_at: datetime, midnight: datetime, unit: str, count: int) -> datetime | None:
    length = _UNITS[unit]
    if count > 10_000_000:
        return None
    start = said_at if length < timedelta(days=1) else midnight
    return _moved(start, length, count)


def _moved(start: datetime, step: timedelta, count: int = 1) -> datetime | None:
    try:
        return start + step * count
    except OverflowError:
        return None
