"""How an operation gets a connection and gives it back, whatever happens in between.

May import errors, and `driver` and `faults` of this package. The kinds of connections are in
`sources`.

Sources are asked for a connection only while they have one free, as far as that is known here, so
that the waiting can be bounded and cancelled: a pool of the driver that is cancelled while it
hands over a connection can lose it.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import math
import time
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

import anyio
import oracledb

from agentmemory.errors import (
    AgentMemoryError,
    StoreBusyError,
    StoreUnavailableError,
    UsageError,
)
from agentmemory.stores.oracle.driver import (
    AppContext,
    AppContexts,
    ArraySizes,
    AsyncSession,
    BlockingSession,
)
from agentmemory.stores.oracle.faults import is_driver_error, translate

T = TypeVar("T")
AnySession = AsyncSession | BlockingSession


class Background:
    """Tasks that outlive the calls that began them: what they hold has to be given back."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin a task and keep hold of it."""
        task = asyncio.get_running_loop().create_task(work)
        self.keep(task)
        return task

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Keep hold of a task until it ends."""
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def settle(self, seconds: float) -> None:
        """Wait for all of them, so many seconds at most."""
        until = time.monotonic() + seconds
        while self._tasks and (left := until - time.monotonic()) > 0:
            await asyncio.wait(set(self._tasks), timeout=left)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # Nobody may be left to ask.
            task.exception()


class Source(Protocol):
    """Gives sessions, one for each operation."""

    @property
    def where(self) -> str:
        """Names the database, without secrets."""
        ...

    @property
    def renews(self) -> bool:
        """Whether another connection can be had when one is dead."""
        ...

    @property
    def lives_in_loop(self) -> bool:
        """Whether what was given belongs to the event loop it was made in."""
        ...

    @property
    def capacity(self) -> int:
        """How many connections may be in use at once."""
        ...

    async def open(self) -> None:
        """Make what is to be made."""
        ...

    async def acquire(self, *, until: float) -> AnySession:
        """Return a session that is ready to be used.

        Args:
            until: By when the operation has to end, on the clock of `time.monotonic`.

        Raises:
            StoreBusyError: There was none for too long.
            StoreError: The database could not be reached.
            UsageError: The connection has a transaction of its user's in progress.
        """
        ...

    def give_back(self, session: AnySession, *, usable: bool) -> None:
        """Take a session back; what that needs is done in the background.

        Args:
            session: The session; nothing of it may be in progress.
            usable: Whether its connection can serve others.
        """
        ...

    async def close(self, seconds: float) -> None:
        """Close what was made here, in so many seconds at most."""
        ...


class BaseSource:
    """What all sources share: a bound on connections in use, and waits that end.

    Args:
        where: Names the database, without secrets.
        background: Where connections are given back.
        acquire_timeout_s: Seconds to wait for a connection.
        app_context: See `AppContexts`.
    """

    renews = True
    lives_in_loop = False

    def __init__(
        self,
        where: str,
        background: Background,
        *,
        acquire_timeout_s: float,
        app_context: AppContext | None = None,
    ) -> None:
        self.where = where
        self._background = background
        self._acquire_timeout_s = acquire_timeout_s
        self._app_contexts = None if app_context is None else AppContexts(app_context)
        self._sizes = ArraySizes()
        self._in_use: anyio.CapacityLimiter | None = None

    async def open(self) -> None:
        """Make what is to be made."""
        self._in_use = anyio.CapacityLimiter(self.capacity)

    async def acquire(self, *, until: float) -> AnySession:
        """Return a session that is ready to be used; see `Source`."""
        ticket = object()
        started = time.monotonic()
        limit = min(started + self._acquire_timeout_s, until)
        await self._take(ticket, limit)
        obtaining = self._background.start(self._obtain())
        try:
            # The driver is not cancelled here, for a connection that just came would be lost.
            left = None if limit == math.inf else max(limit - time.monotonic(), 0)
            await asyncio.wait({obtaining}, timeout=left)
            if not obtaining.done():
                raise self._too_late(time.monotonic() - started)
        except BaseException:
            self._background.start(self._return_late(obtaining, ticket))
            raise
        try:
            session = self._session(self._obtained(obtaining), until)
        except BaseException:
            self._leave(ticket)
            raise
        session.ticket = ticket
        try:
            session.begin()
        except BaseException as error:
            known = session.diagnosis_of(error)
            self.give_back(session, usable=known is None or not known.unusable)
            raise
        return session

    def give_back(self, session: AnySession, *, usable: bool) -> None:
        """Take a session back; see `Source`."""
        session.end()
        self._background.start(self._return(session, usable=usable))

    async def close(self, seconds: float) -> None:
        """Close nothing: what was given is its user's."""

    @property
    def capacity(self) -> int:
        """How many connections may be in use at once."""
        return 1

    async def _obtain(self) -> Any:
        """Return a connection of the driver."""
        raise NotImplementedError

    async def _release(self, session: AnySession) -> None:
        """Let others have the connection."""

    async def _discard(self, session: AnySession) -> None:
        """See that nobody gets the connection again."""

    def _session(self, connection: Any, until: float) -> AnySession:
        raise NotImplementedError

    def _is_full(self) -> bool:
        """Tell whether others hold all connections."""
        return False

    async def _take(self, ticket: object, limit: float) -> None:
        if self._in_use is None:
            raise UsageError("the store is not open; await `open()` first")
        with contextlib.suppress(anyio.WouldBlock):
            self._in_use.acquire_on_behalf_of_nowait(ticket)
            return
        seconds = max(limit - time.monotonic(), 0)
        try:
            with anyio.fail_after(None if seconds == math.inf else seconds):
                await self._in_use.acquire_on_behalf_of(ticket)
        except TimeoutError:
            raise self._busy(seconds) from None

    def _leave(self, ticket: object) -> None:
        if self._in_use is not None:
            self._in_use.release_on_behalf_of(ticket)

    def _obtained(self, obtaining: asyncio.Task[Any]) -> Any:
        try:
            return obtaining.result()
        except AgentMemoryError:
            raise
        except Exception as error:
            if is_driver_error(error):
                raise translate(error, self.where) from error
            raise

    def _busy(self, seconds: float) -> AgentMemoryError:
        return StoreBusyError(f"all connections to {self.where} stayed in use for {seconds:.3g} s")

    def _too_late(self, seconds: float) -> AgentMemoryError:
        if self._is_full():
            return self._busy(seconds)
        return StoreUnavailableError(
            f"no connection to {self.where} could be had within {seconds:.3g} s"
        )

    async def _return(self, session: AnySession, *, usable: bool) -> None:
        try:
            with contextlib.suppress(oracledb.Error, OSError):
                await (self._release(session) if usable else self._discard(session))
        finally:
            self._leave(session.ticket)

    async def _return_late(self, obtaining: asyncio.Task[Any], ticket: object) -> None:
        """Give back a connection that came when nobody waited for it any more."""
        try:
            await asyncio.wait({obtaining})
            if not obtaining.cancelled() and obtaining.exception() is None:
                session = self._session(obtaining.result(), math.inf)
                with contextlib.suppress(oracledb.Error, OSError):
                    await self._release(session)
        finally:
            self._leave(ticket)


async def close_in_time(connection: Any, seconds: float) -> None:
    """Close an asyncio connection, or return it to its pool; cut it if that takes too long.

    Has to run in a task of its own.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    # Closing empties the object at once; the copy can still reach the wire.
    wire = copy.copy(connection)
    late: list[asyncio.TimerHandle] = []

    def cut() -> None:
        wire.terminate()
        if task is not None:
            # What waits for a wire that is cut may not notice.
            late.append(loop.call_later(seconds, task.cancel))

    late.append(loop.call_later(seconds, cut))
    try:
        await connection.close()
    except asyncio.CancelledError:
        if len(late) == 1:
            raise
    finally:
        for timer in late:
            timer.cancel()
