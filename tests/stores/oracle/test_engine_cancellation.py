"""Cancelled and expired operations: they end soon, and leave neither transaction nor connection."""

from __future__ import annotations

import asyncio
import time

import anyio
import pytest

from agentmemory.errors import StoreTimeoutError, StoreUnavailableError
from tests.support.oracle.faults import FaultKind
from tests.support.oracle_engines import (
    INSERT,
    KINDS,
    POOLS,
    SINGLES,
    at_rest,
    engine_on,
    query,
    reading,
    scripted,
    start,
    writing,
)

ASYNC = ("url", "pool", "connection")
BLOCKING = ("blocking pool", "blocking connection")


@pytest.fixture(autouse=True)
def _what_runs_is_right():
    """The statements of these tests are no statements of the store."""


@pytest.fixture
def server():
    with scripted() as (server, _):
        yield server


@pytest.fixture
def script(server):
    return server.database


def when_it_hangs(server, kind=FaultKind.HANG_BEFORE, **where):
    """Plan a fault, and return an event that is set when it comes."""
    event = asyncio.Event()
    loop = asyncio.get_running_loop()
    server.faults.add(kind, call=lambda: loop.call_soon_threadsafe(event.set), **where)
    return event


async def cancel_plainly(work, steps: int) -> bool:
    """Cancel a call after some turns of the loop; whether that was in time."""
    task = start(work)
    for _ in range(steps):
        await asyncio.sleep(0)
    in_time = task.cancel()
    await asyncio.wait({task})
    if not in_time:
        task.result()
    return in_time and task.cancelled()


async def cancel_by_scope(work, steps: int) -> bool:
    """Cancel a call through an anyio scope after some turns of the loop."""
    with anyio.CancelScope() as scope:

        async def cancel():
            for _ in range(steps):
                await asyncio.sleep(0)
            scope.cancel()

        cancelling = start(cancel())
        try:
            await work
        finally:
            cancelling.cancel()
    return scope.cancelled_caught


