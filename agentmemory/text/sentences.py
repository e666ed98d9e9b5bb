"""Sentences, and the overlapping chunks that a long record is searched by.

May import errors. Boundaries are found by punctuation, in any script; a wrong one costs a little
context at the edge of a chunk, never text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from agentmemory.errors import ValidationError

_CLOSERS = "\"'”’»›)\\]}」』）】〉》〕］｝"
# Marks that end a sentence wherever they stand; marks that do so before white space; line breaks.
# The look-behind and the possessive marks keep a long run of dots from being tried at each dot.
_END = re.compile(
    rf"(?:[。！？｡।॥؟۔։።၊။]|．(?!\d))+[{_CLOSERS}]*\s*"
    rf"|(?<![.!?…‼⁇⁈⁉])(?P<marks>[.!?…‼⁇⁈⁉]++)(?P<closers>[{_CLOSERS}]*+)(?:\s+|\Z)"
    r"|\n\s*"
)
_WORD_BEFORE = re.compile(r"[^\s(\[{\"'“‘«]*\Z")
_WORD_CHARS = 16
# "1." or "a." at the start of a line numbers what follows.
_LIST_NUMBER = re.compile(r"(?:\A|\n)[^\S\n]*(?:[0-9]{1,3}|[a-zA-Z])\Z")
# "J" of "J. Smith"; "e.g", "U.S", "a.m", "z.B".
_INITIALS = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]|[^\W\d_]")
_TITLES = """
    mr mrs ms dr prof jr sr gen col sgt capt lt rev hon gov sen rep st mt
    vs etc al approx inc ltd co corp dept est ed eds ca cf resp
    jan feb apr jun jul aug sept oct nov dec
    bzw ggf usw str evtl vgl hr mme sra т.е др ул
