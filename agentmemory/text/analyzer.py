"""The analyzer: text in, search tokens out; the same tokens for every store.

A store only matches finished tokens, so a keyword finds the same records everywhere. May import
errors, requests and the stop word list; PyStemmer is imported at the first word that needs it.

What happens to a text:

1. NFKC, case folding, decimal digits of any script as ASCII digits; diacritics leave Latin, Greek
   and Cyrillic letters only (a Japanese voicing mark makes another letter, が is not か).
2. Runs of scripts written without spaces (Han, Kana, Hangul and the like) become overlapping
   bigrams, followed by the run's last character alone. A single character is then found by
   prefix: as the start of a bigram or, at the end of a run, as itself.
3. Other words are stemmed. Words glued by symbols (`v2.3.1`, `user:alice`, `C++`) are indexed as
   a whole and by their parts; a query for one asks for the whole and for those parts that mean
   something alone, so that `C++` is not a query for the letter c.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from operator import add
from typing import Any, Final, Protocol, cast

from agentmemory.errors import ValidationError
from agentmemory.requests import QueryTerm
from agentmemory.text.stop_words import ENGLISH_STOP_WORDS

ANALYZER_VERSION: Final = 1
"""Rises whenever the same text would give other tokens, so that a store knows to index anew."""

MAX_TOKEN_CHARS: Final = 63
"""Longest token, in characters: at most 252 bytes of UTF-8, for Oracle Text keeps 255 of a token.

