"""Statements gathered for one round trip; pure but for `Transaction`. May import statement."""

from __future__ import annotations

from typing import Any

from agentmemory.stores.oracle.statement import Statement, Transaction

Rows = list[tuple[Any, ...]]


class Trip:
    """Statements that travel together, and lists that their rows arrive in.

    ::

        trip = Trip()
        threads = trip.add(lock_threads(t, ids))
        await trip.run(transaction)
        for row in threads: ...
    """

    def __init__(self) -> None:
        self._statements: list[Statement] = []
        self._arrivals: list[Rows] = []

    def __bool__(self) -> bool:
        return bool(self._statements)

    def add(self, *statements: Statement) -> Rows:
        """Take statements along.

        Returns:
            A list that is empty now and holds the rows of all of them after the trip.
        """
        rows: Rows = []
        for statement in statements:
            self._statements.append(statement)
            self._arrivals.append(rows)
        return rows

    async def run(self, transaction: Transaction) -> None:
        """Make the trip; without statements there is none. The next one starts empty."""
        if self._statements:
            self._deliver(await transaction.run(*self._statements))

    async def finish(self, transaction: Transaction) -> None:
        """Make the trip and commit."""
        self._deliver(await transaction.finish(*self._statements))

    def _deliver(self, answers: list[Rows]) -> None:
        for rows, answer in zip(self._arrivals, answers, strict=True):
            rows.extend(answer)
        self._statements.clear()
        self._arrivals.clear()
