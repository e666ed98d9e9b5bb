"""SQL as values: a text, its binds, and what a transaction answers; pure.

Every statement of the store is one `Statement` made by a builder of this folder, so that each can
be printed, linted and compared without a database. No value of a caller is ever part of the text.
May import errors.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


class BindType(enum.StrEnum):
    """What the driver has to be told of a bind, because its value does not tell it."""

    STRING = "string"
    CLOB = "clob"
    BLOB = "blob"
    JSON = "json"
    NUMBER = "number"
    DOUBLE = "double"
    TIMESTAMP = "timestamp"
    VECTOR = "vector"


class StatementKind(enum.StrEnum):
    """How a statement is run."""

    QUERY = "query"
    """Returns rows."""
    DML = "dml"
    """Changes rows once, with `binds`."""
    MANY = "many"
    """Changes rows once for each mapping of `rows`, in order."""
    BLOCK = "block"
    """A PL/SQL block or a DDL statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One SQL statement with its binds.

    Args:
        name: Stable and unique among the statements of the store, as "record.insert"; statements
            of one name differ only by the lengths of their lists and by optional conditions.
        text: The SQL, without a trailing semicolon unless it is a PL/SQL block.
        kind: How it is run.
        binds: Values by bind name; empty for `MANY`.
        rows: For `MANY`: values by bind name, one mapping for each execution.
        types: Types of binds whose value may be None, or is no plain text, number or time.
    """

    name: str
    text: str
    kind: StatementKind
    binds: Mapping[str, Any] = field(default_factory=dict)
    rows: tuple[Mapping[str, Any], ...] = ()
    types: Mapping[str, BindType] = field(default_factory=dict)


class Transaction(Protocol):
    """Statements on one connection, in one transaction.

    Values come back as plain Python: JSON columns as dicts, lists, strings, ints, floats, bools;
    CLOBs as str (None for an empty one), BLOBs as bytes, NUMBERs without a fraction as int,
    timestamps as aware datetimes in UTC, vectors as float32 numpy arrays. Bound times are aware
    and are stored in UTC; bound empty strings become NULL, as the database would have it.
    """

    async def run(self, *statements: Statement) -> list[list[tuple[Any, ...]]]:
        """Run statements in order, in one round trip where the server can pipeline them.

        Returns:
            The rows of each statement; an empty list for one that returns none.
        """
        ...

    async def finish(self, *statements: Statement) -> list[list[tuple[Any, ...]]]:
        """Run statements and commit, in the same round trip; nothing may follow.

        Only for a unit of work begun by `write`; one that does not call it is committed when its
        function returns.
        """
        ...