Longer words are encoded data rather than language; cut to their first 63 characters they are
still found by themselves, and a megabyte without a space does not become a megabyte of index.
"""

MAX_QUERY_TERMS: Final = 256
"""Most terms of one query; a pasted document is searched by its first 256 distinct terms."""

_BLOB_CHARS = 256
_BLOB_PIECE_CHARS = 16

# Scripts written without spaces between words. Ranges hold letters, marks and iteration marks,
# no punctuation: that has become a space before these are looked at.
_UNSPACED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u1000-\u109f\u1780-\u17d3\u17d7\u17dc"
    "\u1100-\u11ff\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb"
    "\u2e80-\u2fd5\u3005-\u3007\u3021-\u302f\u3031-\u3035\u3038-\u303c"
    "\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U0001aff0-\U0001b2ff\U00020000-\U0003fffd"
)
_UNSPACED_MARKS = (
    "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece"
    "\u102b-\u103e\u1056-\u1059\u105e-\u1060\u1062-\u1064\u1067-\u106d\u1071-\u1074\u1082-\u108d"
    "\u108f\u109a-\u109d\u17b4-\u17d3\u302a-\u302f\u3099\u309a"
)
_ASCII_MARKS = r"!-/:-@\[-`{-~"
_DIACRITICS = "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\ufe20-\ufe2f\ua66f-\ua67d"
_FOLDED_SCRIPTS = (
    "a-z\u00c0-\u02af\u0370-\u0482\u048a-\u052f\u1c80-\u1c8f\u1d00-\u1dbf\u1e00-\u1fff"
    "\u2c60-\u2c7f\ua640-\ua66e\ua67e-\ua69f\ua720-\ua7ff\uab30-\uab6f"
)

_FOLDED_LETTER = re.compile(f"[{_FOLDED_SCRIPTS}]")
_HAS_DIACRITIC = re.compile(f"[{_DIACRITICS}]")
# A mark goes when it sits on a letter of these scripts, on a digit or on nothing at all.
_FOLDED_MARKS = re.compile(f"(?<![^{_FOLDED_SCRIPTS}0-9\\s{_ASCII_MARKS}])[{_DIACRITICS}]+")
_UNSPACED_MARK = re.compile(f"[{_UNSPACED_MARKS}]")
_CLUSTER = re.compile(f".[{_UNSPACED_MARKS}]*")
# Pictographs that NFKC would spell out as letters (™ as TM, 🈁 as ココ), and keycaps; full-width
# punctuation, without which most Chinese and Japanese text is in normal form, which is faster.
_SEPARATORS = re.compile(
    "[\u2120\u2122\u2139\u24c2\u3297\u3299\U0001f200-\U0001f265]|[0-9#*]\ufe0f?\u20e3"
    "|[！？；：（）…]|，(?![０-９])"
)

# Letters with a stroke or of two letters, which Unicode does not decompose.
_STROKES = {
    "ł": "l", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ħ": "h", "ı": "i",
    "ŧ": "t", "ŋ": "n", "ƀ": "b", "ɨ": "i", "ɫ": "l", "ɵ": "o", "ʉ": "u", "ƶ": "z", "ǥ": "g",
}  # fmt: skip
_SYMBOLS = {
    "\u2018": "'", "\u2019": "'", "\u201b": "'", "\u02bc": "'", "\u02b9": "'", "\u05f3": "'",
    "\u2010": "-", "\u2011": "-", "\u2044": "/", "\u2215": "/", "\u200b": " ",
}  # fmt: skip
_INVISIBLE_LETTERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5")


def _chunks(word: str) -> str:
    """Return the pattern of words and of what symbols glue, given the class of word characters."""
    dot = r"(?:(?<![^\s\x00-\x1f\x7f])\.(?=[a-z]))?"
    glue = r"(?:[.:\-/@&+=\\#']|_+|::|\+\+|(?<=[0-9]),(?=[0-9]{3}(?![0-9])))"
    return rf"{dot}{word}+(?:{glue}{word}+)*(?:(?:\+\+?|\#)(?!{word}))?"


_ASCII_CHUNKS = re.compile(_chunks("[a-z0-9]"))
_WEAK_GLUE = re.compile(r"[:/@&=\\]+")
_STRONG_GLUE = re.compile(r"[.\-_+#']+")
_CONTRACTION = re.compile(r"'(?:s|m|d|re|ve|ll)(?![^\W_])")
_THOUSANDS = re.compile(r"(?<![^\W_])[0-9]{1,3}(?:,[0-9]{3})+(?![^\W_])")
_VERSION = re.compile(r"v([0-9]+(?:\.[0-9]+)+.*)")
_GLUED_PLUS = re.compile(r"([^\W\d_]+\+\+)(?=[^\W_])")


@cache
def _all_chunks() -> re.Pattern[str]:
    """Compile the pattern for any script; its large character classes take 10 ms, so only once."""
    spaced = f"[^\\s{_ASCII_MARKS}{_UNSPACED}]"
    return re.compile(f"(?![{_UNSPACED_MARKS}])[{_UNSPACED}]+|{_chunks(spaced)}")


_FIRST_UNSPACED = _UNSPACED[0]
# Where ranges start and end, in turn.
_UNSPACED_BOUNDS = sorted(
    bound
    for found in re.finditer("(.)(?:-(.))?", _UNSPACED)
    for bound in (ord(found[1]), ord(found[2] or found[1]) + 1)
)


def _is_unspaced(chunk: str) -> bool:
    return bisect_right(_UNSPACED_BOUNDS, ord(chunk[0])) % 2 == 1


class _Stemmer(Protocol):
    def stemWord(self, word: str, /) -> str: ...  # noqa: N802  (the name is PyStemmer's)


class _Characters(dict[int, str]):
    """What each character becomes, worked out when it is first seen."""

    # Enough for every character in use; a text made of all others cannot make it grow for ever.
    _LIMIT = 1 << 16

    def __init__(self, *, fold: bool) -> None:
        super().__init__()
        self._fold = fold

    def __missing__(self, code: int) -> str:
        result = self._map(chr(code))
        if len(self) < self._LIMIT:
            self[code] = result
        return result

    def _map(self, char: str) -> str:
        if char in _SYMBOLS:
            return _SYMBOLS[char]
        category = unicodedata.category(char)
        if char < "\x80":
            return " " if category == "Cc" else char
        if category == "Cf" or char in _INVISIBLE_LETTERS or _is_selector(char):
            return ""
        if category == "Nd":
            return str(unicodedata.decimal(char))
        if category[0] not in "LMN":
            return " "
        return _fold_letter(char) if self._fold else char


def _is_selector(char: str) -> bool:
    """Tell a variation selector or a mark that only makes a symbol (an emoji's, mostly)."""
    return (
        "\ufe00" <= char <= "\ufe0f"
        or "\U000e0100" <= char <= "\U000e01ef"
        or "\u180b" <= char <= "\u180f"
        or "\u20d0" <= char <= "\u20ff"
    )


def _fold_letter(char: str) -> str:
    base = unicodedata.normalize("NFD", char)[0]
    if not _FOLDED_LETTER.match(base):
        return char
    return _STROKES.get(base, base)


def _fold_marks(text: str) -> str:
    return _FOLDED_MARKS.sub("", text) if _HAS_DIACRITIC.search(text) else text


class _Tokens(dict[str, tuple[str, ...]]):
    """Tokens of each chunk seen; bounded, and safe to share because each step is one operation."""

    _LIMIT = 1 << 15

    def __init__(self, expand: Callable[[str], tuple[str, ...]]) -> None:
        super().__init__()
        self._expand = expand

    def __missing__(self, chunk: str) -> tuple[str, ...]:
        tokens = self._expand(chunk)
        # Longer chunks are data that is not seen again.
        if len(chunk) <= MAX_TOKEN_CHARS:
            if len(self) >= self._LIMIT:
                self.clear()
            self[chunk] = tokens
        return tokens


class Analyzer:
    """Turns text into search tokens. Safe to use from several threads at once.

    Args:
        language: Name of a Snowball stemmer ("english", "german", "russian", …); None leaves
            words as they are. Stop words are known for English only.
        stop_words: Words that leave queries, in lower case; None means the language's own list.

    Raises:
        ValidationError: `language` has no stemmer.
    """

    def __init__(
        self,
        language: str | None = "english",
        *,
        stop_words: Iterable[str] | None = None,
    ) -> None:
        if language is not None:
            known = _stemmer_names()
            if language not in known:
                raise ValidationError(
                    f"`language` is {language!r}; accepted are None and {', '.join(known)}",
                    argument="language",
                )
        self.language = language
        if stop_words is None:
            stop_words = ENGLISH_STOP_WORDS if language == "english" else ()
        self._stop_words = frozenset(stop_words)
        # English words are folded first ("résumé" is "resume"); the other stemmers know the
        # letters of their language, so there the stem is folded.
        self._fold_first = language in (None, "english")
        self._characters = _Characters(fold=self._fold_first)
        self._late_folding = _Characters(fold=True)
        self._tokens = _Tokens(self._expand)
        # A PyStemmer object may not be used by two threads at once.
        self._stemmers = threading.local()

    @property
    def fingerprint(self) -> str:
        """What makes tokens comparable; an index is only good for queries of the same one."""
        return f"{ANALYZER_VERSION}:{self.language or 'none'}"

    def analyze(self, text: str) -> list[str]:
        """Return the tokens to index, in the order of the text.

        Args:
            text: Any text.

        Returns:
            Tokens without white space or control characters, at most `MAX_TOKEN_CHARS` long;
            empty if the text has no letter and no digit.
        """
        tokens: list[str] = []
        known = self._tokens
        for chunk in self._split(text):
            if chunk[0] < _FIRST_UNSPACED or not _is_unspaced(chunk):
                tokens += known[chunk]
            else:
                clusters = _clusters(chunk)
                tokens += _bigrams(clusters)
                tokens.append(clusters[-1])
        return tokens

    def analyze_query(self, text: str) -> tuple[QueryTerm, ...]:
        """Return what to look for, without duplicates, in the order of the text.

        Stop words are left out, unless there is nothing else.

        Args:
            text: A question or keywords as somebody typed them.

        Returns:
            At most `MAX_QUERY_TERMS` terms, any of which may match; empty if the text has no
            letter and no digit.
        """
        terms: dict[QueryTerm, None] = {}
        stop_terms: dict[QueryTerm, None] = {}
        for chunk in self._split(text):
            if _is_unspaced(chunk):
                clusters = _clusters(chunk)
                if len(clusters) == 1:
                    terms[QueryTerm(clusters[0], prefix=True)] = None
                else:
                    for bigram in _bigrams(clusters):
                        terms[QueryTerm(bigram)] = None
            else:
                wholes, pieces = self._parts(chunk)
                for whole in wholes:
                    terms[QueryTerm(whole)] = None
                for piece in pieces:
                    if wholes and len(piece) == 1:
                        continue
                    target = stop_terms if piece in self._stop_words else terms
                    target[QueryTerm(self._finish(piece))] = None
            if len(terms) >= MAX_QUERY_TERMS:
                break
        return tuple(terms or stop_terms)[:MAX_QUERY_TERMS]

    def _split(self, text: str) -> list[str]:
        if text.isascii():
            return _ASCII_CHUNKS.findall(text.lower())
        text = unicodedata.normalize("NFKC", _SEPARATORS.sub(" ", text)).casefold()
        text = unicodedata.normalize("NFKC", text).translate(self._characters)
        if self._fold_first:
            text = _fold_marks(text)
        return _all_chunks().findall(text)

    def _expand(self, chunk: str) -> tuple[str, ...]:
        wholes, pieces = self._parts(chunk)
        return (*wholes, *(self._finish(piece) for piece in pieces))

    def _parts(self, chunk: str) -> tuple[list[str], list[str]]:
        """Split what symbols glue; return the finished whole tokens and the raw pieces."""
        if chunk.isalnum():
            return [], [chunk]
        if len(chunk) > _BLOB_CHARS:
            pieces = len(_STRONG_GLUE.findall(chunk)) + len(_WEAK_GLUE.findall(chunk)) + 1
            if len(chunk) > pieces * _BLOB_PIECE_CHARS:
                return [], [chunk[:MAX_TOKEN_CHARS]]
        wholes: list[str] = []
        pieces_found: list[str] = []
        for glued in _THOUSANDS.sub(_without_commas, chunk).split(","):
            segments = [part for part in _WEAK_GLUE.split(glued) if part]
            if len(segments) > 1:
                wholes.append(glued.replace("'", ""))
            for segment in segments:
                self._segment(segment, wholes, pieces_found)
        short = (self._fold_late(whole) for whole in wholes if len(whole) <= MAX_TOKEN_CHARS)
        return list(short), pieces_found

    def _segment(self, segment: str, wholes: list[str], pieces: list[str]) -> None:
        if "'" in segment:
            segment = _CONTRACTION.sub("", segment).replace("n't", "nt")
        found = [part for part in _STRONG_GLUE.split(segment) if _has_letter_or_digit(part)]
        if not found:
            return
        pieces += found
        if found == [segment]:
            return
        if segment.replace("-", "").replace("'", "").isalpha():
            wholes.append(self._finish("".join(found)))
            return
        wholes.append(segment.replace("'", ""))
        version = _VERSION.fullmatch(segment)
        if version:
            wholes.append(version[1])
        wholes += _GLUED_PLUS.findall(segment)

    def _finish(self, word: str) -> str:
        """Return the token of one word or piece."""
        if len(word) > MAX_TOKEN_CHARS:
            return self._fold_late(word[:MAX_TOKEN_CHARS])
        # English words are ASCII by now ("naïve" has been folded); a Greek word is not English.
        own = word.isascii() if self.language == "english" else self.language is not None
        if own and word.isalpha():
            word = self._stemmer().stemWord(word)
        return self._fold_late(word)

    def _fold_late(self, token: str) -> str:
        if self._fold_first or token.isascii():
            return token
        return _fold_marks(token.translate(self._late_folding))[:MAX_TOKEN_CHARS]

    def _stemmer(self) -> _Stemmer:
        try:
            return cast("_Stemmer", self._stemmers.stemmer)
        except AttributeError:
            stemmer = cast("_Stemmer", _pystemmer().Stemmer(self.language, 0))
            self._stemmers.stemmer = stemmer
            return stemmer


def _without_commas(found: re.Match[str]) -> str:
    return found[0].replace(",", "")


def _has_letter_or_digit(text: str) -> bool:
    return text.isalnum() or any(char.isalnum() for char in text)


def _clusters(run: str) -> Sequence[str]:
    """Return the characters of a run, each with the marks that belong to it."""
    return _CLUSTER.findall(run) if _UNSPACED_MARK.search(run) else run


def _bigrams(clusters: Sequence[str]) -> Iterable[str]:
    return map(add, clusters, clusters[1:])


def _pystemmer() -> Any:
    import Stemmer

    return Stemmer


def _stemmer_names() -> list[str]:
    return sorted(_pystemmer().algorithms())


@cache
def default_analyzer() -> Analyzer:
    """Return the English analyzer that the module's functions use."""
    return Analyzer()


def analyze(text: str) -> list[str]:
    """Return the tokens to index with the default analyzer; see `Analyzer.analyze`."""
    return default_analyzer().analyze(text)


def analyze_query(text: str) -> tuple[QueryTerm, ...]:
    """Return what to look for with the default analyzer; see `Analyzer.analyze_query`."""
    return default_analyzer().analyze_query(text)
