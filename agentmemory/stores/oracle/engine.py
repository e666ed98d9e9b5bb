"""The engine under the Oracle store: units of work on connections of any kind.

May import errors, and the other modules of this package that know the driver.

Each unit of work runs in a task of its own, so that the cancellation of its caller reaches the
driver once and not again at every step, and the driver can finish the handshake in which it tells
the database to stop. The caller waits for that, within a bound; what does not react in time is
cut off from the database, which rolls back.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from agentmemory.errors import ClosedError, UsageError, ValidationError
from agentmemory.stores.oracle.capabilities import Capabilities, capabilities_from, probes
from agentmemory.stores.oracle.connection import AnySession, Background
from agentmemory.stores.oracle.driver import AppContext, AsyncSession, version_of
from agentmemory.stores.oracle.operation import Operation, Step, in_transaction, outlast
from agentmemory.stores.oracle.sources import make_source, read_connection
from agentmemory.stores.oracle.statement import Transaction
from agentmemory.stores.oracle.urls import OracleUrl

T = TypeVar("T")
Work = Callable[[Transaction], Awaitable[T]]

_MAX_CONNECTIONS: Final = 8
"""As many as a context card and the worker of extraction use at once, and some."""
_ACQUIRE_TIMEOUT_S: Final = 10.0
_OPERATION_TIMEOUT_S: Final = 60.0
_CLOSE_PATIENCE_S: Final = 10.0
_MOST_CONNECTIONS: Final = 1000


class OracleEngine:
    """Runs functions in transactions on an Oracle database.

    It belongs to the event loop and the process it was opened in.

    Args:
        connection: An `oracle://` URL, or a pool or connection of python-oracledb, async or not.
            A pool or connection is its user's: it is not closed here, and settings and an open
            transaction of a connection are respected.
        max_connections: Most connections of a pool that is made here, 1 to 1000; default 8, or
            what the URL says.
        acquire_timeout_s: Seconds to wait for a connection; default 10, or what the URL says.
        operation_timeout_s: Seconds an operation may take, from the call to the answer; the
            default of `timeout_s`. `math.inf` for no limit. Default 60, or what the URL says.
        attempts: How often an operation is tried in all while its failures allow it.
        stop_grace_s: Seconds a cancelled or expired operation has to stop cleanly; after that its
            connection is cut.
        app_context: Called at the start of each operation, in the context of its caller: values
            by name by namespace, which the session has for as long as the operation takes, for
            policies of row-level security to read with `SYS_CONTEXT`.

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
        max_connections: int | None = None,
        acquire_timeout_s: float | None = None,
        operation_timeout_s: float | None = None,
        attempts: int = 4,
        stop_grace_s: float = 2.0,
        app_context: AppContext | None = None,
    ) -> None:
        connection = read_connection(connection)
        said = connection.engine if isinstance(connection, OracleUrl) else {}
        self._operation_timeout_s = _seconds(
            "operation_timeout_s", operation_timeout_s, said, _OPERATION_TIMEOUT_S
        )
        self._attempts = _count("attempts", attempts, {}, 1)
        self._stop_grace_s = _seconds("stop_grace_s", stop_grace_s, {}, 0)
        self._background = Background()
        self._source = make_source(
            connection,
            self._background,
            max_connections=_count("max_connections", max_connections, said, _MAX_CONNECTIONS),
            acquire_timeout_s=_seconds(
                "acquire_timeout_s", acquire_timeout_s, said, _ACQUIRE_TIMEOUT_S
            ),
            grace_s=self._stop_grace_s,
            app_context=app_context,
        )
        # A pool or connection of asyncio lives in the loop it was made in, which is running now.
        self._home = _running_loop() if self._source.lives_in_loop else None
        self._operations: set[Operation[Any]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0
        self._open = False
        self._closed = False

    @property
    def where(self) -> str:
        """What errors call the database; holds no secret."""
        return self._source.where

    async def open(self) -> None:
        """Connect and ask the database what it can do.

        After a failure nothing stays open, and `open` may be called again.

        Raises:
            StoreUnavailableError: The database cannot be reached, or refuses the credentials.
            StoreTimeoutError: It took longer than `operation_timeout_s`.
            ConfigurationError: `connection` cannot be used.
            UsageError: The engine is open already, or `connection` belongs to another loop.
            ClosedError: The engine was closed.
        """
        if self._closed:
            raise ClosedError("the store is closed")
        if self._loop is not None:
            raise UsageError("the store was opened already; `open` is called once")
        loop = _running_loop()
        if loop is None:
            raise UsageError("the store needs a running asyncio event loop")
        if self._source.lives_in_loop and self._home is not loop:
            raise UsageError(
                "the asyncio pool or connection that was given as `connection` belongs to another "
                "event loop; use AsyncAgentMemory in the loop it was made in, or give the "
                "blocking API a pool of `oracledb.create_pool`"
            )
        self._loop, self._pid = loop, os.getpid()
        try:
            await self._source.open()
            self.capabilities = await self._operate(self._operation(self._probe))
        except BaseException:
            self._loop = None
            await self._let_go()
            raise
        if self._closed:
            await self._let_go()
            raise ClosedError("the store was closed while it was being opened")
        self._open = True

    async def read(self, work: Work[T], *, timeout_s: float | None = None) -> T:
        """Run `work` in a transaction that changes nothing, again while its failures allow it.

        Each statement sees the database as it is when it starts, so two of them may see
        different states.

        Args:
            work: May be called several times, each time on a connection that holds nothing of
                the call before. Errors it raises reach the caller.
            timeout_s: Seconds until `StoreTimeoutError`; default `operation_timeout_s`.

        Raises:
            StoreTimeoutError: The deadline passed, whether it was running or still waiting.
            StoreBusyError: No connection was free for `acquire_timeout_s`, or locks of others
                were in the way.
            StoreError: The database failed in another way.
            UsageError: `work` tried to write, or the call comes from another event loop or from
                a forked process.
            ClosedError: The engine was closed.
        """
        self._check_ready()
        return await self._operate(
            self._operation(lambda session: in_transaction(session, work, writes=False)),
            timeout_s,
        )

    async def write(
        self,
        work: Work[T],
        *,
        timeout_s: float | None = None,
        settled: Callable[[Transaction], Awaitable[T | None]] | None = None,
    ) -> T:
        """Run `work` in a transaction and commit it, again while its failures allow it.

        All of it is kept, or none.

        Args:
            work: May be called several times, each time on a connection that holds nothing of
                the call before. It may call `finish` last, to commit in the same round trip.
            timeout_s: Seconds until `StoreTimeoutError`; default `operation_timeout_s`.
            settled: Asked on another connection when nobody knows whether the commit took
                effect: returns the result if it did, None if it did not. Without it the error
                says that the outcome is unknown.

        Raises:
            ConflictError: A unique or primary key exists already.
            StoreFullError: No space is left.
            StoreTimeoutError: The deadline passed, whether it was running or still waiting.
            StoreUnavailableError: The connection was lost, and could not be had again or, as the
                text says, the outcome is unknown.
            StoreError: As `read`.
            UsageError: The call comes from another event loop or from a forked process.
            ClosedError: The engine was closed.
        """
        self._check_ready()
        operation = self._operation(
            lambda session: in_transaction(session, work, writes=True),
            None
            if settled is None
            else lambda session: in_transaction(session, settled, writes=False),
        )
        return await self._operate(operation, timeout_s)

    async def close(self) -> None:
        """Let go of what was opened here; what was given stays open. May be called twice.

        Operations that were called before are finished, for up to 10 seconds; then, or when this
        call is cancelled, they are stopped and raise `ClosedError`.

        Raises:
            UsageError: The call comes from a forked process.
        """
        self._refuse_fork()
        self._closed = True
        if not self._open:
            return
        self._open = False
        loop = self._loop
        if loop is None or loop is not _running_loop():
            # Its connections belong to another loop, which alone can close them.
            if loop is not None and loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._finish(), loop))
            return
        await self._finish()

    async def _finish(self) -> None:
        try:
            await self._all_over(_CLOSE_PATIENCE_S)
        finally:
            for operation in self._operations:
                operation.refuse(ClosedError("the store was closed before it was done"))
            await self._let_go()

    async def _all_over(self, seconds: float) -> None:
        tasks = {operation.task for operation in self._operations if operation.task is not None}
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)

    async def _let_go(self) -> None:
        """Stop what runs and close what was opened here, whoever cancels meanwhile."""
        closing = asyncio.get_running_loop().create_task(self._close_source())
        cancelled = await outlast(closing, 5 * self._stop_grace_s + 1)
        if cancelled:
            raise asyncio.CancelledError

    async def _close_source(self) -> None:
        await self._all_over(3 * self._stop_grace_s)
        await self._background.settle(self._stop_grace_s)
        await self._source.close(self._stop_grace_s)

    def _operation(self, step: Step[T], settled: Step[T | None] | None = None) -> Operation[T]:
        return Operation(
            self._source,
            self._background,
            step,
            attempts=self._attempts,
            grace_s=self._stop_grace_s,
            settled=settled,
        )

    async def _operate(self, operation: Operation[T], timeout_s: float | None = None) -> T:
        seconds = (
            self._operation_timeout_s
            if timeout_s is None
            else _seconds("timeout_s", timeout_s, {}, 0)
        )
        self._operations.add(operation)
        try:
            return await operation.run(seconds)
        finally:
            self._operations.discard(operation)

    async def _probe(self, session: AnySession) -> Capabilities:
        answers = await session.attempt(probes())
        return capabilities_from(
            version_of(session.connection),
            answers,
            pipelining=isinstance(session, AsyncSession),
        )

    def _check_ready(self) -> None:
        self._refuse_fork()
        if self._closed:
            raise ClosedError("the store is closed")
        if not self._open:
            raise UsageError("the store is not open; await `open()` first")
        if _running_loop() is not self._loop:
            raise UsageError(
                "the store was opened in another event loop; open one per loop, or use the "
                "blocking API, which may be called from any thread"
            )

    def _refuse_fork(self) -> None:
        if self._pid and os.getpid() != self._pid:
            raise UsageError(
                "the store was opened before this process was forked, and its connections "
                "belong to the other one; open it after the fork, or start processes with 'spawn'"
            )


def _seconds(name: str, given: float | None, said: Mapping[str, Any], default: float) -> float:
    value = said.get(name, default) if given is None else given
    if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
        raise ValidationError(
            f"`{name}` is {value!r}; it must be a number of seconds above 0", argument=name
        )
    return float(value)


def _count(name: str, given: int | None, said: Mapping[str, Any], default: int) -> int:
    value = said.get(name, default) if given is None else given
    if type(value) is not int or not 1 <= value <= _MOST_CONNECTIONS:
        raise ValidationError(
            f"`{name}` is {value!r}; it must be a whole number from 1 to {_MOST_CONNECTIONS}",
            argument=name,
        )
    return value


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
