"""Turns SQLite's errors into the library's own; the only place that does.

May import: errors.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import apsw

from agentmemory.errors import (
    AgentMemoryError,
    ConflictError,
    SchemaMismatchError,
    StoreBusyError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
)

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_DUPLICATES = frozenset(
    {
        apsw.SQLITE_CONSTRAINT_UNIQUE,
        apsw.SQLITE_CONSTRAINT_PRIMARYKEY,
        apsw.SQLITE_CONSTRAINT_ROWID,
    }
)


def translate(
    error: apsw.Error, path: str, *, system_errno: int = 0, busy_timeout_s: float = 0.0
) -> AgentMemoryError:
    """Return the library's error for one of SQLite's, with that one as its `__cause__`.

    Args:
        error: What apsw raised.
        path: The database the connection belongs to; named in the text.
        system_errno: The connection's `system_errno` right after the failure; tells a full disk
            from other I/O errors.
        busy_timeout_s: How long the connection waits for other processes; named in the text.
    """
    translated = _translate(error, path, system_errno, busy_timeout_s)
    translated.__cause__ = error
    return translated


def why_not_opened(path: str) -> str:
    """Say what keeps the file from being opened, as far as the file system shows it."""
    file = Path(path)
    directory = file.parent
    try:
        if file.is_dir():
            return "it is a directory"
        if directory.is_file():
            return f"{str(directory)!r} is not a directory"
        if not directory.is_dir():
            return f"the directory {str(directory)!r} does not exist"
        exists = file.exists()
    except OSError as error:
        return error.strerror or str(error)
    if not os.access(directory, os.X_OK):
        return f"no permission to enter {str(directory)!r}"
    if exists and not os.access(path, os.R_OK):
        return "no permission to read it"
    if not os.access(directory, os.W_OK):
        what = "write its log next to it" if exists else "create it"
        return f"no permission to {what} in {str(directory)!r}"
    return "the operating system refused it"


def _translate(
    error: apsw.Error, path: str, system_errno: int, busy_timeout_s: float
) -> AgentMemoryError:
    extended = getattr(error, "extendedresult", 0)
    match error:
        case apsw.ConstraintError() if extended in _DUPLICATES:
            return ConflictError(f"a record with the same key exists already ({error})")
        case apsw.BusyError() | apsw.ProtocolError():
            return StoreBusyError(
                f"the database {path!r} stayed locked by another process for longer than "
                f"the busy timeout of {busy_timeout_s:g} s"
            )
        case apsw.FullError():
            return StoreFullError(
                f"no space is left for the database {path!r}; nothing of the operation was kept"
            )
        case apsw.IOError() if extended == apsw.SQLITE_IOERR_CORRUPTFS:
            return StoreCorruptError(f"the file system under {path!r} is damaged ({error})")
        case apsw.IOError() if system_errno in _NO_SPACE:
            return StoreFullError(
                f"no space is left for the database {path!r} ({os.strerror(system_errno)}); "
                "nothing of the operation was kept"
            )
        case apsw.IOError():
            detail = os.strerror(system_errno) if system_errno else str(error)
            return StoreUnavailableError(f"reading or writing {path!r} failed ({detail})")
        case apsw.CantOpenError():
            return StoreUnavailableError(
                f"cannot open the database {path!r}: {why_not_opened(path)}"
            )
        case apsw.ReadOnlyError() if extended == apsw.SQLITE_READONLY_DBMOVED:
            return StoreUnavailableError(
                f"the database {path!r} was moved or deleted while it was open"
            )
        case apsw.ReadOnlyError() | apsw.PermissionsError():
            return StoreUnavailableError(
                f"the database {path!r} is read-only; it needs write permission on the file "
                "and on its directory"
            )
        case apsw.NotADBError():
            return SchemaMismatchError(f"{path!r} is not an agentmemory database")
        case apsw.CorruptError():
            return StoreCorruptError(f"the database {path!r} is damaged ({error})")
        case _:
            return StoreError(f"the database {path!r} refused a statement ({error})")
