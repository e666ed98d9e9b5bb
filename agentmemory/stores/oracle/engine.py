"""The engine under the Oracle store: transactions on connections of any kind, with retries.

May import: errors, and the other modules of this package that know the driver.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from agentmemory.stores.oracle.capabilities import Capabilities
from agentmemory.stores.oracle.statement import Transaction

T = TypeVar("T")

Work = Callable[[Transaction], Awaitable[T]]


class OracleEngine:
    """Runs functions in transactions on an Oracle database.

    Args:
        connection: An `oracle://` URL, or a pool or connection of python-oracledb, async or not.
        max_connections: Most connections of a pool that is made here.
        acquire_timeout_s: Seconds to wait for a connection.
        operation_timeout_s: Seconds an operation may take, from the call to the answer; the
            default of `timeout_s`. `math.inf` for no limit.
        attempts: How often an operation is tried in all while its failures allow it.
        stop_grace_s: Seconds a cancelled or expired operation has to stop cleanly; after that its
            connection is dropped.

    Raises:
        ConfigurationError: `connection` is nothing we can use.
        ValidationError: Another argument is out of range.
    """

    capabilities: Capabilities
    """What the database can do; set by `open`, and refined by the store with `replace`."""

    def __init__(
        self,
        connection: Any,
        *,
        max_connections: int = 8,
        acquire_timeout_s: float = 10.0,
        operation_timeout_s: float = 60.0,
        attempts: int = 4,
        stop_grace_s: float = 2.0,
    ) -> None:
        self._connection = connection
        self._options = (max_connections, acquire_timeout_s, operation_timeout_s)
        self._attempts = attempts
        self._stop_grace_s = stop_grace_s

    async def open(self) -> None:
        """Connect and ask the database what it can do."""
        raise NotImplementedError

    async def close(self) -> None:
        """Let go of what was opened here; what the user gave stays open. May be called twice."""
        raise NotImplementedError

    async def read(self, work: Work[T], *, timeout_s: float | None = None) -> T:
        """Run `work` in a transaction that is rolled back, again while its failures allow it."""
        raise NotImplementedError

    async def write(
        self,
        work: Work[T],
        *,
        timeout_s: float | None = None,
        settled: Callable[[Transaction], Awaitable[T | None]] | None = None,
    ) -> T:
        """Run `work` in a transaction and commit it, again while its failures allow it.

        Args:
            work: May be called several times, each time on a connection that holds nothing of
                the call before. It calls `finish` last to commit in the same round trip.
            timeout_s: Seconds until `StoreTimeoutError`.
            settled: Asked on another connection when nobody knows whether the commit took
                effect: returns the result if it did, None if it did not. Without it the error
                says that the outcome is unknown.
        """
        raise NotImplementedError
