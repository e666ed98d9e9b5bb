"""What the tests of the SQLite engine share: small operations, signals, ways to cancel."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

if TYPE_CHECKING:
    import apsw

WAIT_S = 20.0
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"

Call = Callable[[], Awaitable[object]]


def create(connection: apsw.Connection) -> None:
    connection.execute(
        "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE) STRICT"
    )


def add(text: str) -> Callable[[apsw.Connection], None]:
    def work(connection: apsw.Connection) -> None:
        connection.execute("INSERT INTO note (text) VALUES (?)", (text,))

    return work


def texts(connection: apsw.Connection) -> list[str]:
    return [text for (text,) in connection.execute("SELECT text FROM note ORDER BY id")]


def run(sql: str) -> Callable[[apsw.Connection], None]:
    def work(connection: apsw.Connection) -> None:
        connection.execute(sql)

    return work


def twice(*values: apsw.SQLiteValue) -> apsw.SQLiteValue:
    (value,) = values
    assert isinstance(value, int)
    return value * 2


def content(path: str) -> bytes:
    return Path(path).read_bytes()


def overwrite(path: str, offset: int, garbage: bytes) -> None:
    with Path(path).open("r+b") as file:
        file.seek(offset)
        file.write(garbage)


def files(directory: str | Path) -> list[str]:
    return sorted(entry.name for entry in Path(directory).iterdir())


def own_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if "agentmemory" in thread.name]


def assert_threads_end() -> None:
    for thread in own_threads():
        thread.join(WAIT_S)
    assert own_threads() == []


def pragma(name: str) -> Callable[[apsw.Connection], Any]:
    return lambda connection: connection.pragma(name)


def numbers(connection: apsw.Connection) -> list[int]:
    return [number for (number,) in connection.execute("SELECT number FROM seen ORDER BY number")]


def create_seen(connection: apsw.Connection) -> None:
    connection.execute("CREATE TABLE seen (number INTEGER)")


def clear(connection: apsw.Connection) -> None:
    connection.execute("DELETE FROM seen")


def insert(connection: apsw.Connection, *values: int) -> None:
    for value in values:
        connection.execute("INSERT INTO seen VALUES (?)", (value,))


class Signal:
    """Set in a worker's thread, awaited in the loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def set(self) -> None:
        self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self) -> None:
        async with asyncio.timeout(WAIT_S):
            await self._event.wait()


async def by_task_cancel(call: Call, when: Callable[[], Awaitable[object]]) -> bool:
    async def run() -> None:
        await call()

    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as group:
        task = group.create_task(run())
        await when()
        task.cancel()
    return task.cancelled()


async def by_scope(call: Call, when: Callable[[], Awaitable[object]]) -> bool:
    scope = anyio.CancelScope()

    async def run() -> None:
        with scope:
            await call()

    async with asyncio.timeout(WAIT_S), anyio.create_task_group() as group:
        group.start_soon(run)
        await when()
        scope.cancel()
    return scope.cancelled_caught


async def by_asyncio_timeout(call: Call, when: Callable[[], Awaitable[object]]) -> bool:
    outer = asyncio.timeout(None)

    async def run() -> None:
        async with outer:
            await call()

    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as group:

        async def expect_timeout() -> bool:
            try:
                await run()
            except TimeoutError:
                return True
            return False

        task = group.create_task(expect_timeout())
        await when()
        outer.reschedule(0)
    return task.result()


Cancel = Callable[[Call, Callable[[], Awaitable[object]]], Awaitable[bool]]
styles = pytest.mark.parametrize("cancel", [by_task_cancel, by_scope, by_asyncio_timeout])
