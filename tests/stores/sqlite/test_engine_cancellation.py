"""A cancelled operation is stopped, undone and out of its thread; the next is unharmed."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import apsw
import pytest

from agentmemory.errors import (
    StoreTimeoutError,
)
from agentmemory.stores.sqlite.engine import SqliteEngine
from tests.support.engine import (
    ENDLESS,
    WAIT_S,
    Cancel,
    Signal,
    assert_threads_end,
    by_scope,
    by_task_cancel,
    clear,
    create_seen,
    insert,
    numbers,
    styles,
)


@pytest.fixture(params=["file", "memory"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SqliteEngine]:
    path = str(tmp_path / "memory.db") if request.param == "file" else ":memory:"
    engine = SqliteEngine(path, readers=1)
    await engine.open()
    await engine.write(create_seen)
    yield engine
    await engine.close()


@styles
@pytest.mark.parametrize("mode", ["read", "write", "maintain"])
async def test_a_long_statement_is_interrupted(
    engine: SqliteEngine, cancel: Cancel, mode: str
) -> None:
    running = Signal()

    def work(connection: apsw.Connection) -> None:
        if mode == "write":
            insert(connection, 1)
        running.set()
        connection.execute(ENDLESS).fetchall()

    assert await cancel(lambda: getattr(engine, mode)(work), running.wait)
    await engine.write(lambda connection: insert(connection, 2))
    assert await engine.read(numbers) == [2]


@styles
async def test_a_loop_over_short_statements_is_stopped(
    engine: SqliteEngine, cancel: Cancel
) -> None:
    running = Signal()

    def work(connection: apsw.Connection) -> None:
        running.set()
        until = time.monotonic() + WAIT_S
        while time.monotonic() < until:
            insert(connection, 1)
            sum(range(1000))

    assert await cancel(lambda: engine.write(work), running.wait)
    assert await engine.read(numbers) == []


@styles
async def test_a_stop_between_two_statements_holds_at_the_next_one(
    engine: SqliteEngine, cancel: Cancel
) -> None:
    running = Signal()
    seen: list[str] = []

    def work(connection: apsw.Connection) -> None:
        insert(connection, 1)
        running.set()
        until = time.monotonic() + WAIT_S
        while not connection.is_interrupted and time.monotonic() < until:
            sum(range(1000))
        try:
            insert(connection, 2)
            seen.append("the next statement ran")
        except apsw.InterruptError:
            seen.append("stopped")
            raise

    assert await cancel(lambda: engine.write(work), running.wait)
    assert seen == ["stopped"]
    assert await engine.read(numbers) == []


@styles
async def test_an_operation_that_swallows_the_interrupt_is_rolled_back_all_the_same(
    engine: SqliteEngine, cancel: Cancel
) -> None:
    running = Signal()

    def work(connection: apsw.Connection) -> str:
        insert(connection, 1)
        running.set()
        for _ in range(3):
            try:
                connection.execute(ENDLESS).fetchall()
            except apsw.Error:
                continue
        return "as if nothing had happened"

    assert await cancel(lambda: engine.write(work), running.wait)
    assert await engine.read(numbers) == []


@styles
async def test_a_queued_operation_never_runs_and_its_task_leaves_at_once(
    engine: SqliteEngine, cancel: Cancel
) -> None:
    running, gate = Signal(), threading.Event()
    ran: list[str] = []

    def first(connection: apsw.Connection) -> None:
        running.set()
        assert gate.wait(WAIT_S)
        insert(connection, 1)

    async with asyncio.TaskGroup() as group:
        group.create_task(engine.write(first))
        await running.wait()
        # Returns although the first operation still sits in the thread.
        assert await cancel(
            lambda: engine.write(lambda _: ran.append("ran")), lambda: asyncio.sleep(0)
        )
        gate.set()
    await engine.write(lambda connection: insert(connection, 2))
    assert ran == []
    assert await engine.read(numbers) == [1, 2]


@styles
async def test_a_call_in_a_task_that_is_cancelled_already_does_nothing(
    engine: SqliteEngine, cancel: Cancel
) -> None:
    release = asyncio.Event()
    outcome: list[str] = []

    async def call() -> None:
        try:
            await release.wait()
        finally:
            try:
                await engine.write(lambda connection: insert(connection, 1))
            except asyncio.CancelledError:
                outcome.append("cancelled")
                raise
            outcome.append("written")

    assert await cancel(call, lambda: asyncio.sleep(0))
    # A cancelled scope cancels every further wait, task.cancel() only the one it hit.
    assert outcome == (["cancelled"] if cancel is by_scope else ["written"])
    kept = await engine.read(numbers)
    assert kept == [1] if outcome == ["written"] else kept in ([], [1])


async def test_the_task_leaves_only_when_the_thread_is_done_whoever_cancels_meanwhile(
    engine: SqliteEngine,
) -> None:
    running, gate = Signal(), threading.Event()
    scope = anyio.CancelScope()

    def stuck(connection: apsw.Connection) -> None:
        insert(connection, 1)
        running.set()
        assert gate.wait(WAIT_S)

    async def run() -> None:
        with scope:
            await engine.write(stuck)

    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as group:
        task = group.create_task(run())
        await running.wait()
        for round_ in range(20):
            task.cancel() if round_ % 2 else scope.cancel()
            await asyncio.sleep(0)
            assert not task.done()
        gate.set()
    assert task.cancelled()
    assert await engine.read(numbers) == []


async def test_waiting_for_the_thread_in_a_cancelled_scope_does_not_spin(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[object] = []
    wait = asyncio.wait

    def counting(*args: Any, **kwargs: Any) -> Any:
        waits.append(args)
        return wait(*args, **kwargs)

    monkeypatch.setattr(asyncio, "wait", counting)
    running, gate = Signal(), threading.Event()

    def stuck(_: apsw.Connection) -> None:
        running.set()
        assert gate.wait(WAIT_S)

    async def then_let_it_be_cancelled_often() -> None:
        await running.wait()
        asyncio.get_running_loop().call_later(0.05, gate.set)

    assert await by_scope(lambda: engine.write(stuck), then_let_it_be_cancelled_often)
    assert len(waits) == 1


async def test_an_operation_that_cannot_be_stopped_is_left_behind_and_keeps_nothing(
    tmp_path: Path,
) -> None:
    engine = SqliteEngine(str(tmp_path / "memory.db"), stop_grace_s=0.05)
    await engine.open()
    await engine.write(create_seen)
    for cancel in (by_task_cancel, by_scope, None):
        running, gate = Signal(), threading.Event()

        def stuck(
            connection: apsw.Connection,
            running: Signal = running,
            gate: threading.Event = gate,
        ) -> None:
            insert(connection, 1)
            running.set()
            assert gate.wait(WAIT_S)

        if cancel is None:
            with pytest.raises(StoreTimeoutError, match=r"did not stop within 0\.05 s"):
                await engine.write(stuck, timeout_s=0.05)
        else:
            assert await cancel(lambda: engine.write(stuck), running.wait)
        assert await engine.read(numbers) == [], "readers are not held up"
        gate.set()
        await engine.write(lambda connection: insert(connection, 2))
        assert await engine.read(numbers) == [2]
        await engine.write(clear)
    await engine.close()


@styles
async def test_an_interrupt_never_hits_the_next_operation(
    engine: SqliteEngine, cancel: Cancel
) -> None:
    def endless(connection: apsw.Connection) -> None:
        running.set()
        connection.execute(ENDLESS).fetchall()

    async with asyncio.TaskGroup() as group:
        for _ in range(40):
            running = Signal()
            behind: list[asyncio.Task[list[int]]] = []

            async def queue_more(
                running: Signal = running, behind: list[asyncio.Task[list[int]]] = behind
            ) -> None:
                await running.wait()
                behind.extend(group.create_task(engine.read(numbers)) for _ in range(3))
                await asyncio.sleep(0)

            assert await cancel(lambda: engine.read(endless), queue_more)
            assert [await task for task in behind] == [[], [], []]


@pytest.mark.parametrize("cancel", [by_task_cancel, by_scope])
async def test_a_cancel_that_races_the_commit_leaves_all_or_nothing(
    engine: SqliteEngine, cancel: Cancel
) -> None:
    chance = random.Random(7)
    fates: set[bool] = set()
    pause = 0.0003
    for start in range(0, 1500, 5):
        batch = tuple(range(start, start + 5))
        cancelled = await cancel(
            lambda: engine.write(lambda connection: insert(connection, *batch)),  # noqa: B023
            lambda: asyncio.sleep(pause * chance.uniform(0.5, 1.5)),  # noqa: B023
        )
        kept = [number for number in await engine.read(numbers) if number >= start]
        assert kept in ([], list(batch))
        assert cancelled or kept
        fates.add(bool(kept))
        # Homes in on the commit, however fast the machine is.
        pause *= 0.8 if kept else 1.25
    assert fates == {True, False}, "both sides of the race were seen"


async def test_many_cancelled_and_uncancelled_operations_leave_only_whole_ones(
    engine: SqliteEngine,
) -> None:
    chance = random.Random(11)
    acknowledged: set[int] = set()

    async def one(number: int) -> None:
        def work(connection: apsw.Connection) -> None:
            insert(connection, number)
            sum(range(chance.randrange(2000)))
            insert(connection, -number)

        with anyio.move_on_after(chance.uniform(0, 0.02)):
            await engine.write(work)
            acknowledged.add(number)

    async with asyncio.timeout(WAIT_S), anyio.create_task_group() as group:
        for number in range(1, 301):
            group.start_soon(one, number)
    kept = await engine.read(numbers)
    positive = {number for number in kept if number > 0}
    assert {-number for number in kept if number < 0} == positive
    assert acknowledged <= positive


@pytest.mark.parametrize("cancel", [by_task_cancel, by_scope])
async def test_a_cursor_left_open_by_a_stopped_operation_does_not_poison_the_connection(
    engine: SqliteEngine, cancel: Cancel
) -> None:
    await engine.write(lambda connection: insert(connection, 1, 2, 3))
    for sql in (
        "SELECT number FROM seen",
        # Opens no table: nothing but the interrupt would tell that it is still active.
        ENDLESS.replace("count(*)", "i"),
    ):
        leaked: list[apsw.Cursor] = []

        def work(
            connection: apsw.Connection, sql: str = sql, leaked: list[apsw.Cursor] = leaked
        ) -> None:
            leaked.append(connection.execute(sql))
            running.set()  # noqa: B023
            connection.execute(ENDLESS).fetchall()

        for mode in (engine.read, engine.write, engine.maintain):
            running = Signal()
            assert await cancel(lambda: mode(work), running.wait)  # noqa: B023
            assert await engine.read(numbers) == [1, 2, 3]
            await engine.write(lambda connection: insert(connection, 4))
            assert await engine.read(numbers) == [1, 2, 3, 4]
            await engine.write(lambda c: c.execute("DELETE FROM seen WHERE number = 4").close())


@styles
async def test_waiting_for_a_lock_of_another_process_can_be_cancelled(
    tmp_path: Path, cancel: Cancel
) -> None:
    path = str(tmp_path / "memory.db")
    engine = SqliteEngine(path, busy_timeout_s=600)
    await engine.open()
    other = apsw.Connection(path)
    other.execute("BEGIN IMMEDIATE")
    ran: list[str] = []

    async def while_it_waits() -> None:
        await engine.read(lambda _: None)

    assert await cancel(lambda: engine.write(lambda _: ran.append("ran")), while_it_waits)
    with pytest.raises(StoreTimeoutError):
        await engine.write(lambda _: ran.append("ran"), timeout_s=0.05)
    other.close()
    assert ran == []
    await engine.write(lambda _: ran.append("ran"))
    assert ran == ["ran"]
    await engine.close()


@styles
async def test_opening_can_be_cancelled_and_leaves_nothing_behind(
    tmp_path: Path, cancel: Cancel
) -> None:
    path = str(tmp_path / "memory.db")
    other = apsw.Connection(path)
    other.execute("CREATE TABLE early (x)")
    other.execute("BEGIN EXCLUSIVE")
    trying = Signal()

    def admit(connection: apsw.Connection) -> None:
        trying.set()
        connection.pragma("application_id")

    engine = SqliteEngine(path, busy_timeout_s=600, admit=admit)
    assert await cancel(engine.open, trying.wait)
    assert_threads_end()
    other.close()
    await engine.open()
    await engine.close()
