"""Documents of metadata and filters that fit them, drawn from a random generator.

Works with `random.Random(seed)` for bulk, and with Hypothesis's `randoms()` where a failure should
shrink. Keys and values are mostly taken from the documents, so that filters match often.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone
from random import Random
from typing import Any

from agentmemory.stores.filters import canonical_time

NUMBERS: list[float] = [
    *(0, 1, -1, 2, 3, 10),
    *(-0.0, 0.0, 1.0, 2.0, 1.5, 0.1, 0.30000000000000004, -1e-7, 1e22, 1e-30),
    *(2**53 - 1, 2**53, 2**53 + 1, 2.0**53, -(2**53) - 1, -(2.0**53)),
    *(2**63 - 1, -(2**63) + 1, 2**63 - 2, 9.223372036854775e18, 2.0**63),
]
EXTREME_FLOATS = [5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, -7.654927133881691e-231]
TIME_TEXTS = [
    "2026-03-01T09:30:00Z",
    "2026-03-01 09:30Z",
    "2026-03-01T10:30:00+01:00",
    "2026-03-01T10:30:00.000+0100",
    "2026-03-01t10:30+01",
    "2026-02-28T23:30:00-10:00",
    "2026-03-02T09:29:00.000000000+23:59",
    "2026-02-28T09:31:00-23:59",
    "2026-03-01T09:30:00.000001Z",
    "2026-03-01T09:30:00.0000019z",
    "2026-03-01T09:29:59.999999Z",
    "2026-03-02T00:30:00+01:00",
    "2026-02-28T23:30:00-01:00",
    "2024-02-29T00:00:00Z",
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+00:01",
    "9999-12-31T23:59:59.999999Z",
    "9999-12-31T23:59:59-00:01",
    "9999-12-30T00:00:00Z",
]
NEARLY_TIMES = [
    "2026-03-01",
    "2026-03",
    "2026-03-02",
    "2026-02-29T00:00:00Z",
    "2026-03-01T09:30:00",
    "2026-03-01T09:30:60Z",
    "2026-03-01T24:00:00Z",
    "2026-02-30T09:30:00Z",
    "0000-03-01T09:30:00Z",
    "0000-12-31T23:30:00-01:00",
    "2026-W09-7T09:30:00Z",
    "20260301T093000Z",
    "2026-03-01T09:30:00Z ",
    "２０２６-03-01T09:30:00Z",
    "2026-03-01T09:30:00.Z",
    "2026-03-01T09:30:00.0000000001Z",
    "2026-03-01T09:30:00+24:00",
    "9999-99-99",
]
INJECTIONS = [
    "gold' OR '1'='1",
    "') OR 1=1 --",
    '") OR 1=1 --',
    "'; DROP TABLE r; --",
    "mf1.value",
    "?",
    ":a",
    "@a",
    "a$",
    "/*",
    "\\'",
    "%' OR metadata LIKE '%",
]
TEXTS = [
    *("", "a", "A", "b", "aa", " ", "1", "1.0", "true", "null", "[]", "{}", '["a"]', '{"a":1}'),
    *(
        "é",
        "e\u0301",
        "ß",
        "\uffff",
        "\U0001f600",
        "\U0010ffff" * 3,
        "格",
        "が",
        "\ufeffa",
        "\u2028",
    ),
    *("'", '"', "\\", "\\u0061", "%", "_", "*", "?", "\x01", "\x7f", "\n"),
    *INJECTIONS,
]
KEYS = [
    *("a", "b", "c", "a", "b", "c", "a", "b", "c", "A", "a.b", "", " ", "0", "a b"),
    *(
        "key",
        "value",
        "type",
        "空",
        "é",
        "e\u0301",
        "\U0001f600",
        'we"ird $key',
        "'",
        "\\",
        "\\u0061",
    ),
    *("a[0]", "[0]", ".a", "\n", "\x01"),
    *INJECTIONS,
]
INSTANT = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
CHARACTERS = "aZ0.:-+ T\"'\\$é\u0301\uffff\U0001f600"


class FilterMaker:
    """Makes documents and filters.

    Args:
        random: Where every choice comes from.
        extreme_floats: Whether numbers include the largest and smallest floats.
    """

    def __init__(self, random: Random, *, extreme_floats: bool = True) -> None:
        self._random = random
        self._numbers = NUMBERS + EXTREME_FLOATS * extreme_floats
        self._operands: dict[str, Callable[[Sequence[Any]], Any]] = {
            "$eq": self.literal,
            "$ne": self.literal,
            "$gt": self._ordered,
            "$gte": self._ordered,
            "$lt": self._ordered,
            "$lte": self._ordered,
            "$in": lambda candidates: self._several(self.literal, candidates),
            "$nin": lambda candidates: self._several(self.literal, candidates),
            "$exists": lambda _: self._chance(0.5),
            "$array_contains": lambda candidates: (
                self._element(candidates)
                if self._chance(0.5)
                else self._several(self._element, candidates)
            ),
            "$array_contains_any": lambda candidates: self._several(self._element, candidates),
        }

    def document(self) -> dict[str, Any]:
        """Make metadata as a caller could give it."""
        return {self._key(): self.value(3) for _ in range(self._random.randint(0, 5))}

    def filter(self, objects: Sequence[dict[str, Any]], depth: int = 3) -> dict[str, Any]:
        """Make a filter for documents like these."""
        raw = self._fields(objects, depth)
        if depth and self._chance(0.25):
            name = self._random.choice(["$and", "$or"])
            raw[name] = [self.filter(objects, depth - 1) for _ in range(self._random.randint(1, 3))]
        if depth and self._chance(0.2):
            raw["$not"] = self.filter(objects, depth - 1)
        return raw

    def some(self, documents: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
        """Choose one document, or all: filters for one are likelier to match it."""
        return documents if self._chance(0.3) else [self._random.choice(documents)]

    def value(self, depth: int) -> Any:
        """Make a value that can be stored."""
        if not depth or self._chance(0.6):
            return self._scalar()
        size = self._random.randint(0, 3)
        if self._chance(0.5):
            return [self.value(depth - 1) for _ in range(size)]
        return {self._key(): self.value(depth - 1) for _ in range(size)}

    def literal(self, candidates: Sequence[Any]) -> Any:
        """Make a literal that is likely to equal one of the candidates."""
        if not candidates or self._chance(0.2):
            return self.value(2)
        value = self._random.choice(candidates)
        return self._in_other_words(value) if self._chance(0.5) else value

    def _condition(self, candidates: Sequence[Any], depth: int) -> Any:
        objects = [value for value in candidates if isinstance(value, dict)]
        if objects and depth and self._chance(0.5):
            return self._fields(objects, depth - 1)
        if depth and self._chance(0.15):
            return {"$not": self._condition(candidates, depth - 1)}
        if depth and self._chance(0.1):
            branches = self._random.randint(1, 3)
            return {
                self._random.choice(["$and", "$or"]): [
                    self._condition(candidates, depth - 1) for _ in range(branches)
                ]
            }
        if self._chance(0.3):
            return self.literal(candidates)
        names = self._random.sample(sorted(self._operands), self._random.choice([1, 1, 1, 1, 2]))
        return {name: self._operands[name](candidates) for name in names}

    def _fields(self, objects: Sequence[dict[str, Any]], depth: int) -> dict[str, Any]:
        present = [key for each in objects for key in each]
        raw: dict[str, Any] = {}
        for _ in range(self._random.choice([0, 1, 1, 1, 1, 2])):
            known = present and self._chance(0.85)
            key = self._random.choice(present) if known else self._key()
            raw[key] = self._condition([each[key] for each in objects if key in each], depth)
        return raw

    def _ordered(self, candidates: Sequence[Any]) -> Any:
        fit = [
            value
            for value in candidates
            if isinstance(value, int | float | str) and not isinstance(value, bool)
        ]
        if fit and self._chance(0.5):
            return self._random.choice(fit)
        if fit and isinstance(self._random.choice(fit), str):
            return self._text()
        return self._random.choice([*self._numbers, self._text(), self._instant()])

    def _element(self, candidates: Sequence[Any]) -> Any:
        fit = [
            part
            for value in candidates
            if isinstance(value, list)
            for part in value
            if not isinstance(part, list | dict)
        ]
        if not fit or self._chance(0.2):
            return self._scalar()
        value = self._random.choice(fit)
        return self._in_other_words(value) if self._chance(0.5) else value

    def _several(self, make: Callable[[Sequence[Any]], Any], candidates: Sequence[Any]) -> Any:
        return [make(candidates) for _ in range(self._random.randint(1, 4))]

    def _in_other_words(self, value: Any) -> Any:
        """Say a value in another way that is equal to it, where there is one."""
        if isinstance(value, list):
            return [self._in_other_words(part) for part in value]
        if isinstance(value, dict):
            return {key: self._in_other_words(value[key]) for key in reversed(value)}
        if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
            return int(value)
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= 2**53:
            return float(value)
        if isinstance(value, str) and (canonical := canonical_time(value)):
            instant = datetime.fromisoformat(canonical)
            return instant if self._chance(0.5) else canonical
        return value

    def _scalar(self) -> Any:
        kind = self._random.randint(0, 9)
        if kind < 2:
            return self._random.choice([None, True, False])
        if kind < 5:
            return self._random.choice(self._numbers)
        return self._instant() if kind == 5 else self._text()

    def _text(self) -> str:
        kind = self._random.randint(0, 5)
        if kind == 0:
            return self._instant().isoformat()
        if kind == 1:
            return "".join(
                self._random.choice(CHARACTERS) for _ in range(self._random.randint(0, 3))
            )
        return self._random.choice([TEXTS, TIME_TEXTS, TIME_TEXTS, NEARLY_TIMES][kind - 2])

    def _instant(self) -> datetime:
        offset = timezone(timedelta(minutes=self._random.randint(-23 * 60 - 59, 23 * 60 + 59)))
        days = self._random.choice([0, 0, 0, -2, -1, 1, 2])
        microseconds = self._random.choice([0, 0, 1, 500_000])
        return (INSTANT + timedelta(days=days, microseconds=microseconds)).astimezone(offset)

    def _key(self) -> str:
        return self._random.choice(KEYS)

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability


def near_time_text(random: Random) -> str:
    """Make text that is time text about every second or third time, and nearly so otherwise."""

    def digits(low: int, high: int, width: int) -> str:
        return str(random.randint(low, high)).zfill(width)

    year = random.choice([digits(0, 2, 4), digits(9998, 9999, 4), "2026", "2024", "2025"])
    day = f"{digits(0, 13, 2)}-{digits(0, 32, 2)}"
    if random.random() < 0.7:
        year, day = "2026", random.choice(["02-28", "03-01", "03-02"])
    text = f"{year}-{day}{random.choice('TTTt   _')}{digits(0, 24, 2)}:{digits(0, 60, 2)}"
    if random.random() < 0.8:
        text += ":" + digits(0, 60, 2)
        if random.random() < 0.6:
            text += "." + "".join(random.choices("0123456789", k=random.randint(0, 10)))
    text += random.choice(
        ["Z", "Z", "z", "+00", "+00:00", "-23:59", "+2359", "+01:00", "-0130", "-1230", "+14:59"]
        + ["+15:00"] * 2
        + [
            "",
            "+24:00",
            "+1:00",
            "+05:3",
            "+05:30:10",
            "7",
            "Z1",
            "Z:",
            "+",
            "-:",
            "+::",
            ":Z",
            "Ｚ",
        ]
        + ["\n", "Z\n", " Z", "+12:60", "+99"]
    )
    if random.random() < 0.1:
        at = random.randrange(len(text))
        text = text[:at] + random.choice("0123456789:-+TZ. x") + text[at + 1 :]
    return text
