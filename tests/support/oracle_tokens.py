"""Oracle SQL cut into tokens and query blocks, as far as the linter has to understand it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
    | (?P<comment>--[^\n]*|/\*.*?\*/)
    | (?P<string>[nN]?'(?:[^']|'')*')
    | (?P<quoted>"[^"]*")
    | (?P<bind>(?<![:\w]):[A-Za-z_0-9][\w$#]*)
    | (?P<number>(?<![\w$#])\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
    | (?P<word>[A-Za-z_][\w$#]*)
    | (?P<mark>::|->>|->|@>|<@|<=>|<->|\|\||:=|=>|<=|>=|<>|!=|\^=|\.\.|[-+*/%=<>(),.;:@?!^~&|\[\]{}$#])
    """,
    re.VERBOSE | re.DOTALL,
)

SET_OPERATORS = frozenset({"UNION", "INTERSECT", "MINUS", "EXCEPT"})

RESERVED = frozenset(
    """ACCESS ADD ALL ALTER AND ANY AS ASC AUDIT BETWEEN BY CHAR CHECK CLUSTER COLUMN COLUMN_VALUE
    COMMENT COMPRESS CONNECT CREATE CURRENT DATE DECIMAL DEFAULT DELETE DESC DISTINCT DROP ELSE
    EXCLUSIVE EXISTS FILE FLOAT FOR FROM GRANT GROUP HAVING IDENTIFIED IMMEDIATE IN INCREMENT INDEX
    INITIAL INSERT INTEGER INTERSECT INTO IS LEVEL LIKE LOCK LONG MAXEXTENTS MINUS MLSLABEL MODE
    MODIFY NESTED_TABLE_ID NOAUDIT NOCOMPRESS NOT NOWAIT NULL NUMBER OF OFFLINE ON ONLINE OPTION OR
    ORDER PCTFREE PRIOR PUBLIC RAW RENAME RESOURCE REVOKE ROW ROWID ROWNUM ROWS SELECT SESSION SET
    SHARE SIZE SMALLINT START SUCCESSFUL SYNONYM SYSDATE TABLE THEN TO TRIGGER UID UNION UNIQUE
    UPDATE USER VALIDATE VALUES VARCHAR VARCHAR2 VIEW WHENEVER WHERE WITH""".split()  # noqa: SIM905 - a hundred words read better in lines
)
"""Words that name nothing, neither columns nor aliases nor binds (SQL Language Reference, E)."""


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of SQL.

    Args:
        kind: "word", "quoted", "string", "number", "bind" or "mark".
        text: As it is written.
        depth: How many parentheses it stands in; a parenthesis counts as outside itself.
        place: Its number.
    """

    kind: str
    text: str
    depth: int
    place: int

    @property
    def upper(self) -> str:
        """The text in capitals; of a string or quoted name as it is."""
        return self.text.upper() if self.kind in ("word", "bind") else self.text

    def is_word(self, *words: str) -> bool:
        """Tell whether it is one of some unquoted words."""
        return self.kind == "word" and self.upper in words


class UnreadableSqlError(ValueError):
    """A character that no token of Oracle SQL begins with, or parentheses that do not match."""


def tokenize(text: str) -> list[Token]:
    """Cut SQL into tokens, without white space and comments."""
    tokens: list[Token] = []
    depth = 0
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise UnreadableSqlError(f"no token begins at {text[at : at + 20]!r}")
        at = match.end()
        kind = match.lastgroup or ""
        if kind in ("space", "comment"):
            continue
        if match[0] == ")":
            depth -= 1
            if depth < 0:
                raise UnreadableSqlError("a closing parenthesis too many")
        tokens.append(Token(kind, match[0], depth, len(tokens)))
        if match[0] == "(":
            depth += 1
    if depth:
        raise UnreadableSqlError(f"{depth} parentheses are left open")
    return tokens


@dataclass(frozen=True, slots=True)
class Block:
    """One SELECT with its clauses, without those of the queries inside it.

    Args:
        depth: Of its keywords.
        clauses: Tokens of each clause by its first word ("ORDER" for ORDER BY), the keyword left
            out and what is nested kept.
        tokens: All of it.
    """

    depth: int
    clauses: dict[str, list[Token]]
    tokens: list[Token]

    def has(self, clause: str) -> bool:
        """Tell whether it has a clause."""
        return clause in self.clauses

    def top(self, clause: str) -> list[Token]:
        """Return the tokens of a clause that are not nested."""
        return [token for token in self.clauses.get(clause, ()) if token.depth == self.depth]


_CLAUSES = frozenset(
    {"SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "OFFSET", "FETCH", "FOR"}
)


def blocks(tokens: Sequence[Token]) -> Iterator[Block]:
    """Yield every SELECT of a statement, outer ones first."""
    for token in tokens:
        if token.is_word("SELECT"):
            yield _block(tokens, token)


def _block(tokens: Sequence[Token], select: Token) -> Block:
    body: list[Token] = []
    for token in tokens[select.place :]:
        if token.depth < select.depth or (
            token.depth == select.depth and token.is_word(*SET_OPERATORS)
        ):
            break
        body.append(token)
    clauses: dict[str, list[Token]] = {}
    current: list[Token] = []
    for token in body:
        if token.depth == select.depth and token.is_word(*_CLAUSES):
            current = clauses.setdefault(token.upper, [])
        else:
            current.append(token)
    return Block(select.depth, clauses, body)


def split_list(tokens: Sequence[Token], depth: int) -> list[list[Token]]:
    """Cut tokens at the commas of a depth."""
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token.text == "," and token.depth == depth:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def inside(tokens: Sequence[Token], opening: Token) -> list[Token]:
    """Return what stands between a parenthesis and its partner."""
    found: list[Token] = []
    for token in tokens[opening.place + 1 :]:
        if token.depth <= opening.depth:
            break
        found.append(token)
    return found


def table_factors(tokens: Sequence[Token]) -> Iterator[tuple[list[Token], list[Token]]]:
    """Yield each table or subquery of every FROM, JOIN, USING, UPDATE, INTO with what follows it.

    Yields:
        The tokens of its name, or its opening parenthesis, and the two tokens after it.
    """
    for start in _factor_starts(tokens):
        end = start
        if tokens[start].text == "(":
            end = _closing(tokens, start) + 1
            yield [tokens[start]], list(tokens[end : end + 2])
            continue
        while end + 2 < len(tokens) and tokens[end + 1].text == ".":
            end += 2
        name = list(tokens[start : end + 1])
        if end + 1 < len(tokens) and tokens[end + 1].text == "(" and not _inserts(tokens, start):
            end = _closing(tokens, end + 1)
        yield name, list(tokens[end + 1 : end + 3])


def _inserts(tokens: Sequence[Token], start: int) -> bool:
    return start > 0 and tokens[start - 1].is_word("INTO") and tokens[0].is_word("INSERT")


def _closing(tokens: Sequence[Token], opening: int) -> int:
    depth = tokens[opening].depth
    place = opening + 1
    while tokens[place].text != ")" or tokens[place].depth != depth:
        place += 1
    return place


def _factor_starts(tokens: Sequence[Token]) -> Iterator[int]:
    for token in tokens:
        follows = token.place + 1
        if follows >= len(tokens):
            continue
        if token.is_word("FROM") and _is_function_argument(tokens, token):
            continue
        if token.is_word("FROM"):
            yield follows
            yield from _after_commas(tokens, token)
        elif (
            token.is_word("JOIN")
            or (token.is_word("USING") and tokens[0].is_word("MERGE") and token.depth == 0)
            or (token.place == 0 and token.is_word("UPDATE"))
            or (token.place == 1 and token.is_word("INTO"))
        ):
            yield follows


def _is_function_argument(tokens: Sequence[Token], token: Token) -> bool:
    """Tell whether a FROM belongs to EXTRACT, TRIM or IS DISTINCT, not to a query."""
    if tokens[token.place - 1].is_word("DISTINCT"):
        return True
    for before in reversed(tokens[: token.place]):
        if before.depth == token.depth and before.is_word("SELECT", "DELETE"):
            return False
        if before.depth < token.depth:
            return True
    return False


def _after_commas(tokens: Sequence[Token], start: Token) -> Iterator[int]:
    for token in tokens[start.place + 1 :]:
        if token.depth < start.depth or (
            token.depth == start.depth
            and token.is_word("WHERE", "GROUP", "HAVING", "ORDER", "FETCH", "FOR", *SET_OPERATORS)
        ):
            return
        if token.depth == start.depth and token.text == ",":
            yield token.place + 1
