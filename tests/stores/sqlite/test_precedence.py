"""Operations that callers wait for go before those of work in the background."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable
from typing import TypeVar

import apsw
import pytest

from agentmemory.outbox import IN_BACKGROUND
from agentmemory.stores.sqlite import precedence
from agentmemory.stores.sqlite.engine import SqliteEngine
from tests.support.engine import WAIT_S, add, create, texts

T = TypeVar("T")


@pytest.fixture
async def engine(tmp_path) -> AsyncIterator[SqliteEngine]:
    engine = SqliteEngine(str(tmp_path / "memory.db"))
    await engine.open()
    await engine.write(create)
    yield engine
    await engine.close()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The background stands back for as long as it takes."""
    monkeypatch.setattr(precedence, "PATIENCE_S", 60.0)


async def in_background(operation: Awaitable[T]) -> T:
    IN_BACKGROUND.set(True)
    return await operation


class Held:
    """An operation that stays under way until it is released."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.release = threading.Event()

    def __call__(self, connection: apsw.Connection) -> int:
        connection.execute("SELECT 1").fetchall()
        self.entered.set()
        assert self.release.wait(WAIT_S)
        return 7


async def test_the_background_stands_back_while_a_caller_has_an_operation_under_way(
    engine: SqliteEngine, patient: None
):
    held = Held()
    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as group:
        reading = group.create_task(engine.read(held))
        await asyncio.to_thread(held.entered.wait, WAIT_S)
        writing = group.create_task(in_background(engine.write(add("later"))))
        await engine.write(add("first"))
        await asyncio.sleep(0.05)
        assert not writing.done()
        held.release.set()
        assert await reading == 7
    assert await engine.read(texts) == ["first", "later"]


async def test_under_constant_load_the_background_gets_through(engine: SqliteEngine, monkeypatch):
    monkeypatch.setattr(precedence, "PATIENCE_S", 0.01)
    held = Held()
    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as group:
        group.create_task(engine.read(held))
        await asyncio.to_thread(held.entered.wait, WAIT_S)
        started = time.monotonic()
        await in_background(engine.write(add("late")))
        assert time.monotonic() - started >= 0.01
        held.release.set()
    assert await engine.read(texts) == ["late"]


async def test_the_background_takes_turns(engine: SqliteEngine):
    """Two readers are free, and still one of its operations runs at a time."""
    first, second = Held(), Held()
    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as group:
        group.create_task(in_background(engine.read(first)))
        await asyncio.to_thread(first.entered.wait, WAIT_S)
        group.create_task(in_background(engine.read(second)))
        await asyncio.sleep(0.05)
        assert not second.entered.is_set()
        # It is no caller that the first one would have to make way for: this one goes at once.
        assert await engine.read(texts) == []
        first.release.set()
        await asyncio.to_thread(second.entered.wait, WAIT_S)
        second.release.set()


async def test_a_cancelled_one_in_the_background_blocks_nobody(engine: SqliteEngine, patient: None):
    held = Held()
    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as group:
        group.create_task(engine.read(held))
        await asyncio.to_thread(held.entered.wait, WAIT_S)
        waiting = [group.create_task(in_background(engine.write(add("never")))) for _ in range(2)]
        await asyncio.sleep(0.01)
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
        held.release.set()
    await in_background(engine.write(add("after")))
    assert await engine.read(texts) == ["after"]


async def test_a_failing_caller_leaves_none_under_way(engine: SqliteEngine, patient: None):
    def fail(connection: apsw.Connection) -> None:
        msg = "no"
        raise LookupError(msg)

    with pytest.raises(LookupError):
        await engine.read(fail)
    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as group:
        group.create_task(in_background(engine.write(add("x"))))
    assert await engine.read(texts) == ["x"]
