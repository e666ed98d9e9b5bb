"""JSON out of what a language model wrote: fenced, chatty, cut off or nearly JSON.

May import errors. What a value means, and whether it meets a schema, is judged where it is used.

The text is read from left to right. Outside thinking blocks each `{` or `[` is tried as the start
of a value, first as JSON, then by a tolerant reader. The reader repairs what has one sensible
reading (trailing or missing commas, single quotes, unescaped quotes, Python's literals, comments,
missing or mixed up closing brackets) and gives up on everything else, so that prose in braces is
not taken for data. Where the answer was cut off, the value that was cut is left out: half a
sentence is nothing anyone said.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, Final

from agentmemory.errors import ValidationError

_MAX_DEPTH = 100
# What keeps the worst text linear: how many brackets that start no JSON are looked at, how many of
# them the tolerant reader tries, and how often in all it may read each character.
_MAX_FAILURES = 1024
_MAX_READS = 64
_MAX_READS_OF_CHARACTER = 8

_THINK_TAG = re.compile(
    r"(?:<|◁)(?P<end>/?)(?:think|thinking|thought|reasoning|scratchpad)(?:>|▷)", re.IGNORECASE
)
_START = re.compile(_THINK_TAG.pattern + r"|[{\[]", re.IGNORECASE)
_BRACKET_OR_THINK = re.compile(_THINK_TAG.pattern + r"|[{}\[\]]", re.IGNORECASE)
_FENCE_START = re.compile(r"```[\w+-]*")
_SPACE = re.compile(r"(?:[\s\ufeff]|//[^\n]*|/\*.*?\*/|\#[^\n]*)*", re.DOTALL)
_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?(?=[\s,}\]/#]|\Z)")
_REST_OF_NUMBER = re.compile(r"[-+.0-9eE]+")
_WORD = re.compile(r"-?[^\W\d][\w$-]*")
_LITERALS: Final[dict[str, Any]] = {
    "true": True,
    "false": False,
    **dict.fromkeys(("null", "none", "undefined", "nan", "infinity", "-infinity")),
}
_ESCAPES = {
    "n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f",
    '"': '"', "'": "'", "\\": "\\", "/": "/", "\n": "\n",
}  # fmt: skip
# Those of JSON, a surrogate pair at once, and those that Python's `repr` adds.
_CODE_ESCAPE = re.compile(
    r"u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|(?:u(?=.{4})|x(?=.{2})|U(?=000|0010))(?P<code>(?<=u)[0-9a-fA-F]{4}|(?<=x)[0-9a-fA-F]{2}"
    r"|(?<=U)[0-9a-fA-F]{8})"
)
_CLOSING_QUOTES = {
    '"': re.compile(r'["\\]'),
    "'": re.compile(r"['\\]"),
    "“": re.compile(r'[”"\\]'),
    "”": re.compile(r'[”"\\]'),
    "‘": re.compile(r"[’'\\]"),
    "’": re.compile(r"[’'\\]"),
}
_CLOSING = re.compile(r"[}\]]")
_QUOTE = "[\"'“”‘’]"
_NEW_KEY = (
    rf"(?:(?:{_QUOTE}[^\n:]{{0,300}}{_QUOTE}|[\w$-]{{1,300}})\s*:"
    rf"|{_QUOTE}[^\n:]{{0,300}}\Z)"
)
_NEW_ITEM = rf"(?:{_QUOTE}|[\[{{\d.+-]|(?:true|false|null|none|nan|undefined)\b)"
_BARE_KEY = re.compile(r"[\w$-]+(?=\s*:)")
_KEY_START = re.compile(rf"{_QUOTE}|[\w$-]{{1,300}}\s*:")
_ITEM_START = re.compile(_NEW_ITEM, re.IGNORECASE)
# What must follow a quote that closes a string.
_END = r"[}\]]|//|/\*|\#|```|\Z"
_AFTER_KEY = re.compile(r"\s*(?::|```|\Z)")
_AFTER_MEMBER = re.compile(rf"\s*(?:{_END}|{_NEW_KEY}|,\s*(?:{_END}|,|{_NEW_KEY}))")
_AFTER_ITEM = re.compile(rf"\s*(?:{_END}|{_QUOTE}|,\s*(?:{_END}|,|{_NEW_ITEM}))", re.IGNORECASE)
_SWALLOWED = re.compile(rf"{_QUOTE}\s*[:,]\s*{_QUOTE}|{_QUOTE}\s*:\s*[\[{{\d]")
_ESCAPED_SURROGATES = re.compile(
    r"\\(?:\\|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2}))"
)
_SURROGATES = re.compile("[\ud800-\udfff]")


class _UnreadableError(Exception):
    """There is no sensible reading at this place."""


class _Missing:
    """Stands for a value that was cut off before it was complete."""


_MISSING = _Missing()


@dataclass(frozen=True, slots=True)
class _Candidate:
    value: Any
    complete: bool

    @property
    def rank(self) -> int:
        """Data first, then what may be a list or a footnote mark in prose; whole before cut."""
        value = self.value
        is_data = (isinstance(value, dict) and bool(value)) or (
            isinstance(value, list) and any(isinstance(item, dict | list) for item in value)
        )
        return (0 if is_data else 2) + (0 if self.complete else 1)


def parse_json(raw: str) -> Any:
    """Find and read the JSON value in a model's answer.

    The first balanced value outside thinking blocks is preferred; then one that was cut off.
    NaN and infinities become None, for JSON has no such numbers; lone surrogates become U+FFFD.

    Args:
        raw: The answer as it came.

    Returns:
        What `json.loads` would give for the repaired text.

    Raises:
        ValidationError: Nothing in the text can be read as JSON (it is a `ValueError` too).
    """
    text = _SURROGATES.sub("\ufffd", raw)
    text = _ESCAPED_SURROGATES.sub(
        lambda found: r"\ufffd" if found["lone"] else found[0], text
    ).strip("\ufeff \t\r\n")
    value = _read_whole(text)
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        # JSON that was encoded twice, or a string that only looks so.
        inner = _read_whole(value.strip())
        found = [_Candidate(inner, complete=True)] if inner is not _MISSING else _scan(value)
        return _best(found) if found else value
    if value is not _MISSING:
        return value
    candidates = _scan(text)
    if not candidates:
        raise ValidationError(
            f"`raw` holds no JSON value: {raw[:200]!r}; accepted is JSON, also in a fence or "
            "among other text",
            argument="raw",
        )
    return _best(candidates)


def _best(candidates: list[_Candidate]) -> Any:
    return min(candidates, key=lambda candidate: candidate.rank).value


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


_DECODER = json.JSONDecoder(strict=False, parse_constant=_LITERALS.get, parse_float=_finite)


def _read_whole(text: str) -> Any:
    """Read text that is one JSON value, bare or in one fence; `_MISSING` if it is not."""
    fence = _FENCE_START.match(text) if text.endswith("```") else None
    for candidate in (text, text[fence.end() : -3].strip()) if fence else (text,):
        try:
            return _DECODER.decode(candidate)
        except (ValueError, RecursionError):
            continue
    return _MISSING


def _scan(text: str) -> list[_Candidate]:
    candidates: list[_Candidate] = []
    thinking = False
    failures = 0
    allowance = _MAX_READS_OF_CHARACTER * len(text)
    position = 0
    while failures < _MAX_FAILURES and (found := _START.search(text, position)):
        position = found.end()
        if found[0] not in "{[":
            if found["end"] and not thinking:
                # The opening tag was part of the prompt: all before was thinking.
                candidates.clear()
            thinking = not found["end"]
            continue
        if thinking:
            continue
        try:
            value, position = _DECODER.raw_decode(text, found.start())
            candidates.append(_Candidate(value, complete=True))
            continue
        except (ValueError, RecursionError):
            failures += 1
        if failures > _MAX_READS or allowance < 0:
            continue
        reader = _Reader(text, found.start())
        try:
            value = reader.read()
        except _UnreadableError:
            # Prose in brackets may hold a value; data with a fault in it has only fragments.
            value = _MISSING
            if reader.is_data:
                position = _after_balanced(text, found.start())
        allowance -= reader.position - found.start()
        if value is _MISSING or (reader.cut and _THINK_TAG.search(text, found.end())):
            # In the second case it ran over the end of thinking that had no opening tag.
            continue
        candidates.append(_Candidate(value, complete=not reader.cut))
        position = reader.position
    return candidates


def _after_balanced(text: str, start: int) -> int:
    depth = 0
    for found in _BRACKET_OR_THINK.finditer(text, start):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(found[0], 0)
        if depth == 0:
            return found.end()
        if found[0] not in "{}[]":
            return found.start()
    return len(text)


class _Reader:
    """Reads one object or array that is nearly JSON.

    Each method starts at `position`, leaves it behind what it read, and returns `_MISSING` where
    the text ended before a value was complete; `cut` is then set and all enclosing containers
    return what they have. `is_data` says that what was read
    is not prose in brackets, even if the whole is unreadable.
    """

    def __init__(self, text: str, position: int) -> None:
        self.text = text
        self.position = position
        self.cut = False
        self.is_data = False
        self._open: list[str] = []

    def read(self) -> Any:
        return self._object() if self.text[self.position] == "{" else self._array()

    def _peek(self) -> str:
        """Skip space and comments; return the next character, "" at the end of the answer."""
        space = _SPACE.match(self.text, self.position)
        self.position = space.end() if space else self.position
        if self.text.startswith("```", self.position):
            return ""
        return self.text[self.position : self.position + 1]

    def _enter(self, closing: str) -> None:
        if len(self._open) >= _MAX_DEPTH:
            raise _UnreadableError
        self._open.append(closing)
        self.position += 1

    def _another(self, closing: str) -> bool:
        """Move over commas; return whether an element follows, else leave the container."""
        char = self._peek()
        while char == ",":
            self.position += 1
            char = self._peek()
        if not char:
            self.cut = True
            return False
        if char == closing:
            self.position += 1
        elif char not in "}]" or char not in self._open:
            return True
        # Another closing bracket than ours: the inner one was forgotten, the outer closes both.
        self._open.pop()
        return False

    def _prose_follows(self, element: re.Pattern[str]) -> bool:
        """Tell whether the model, without closing its brackets, went on to talk.

        Only if no bracket closes later: otherwise data would be lost without a word.
        """
        return not element.match(self.text, self.position) and not _CLOSING.search(
            self.text, self.position
        )

    def _object(self) -> Any:
        result: dict[str, Any] = {}
        self._enter("}")
        while not self.cut and self._another("}"):
            if result and self._prose_follows(_KEY_START):
                self.cut = True
                break
            quoted = self.text[self.position] in _CLOSING_QUOTES
            key = self._key()
            value = _MISSING if key is _MISSING else self._member(is_data=quoted)
            if value is not _MISSING:
                result[key] = value
        return _MISSING if self.cut and not result else result

    def _array(self) -> Any:
        result: list[Any] = []
        self._enter("]")
        while not self.cut and self._another("]"):
            if result and self._prose_follows(_ITEM_START):
                self.cut = True
                break
            value = self._value(_AFTER_ITEM)
            if value is not _MISSING:
                result.append(value)
                self.is_data = True
        return _MISSING if self.cut and not result else result

    def _key(self) -> Any:
        if self.text[self.position] in _CLOSING_QUOTES:
            return self._string(_AFTER_KEY)
        word = _BARE_KEY.match(self.text, self.position)
        if not word:
            raise _UnreadableError
        self.position = word.end()
        return word[0]

    def _member(self, *, is_data: bool) -> Any:
        if self._peek() != ":":
            self.cut = True
            return _MISSING
        self.is_data = self.is_data or is_data
        self.position += 1
        return self._value(_AFTER_MEMBER)

    def _value(self, after: re.Pattern[str]) -> Any:
        char = self._peek()
        if char == "{":
            return self._object()
        if char == "[":
            return self._array()
        if char in _CLOSING_QUOTES:
            return self._string(after)
        number = _NUMBER.match(self.text, self.position)
        if number:
            self.position = number.end()
            return _read_number(number[0])
        word = _WORD.match(self.text, self.position)
        if word:
            self.position = word.end()
            literal = _LITERALS.get(word[0].lower(), _MISSING)
            if literal is not _MISSING:
                return literal
        if self._peek() and not _REST_OF_NUMBER.fullmatch(self.text, self.position):
            raise _UnreadableError
        self.cut = True
        return _MISSING

    def _string(self, after: re.Pattern[str]) -> Any:
        """Read a quoted string; a quote that nothing fitting follows belongs to the text."""
        closing = _CLOSING_QUOTES[self.text[self.position]]
        self.position += 1
        parts: list[str] = []
        has_inner_quotes = False
        while found := closing.search(self.text, self.position):
            parts.append(self.text[self.position : found.start()])
            self.position = found.end()
            if found[0] == "\\":
                parts.append(self._escape())
            elif following := after.match(self.text, self.position):
                value = "".join(parts)
                is_end = following.end() == len(self.text) and following[0][-1:] not in ("}", "]")
                if has_inner_quotes and (is_end or _SWALLOWED.search(value)):
                    raise _UnreadableError
                return value
            else:
                has_inner_quotes = True
                parts.append(found[0])
        if has_inner_quotes:
            # One of them may have been the end.
            raise _UnreadableError
        self.position = len(self.text)
        self.cut = True
        return _MISSING

    def _escape(self) -> str:
        code = _CODE_ESCAPE.match(self.text, self.position)
        if code:
            self.position = code.end()
            return _decode(code)
        char = self.text[self.position : self.position + 1]
        self.position += 1
        # An unknown one is no escape: in a path of Windows the backslash was meant.
        return _ESCAPES.get(char, "\\" + char)


def _decode(code: re.Match[str]) -> str:
    if code["high"]:
        return chr(0x10000 + (int(code["high"], 16) - 0xD800 << 10) + int(code["low"], 16) - 0xDC00)
    char = chr(int(code["code"], 16))
    return "\ufffd" if _SURROGATES.match(char) else char


def _read_number(digits: str) -> int | float | None:
    if re.fullmatch(r"[-+]?[0-9]+", digits):
        try:
            return int(digits)
        except ValueError:  # more digits than Python converts
            return None
    return _finite(digits)