class TestCancelledAnywhere:
    @pytest.mark.parametrize("kind", ASYNC)
    @pytest.mark.parametrize("cancel", [cancel_plainly, cancel_by_scope])
    async def test_at_every_turn_of_the_loop_nothing_is_left_behind(
        self, server, script, kind, cancel
    ):
        async with engine_on(server, kind, size=1) as engine:
            steps = 0
            while await cancel(engine.write(writing), steps):
                await at_rest(engine)
                await server.settle()
                assert not server.open_transactions, steps
                assert not server.violations, steps
                steps += 1
            assert steps > 10
            # All or nothing, whenever it was cancelled.
            texts = [request.text[:6] for request in script.committed]
            assert texts == ["INSERT", "UPDATE"] * (len(texts) // 2)
            assert await engine.read(reading) == [(1,)]

    @pytest.mark.parametrize("kind", POOLS)
    async def test_while_it_waits_for_a_connection(self, server, kind):
        async with engine_on(server, kind, size=1) as engine:
            holding, done = asyncio.Event(), asyncio.Event()

            async def hold(transaction):
                holding.set()
                await done.wait()

            holder = start(engine.read(hold))
            await holding.wait()
            waiting = start(engine.read(reading))
            await asyncio.sleep(0.01)
            waiting.cancel()
            async with asyncio.timeout(1):
                with pytest.raises(asyncio.CancelledError):
                    await waiting
            done.set()
            await holder
            assert await engine.read(reading) == [(1,)]

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("fault", [FaultKind.HANG_BEFORE, FaultKind.HANG_AFTER])
    async def test_a_running_statement_is_broken_off(self, server, script, kind, fault):
        async with engine_on(server, kind, size=1) as engine:
            hangs = when_it_hangs(server, fault, statement="FOR UPDATE")
            task = start(engine.write(writing))
            await hangs.wait()
            began = time.monotonic()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert time.monotonic() - began < 1.5, "it was not waited for the grace to end"
            assert not server.open_transactions, "it was rolled back before the call ended"
            assert script.committed == []
            assert await engine.read(reading) == [(1,)]
            assert len(server.open_sessions) == 1, "the connection is as good as before"

    @pytest.mark.parametrize("kind", KINDS)
    async def test_who_is_cancelled_again_and_again_still_leaves_in_order(self, server, kind):
        async with engine_on(server, kind, size=1) as engine:
            hangs = when_it_hangs(server, statement="FOR UPDATE")
            task = start(engine.write(writing))
            await hangs.wait()
            for _ in range(20):
                task.cancel()
                await asyncio.sleep(0)
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not server.open_transactions
            assert not server.violations
            assert await engine.read(reading) == [(1,)]

    @pytest.mark.parametrize("kind", ASYNC)
    async def test_a_commit_that_was_sent_is_waited_for(self, server, script, kind):
        async with engine_on(server, kind, size=1) as engine:
            hangs = when_it_hangs(server, FaultKind.HANG_AFTER, statement="^INSERT")
            task = start(engine.write(writing))
            await hangs.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert len(script.committed) == 2
            assert not server.open_transactions

    async def test_between_two_trips(self, server, script):
        async with engine_on(server, "pool", size=1) as engine:
            between, forever = asyncio.Event(), asyncio.Event()

            async def work(transaction):
                await transaction.run(INSERT)
                between.set()
                await forever.wait()

            task = start(engine.write(work))
            await between.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not server.open_transactions
            assert script.committed == []

    async def test_a_task_group_that_fails_takes_its_siblings_along(self, server, script):
        async with engine_on(server, "pool", size=3) as engine:
            hangs = when_it_hangs(server, statement="FOR UPDATE", times=2)

            async def fail(transaction):
                await hangs.wait()
                raise ZeroDivisionError

            with pytest.raises(ExceptionGroup):
                async with anyio.create_task_group() as group:
                    group.start_soon(engine.write, writing)
                    group.start_soon(engine.write, writing)
                    group.start_soon(engine.write, fail)
            assert not server.open_transactions
            assert script.committed == []


class TestDeaf:
    """The network swallows everything: what does not react within the grace is cut off."""

    @pytest.mark.parametrize("kind", ["url", "pool"])
    async def test_a_connection_that_does_not_answer_is_cut_and_replaced(self, server, kind):
        async with engine_on(server, kind, size=1, stop_grace_s=0.05) as engine:
            hangs = when_it_hangs(server, FaultKind.DEAF, statement="FOR UPDATE")
            task = start(engine.write(writing))
            await hangs.wait()
            began = time.monotonic()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert time.monotonic() - began < 5
            assert not server.open_transactions
            await at_rest(engine)
            # The pool of one connection has room for another one.
            assert await engine.read(reading) == [(1,)]
            assert len(server.open_sessions) == 1

    async def test_a_given_connection_that_does_not_answer_is_of_no_use_any_more(self, server):
        async with engine_on(server, "connection", stop_grace_s=0.05) as engine:
            server.faults.add(FaultKind.DEAF, statement="FOR UPDATE")
            with pytest.raises(StoreTimeoutError):
                await engine.write(writing, timeout_s=0.05)
            assert not server.open_transactions
            with pytest.raises(StoreUnavailableError, match=r"`connection`.*no use") as caught:
                await engine.read(reading)
            assert not caught.value.retryable

    @pytest.mark.parametrize("kind", BLOCKING)
    async def test_a_thread_that_is_stuck_ends_by_its_time_limit(self, server, kind):
        async with engine_on(server, kind, size=1, stop_grace_s=0.05) as engine:
            server.faults.add(FaultKind.DEAF, statement="FOR UPDATE")
            async with asyncio.timeout(5):
                with pytest.raises(StoreTimeoutError):
                    await engine.write(writing, timeout_s=0.1)
                await at_rest(engine)
            assert not server.open_transactions

    async def test_a_connection_that_cannot_be_given_back_in_time_is_cut(self, server, monkeypatch):
        from agentmemory.stores.oracle import sources

        monkeypatch.setattr(sources, "_RELEASE_S", 0.05)
        async with engine_on(server, "pool", size=1) as engine:
            server.faults.add(FaultKind.DEAF, trip="rollback")
            assert await engine.read(reading) == [(1,)]
            await at_rest(engine)
            assert await engine.read(reading) == [(1,)]


class TestDeadlines:
    @pytest.mark.parametrize("kind", KINDS)
    async def test_what_takes_too_long_is_stopped_and_rolled_back(self, server, script, kind):
        async with engine_on(server, kind, size=1) as engine:
            server.faults.add(FaultKind.HANG_BEFORE, statement="FOR UPDATE")
            with pytest.raises(StoreTimeoutError) as caught:
                await engine.write(writing, timeout_s=0.1)
            assert caught.value.retryable
            assert isinstance(caught.value, TimeoutError)
            assert not server.open_transactions
            assert script.committed == []
            assert await engine.read(reading) == [(1,)]

    @pytest.mark.parametrize("kind", ASYNC)
    async def test_the_deadline_bounds_work_that_never_asks_the_database(self, server, kind):
        async with engine_on(server, kind, size=1, operation_timeout_s=0.05) as engine:

            async def work(transaction):
                await asyncio.Event().wait()

            with pytest.raises(StoreTimeoutError, match=r"longer than 0\.05 s"):
                await engine.read(work)

    @pytest.mark.parametrize("kind", ["url", "pool"])
    async def test_a_deadline_during_the_commit_says_that_the_outcome_is_not_known(
        self, server, kind
    ):
        async with engine_on(server, kind, size=1, stop_grace_s=0.05) as engine:
            server.faults.add(FaultKind.DEAF, statement="^INSERT")
            with pytest.raises(StoreTimeoutError, match="not known") as caught:
                await engine.write(writing, timeout_s=0.05)
            assert not caught.value.retryable

    async def test_a_deadline_during_the_commit_is_found_out_where_that_can_be(self, server):
        async def settled(transaction):
            await transaction.run(query("SELECT a FROM t"))
            return "found"

        async def nothing(transaction):
            await transaction.run(query("SELECT a FROM t"))

        async with engine_on(server, "pool", size=1, stop_grace_s=0.5) as engine:
            server.faults.add(FaultKind.HANG_AFTER, statement="^INSERT")
            assert await engine.write(writing, timeout_s=0.05, settled=settled) == "found"
            server.faults.add(FaultKind.DEAF, statement="^INSERT")
            with pytest.raises(StoreTimeoutError, match=r"was stopped$") as caught:
                await engine.write(writing, timeout_s=0.05, settled=nothing)
            assert caught.value.retryable

    @pytest.mark.parametrize("kind", SINGLES)
    async def test_a_shorter_limit_of_the_connections_own_holds(self, server, kind):
        from agentmemory.stores.oracle.engine import OracleEngine
        from tests.support.oracle_engines import given

        async with given(kind) as connection:
            connection.call_timeout = 50
            engine = OracleEngine(connection)
            await engine.open()
            server.faults.add(FaultKind.HANG_BEFORE, trip="execute")
            with pytest.raises(StoreTimeoutError, match="DPY-4024"):
                await engine.read(reading)
            assert await engine.read(reading) == [(1,)]
            assert connection.call_timeout == 50
            await engine.close()
