"""A statement as the rules of the Oracle linter see it: tokens, query blocks, columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tests.support.oracle_tokens import RESERVED, Block, Token, blocks, table_factors, tokenize

COMPARISONS = frozenset({"=", "<>", "!=", "^=", "<", ">", "<=", ">="})
UNCOMPARABLE = ("CLOB", "BLOB", "JSON", "VECTOR")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the schema.

    Args:
        type: The first word of its type.
        nullable: Whether it may be NULL.
        generated: Whether the database gives it a value.
    """

    type: str
    nullable: bool
    generated: bool = False


Schema = Mapping[str, Mapping[str, Column]]
"""Columns by table, both in capitals."""


@dataclass(frozen=True, slots=True)
class Sql:
    """A statement as the rules see it.

    Args:
        text: The SQL.
        schema: The tables it may refer to.
    """

    text: str
    schema: Schema = field(default_factory=dict)
    tokens: list[Token] = field(init=False)
    blocks: list[Block] = field(init=False)
    aliases: dict[str, set[str]] = field(init=False)

    def __post_init__(self) -> None:
        tokens = [] if is_plsql(self.text) else tokenize(self.text)
        object.__setattr__(self, "tokens", tokens)
        object.__setattr__(self, "blocks", list(blocks(tokens)))
        object.__setattr__(self, "aliases", _aliases(tokens, self.schema))

    def is_query(self) -> bool:
        """Tell whether it reads or changes rows, rather than the schema."""
        return bool(self.tokens) and self.tokens[0].is_word(
            "SELECT", "WITH", "INSERT", "UPDATE", "DELETE", "MERGE"
        )

    def after(self, token: Token, steps: int = 1) -> Token | None:
        """Return the token some places after another one; before it if negative."""
        place = token.place + steps
        return self.tokens[place] if 0 <= place < len(self.tokens) else None

    def column(self, token: Token) -> Column | None:
        """Return the column that a word names, if that can be told."""
        if token.kind != "word":
            return None
        following = self.after(token)
        if following is not None and following.text in (".", "("):
            return None
        before = self.after(token, -1)
        if before is not None and before.text == ".":
            owner = self.after(token, -2)
            tables = self.aliases.get(owner.upper, set()) if owner is not None else set()
        else:
            tables = set().union(*self.aliases.values()) if self.aliases else set()
        found = [
            self.schema[table][token.upper] for table in tables if token.upper in self.schema[table]
        ]
        return found[0] if found else None

    def uncomparable(self, token: Token) -> Column | None:
        """Return the column a word names if its type has no comparison."""
        column = self.column(token)
        return column if column is not None and column.type in UNCOMPARABLE else None


def is_plsql(text: str) -> bool:
    """Tell whether it is a PL/SQL block."""
    return text.lstrip().upper().startswith(("BEGIN", "DECLARE"))


def _aliases(tokens: list[Token], schema: Schema) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name, following in table_factors(tokens):
        table = name[-1].upper
        if table not in schema:
            continue
        named = [token for token in following if not token.is_word("AS")][:1]
        is_alias = bool(named) and named[0].kind == "word" and named[0].upper not in _NO_ALIAS
        alias = named[0].upper if is_alias else table
        found.setdefault(alias, set()).add(table)
    return found


_NO_ALIAS = RESERVED | {"JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "USING", "FETCH", "WHEN"}

Finding = str
Rule = Callable[[Sql], Iterator[Finding]]
