"""Late operations are stopped as cancelled ones are, and closing waits for nobody for ever."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from agentmemory.errors import (
    ClosedError,
    StoreTimeoutError,
)
from agentmemory.stores.sqlite.engine import SqliteEngine
from tests.support.engine import (
    ENDLESS,
    WAIT_S,
    Signal,
    assert_threads_end,
    by_task_cancel,
    create_seen,
    files,
    insert,
    numbers,
)

if TYPE_CHECKING:
    import apsw


@pytest.fixture(params=["file", "memory"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SqliteEngine]:
    path = str(tmp_path / "memory.db") if request.param == "file" else ":memory:"
    engine = SqliteEngine(path, readers=1)
    await engine.open()
    await engine.write(create_seen)
    yield engine
    await engine.close()


# Deadlines


async def test_a_running_operation_is_stopped_at_its_deadline(engine: SqliteEngine) -> None:
    def work(connection: apsw.Connection) -> None:
        insert(connection, 1)
        connection.execute(ENDLESS).fetchall()

    with pytest.raises(StoreTimeoutError, match=r"still running .* deadline of 0\.05 s") as caught:
        await engine.write(work, timeout_s=0.05)
    assert isinstance(caught.value, TimeoutError)
    assert await engine.read(numbers) == []


async def test_the_deadline_covers_the_time_in_the_queue(engine: SqliteEngine) -> None:
    running, gate = Signal(), threading.Event()
    ran: list[str] = []

    def first(_: apsw.Connection) -> None:
        running.set()
        assert gate.wait(WAIT_S)

    async with asyncio.TaskGroup() as group:
        group.create_task(engine.write(first))
        await running.wait()
        with pytest.raises(StoreTimeoutError, match="waiting for its turn"):
            await engine.write(lambda _: ran.append("ran"), timeout_s=0.05)
        gate.set()
    await engine.write(lambda _: None)
    assert ran == []


async def test_the_engines_own_deadline_is_the_default(tmp_path: Path) -> None:
    engine = SqliteEngine(str(tmp_path / "memory.db"), operation_timeout_s=0.2)
    await engine.open()
    with pytest.raises(StoreTimeoutError, match=r"0\.2 s"):
        await engine.read(lambda connection: connection.execute(ENDLESS).fetchall())
    await engine.close()


async def test_a_cancel_after_the_deadline_is_still_a_cancel(tmp_path: Path) -> None:
    engine = SqliteEngine(str(tmp_path / "memory.db"))
    await engine.open()
    late, gate = Signal(), threading.Event()

    def work(connection: apsw.Connection) -> None:
        until = time.monotonic() + WAIT_S
        while not connection.is_interrupted and time.monotonic() < until:
            sum(range(1000))
        late.set()
        assert gate.wait(WAIT_S)

    async def release() -> None:
        await late.wait()
        asyncio.get_running_loop().call_soon(gate.set)

    assert await by_task_cancel(lambda: engine.read(work, timeout_s=0.02), release)
    await engine.close()


# Closing


async def test_a_cancelled_close_stops_what_runs_and_still_closes(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    engine = SqliteEngine(str(path), readers=1)
    await engine.open()
    running = Signal()
    ran: list[str] = []

    def endless(connection: apsw.Connection) -> None:
        running.set()
        connection.execute(ENDLESS).fetchall()

    async def read() -> None:
        with pytest.raises(ClosedError):
            await engine.read(endless)

    async def read_behind() -> None:
        with pytest.raises(ClosedError):
            await engine.read(lambda _: ran.append("ran"))

    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as group:
        group.create_task(read())
        group.create_task(read_behind())
        await running.wait()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await engine.close()
        assert scope.cancelled_caught
    assert ran == []
    assert files(tmp_path) == [path.name]
    await engine.close()


async def test_closing_does_not_wait_for_ever_for_an_endless_operation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentmemory.stores.sqlite.engine._CLOSE_PATIENCE_S", 0.05)
    engine = SqliteEngine(str(tmp_path / "memory.db"))
    await engine.open()
    running = Signal()

    def endless(connection: apsw.Connection) -> None:
        running.set()
        connection.execute(ENDLESS).fetchall()

    async def write() -> None:
        with pytest.raises(ClosedError):
            await engine.write(endless)

    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as group:
        group.create_task(write())
        await running.wait()
        await engine.close()
    assert files(tmp_path) == ["memory.db"]


async def test_closing_over_an_operation_that_is_stuck_refuses_those_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentmemory.stores.sqlite.engine._CLOSE_PATIENCE_S", 0.05)
    engine = SqliteEngine(str(tmp_path / "memory.db"), stop_grace_s=0.05)
    await engine.open()
    running, gate = Signal(), threading.Event()

    def stuck(_: apsw.Connection) -> None:
        running.set()
        assert gate.wait(WAIT_S)

    async def refused(work: Callable[[apsw.Connection], None]) -> None:
        with pytest.raises(ClosedError):
            await engine.write(work)

    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as group:
        first = group.create_task(refused(stuck))
        await running.wait()
        behind = group.create_task(refused(create_seen))
        await asyncio.sleep(0)
        await engine.close()
        await behind
        assert not first.done()
        gate.set()
    assert_threads_end()
    assert files(tmp_path) == ["memory.db"]
