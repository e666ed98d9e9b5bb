"""The threads that own connections and run jobs on them.

May import: errors, and `job`, `connection` and `faults` of this package.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import enum
import functools
import os
import threading
import time
import weakref
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar, cast

import apsw

from agentmemory.errors import (
    ClosedError,
    StoreError,
    StoreUnavailableError,
    UsageError,
)
from agentmemory.stores.sqlite.connection import (
    PIN_SNAPSHOT,
    BusyWait,
    ConnectionPlan,
    hold,
    release,
)
from agentmemory.stores.sqlite.faults import translate
from agentmemory.stores.sqlite.job import Job, Mode, StoppedError

T = TypeVar("T")

Inbox = SimpleQueue["Job[Any] | Farewell"]

_JOIN_EVERY_S: Final = 0.01
_EXIT_GRACE_S: Final = 1.0


class Farewell(enum.Enum):
    """Sent through an inbox: the worker that takes it closes its connection and ends."""

    QUICK = "quick"
    THOROUGH = "thorough"


class Worker:
    """A daemon thread that owns one connection and runs the jobs of an inbox on it.

    It never refers to the engine, so that an engine nobody closed can be collected. Its stack
    keeps the connection alive: in a forked child, where the thread does not exist but its stack
    is never unwound, nothing can close the parent's connection.

    Args:
        plan: How to open the connection, and to open it again should it become unusable.
        inbox: Where jobs come from; readers share one.
        busy_timeout_s: Seconds to wait for a lock of another process.
    """

    def __init__(self, plan: ConnectionPlan, inbox: Inbox, *, busy_timeout_s: float) -> None:
        self.plan = plan
        self.inbox = inbox
        self.ended: concurrent.futures.Future[None] = concurrent.futures.Future()
        self.ended.set_running_or_notify_cancel()
        self.leaving = False
        self._summoned = False
        self._job: Job[Any] | None = None
        self._busy = BusyWait(busy_timeout_s, self._halted)
        self._connection: apsw.Connection | None = None
        self._control: apsw.Cursor | None = None
        self._cursors: list[weakref.ref[apsw.Cursor]] = []
        self._query_only = False
        self._opening: Job[None] | None = None
        self._thread: threading.Thread | None = None

    def start(self, opening: Job[None]) -> None:
        """Start the thread; `opening` ends when the connection is open, or with the reason."""
        self._opening = opening
        self._thread = threading.Thread(
            target=self._run, name=f"agentmemory-{self.plan.role}", daemon=True
        )
        _live.add(self)
        try:
            self._thread.start()
        except RuntimeError as error:
            _live.discard(self)
            self._thread = None
            raise StoreUnavailableError(
                f"cannot open the database {self.plan.path!r}: no thread could be started for it"
            ) from error

    @property
    def running(self) -> bool:
        """Whether its thread was started and has not ended."""
        return self._thread is not None and not self.ended.done()

    def leave(self, how: Farewell) -> None:
        """Have the worker end after the jobs queued so far; safe in a finalizer."""
        if not self._summoned:
            self._summoned = True
            self.inbox.put(how)

    def hurry(self) -> None:
        """Have the worker end now: stop the running job, refuse the queued ones."""
        self.leaving = True
        self.leave(Farewell.QUICK)
        job = self._job
        if job is not None:
            job.stop(_closed())
            job.interrupt()

    def join(self, seconds: float) -> None:
        """Wait for the thread's end, for so many seconds at most."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _halted(self) -> bool:
        return self.leaving or (self._job is not None and self._job.stopped)

    def _run(self) -> None:
        how = Farewell.QUICK
        try:
            opening, self._opening = self._opening, None
            self._perform(cast("Job[None]", opening))
            del opening
            if self._connection is not None:
                how = self._serve()
        finally:
            self._close(how)
            _live.discard(self)
            self.ended.set_result(None)

    def _serve(self) -> Farewell:
        while True:
            item = self.inbox.get()
            if isinstance(item, Farewell):
                return item
            self._perform(item)
            # While waiting for the next one, nothing the last one referred to is kept alive.
            del item

    def _perform(self, job: Job[Any]) -> None:
        if self.leaving:
            job.stop(_closed())
            return
        if not job.begin():
            return
        self._job = job
        try:
            job.finish(*self._attempt(job))
        except BaseException as error:  # noqa: BLE001 - the thread outlives whatever happens
            job.finish(None, error)
        finally:
            self._job = None

    def _attempt(self, job: Job[T]) -> tuple[T | None, BaseException | None]:
        # No local name may hold the error: its traceback holds this frame.
        try:
            connection = self._connection or self._connect()
            job.attach(connection)
            self._begin(job.mode, connection)
            work = cast("Callable[[apsw.Connection], T]", job.work)
            result = work(connection)
            if not job.seal():
                raise StoppedError
            self._close_cursors()
            self._commit(job.mode, connection)
        except BaseException as error:  # noqa: BLE001 - it belongs to the task that waits
            job.seal()
            self._close_cursors()
            errno = 0 if self._connection is None else self._connection.system_errno
            self._restore(stopped=job.stopped)
            return None, self._explain(error, job.mode, errno)
        if connection.txn_state() != apsw.SQLITE_TXN_NONE:
            self._replace()
        return result, None

    def _connect(self) -> apsw.Connection:
        self.plan = self.plan.resolved()
        self._connection = connection = self.plan.connect(self._busy)
        self._control = connection.cursor()
        if self.plan.role == "memory":
            connection.cursor_factory = functools.partial(_tracked_cursor, self._cursors)
        self._query_only = False
        if self.plan.role == "writer":
            hold(self, self.plan.path)
        return connection

    def _begin(self, mode: Mode, connection: apsw.Connection) -> None:
        control = cast("apsw.Cursor", self._control)
        reads = mode == "read"
        if reads is not self._query_only:
            control.execute(f"PRAGMA query_only = {int(reads)}")
            self._query_only = reads
        if reads:
            self._busy.patiently(functools.partial(_begin_read, connection, control))
        elif mode == "write":
            self._busy.patiently(functools.partial(control.execute, "BEGIN IMMEDIATE"))

    def _commit(self, mode: Mode, connection: apsw.Connection) -> None:
        if mode == "bare":
            if connection.in_transaction:
                raise StoreError("an operation outside a transaction left one open")
        elif connection.in_transaction:
            cast("apsw.Cursor", self._control).execute("COMMIT")
        else:
            # SQLite ends a transaction by itself on some faults; what follows would be kept alone.
            raise StoreError("the transaction ended before the operation did")

    def _explain(self, error: BaseException, mode: Mode, errno: int) -> BaseException:
        if mode == "read" and getattr(error, "extendedresult", 0) == apsw.SQLITE_READONLY:
            problem = UsageError("a read operation tried to write")
            problem.__cause__ = error
            return problem
        if isinstance(error, apsw.Error):
            return translate(
                error, self.plan.path, system_errno=errno, busy_timeout_s=self._busy.budget_s
            )
        return error

    def _restore(self, *, stopped: bool) -> None:
        """Bring the connection back to rest after a failure, or replace it."""
        connection = self._connection
        if connection is None:
            return
        control = cast("apsw.Cursor", self._control)
        try:
            if connection.in_transaction:
                control.execute("ROLLBACK")
            if stopped:
                # Fails if a statement the job left behind keeps the interrupt alive.
                control.execute(PIN_SNAPSHOT)
            at_rest = connection.txn_state() == apsw.SQLITE_TXN_NONE
        except apsw.Error:
            at_rest = False
        if not at_rest:
            self._replace()

    def _close_cursors(self) -> None:
        """Close what a job left open where the connection cannot be replaced: in memory."""
        for reference in self._cursors:
            cursor = reference()
            if cursor is not None:
                with contextlib.suppress(apsw.Error):
                    cursor.close(True)
        self._cursors.clear()

    def _replace(self) -> None:
        """Swap the connection for a new one: a statement left open would pin its snapshot.

        Should that fail, the next job tries again and is told the reason.
        """
        old = self._connection
        if old is None or self.plan.role == "memory":
            return
        self._connection, self._control = None, None
        try:
            with contextlib.suppress(Exception):
                self._connect()
        finally:
            with contextlib.suppress(apsw.Error):
                old.close(True)

    def _close(self, how: Farewell) -> None:
        connection, self._connection, self._control = self._connection, None, None
        if connection is None:
            return
        # Whoever holds a lock now will tidy up later: nobody waits for that on the way out.
        with contextlib.suppress(apsw.Error):
            connection.set_busy_timeout(0)
            if how is Farewell.THOROUGH and self.plan.role == "writer" and not self.leaving:
                with contextlib.suppress(apsw.Error):
                    connection.pragma("optimize")
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        with contextlib.suppress(apsw.Error):
            connection.close(True)
        release(self)


