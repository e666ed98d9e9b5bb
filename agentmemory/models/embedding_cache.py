"""Vectors kept in a file, so that no text is embedded twice.

May import: telemetry, errors. A single SQLite file, through the standard library's `sqlite3`:
many readers and writers in several processes, nothing half-written after a crash, one file to
delete. Its methods block; they are called in worker threads. It holds vectors under hashes of
their texts and no text; still, vectors tell about texts, so the file belongs to its owner only.
A cache that fails is told of once and then does nothing: it never fails the call it serves.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from agentmemory.errors import ConfigurationError
from agentmemory.telemetry import Event, emit

_APPLICATION_ID: Final = 0x616D6563
_KEYS_PER_QUERY: Final = 500
_BUSY_SECONDS: Final = 5.0


class EmbeddingCache:
    """The vectors of one file.

    Args:
        path: The file; it is created when first used.
        max_entries: Vectors to keep; the oldest go first.
    """

    def __init__(self, path: str | Path, *, max_entries: int = 1_000_000) -> None:
        self.path = Path(path)
        self._max_entries = max_entries
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._failed = False

    def __repr__(self) -> str:
        return f"EmbeddingCache({str(self.path)!r})"

    def get(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return what is kept of the vectors of these keys."""
        found: dict[bytes, bytes] = {}
        with self._lock:
            try:
                connection = self._open()
                if connection is None:
                    return found
                for start in range(0, len(keys), _KEYS_PER_QUERY):
                    part = keys[start : start + _KEYS_PER_QUERY]
                    marks = ",".join("?" * len(part))
                    found.update(
                        connection.execute(
                            f"SELECT key, vector FROM embedding WHERE key IN ({marks})",  # noqa: S608 - only marks are put in
                            part,
                        )
                    )
            except sqlite3.Error as error:
                self._give_up(error)
                return {}
        return found

    def put(self, vectors: Mapping[bytes, bytes]) -> None:
        """Keep vectors."""
        with self._lock:
            try:
                connection = self._open()
                if connection is None:
                    return
                with _transaction(connection):
                    connection.executemany(
                        "INSERT OR IGNORE INTO embedding (key, vector) VALUES (?, ?)",
                        vectors.items(),
                    )
                    # Ids grow, so the newest `max_entries` are those above this one.
                    connection.execute(
                        "DELETE FROM embedding WHERE id <= (SELECT max(id) FROM embedding) - ?",
                        (self._max_entries,),
                    )
            except sqlite3.Error as error:
                self._give_up(error)

    def clear(self) -> None:
        """Forget every vector, also on the disk."""
        with self._lock:
            connection = self._open()
            if connection is not None:
                connection.execute("DELETE FROM embedding")
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close the file; it opens again when used."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _open(self) -> sqlite3.Connection | None:
        if self._failed:
            return None
        if self._connection is not None:
            return self._connection
        try:
            # Made beforehand, for SQLite would let others read it.
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            connection = sqlite3.connect(
                self.path, timeout=_BUSY_SECONDS, check_same_thread=False, isolation_level=None
            )
        except (OSError, sqlite3.Error) as error:
            raise ConfigurationError(
                f"`cache` {str(self.path)!r} cannot be opened: {error}"
            ) from error
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Make the table in an empty file; refuse a file of somebody else."""
        try:
            if self._is_ours(connection):
                return
            with contextlib.suppress(sqlite3.OperationalError):
                # Locked means that another process is doing the same.
                connection.execute("PRAGMA journal_mode = WAL")
            with _transaction(connection):
                if not self._is_ours(connection):
                    connection.execute(
                        "CREATE TABLE embedding (id INTEGER PRIMARY KEY AUTOINCREMENT, "
                        "key BLOB NOT NULL UNIQUE, vector BLOB NOT NULL)"
                    )
                    connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:
            raise self._foreign() from None

    def _is_ours(self, connection: sqlite3.Connection) -> bool:
        """Say whether the file is a cache; False means that it is empty."""
        (owner,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if owner != _APPLICATION_ID and (owner or tables):
            raise self._foreign()
        return bool(owner)

    def _foreign(self) -> ConfigurationError:
        return ConfigurationError(
            f"`cache` {str(self.path)!r} is another file, not a cache of vectors; accepted is a "
            "path where none is, or a file that was made as a cache"
        )

    def _give_up(self, error: sqlite3.Error) -> None:
        self._failed = True
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None
        emit(
            Event(
                name="model.embedding_cache_failed",
                message=f"vectors are no longer cached: {error}",
                level="warning",
            )
        )


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Generator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def cache_key(identity: Iterable[object], text: str) -> bytes:
    """Return the key of a text's vector.

    Args:
        identity: All that makes two vectors comparable: model, dimension, prefixes, and so on.
        text: The text.
    """
    digest = hashlib.blake2b(repr(tuple(identity)).encode(), digest_size=32)
    digest.update(b"\0" + text.encode("utf-8", "surrogatepass"))
    return digest.digest()
