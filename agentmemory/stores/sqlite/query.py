"""Reading rows: apsw types each value as a union of all of SQLite's; the schema knows better.

May import apsw's types only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import apsw


def fetch_all(
    connection: apsw.Connection, sql: str, binds: Sequence[Any] = ()
) -> list[tuple[Any, ...]]:
    """Run one statement and return all of its rows."""
    return connection.execute(sql, binds).fetchall()


def fetch_one(
    connection: apsw.Connection, sql: str, binds: Sequence[Any] = ()
) -> tuple[Any, ...] | None:
    """Run one statement and return its first row, or None."""
    return connection.execute(sql, binds).fetchone()


def fetch_value(connection: apsw.Connection, sql: str, binds: Sequence[Any] = ()) -> Any:
    """Run one statement and return the first value of its first row, or None."""
    row = connection.execute(sql, binds).fetchone()
    return None if row is None else row[0]
