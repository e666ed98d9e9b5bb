"""The engine under the SQLite store: one writer, N readers, one thread hop per operation.

May import: errors, and `connection`, `job`, `precedence` and `worker` of this package.

Each connection lives in a daemon thread of its own (WAL: readers do not wait for the writer). An
operation is one function, run in one transaction in one of these threads; no cursor ever leaves
it. An empty read takes about 45 µs at the median on an idle 2-core machine: 35 to the thread and
back, 10 for the transaction.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import weakref
from collections.abc import Callable, Iterable, Sequence
from queue import SimpleQueue
from typing import Final, TypeVar

import anyio
import apsw

from agentmemory.errors import (
    ClosedError,
    StoreUnavailableError,
    UsageError,
    ValidationError,
)
from agentmemory.stores.sqlite.connection import (
    MEMORY,
    ConnectionHook,
    ConnectionPlan,
    Durability,
    Role,
)
from agentmemory.stores.sqlite.job import Job, Mode
from agentmemory.stores.sqlite.precedence import Precedence
from agentmemory.stores.sqlite.worker import Farewell, Inbox, Worker, refuse_queued

T = TypeVar("T")

_MAX_READERS: Final = 64
_CLOSE_PATIENCE_S: Final = 10.0
_HURRY_EVERY_S: Final = 0.01


class SqliteEngine:
    """Runs functions in transactions on one SQLite database.

    It belongs to the event loop and the process it was opened in. Several processes may have the
    same file open.

    Args:
        path: The database file, created if its directory exists; `":memory:"` for one that lives
            as long as the engine, on one connection that reads and writes in turn.
        readers: Connections that read side by side, 1 to 64.
        busy_timeout_s: Seconds to wait for a lock that another process holds.
        operation_timeout_s: Seconds an operation may take, from the call to the answer; the
            default of `timeout_s`. `math.inf` for no limit.
        durability: `normal`: what was acknowledged survives the death of the process; `full`:
            also power loss.
        setup: Called in the thread of each new connection, to register functions. It must not
            hold the engine, or an engine that nobody closes cannot be collected.
        admit: Called once per opening of the file, before anything in it is changed; raises to
            refuse it.
        stop_grace_s: Seconds a stopped operation that does not react (it never calls SQLite) is
            waited for; after that it is on its own, and its transaction will be rolled back.

    Raises:
        ValidationError: An argument is of the wrong type or out of range.
    """

    def __init__(
        self,
        path: str,
        *,
        readers: int = 2,
        busy_timeout_s: float = 10.0,
        operation_timeout_s: float = 60.0,
        durability: Durability = "normal",
        setup: ConnectionHook | None = None,
        admit: ConnectionHook | None = None,
        stop_grace_s: float = 5.0,
    ) -> None:
        _check_path(path)
        if type(readers) is not int or not 1 <= readers <= _MAX_READERS:
            raise ValidationError(
                f"`readers` is {readers!r}; it must be a whole number from 1 to {_MAX_READERS}",
                argument="readers",
            )
        if durability not in ("normal", "full"):
            raise ValidationError(
                f"`durability` is {durability!r}; it must be 'normal' or 'full'",
                argument="durability",
            )
        self._path = path
        self._reader_count = 0 if path == MEMORY else readers
        self._busy_timeout_s = _seconds("busy_timeout_s", busy_timeout_s, zero=True)
        self._operation_timeout_s = _seconds("operation_timeout_s", operation_timeout_s)
        self._stop_grace_s = _seconds("stop_grace_s", stop_grace_s)
        self._durability: Durability = durability
        self._setup = setup
        self._admit = admit
        self._precedence = Precedence()
        self._pid = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open = False
        self._closed = False
        self._writer: Worker | None = None
        self._readers: list[Worker] = []
        self._write_inbox: Inbox = SimpleQueue()
        self._read_inbox: Inbox = self._write_inbox
        self._collect: weakref.finalize[[Sequence[Worker]], SqliteEngine] | None = None

    @property
    def path(self) -> str:
        """The path of the database file, absolute once it is open, or `":memory:"`."""
        return self._path

    async def open(self) -> None:
        """Open the database: the writer first, which creates the file, then the readers.

        After a failure nothing stays open, and `open` may be called again.

        Raises:
            StoreUnavailableError: The file cannot be opened, created or written.
            StoreBusyError: Another process kept it locked for longer than `busy_timeout_s`.
            SchemaMismatchError: The file is not an SQLite database.
            StoreCorruptError: The file is damaged.
            StoreFullError: There is no space for it.
            StoreTimeoutError: It took longer than `operation_timeout_s`.
            UsageError: The engine is open already, or the file was open when the process forked.
            ClosedError: The engine was closed.
        """
        loop = _running_loop()
        if self._closed:
            raise ClosedError("the store is closed")
        if self._loop is not None:
            raise UsageError("the store was opened already; `open` is called once")
        if not self._path or self._path.endswith(("/", os.sep)):
            raise StoreUnavailableError(
                f"cannot open the database {self._path!r}: `path` must name a file, "
                "or be ':memory:'"
            )
        self._loop, self._pid = loop, os.getpid()
        # New ones for each attempt: a failed one may leave a farewell behind that nobody took.
        self._write_inbox = SimpleQueue()
        self._read_inbox = self._write_inbox if self._path == MEMORY else SimpleQueue()
        try:
            self._writer = self._worker("memory" if self._path == MEMORY else "writer")
            await self._start([self._writer])
            self._path = self._writer.plan.path
            self._readers = [self._worker("reader") for _ in range(self._reader_count)]
            await self._start(self._readers)
        except BaseException:
            await self._dismiss()
            self._loop = self._writer = None
            self._readers = []
            raise
        if self._closed:
            await self._dismiss()
            raise ClosedError("the store was closed while it was being opened")
        self._collect = weakref.finalize(self, _leave, (*self._readers, self._writer))
        self._collect.atexit = False
        self._open = True

    async def read(
        self, work: Callable[[apsw.Connection], T], *, timeout_s: float | None = None
    ) -> T:
        """Run `work` on one snapshot of the database and return what it returns.

        Args:
            work: Called once, in a reader's thread. Errors it raises reach the caller, SQLite's
                as the library's own.
            timeout_s: Seconds until `StoreTimeoutError`; default `operation_timeout_s`.

        Raises:
            StoreTimeoutError: The deadline passed, whether it was running or still waiting.
            StoreError: The database failed; see `open` for its kinds.
            UsageError: `work` tried to write, or the call comes from another event loop or from
                a forked process.
            ClosedError: The engine was closed.
        """
        return await self._submit(self._read_inbox, "read", work, timeout_s)

    async def write(
        self, work: Callable[[apsw.Connection], T], *, timeout_s: float | None = None
    ) -> T:
        """Run `work` in one write transaction and return what it returns.

        All of it is kept, or none: an error, a cancellation or the deadline rolls it back, unless
        the commit has begun; then it is waited for.

        Args:
            work: Called once, in the writer's thread, when the write lock is held.
            timeout_s: Seconds until `StoreTimeoutError`; default `operation_timeout_s`.

        Raises:
            ConflictError: A unique or primary key exists already.
            StoreBusyError: Another process kept the write lock for longer than `busy_timeout_s`.
            StoreFullError: The disk is full.
            StoreTimeoutError: The deadline passed, whether it was running or still waiting.
            StoreError: The database failed in another way.
            UsageError: The call comes from another event loop or from a forked process.
            ClosedError: The engine was closed.
        """
        return await self._submit(self._write_inbox, "write", work, timeout_s)

    async def maintain(
        self, work: Callable[[apsw.Connection], T], *, timeout_s: float | None = None
    ) -> T:
        """Run `work` in the writer's thread outside any transaction: backup, vacuum, pragmas.

        Args:
            work: Called once; must leave no transaction open.
            timeout_s: Seconds until `StoreTimeoutError`; default `operation_timeout_s`.

        Raises:
            StoreError: As `write`.
        """
        return await self._submit(self._write_inbox, "bare", work, timeout_s)

    async def checkpoint(self, *, timeout_s: float | None = None) -> bool:
        """Move the log into the database file and empty it, so that deleted text is gone from it.

        Args:
            timeout_s: Seconds until `StoreTimeoutError`; default `operation_timeout_s`.

        Returns:
            Whether the log is empty now; False if a reader or another process held on to it for
            the whole `busy_timeout_s`.

        Raises:
            StoreError: As `write`.
        """
        return await self.maintain(_truncate_log, timeout_s=timeout_s)

    async def close(self) -> None:
        """Close the database and empty its log; calling it again does no harm.

        Operations that were called before are finished, for up to 10 seconds; then, or when this
        call is cancelled, they are stopped and raise `ClosedError`. May be called from any loop,
        so that an engine whose loop is gone can be closed.

        Raises:
            UsageError: The call comes from a forked process.
        """
        self._refuse_fork()
        self._closed = True
        if not self._open or self._writer is None:
            return
        try:
            for group in (self._readers, [self._writer]):
                for worker in group:
                    worker.leave(Farewell.THOROUGH)
                if group and not await _all_ended(group, _CLOSE_PATIENCE_S):
                    break
        except asyncio.CancelledError:
            await self._dismiss()
            raise
        await self._dismiss()

    def _worker(self, role: Role) -> Worker:
        plan = ConnectionPlan(
            path=self._path,
            role=role,
            durability=self._durability,
            admit=self._admit,
            setup=self._setup,
        )
        inbox = self._read_inbox if role == "reader" else self._write_inbox
        return Worker(plan, inbox, busy_timeout_s=self._busy_timeout_s)

    async def _start(self, workers: Iterable[Worker]) -> None:
        loop = _running_loop()
        openings: list[Job[None]] = []
        for worker in workers:
            opening = Job(_nothing, "bare", loop, grace_s=self._stop_grace_s)
            openings.append(opening)
            worker.start(opening)
        for opening in openings:
            await self._await(opening, self._operation_timeout_s, loop)

    async def _submit(
        self,
        inbox: Inbox,
        mode: Mode,
        work: Callable[[apsw.Connection], T],
        timeout_s: float | None,
    ) -> T:
        return await self._precedence.run(lambda: self._perform(inbox, mode, work, timeout_s))

    async def _perform(
        self,
        inbox: Inbox,
        mode: Mode,
        work: Callable[[apsw.Connection], T],
        timeout_s: float | None,
    ) -> T:
        loop = self._ready()
        seconds = (
            self._operation_timeout_s if timeout_s is None else _seconds("timeout_s", timeout_s)
        )
        job = Job(work, mode, loop, grace_s=self._stop_grace_s)
        inbox.put(job)
        if self._closed:
            # Closed from another thread just now: nobody may be left to take the job.
            job.stop(ClosedError("the store is closed"))
        return await self._await(job, seconds, loop)

    async def _await(self, job: Job[T], seconds: float, loop: asyncio.AbstractEventLoop) -> T:
        if seconds == math.inf:
            return await job.outcome()
        timer = loop.call_later(seconds, job.expire, seconds)
        try:
            return await job.outcome()
        finally:
            timer.cancel()

    def _ready(self) -> asyncio.AbstractEventLoop:
        self._refuse_fork()
        if self._closed:
            raise ClosedError("the store is closed")
        if not self._open or self._loop is None:
            raise UsageError("the store is not open; await `open()` first")
        if _running_loop() is not self._loop:
            raise UsageError(
                "the store was opened in another event loop; open one per loop, or use the "
                "blocking API, which may be called from any thread"
            )
        return self._loop

    def _refuse_fork(self) -> None:
        if self._pid and os.getpid() != self._pid:
            raise UsageError(
                "the store was opened before this process was forked, and its threads and locks "
                "did not come along; open it after the fork, or start processes with 'spawn'"
            )

    async def _dismiss(self) -> None:
        """Stop whatever runs and wait for the threads, whoever cancels meanwhile."""
        workers = [*self._readers, *([self._writer] if self._writer else [])]
        until = _running_loop().time() + self._stop_grace_s
        refuse_queued(self._read_inbox)
        refuse_queued(self._write_inbox)
        with anyio.CancelScope(shield=True):
            while _running_loop().time() < until:
                running = [worker for worker in workers if worker.running]
                if not running:
                    return
                for worker in running:
                    worker.hurry()
                with contextlib.suppress(asyncio.CancelledError):
                    await _all_ended(running, _HURRY_EVERY_S)


async def _all_ended(workers: Iterable[Worker], seconds: float) -> bool:
    ends = [asyncio.wrap_future(worker.ended) for worker in workers]
    _, pending = await asyncio.wait(ends, timeout=seconds)
    for end in pending:
        # Else the thread would tell this loop about its end even after the loop is closed.
        end.cancel()
    return not pending


def _leave(workers: Iterable[Worker]) -> None:
    """End the threads of an engine that was collected; runs in any thread, under any lock."""
    for worker in workers:
        worker.leave(Farewell.QUICK)


def _nothing(_: apsw.Connection) -> None:
    """Open the connection, which is what the first job of a worker is for."""


def _truncate_log(connection: apsw.Connection) -> bool:
    try:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except (apsw.BusyError, apsw.LockedError):
        return False
    return True


def _running_loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError as error:
        raise UsageError("the store needs a running asyncio event loop") from error


def _check_path(path: object) -> None:
    if not isinstance(path, str) or "\0" in path:
        raise ValidationError(
            f"`path` is {path!r}; it must be a str without NUL characters", argument="path"
        )


def _seconds(argument: str, value: object, *, zero: bool = False) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = float(value)
        if seconds > 0 or (zero and seconds == 0):
            return seconds
    raise ValidationError(
        f"`{argument}` is {value!r}; it must be a number of seconds "
        f"{'not below' if zero else 'above'} 0",
        argument=argument,
    )
