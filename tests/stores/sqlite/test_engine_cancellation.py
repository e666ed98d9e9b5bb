"""A cancelled or late operation is stopped, undone and out of its thread; the next is unharmed."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import apsw
import pytest

from agentmemory.errors import ClosedError, StoreTimeoutError
from agentmemory.stores.sqlite.engine import SqliteEngine

WAIT_S = 20.0
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"

Call = Callable[[], Awaitable[object]]


def numbers(connection: apsw.Connection) -> list[int]:
    return [number for (number,) in connection.execute("SELECT number FROM seen ORDER BY number")]


def create(connection: apsw.Connection) -> None:
    connection.execute("CREATE TABLE seen (number INTEGER)")


def clear(connection: apsw.Connection) -> None:
    connection.execute("DELETE FROM seen")


def files(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())


def assert_no_thread_is_left() -> None:
    for thread in threading.enumerate():
        if "agentmemory" in thread.name:
            thread.join(WAIT_S)
            assert not thread.is_alive()


def insert(connection: apsw.Connection, *values: int) -> None:
    for value in values:
        connection.execute("INSERT INTO seen VALUES (?)", (value,))


@pytest.fixture(params=["file", "memory"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SqliteEngine]:
    path = str(tmp_path / "memory.db") if request.param == "file" else ":memory:"
    engine = SqliteEngine(path, readers=1)
    await engine.open()
    await engine.write(create)
    yield engine
    await engine.close()


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
    await engine.write(create)
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
    assert_no_thread_is_left()
    other.close()
    await engine.open()
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
        behind = group.create_task(refused(create))
        await asyncio.sleep(0)
        await engine.close()
        await behind
        assert not first.done()
        gate.set()
    assert_no_thread_is_left()
    assert files(tmp_path) == ["memory.db"]
