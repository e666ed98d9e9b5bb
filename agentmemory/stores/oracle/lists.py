"""Lists of values in SQL; pure. May import where and statement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from agentmemory.stores.oracle.statement import Statement
from agentmemory.stores.oracle.where import Where, add_list, batches


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


def in_parts(build: Callable[[Sequence[Any]], Statement], values: Iterable[Any]) -> list[Statement]:
    """Build a statement for each part of a list that may be long; none for an empty one.

    A statement takes 65,535 binds at most, and one with several lists has a text of its own.
    """
    return [build(part) for part in batches(tuple(dict.fromkeys(values)))]
