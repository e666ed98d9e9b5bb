"""Finds calls of the package that block a running event loop; a pytest plugin.

`blockbuster` watches files, sockets, sleeps, locks and `sqlite3`. It does not know apsw, so apsw
is watched here: opening a connection and every statement and row through apsw's own hooks, the
calls that run no statement (blobs, backups, checkpoints) through the same patches that blockbuster
uses. A call counts when a frame of the package is on the stack of a thread whose loop is running;
what a test does by itself, such as looking into a database file, does not.

A find raises at the call, and is kept as well: code that swallows exceptions still fails its test.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import apsw
import blockbuster.blockbuster as blockbuster_module
import pytest
from blockbuster import BlockBuster, BlockingError
from blockbuster.blockbuster import BlockBusterFunction

import agentmemory

PACKAGE = str(Path(agentmemory.__file__).parent)

# What these do, no statement tells.
APSW_CALLS: Mapping[type, tuple[str, ...]] = {
    apsw.Connection: (
        "backup",
        "blob_open",
        "cache_flush",
        "close",
        "deserialize",
        "load_extension",
        "serialize",
        "wal_checkpoint",
    ),
    apsw.Blob: ("read", "read_into", "write"),
    apsw.Backup: ("step",),
}


class BlockingCalls:
    """What was found since the running test began."""

    def __init__(self) -> None:
        self.found: list[str] = []

    @contextlib.contextmanager
    def expected(self) -> Iterator[list[str]]:
        """Collect what is found inside the block instead of failing the test for it."""
        before, self.found = self.found, []
        try:
            yield self.found
        finally:
            self.found = before


_calls = BlockingCalls()


class RecordedBlockingError(BlockingError):
    """A blocking call that the running test is told of even when nobody lets this through."""

    def __init__(self, func: str) -> None:
        super().__init__(func)
        where = [
            line.strip().replace("\n", " ") for line in traceback.format_stack() if PACKAGE in line
        ]
        _calls.found.append("\n    ".join([str(self), *where]))


def _blocks_the_loop() -> bool:
    if asyncio._get_running_loop() is None:
        return False
    frame = sys._getframe(1)
    in_package = False
    while frame is not None:
        name = frame.f_code.co_filename
        if name == "<frozen importlib._bootstrap>":
            return False
        in_package = in_package or name.startswith(PACKAGE)
        frame = frame.f_back  # type: ignore[assignment]
    return in_package


def _on_statement(cursor: apsw.Cursor, statement: str, bindings: Any) -> bool:
    if _blocks_the_loop():
        raise RecordedBlockingError(f"apsw statement {statement[:80]!r}")
    return True


def _on_row(cursor: apsw.Cursor, row: Any) -> Any:
    if _blocks_the_loop():
        raise RecordedBlockingError("apsw row")
    return row


def _on_connection(connection: apsw.Connection) -> None:
    if _blocks_the_loop():
        raise RecordedBlockingError("apsw.Connection")
    connection.exec_trace = _on_statement
    connection.row_trace = _on_row


@pytest.fixture(scope="session", autouse=True)
def _blocking_detector() -> Iterator[None]:
    buster = BlockBuster([agentmemory])
    for owner, names in APSW_CALLS.items():
        for name in names:
            full = f"apsw.{owner.__name__}.{name}"
            buster.functions[full] = BlockBusterFunction(None, full, scanned_modules=[agentmemory])
    for function in buster.functions.values():
        # A lazy import reads files; it happens once and is what keeps start-up fast.
        function.can_block_in("<frozen importlib._bootstrap>", {"_find_and_load"})
        # Whoever uses the blocking API where a loop runs has asked for it.
        function.can_block_in("agentmemory/sync/bridge.py", {"call", "close"})
        # Where log lines go is the program's choice, here pytest's.
        function.can_block_in("logging/__init__.py", {"callHandlers"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blockbuster_module, "BlockingError", RecordedBlockingError)
        apsw.connection_hooks.append(_on_connection)
        buster.activate()
        try:
            yield
        finally:
            buster.deactivate()
            apsw.connection_hooks.remove(_on_connection)


@pytest.fixture(autouse=True)
def blocking_calls(_blocking_detector: None) -> Iterator[BlockingCalls]:
    """Fail the test if the package blocked a running event loop during it."""
    _calls.found = []
    yield _calls
    found, _calls.found = _calls.found, []
    if found:
        pytest.fail("the event loop was blocked by\n  " + "\n  ".join(found), pytrace=False)
