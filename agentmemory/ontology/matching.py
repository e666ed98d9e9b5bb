"""Finds known words in running text of any script; pure, imports the words of this room only.

Text and known words are cut into the same units: a word of a script with spaces is one unit
(names in snake case, kebab case and camel case are several), each character of a script without
is one. A trie over units then finds the longest known word at each place, so that `credit_limit`,
`creditLimit` and "credit limits" are one, and so are 30天 and 30 天.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Generic, TypeVar

from agentmemory.text.analyzer import analyze

T = TypeVar("T")

_UNSPACED: Final = (
    "\u2e80-\u2fd5\u3005-\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\uac00-\ud7a3\u1100-\u11ff\u0e00-\u0e7f\U00020000-\U0003fffd"
)
_UNIT: Final = re.compile(f"[{_UNSPACED}]|[^\\W_{_UNSPACED}]+|[^\\S\\n]+|.", re.DOTALL)
_UNSPACED_CHAR: Final = re.compile(f"[{_UNSPACED}]")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_GLUE: Final = frozenset(" \t_-./:'")


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of a text that is matched as a whole.

    Args:
        key: What it is matched by.
        text: As it was written, after normalisation.
        unspaced: Whether it is one character of a script without spaces.
        after_gap: Whether white space or a joining sign stood before it.
        after_break: Whether punctuation or the start of the text stood before it.
    """

    key: str
    text: str
    unspaced: bool
    after_gap: bool
    after_break: bool


def units(text: str) -> list[Unit]:
    """Cut a text into units; punctuation is left out and remembered on what follows."""
    found: list[Unit] = []
    gap, stop = False, True
    for match in _UNIT.finditer(unicodedata.normalize("NFKC", text)):
        piece = match[0]
        if _UNSPACED_CHAR.match(piece) and piece.isalnum():
            found.append(Unit(piece, piece, True, gap, stop))
        elif any(char.isalnum() for char in piece):
            for part in _CAMEL.split(piece):
                found.append(Unit(_key(part), part, False, gap, stop))
                gap, stop = True, False
        elif all(char in _GLUE or char.isspace() for char in piece) and "\n" not in piece:
            gap = True
            continue
        else:
            stop = True
            continue
        gap, stop = False, False
    return found


def joined(pieces: Iterable[Unit]) -> str:
    """Write units as one word: with a space between two words, without next to an ideograph."""
    text = ""
    before: Unit | None = None
    for piece in pieces:
        if before is not None and not piece.unspaced and not before.unspaced:
            text += " "
        text += piece.text
        before = piece
    return text


@lru_cache(maxsize=8192)
def _key(word: str) -> str:
    """Return the stem of a word, so that its forms are one."""
    tokens = analyze(word)
    return tokens[0] if tokens else word.casefold()


def key_of(text: str) -> tuple[str, ...]:
    """Return what a known word is matched by."""
    return tuple(unit.key for unit in units(text))


@dataclass(slots=True)
class _Branch(Generic[T]):
    values: list[T] = field(default_factory=list)
    branches: dict[str, _Branch[T]] = field(default_factory=dict)


class Trie(Generic[T]):
    """Known words with what they stand for."""

    def __init__(self) -> None:
        self._root: _Branch[T] = _Branch()

    def add(self, text: str, value: T) -> bool:
        """Add a word; False if it holds nothing that could be matched."""
        branch = self._root
        key = key_of(text)
        for unit in key:
            branch = branch.branches.setdefault(unit, _Branch())
        if key and value not in branch.values:
            branch.values.append(value)
        return bool(key)

    def get(self, text: str) -> tuple[T, ...]:
        """Return what a whole word stands for."""
        branch = self._root
        for unit in key_of(text):
            found = branch.branches.get(unit)
            if found is None:
                return ()
            branch = found
        return tuple(branch.values)

    def at(self, text: list[Unit], place: int) -> Iterator[tuple[int, tuple[T, ...]]]:
        """Give the words that start at a place, shortest first: where they end and their values."""
        branch = self._root
        for end in range(place, len(text)):
            if end > place and text[end].after_break:
                return
            found = branch.branches.get(text[end].key)
            if found is None:
                return
            branch = found
            if branch.values:
                yield end + 1, tuple(branch.values)
