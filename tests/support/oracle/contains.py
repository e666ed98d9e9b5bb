"""Expressions of Oracle Text, as SQL conditions over space-separated words.

Words, `prefix%`, AND, OR, ACCUM, `DEFINESCORE(word, DISCRETE)` and parentheses; a word may stand
in braces. The score is 0 without a match. It grows with the number of matched terms of an ACCUM,
and AND and OR take the least and the greatest, as in Oracle Text; its size is not Oracle's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import oracledb

from tests.support.oracle.errors import ora

_TOKEN = re.compile(r"\s+|(?P<mark>[(),])|(?P<brace>\{[^}]*\})|(?P<word>[A-Za-z0-9]+%?)")
_RESERVED = frozenset(
    {"ABOUT", "ACCUM", "AND", "BT", "FUZZY", "HASPATH", "INPATH", "MDATA", "MINUS", "NEAR", "NOT"}
    | {"NT", "OR", "PT", "RT", "SQE", "SYN", "TR", "WITHIN", "DEFINESCORE", "DEFINEMERGE"}
)


@dataclass(slots=True)
class Expression:
    """SQL of a score, and the values of its parameters in order of their numbers."""

    sql: str
    values: list[str] = field(default_factory=list)


def score(query: str | None, column: str, first: int) -> Expression:
    """Return the SQL that scores a column by an expression of Oracle Text.

    Args:
        query: The expression.
        column: SQL of the text.
        first: Number of the first parameter.

    Raises:
        oracledb.DatabaseError: DRG-50901 for an expression that is none, as the database has it.
    """
    if query is None:
        raise ora(20000, text="Oracle Text error:\nDRG-50900: text query parser error")
    parser = _Parser(query, f"(' ' || {column} || ' ')", first)
    return Expression(parser.whole(), parser.values)


class _Parser:
    def __init__(self, query: str, text: str, first: int) -> None:
        self._query = query
        self._text = text
        self._first = first
        self._tokens = self._cut()
        self._at = 0
        self.values: list[str] = []

    def whole(self) -> str:
        """Read all of it."""
        sql = self._accum()
        if self._at < len(self._tokens):
            raise self._failure()
        return sql

    def _cut(self) -> list[str]:
        tokens: list[str] = []
        at = 0
        while at < len(self._query):
            match = _TOKEN.match(self._query, at)
            if match is None:
                raise self._failure()
            at = match.end()
            if match.lastgroup:
                tokens.append(match[0])
        return tokens

    def _failure(self) -> oracledb.Error:
        return ora(
            20000,
            text="Oracle Text error:\nDRG-50901: text query parser syntax error in "
            f"{self._query!r}",
        )

    def _next(self) -> str:
        return self._tokens[self._at].upper() if self._at < len(self._tokens) else ""

    def _take(self, expected: str | None = None) -> str:
        if self._at >= len(self._tokens) or (expected and self._next() != expected):
            raise self._failure()
        self._at += 1
        return self._tokens[self._at - 1]

    def _accum(self) -> str:
        # AND binds before OR, and both before ACCUM.
        terms = [self._alternative()]
        while self._next() == "ACCUM":
            self._take()
            terms.append(self._alternative())
        if len(terms) == 1:
            return terms[0]
        matched = " + ".join(f"({term} > 0)::int" for term in terms)
        return f"((({matched}) * 100 + {len(terms)} - 1) / {len(terms)})"

    def _alternative(self) -> str:
        return self._several("OR", self._conjunction, "greatest")

    def _conjunction(self) -> str:
        return self._several("AND", self._term, "least")

    def _several(self, word: str, part: Callable[[], str], merge: str) -> str:
        parts = [part()]
        while self._next() == word:
            self._take()
            parts.append(part())
        return parts[0] if len(parts) == 1 else f"{merge}({', '.join(parts)})"

    def _term(self) -> str:
        token = self._take()
        if token == "(":
            sql = self._accum()
            self._take(")")
            return sql
        if token.upper() == "DEFINESCORE":
            self._take("(")
            sql = self._term()
            self._take(",")
            self._take("DISCRETE")
            self._take(")")
            return f"(({sql} > 0)::int * 100)"
        if token.startswith("{"):
            word, prefix = token[1:-1].strip().lower(), False
        else:
            if token.upper() in _RESERVED or token in "(),":
                raise self._failure()
            word, prefix = token.rstrip("%").lower(), token.endswith("%")
        if not word:
            raise self._failure()
        self.values.append(f" {word}" if prefix else f" {word} ")
        number = self._first + len(self.values) - 1
        return f"(CASE WHEN strpos({self._text}, ${number}::text) > 0 THEN 1 ELSE 0 END)"
