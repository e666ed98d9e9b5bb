"""Lists of values in SQL; pure. May import where."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agentmemory.stores.oracle.where import Where, add_list


def listed(column: str, name: str, values: Iterable[Any]) -> tuple[str, dict[str, Any]]:
    """Return the condition that a column holds one of some values, with its binds.

    Args:
        column: The column, with its alias.
        name: What the names of the binds begin with.
        values: Each counts once; without any the condition never holds.
    """
    where = Where(prefix="")
    add_list(where, column, name, tuple(dict.fromkeys(values)))
    return where.sql, where.binds
