"""The engine runs functions in transactions and reports SQLite's faults as ours."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from agentmemory.errors import (
    ConflictError,
    NotFoundError,
    StoreBusyError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    UsageError,
)
from agentmemory.stores.sqlite.engine import SqliteEngine
from tests.support.engine import (
    WAIT_S,
    add,
    content,
    create,
    overwrite,
    pragma,
    run,
    texts,
    twice,
)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "memory.db")


@pytest.fixture(params=["file", "memory"])
async def engine(request: pytest.FixtureRequest, path: str) -> AsyncIterator[SqliteEngine]:
    engine = SqliteEngine(path if request.param == "file" else ":memory:")
    await engine.open()
    await engine.write(create)
    yield engine
    await engine.close()


@pytest.fixture
async def filed(path: str) -> AsyncIterator[SqliteEngine]:
    engine = SqliteEngine(path)
    await engine.open()
    await engine.write(create)
    yield engine
    await engine.close()


# Transactions


async def test_what_a_write_did_is_there_for_the_next_read(engine: SqliteEngine) -> None:
    await engine.write(add("tea"))
    await engine.write(add("coffee"))
    assert await engine.read(texts) == ["tea", "coffee"]


async def test_a_write_that_raises_keeps_nothing_and_raises_that_very_error(
    engine: SqliteEngine,
) -> None:
    ours, foreign = NotFoundError("no such thread"), KeyError("key")
    for error in (ours, foreign):

        def work(connection: apsw.Connection, error: Exception = error) -> None:
            add("half")(connection)
            raise error

        with pytest.raises(type(error)) as caught:
            await engine.write(work)
        assert caught.value is error
    assert await engine.read(texts) == []


async def test_a_read_sees_one_snapshot_while_writes_go_on(filed: SqliteEngine) -> None:
    loop = asyncio.get_running_loop()
    reading, written = asyncio.Event(), threading.Event()

    def count_twice(connection: apsw.Connection) -> tuple[int, int]:
        loop.call_soon_threadsafe(reading.set)
        assert written.wait(WAIT_S)
        # The snapshot is that of the beginning, although this is the first real statement.
        first = len(texts(connection))
        return first, len(texts(connection))

    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as group:
        counts = group.create_task(filed.read(count_twice))
        await reading.wait()
        await filed.write(add("tea"))
        written.set()
    assert counts.result() == (0, 0)
    assert await filed.read(texts) == ["tea"]


async def test_as_many_reads_run_side_by_side_as_there_are_readers(path: str) -> None:
    engine = SqliteEngine(path, readers=3)
    await engine.open()
    together = threading.Barrier(3)
    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(engine.read(lambda _: together.wait(WAIT_S)))
    await engine.close()


async def test_writes_run_one_after_the_other_in_the_order_of_the_calls(
    engine: SqliteEngine,
) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(50):
            group.create_task(engine.write(add(str(number))))
    assert await engine.read(texts) == [str(number) for number in range(50)]


async def test_a_read_that_writes_is_refused(engine: SqliteEngine) -> None:
    with pytest.raises(UsageError, match="tried to write"):
        await engine.read(add("tea"))
    await engine.write(add("coffee"))
    assert await engine.read(texts) == ["coffee"]


async def test_an_operation_that_ends_its_transaction_by_itself_is_refused(
    engine: SqliteEngine,
) -> None:
    def work(connection: apsw.Connection) -> None:
        connection.execute("ROLLBACK")

    with pytest.raises(StoreError, match="ended before"):
        await engine.write(work)
    with pytest.raises(StoreError, match="left one open"):
        await engine.maintain(run("BEGIN"))
    await engine.write(add("tea"))
    assert await engine.read(texts) == ["tea"]


@pytest.mark.parametrize("how", ["returned", "raised"])
async def test_a_cursor_left_open_pins_no_snapshot(engine: SqliteEngine, how: str) -> None:
    await engine.write(add("tea"))
    await engine.write(add("coffee"))
    leaked: list[apsw.Cursor] = []

    def leak(connection: apsw.Connection) -> None:
        leaked.append(connection.execute("SELECT text FROM note"))
        next(leaked[-1])
        if how == "raised":
            raise NotFoundError("on the way")

    for operation in (engine.read, engine.read, engine.read, engine.write):
        if how == "raised":
            with pytest.raises(NotFoundError):
                await operation(leak)
        else:
            await operation(leak)
    await engine.write(add("milk"))
    for _ in range(4):
        assert await engine.read(texts) == ["tea", "coffee", "milk"]
    with pytest.raises(apsw.CursorClosedError):
        next(leaked[0])


async def test_upkeep_runs_outside_a_transaction(filed: SqliteEngine, path: str) -> None:
    await filed.write(add("a secret that must go"))
    assert b"must go" in content(path + "-wal")
    await filed.write(run("DELETE FROM note"))
    assert await filed.maintain(lambda connection: connection.in_transaction) is False
    await filed.maintain(run("VACUUM"))
    assert await filed.checkpoint() is True
    assert content(path + "-wal") == b""
    assert b"must go" not in content(path)


async def test_a_checkpoint_says_when_a_reader_holds_the_log(path: str) -> None:
    engine = SqliteEngine(path, busy_timeout_s=0.05)
    await engine.open()
    await engine.write(create)
    other = apsw.Connection(path)
    other.execute("BEGIN")
    other.execute("SELECT * FROM note").fetchall()
    await engine.write(add("tea"))
    assert await engine.checkpoint() is False
    other.close()
    assert await engine.checkpoint() is True
    await engine.close()


async def test_connections_are_configured(path: str) -> None:
    engine = SqliteEngine(path, durability="full")
    await engine.open()
    for operation in (engine.read, engine.write):
        found = {
            name: await operation(pragma(name))
            for name in ("journal_mode", "synchronous", "foreign_keys", "secure_delete")
        }
        assert found == {
            "journal_mode": "wal",
            "synchronous": 2,
            "foreign_keys": 1,
            "secure_delete": 1,
        }
        assert await operation(pragma("temp_store")) == 2
    await engine.close()

    engine = SqliteEngine(path)
    await engine.open()
    assert await engine.write(pragma("synchronous")) == 1
    await engine.close()


async def test_setup_runs_in_each_connections_own_thread(path: str) -> None:
    threads: list[str] = []

    def setup(connection: apsw.Connection) -> None:
        threads.append(threading.current_thread().name)
        connection.create_scalar_function("twice", twice, 1)

    engine = SqliteEngine(path, setup=setup)
    await engine.open()
    for operation in (engine.read, engine.write):
        assert await operation(lambda connection: connection.execute("SELECT twice(4)").get) == 8
    await engine.close()
    assert threads == ["agentmemory-writer", "agentmemory-reader", "agentmemory-reader"]


# Faults


async def test_a_duplicate_key_is_a_conflict_and_other_constraints_are_not(
    engine: SqliteEngine,
) -> None:
    await engine.write(add("tea"))
    with pytest.raises(ConflictError) as caught:
        await engine.write(add("tea"))
    assert isinstance(caught.value.__cause__, apsw.ConstraintError)

    def same_id(connection: apsw.Connection) -> None:
        connection.execute("INSERT INTO note VALUES (1, 'coffee')")

    with pytest.raises(ConflictError):
        await engine.write(same_id)

    def no_text(connection: apsw.Connection) -> None:
        connection.execute("INSERT INTO note (text) VALUES (NULL)")

    with pytest.raises(StoreError) as other:
        await engine.write(no_text)
    assert type(other.value) is StoreError
    assert isinstance(other.value.__cause__, apsw.ConstraintError)


async def test_a_store_may_handle_a_constraint_itself(engine: SqliteEngine) -> None:
    await engine.write(add("tea"))

    def work(connection: apsw.Connection) -> bool:
        try:
            add("tea")(connection)
        except apsw.ConstraintError:
            add("coffee")(connection)
            return True
        return False

    assert await engine.write(work) is True
    assert await engine.read(texts) == ["tea", "coffee"]


async def test_a_wrong_statement_is_a_store_error(engine: SqliteEngine) -> None:
    with pytest.raises(StoreError, match="no such table") as caught:
        await engine.read(lambda connection: connection.execute("SELECT * FROM absent").get)
    assert isinstance(caught.value.__cause__, apsw.SQLError)


async def test_an_interrupt_of_somebody_else_never_comes_out_raw(engine: SqliteEngine) -> None:
    def work(connection: apsw.Connection) -> None:
        for _ in connection.execute("SELECT value FROM json_each('[1, 2, 3]')"):
            connection.interrupt()

    with pytest.raises(StoreError, match="interrupt"):
        await engine.read(work)
    assert await engine.read(texts) == []


async def test_a_full_database_refuses_the_write_and_stays_whole(engine: SqliteEngine) -> None:
    await engine.write(add("tea"))
    await engine.maintain(lambda connection: connection.pragma("max_page_count", 20))
    with pytest.raises(StoreFullError) as caught:
        await engine.write(add("x" * 500_000))
    assert isinstance(caught.value.__cause__, apsw.FullError)
    await engine.write(add("coffee"))
    assert await engine.read(texts) == ["tea", "coffee"]


async def test_a_damaged_file_is_reported_as_damaged(path: str) -> None:
    engine = SqliteEngine(path)
    await engine.open()
    await engine.write(create)
    for number in range(30):
        await engine.write(add(f"{number} " + "x" * 2000))
    await engine.close()
    overwrite(path, 4096, b"\xff" * 40_000)
    engine = SqliteEngine(path)
    await engine.open()
    with pytest.raises(StoreCorruptError, match="damaged") as caught:
        await engine.read(texts)
    assert isinstance(caught.value.__cause__, apsw.CorruptError)
    await engine.close()


async def test_a_lock_of_another_process_is_waited_for_and_then_reported(path: str) -> None:
    engine = SqliteEngine(path, busy_timeout_s=0.1)
    await engine.open()
    await engine.write(create)
    other = apsw.Connection(path)
    other.execute("BEGIN IMMEDIATE")
    ran: list[str] = []
    with pytest.raises(StoreBusyError, match=r"busy timeout of 0\.1 s") as caught:
        await engine.write(lambda _: ran.append("ran"))
    assert isinstance(caught.value.__cause__, apsw.BusyError)
    assert caught.value.retryable
    assert ran == []
    assert await engine.read(texts) == []
    other.execute("ROLLBACK")
    await engine.write(add("tea"))
    await engine.close()
    other.close()
