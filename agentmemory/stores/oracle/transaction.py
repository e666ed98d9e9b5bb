"""The `Transaction` that units of work are given. May import driver, statement and errors."""

from __future__ import annotations

from typing import Any

from agentmemory.errors import UsageError
from agentmemory.stores.oracle.driver import Rows, Session, is_ddl
from agentmemory.stores.oracle.statement import Statement, StatementKind


class DriverTransaction:
    """Statements on one session, in one transaction; see `Transaction`.

    Args:
        session: Where they run.
        writes: Whether anything may be changed.
    """

    def __init__(self, session: Session, *, writes: bool) -> None:
        self._session = session
        self._writes = writes
        self._over = False
        self._has_changed = False

    @property
    def over(self) -> bool:
        """Whether it was committed or given up."""
        return self._over

    def give_up(self) -> None:
        """Have every later call fail: whoever kept the object has nothing to do with it."""
        self._over = True

    async def run(self, *statements: Statement) -> list[list[tuple[Any, ...]]]:
        """Run statements in order, in one round trip where the server can pipeline them."""
        self._check(statements)
        return await self._send(statements, commit=False)

    async def finish(self, *statements: Statement) -> list[list[tuple[Any, ...]]]:
        """Run statements and commit, in the same round trip; nothing may follow."""
        self._check(statements)
        if not self._writes:
            raise UsageError("a read operation tried to commit")
        self._over = True
        if not statements and not self._has_changed:
            return []
        return await self._send(statements, commit=True)

    def _check(self, statements: tuple[Statement, ...]) -> None:
        if self._over:
            raise UsageError("the transaction is over; nothing may follow `finish`")
        if not self._writes and any(each.kind is not StatementKind.QUERY for each in statements):
            raise UsageError("a read operation tried to write")

    async def _send(self, statements: tuple[Statement, ...], *, commit: bool) -> list[Rows]:
        # Rows of no rows need no trip; their answer is empty as that of every change.
        sent = [each for each in statements if each.kind is not StatementKind.MANY or each.rows]
        if not sent and not commit:
            return [[] for _ in statements]
        for each in sent:
            if each.kind is not StatementKind.QUERY:
                self._has_changed = not is_ddl(each)
        answers = iter(await self._session.run(sent, commit=commit))
        return [
            next(answers) if each.kind is not StatementKind.MANY or each.rows else []
            for each in statements
        ]