"""
_BEFORE_NUMBER = "no nos nr fig figs vol p pp art sec ch г"
_ABBREVIATIONS = frozenset(_TITLES.split())
_NUMBER_ABBREVIATIONS = frozenset(_BEFORE_NUMBER.split())

_CLAUSE_MARKS = "，、；："

_Span = tuple[int, int]


def split_sentences(text: str) -> list[str]:
    """Split text into sentences.

    A line break ends a sentence; so do the full stops of Chinese, Japanese, Hindi, Arabic and the
    like wherever they stand, and `.`, `!`, `?` and `…` before white space. Abbreviations, initials
    and list numbers do not.

    Args:
        text: Any text.

    Returns:
        The sentences in order, without the white space around them; empty for blank text.
    """
    sentences = (text[start:end].strip() for start, end in _sentence_spans(text))
    return [sentence for sentence in sentences if sentence]


def chunk_text(text: str, *, target_chars: int = 350, overlap_sentences: int = 1) -> list[str]:
    """Cut a long text into overlapping chunks of whole sentences.

    Args:
        text: Any text.
        target_chars: Wanted length of a chunk in characters. A text of up to one and a half times
            this length stays whole, and no chunk is longer than that (unless one combining
            sequence is). A sentence longer than the target is cut at a space or after a clause;
            without one anywhere, but not within what is seen as one character.
        overlap_sentences: How many sentences a chunk repeats of the one before it; fewer where
            they would fill more than half of the target.

    Returns:
        Chunks in order, without white space around them; together they hold every word of the
        text. A text that stays whole is returned unchanged; blank text has no chunks.

    Raises:
        ValidationError: `target_chars` is below 1 or `overlap_sentences` below 0.
    """
    if target_chars < 1:
        raise ValidationError(
            f"`target_chars` is {target_chars!r}; accepted are integers from 1",
            argument="target_chars",
        )
    if overlap_sentences < 0:
        raise ValidationError(
            f"`overlap_sentences` is {overlap_sentences!r}; accepted are integers from 0",
            argument="overlap_sentences",
        )
    if not text.strip():
        return []
    longest = target_chars + target_chars // 2
    if len(text) <= longest:
        return [text]
    pieces = [
        piece
        for start, end in _sentence_spans(text)
        for piece in _cut(text, start, end, target_chars)
    ]
    spans = _pack(pieces, target_chars, longest, overlap_sentences)
    chunks = (text[start:end].strip() for start, end in spans)
    return [chunk for chunk in chunks if chunk]


def _sentence_spans(text: str) -> Iterator[_Span]:
    """Yield spans that follow each other without a gap and cover the whole text."""
    start = 0
    for found in _END.finditer(text):
        if found["marks"] and not _ends_sentence(text, found):
            continue
        yield start, found.end()
        start = found.end()
    if start < len(text):
        yield start, len(text)


def _ends_sentence(text: str, found: re.Match[str]) -> bool:
    following = text[found.end() : found.end() + 1]
    if found["marks"] != ".":
        # "Really?" she said.
        return not (following.islower() and (found["closers"] or found["marks"][-1] in ".…"))
    before = text[max(0, found.start() - _WORD_CHARS) : found.start()]
    word = _WORD_BEFORE.search(before)
    name = word[0].lower() if word else ""
    if found["closers"] or not name:
        return True
    if name in _NUMBER_ABBREVIATIONS:
        return not following.isdigit()
    return not (name in _ABBREVIATIONS or _INITIALS.fullmatch(name) or _LIST_NUMBER.search(before))


def _cut(text: str, start: int, end: int, target: int) -> Iterator[_Span]:
    while end - start > target:
        cut = _cut_point(text, start, end, start + target)
        yield start, cut
        start = cut
    if start < end:
        yield start, end


def _cut_point(text: str, start: int, end: int, limit: int) -> int:
    for position in range(limit, start + (limit - start) // 2, -1):
        before = text[position - 1]
        if (before.isspace() or before in _CLAUSE_MARKS) and _may_cut(text, start, position):
            return position
    for position in range(limit, start, -1):
        if _may_cut(text, start, position):
            return position
    for position in range(limit + 1, end):
        if _may_cut(text, start, position):
            return position
    return end


def _may_cut(text: str, start: int, position: int) -> bool:
    """Tell whether the text may be cut here: never within what is seen as one character.

    A short form of the grapheme cluster rules of Unicode (UAX 29) that errs towards not cutting.
    """
    before, after = text[position - 1], text[position]
    if after < "\u0300":
        return not (before == "\r" and after == "\n") and before != "\u200d"
    if unicodedata.category(after)[0] == "M" or before == "\u200d" or _continues(after):
        return False
    if "\U0001f1e6" <= after <= "\U0001f1ff":
        # Flags are pairs: an even number of halves must lie before the cut.
        halves = position
        while halves > start and "\U0001f1e6" <= text[halves - 1] <= "\U0001f1ff":
            halves -= 1
        return (position - halves) % 2 == 0
    return True


def _continues(char: str) -> bool:
    return (
        char in "\u200c\u200d\uff9e\uff9f"
        or "\u1160" <= char <= "\u11ff"  # vowels and finals of decomposed Hangul
        or "\ud7b0" <= char <= "\ud7fb"
        or "\udc00" <= char <= "\udfff"  # the second half of a surrogate pair
        or "\U0001f3fb" <= char <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= char <= "\U000e007f"  # tags of regional flags
    )


def _pack(pieces: list[_Span], target: int, longest: int, overlap: int) -> Iterator[_Span]:
    """Yield the spans of chunks; pieces touch each other and none is longer than the target."""
    first = fresh = 0
    while fresh < len(pieces):
        start = pieces[first][0]
        after = fresh + 1
        while after < len(pieces) and pieces[after][1] - start <= target:
            after += 1
        rest = pieces[-1][1] - pieces[after - 1][1]
        if rest <= target // 4 and pieces[-1][1] - start <= longest:
            after = len(pieces)
        end = pieces[after - 1][1]
        yield start, end
        fresh = first = after
        for candidate in range(after - 1, max(-1, after - 1 - overlap), -1):
            if end - pieces[candidate][0] > target // 2:
                break
            first = candidate
