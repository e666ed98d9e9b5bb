"""Opens one SQLite connection as the store needs it, and waits for locks of other processes.

May import: errors, and `faults` of this package.

A forked child inherits SQLite's record of the locks its parent holds, so a connection it opens on
the same file believes to hold them too and holds none: it would read and write unprotected. Files
that were open at the fork are therefore refused in the child.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, TypeVar

import apsw

from agentmemory.errors import StoreUnavailableError, UsageError

T = TypeVar("T")

MEMORY: Final = ":memory:"

Role = Literal["writer", "reader", "memory"]
Durability = Literal["normal", "full"]
ConnectionHook = Callable[[apsw.Connection], None]

# Without a row to fetch it still opens the read transaction, which fixes the snapshot.
PIN_SNAPSHOT: Final = "SELECT 1 FROM sqlite_schema LIMIT 0"

_CACHE_KIB: Final = 16 * 1024
_MMAP_BYTES: Final = 128 * 1024 * 1024
_LOG_LIMIT_BYTES: Final = 64 * 1024 * 1024
_CHECKPOINT_PAGES: Final = 4000
"""Pages in the log before a commit copies them back: 16 MB, so that few commits wait for that."""
_PAUSES_S: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.015, 0.02)


class BusyWait:
    """Waits for locks that other processes hold, within a budget per lock.

    SQLite asks it through the connection's busy handler, except where waiting could deadlock or
    where another process is just switching or recovering the log: there a statement fails at once,
    and `patiently` repeats it.

    Args:
        budget_s: Seconds to wait for one lock.
        halted: Whether the running operation is to stop; asked between pauses of at most 20 ms.
    """

    __slots__ = ("_halted", "_patient", "_until", "budget_s")

    def __init__(self, budget_s: float, halted: Callable[[], bool]) -> None:
        self.budget_s = budget_s
        self._halted = halted
        self._patient = False
        self._until = 0.0

    def __call__(self, prior_calls: int) -> bool:
        """Pause and return True to have SQLite try again; False once the budget is spent."""
        if prior_calls == 0 and not self._patient:
            self._until = time.monotonic() + self.budget_s
        return self._pause(prior_calls)

    def patiently(self, step: Callable[[], T]) -> T:
        """Run `step`, again while it meets a lock; repeating it after a failure must be safe.

        Raises:
            apsw.BusyError: The budget is spent, or the operation is to stop.
            apsw.ProtocolError: The same, where SQLite itself gave up waiting for the log.
        """
        tries = 0
        self._until = time.monotonic() + self.budget_s
        self._patient = True
        try:
            while True:
                try:
                    return step()
                except (apsw.BusyError, apsw.ProtocolError):
                    if not self._pause(tries):
                        raise
                    tries += 1
        finally:
            self._patient = False

    def _pause(self, tries: int) -> bool:
        left = self._until - time.monotonic()
        if left <= 0 or self._halted():
            return False
        # Jitter keeps processes that wait for the same lock from coming back together.
        pause = _PAUSES_S[min(tries, len(_PAUSES_S) - 1)] * random.uniform(0.5, 1.0)  # noqa: S311
        time.sleep(min(pause, left))
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionPlan:
    """How one connection of the engine is opened.

    Args:
        path: Path of the file, or `":memory:"`.
        role: `writer` creates the file and switches it to WAL, `reader` finds it so, `memory`
            is the only connection of a database without a file.
        durability: `normal` survives the death of the process, `full` also power loss.
        admit: Called before anything in the file is changed; raises to refuse it.
        setup: Called last; registers functions and the like.
    """

    path: str
    role: Role
    durability: Durability = "normal"
    admit: ConnectionHook | None = None
    setup: ConnectionHook | None = None

    def resolved(self) -> ConnectionPlan:
        """Return the same plan with an absolute path, for the working directory may change."""
        if self.role == "memory":
            return self
        return replace(self, path=str(Path(self.path).absolute()))

    def connect(self, busy: BusyWait) -> apsw.Connection:
        """Open and configure a connection; the calling thread owns it.

        Raises:
            apsw.Error: What SQLite says; the engine translates it.
            StoreUnavailableError: The file is read-only, or its file system cannot share memory
                between processes.
            UsageError: The file was open in the parent of this forked process.
        """
        if self.role != "memory":
            refuse_inherited(self.path)
        flags = apsw.SQLITE_OPEN_READWRITE
        if self.role != "reader":
            flags |= apsw.SQLITE_OPEN_CREATE
        connection = apsw.Connection(self.path, flags=flags)
        try:
            connection.set_busy_handler(busy)
            busy.patiently(lambda: self._configure(connection))
            if self.setup is not None:
                self.setup(connection)
        except BaseException:
            connection.close(True)
            raise
        return connection

    def _configure(self, connection: apsw.Connection) -> None:
        if self.role != "memory" and connection.readonly("main"):
            raise StoreUnavailableError(
                f"the database {self.path!r} is read-only; it needs write permission on the file "
                "and on its directory"
            )
        if self.admit is not None and self.role != "reader":
            self.admit(connection)
        # Plans depend on no bound value. Else SQLite compiles a statement anew, for a tenth of a
        # millisecond, each time a value changes that a partial index or a statistic is about.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        connection.pragma("secure_delete", "ON")
        if self.role == "writer":
            mode = connection.pragma("journal_mode", "WAL")
            if mode != "wal":
                raise StoreUnavailableError(
                    f"cannot use the database {self.path!r}: its file system does not support "
                    f"write-ahead logging (the journal mode stays {mode!r}); use a local disk"
                )
        connection.pragma("synchronous", self.durability.upper())
        connection.pragma("foreign_keys", "ON")
        connection.pragma("temp_store", "MEMORY")
        connection.pragma("cache_size", -_CACHE_KIB)
        if self.role != "memory":
            connection.pragma("mmap_size", _MMAP_BYTES)
            connection.pragma("journal_size_limit", _LOG_LIMIT_BYTES)
            connection.pragma("wal_autocheckpoint", _CHECKPOINT_PAGES)
        connection.execute(PIN_SNAPSHOT)


_FileKey = tuple[int, int]

_held: dict[object, _FileKey] = {}
_inherited: set[_FileKey] = set()


def _key(path: str) -> _FileKey | None:
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def hold(owner: object, path: str) -> None:
    """Remember that `owner` has the file open, in case this process forks."""
    key = _key(path)
    if key is not None:
        _held[owner] = key


def release(owner: object) -> None:
    """Forget what `owner` had open."""
    _held.pop(owner, None)


def refuse_inherited(path: str) -> None:
    """Raise `UsageError` if the file was open in the parent when this process was forked."""
    if _inherited and _key(path) in _inherited:
        raise UsageError(
            f"the database {path!r} was open in the parent process when this one was forked, and "
            "SQLite's locks do not survive a fork; start processes with the 'spawn' method, or "
            "open the database only after the fork"
        )


def _after_fork_in_child() -> None:
    _inherited.update(_held.values())
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
