"""One operation on its way from a loop to a worker's thread and back.

May import: errors.

A job crosses threads twice: into a worker's inbox, and back by `call_soon_threadsafe`. Its lock
orders the one race that matters: a stop reaches the connection only while the job runs on it, so
that it can never hit the job that comes next.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import threading
from collections.abc import Callable
from typing import Final, Generic, Literal, NoReturn, TypeVar, cast

import anyio
import apsw

from agentmemory.errors import AgentMemoryError, StoreTimeoutError

T = TypeVar("T")

Mode = Literal["read", "write", "bare"]

_INTERRUPT_EVERY_S: Final = 0.01


class _Phase(enum.Enum):
    QUEUED = enum.auto()
    RUNNING = enum.auto()
    SEALED = enum.auto()
    DONE = enum.auto()


class StoppedError(Exception):
    """The job was stopped before it could be committed."""


def _refuse_statement(*_: object) -> NoReturn:
    raise apsw.InterruptError("interrupted")


class Job(Generic[T]):
    """One operation: `work` inside one transaction on one connection.

    Args:
        work: Called with the connection, in the thread that owns it.
        mode: `read` (one snapshot), `write` (`BEGIN IMMEDIATE`) or `bare` (no transaction).
        loop: The loop that waits for it.
        grace_s: Seconds a stopped job may take to leave its thread before nobody waits any more.
    """

    __slots__ = (
        "_connection",
        "_delivered",
        "_error",
        "_future",
        "_give_up_at",
        "_lock",
        "_loop",
        "_phase",
        "_result",
        "_stop_error",
        "_tracer",
        "grace_s",
        "mode",
        "stopped",
        "work",
    )

    def __init__(
        self,
        work: Callable[[apsw.Connection], T],
        mode: Mode,
        loop: asyncio.AbstractEventLoop,
        *,
        grace_s: float,
    ) -> None:
        self.work: Callable[[apsw.Connection], T] | None = work
        self.mode: Mode = mode
        self.grace_s = grace_s
        self.stopped = False
        self._loop = loop
        self._future: asyncio.Future[None] = loop.create_future()
        self._lock = threading.Lock()
        self._phase = _Phase.QUEUED
        self._connection: apsw.Connection | None = None
        self._tracer: apsw.ExecTracer | None = None
        self._result: T | None = None
        self._error: BaseException | None = None
        self._stop_error: AgentMemoryError | None = None
        self._delivered = False
        self._give_up_at: float | None = None

    # In the loop that waits.

    async def outcome(self) -> T:
        """Wait for the job; when cancelled, leave only once it cannot touch the database.

        Raises:
            asyncio.CancelledError: The task was cancelled; the job never ran, was rolled back,
                or had already been committed.
            BaseException: What the job failed with.
        """
        try:
            await self._future
        except asyncio.CancelledError:
            await self._withdraw()
            raise
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                # A frame that knows the error that knows the frame would wait for the collector.
                del error
        return cast("T", self._result)

    def expire(self, seconds: float) -> None:
        """Stop it because its deadline of `seconds` has passed."""
        waiting = self._phase is _Phase.QUEUED
        where = "waiting for its turn" if waiting else "running"
        error = StoreTimeoutError(
            f"the operation was still {where} when its deadline of {seconds:g} s passed"
        )
        if not self.stop(error):
            self._press()

    async def _withdraw(self) -> None:
        if self._delivered or self.stop(None):
            return
        self._future = self._loop.create_future()
        self._press()
        # A cancelled scope cancels every wait inside it, again and again: only a shield can wait.
        with anyio.CancelScope(shield=True):
            while not self._delivered:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait((self._future,))

    def _press(self) -> None:
        """Interrupt until the thread gives in; an interrupt between two statements is lost."""
        if self._delivered:
            return
        now = self._loop.time()
        if self._give_up_at is None:
            self._give_up_at = now + self.grace_s
        elif now >= self._give_up_at:
            self._abandon()
            return
        self.interrupt()
        self._loop.call_later(_INTERRUPT_EVERY_S, self._press)

    def _abandon(self) -> None:
        with self._lock:
            if self._phase is _Phase.DONE:
                return
            fate = "may yet be kept" if self._phase is _Phase.SEALED else "will be rolled back"
            self._phase = _Phase.DONE
            self._error = StoreTimeoutError(
                f"the operation outlived its deadline and did not stop within {self.grace_s:g} s; "
                f"what it wrote {fate}"
            )
        self._deliver()

    def _deliver(self) -> None:
        self._delivered = True
        if not self._future.done():
            self._future.set_result(None)

    # From any thread.

    def stop(self, error: AgentMemoryError | None) -> bool:
        """Keep it from being committed; `error` is what the waiting task is told.

        Returns:
            Whether it was still queued, so that it will never run.
        """
        with self._lock:
            if self._phase is _Phase.QUEUED:
                self._phase = _Phase.DONE
                self.stopped = True
                self.work = None
                self._error = error
                self._send()
                return True
            if self._phase is _Phase.RUNNING and not self.stopped:
                self.stopped = True
                self._stop_error = error
                if self._connection is not None:
                    self._hamper(self._connection)
        return False

    def interrupt(self) -> None:
        """Interrupt the statement it runs, if it was stopped and still runs."""
        with self._lock:
            if self._phase is _Phase.RUNNING and self.stopped and self._connection is not None:
                self._connection.interrupt()

    def _hamper(self, connection: apsw.Connection) -> None:
        self._tracer = connection.exec_trace
        connection.exec_trace = _refuse_statement
        connection.interrupt()

    def _send(self) -> None:
        # A closed loop has nobody left to tell.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._deliver)

    # In the worker's thread.

    def begin(self) -> bool:
        """Take it from the queue; False if it was stopped there."""
        with self._lock:
            if self._phase is not _Phase.QUEUED:
                return False
            self._phase = _Phase.RUNNING
            return True

    def attach(self, connection: apsw.Connection) -> None:
        """From here on a stop reaches the connection."""
        with self._lock:
            if self.stopped:
                raise StoppedError
            self._connection = connection

    def seal(self) -> bool:
        """From here on a stop comes too late; False if one came before."""
        with self._lock:
            if self._phase is _Phase.RUNNING:
                self._phase = _Phase.SEALED
            connection, self._connection = self._connection, None
            if connection is not None and self.stopped:
                connection.exec_trace = self._tracer
            return not self.stopped

    def finish(self, result: T | None, error: BaseException | None) -> None:
        """Hand the result back, unless nobody waits any more."""
        with self._lock:
            self.work = None
            if self._phase is _Phase.DONE:
                return
            self._phase = _Phase.DONE
            self._result = result
            self._error = self._stop_error if self.stopped else error
            self._send()