def _tracked_cursor(
    cursors: list[weakref.ref[apsw.Cursor]], connection: apsw.Connection
) -> apsw.Cursor:
    cursor = apsw.Cursor(connection)
    cursors.append(weakref.ref(cursor))
    return cursor


def _begin_read(connection: apsw.Connection, control: apsw.Cursor) -> None:
    if connection.in_transaction:
        control.execute("ROLLBACK")
    control.execute("BEGIN")
    control.execute(PIN_SNAPSHOT)


def refuse_queued(inbox: Inbox) -> None:
    """Tell whoever waits in the queue that the engine is closed; a thread may be stuck for long."""
    farewells: list[Farewell] = []
    with contextlib.suppress(Empty):
        while True:
            item = inbox.get_nowait()
            if isinstance(item, Farewell):
                farewells.append(item)
            else:
                item.stop(_closed())
    for farewell in farewells:
        inbox.put(farewell)


def _closed() -> ClosedError:
    return ClosedError("the store was closed before the operation could finish")


_live: set[Worker] = set()


def _forget_in_child() -> None:
    _live.clear()


def _leave_at_exit() -> None:
    """Close what nobody closed; a thread that does not react in time dies with the process."""
    workers = list(_live)
    until = time.monotonic() + _EXIT_GRACE_S
    while workers and time.monotonic() < until:
        for worker in workers:
            worker.hurry()
        workers[0].join(_JOIN_EVERY_S)
        workers = [worker for worker in workers if worker.running]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
atexit.register(_leave_at_exit)
