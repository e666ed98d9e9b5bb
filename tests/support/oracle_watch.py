"""Looks at every statement that a test has the Oracle store run: linted, and among the samples."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cache
from typing import Any
from unittest import mock

from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.statement import Statement
from agentmemory.stores.oracle.transaction import DriverTransaction
from tests.support.oracle_lint import lint, lint_binds, schema_of
from tests.support.oracle_statements import all_statements

_SCHEMA = schema_of(Tables("DEFAULT"))
_send = DriverTransaction._send
_right: set[str] = set()


@cache
def _samples() -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of the samples, and their subjects."""
    names = frozenset(statement.name for statement in all_statements())
    return names, frozenset(name.partition(".")[0] for name in names)


@contextlib.contextmanager
def watched() -> Iterator[dict[str, list[Any]]]:
    """Collect what is wrong with the statements that run meanwhile, by name."""
    wrong: dict[str, list[Any]] = {}
    # Reads files, which the loop of a test may not.
    _samples()

    async def send(transaction: DriverTransaction, statements: tuple[Statement, ...], **rest: Any):
        for statement in statements:
            if found := _findings(statement):
                wrong.setdefault(statement.name, []).extend(found)
        return await _send(transaction, statements, **rest)

    with mock.patch.object(DriverTransaction, "_send", send):
        yield wrong


def _findings(statement: Statement) -> list[Any]:
    names, subjects = _samples()
    found: list[Any] = []
    if statement.name not in names and statement.name.partition(".")[0] in subjects:
        found.append("it is not among the samples")
    if statement.text in _right:
        return [*found, *lint_binds(statement)]
    linted = lint(statement, _SCHEMA)
    if not linted:
        _right.add(statement.text)
    return [*found, *linted]
