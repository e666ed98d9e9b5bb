"""What fails for a while is tried again, what got lost is found out, and nothing is done twice."""

from __future__ import annotations

import asyncio

import oracledb
import pytest

from agentmemory.errors import (
    ConflictError,
    StoreBusyError,
    StoreError,
    StoreTimeoutError,
    StoreUnavailableError,
)
from agentmemory.stores.oracle import operation
from agentmemory.stores.oracle.engine import OracleEngine
from agentmemory.telemetry import Event, subscribe
from tests.support.oracle.errors import ora
from tests.support.oracle.faults import FaultKind
from tests.support.oracle_engines import (
    DSN,
    INSERT,
    KINDS,
    LOGIN,
    POOLS,
    SINGLES,
    at_rest,
    engine_on,
    query,
    reading,
    scripted,
    writing,
)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr(operation, "_PAUSE_S", 0.001)


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


def commit_trip(kind: str) -> str:
    """Name the trip in which the commit of `writing` travels."""
    return "commit" if kind.startswith("blocking") else "pipeline"


def raiser(code: int):
    """Return what answers every statement with an error of the database."""

    def respond(request):
        raise ora(code, text="as the database says")

    return respond


class TestTriedAgain:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("code", [60, 8177, 54, 30006, 4068, 1555])
    async def test_what_time_cures_is_tried_again_as_a_whole(self, server, script, kind, code):
        async with engine_on(server, kind) as engine:
            script.on("^UPDATE", respond=raiser(code), times=2)
            assert await engine.write(writing) == "written"
            assert [request.text[:6] for request in script.committed] == ["INSERT", "UPDATE"]
            assert server.statements.count("SELECT a FROM t FOR UPDATE") == 3

    @pytest.mark.parametrize("kind", KINDS)
    async def test_what_does_not_pass_is_given_up(self, server, script, kind):
        async with engine_on(server, kind, attempts=3) as engine:
            server.faults.add(FaultKind.ERROR, statement="^UPDATE", code=60, times=99)
            with pytest.raises(StoreBusyError, match="ORA-00060") as caught:
                await engine.write(writing)
            assert caught.value.retryable
            assert server.statements.count("SELECT a FROM t FOR UPDATE") == 3
            assert script.committed == []

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("code", [1, 942, 2291, 1031, 1653, 1722])
    async def test_what_time_does_not_cure_is_not_tried_again(self, server, script, kind, code):
        async with engine_on(server, kind) as engine:
            script.on("^UPDATE", respond=raiser(code))
            with pytest.raises((StoreError, ConflictError)):
                await engine.write(writing)
            assert server.statements.count("SELECT a FROM t FOR UPDATE") == 1

    @pytest.mark.parametrize("kind", POOLS)
    async def test_a_connection_that_died_is_replaced(self, server, script, kind):
        async with engine_on(server, kind) as engine:
            server.faults.add(FaultKind.LOST_BEFORE, statement="FOR UPDATE")
            assert await engine.write(writing) == "written"
            assert len(script.committed) == 2

    async def test_a_restart_of_the_database_is_survived_though_every_connection_died(self, server):
        async with engine_on(server, "pool", size=8, attempts=2) as engine:
            # Each connection of the pool is busy once, so that there are eight.
            everyone = asyncio.Event()
            inside = 0

            async def work(transaction):
                nonlocal inside
                await transaction.run(query("SELECT a FROM t"))
                inside += 1
                if inside == 8:
                    everyone.set()
                await everyone.wait()

            async with asyncio.TaskGroup() as group:
                for _ in range(8):
                    group.create_task(engine.read(work))
            await at_rest(engine)
            server.faults.add(FaultKind.LOST_BEFORE, statement="FROM t", times=8)
            assert await engine.read(reading) == [(1,)]

    @pytest.mark.parametrize("kind", SINGLES)
    async def test_a_single_connection_that_died_is_an_error_at_once(self, server, kind):
        async with engine_on(server, kind) as engine:
            server.faults.add(FaultKind.LOST_BEFORE, statement="FOR UPDATE")
            with pytest.raises(StoreUnavailableError, match="lost the connection"):
                await engine.write(writing)
            assert server.statements.count("SELECT a FROM t FOR UPDATE") == 0

    @pytest.mark.parametrize("kind", SINGLES)
    async def test_a_single_connection_is_tried_again_where_that_helps(self, server, script, kind):
        async with engine_on(server, kind) as engine:
            server.faults.add(FaultKind.ERROR, statement="^UPDATE", code=60)
            assert await engine.write(writing) == "written"
            assert len(script.committed) == 2

    async def test_a_listener_that_is_just_starting_is_asked_again(self, server):
        pool = oracledb.create_pool_async(DSN, **LOGIN, min=0, max=1)
        engine = OracleEngine(pool)
        server.faults.add(FaultKind.ERROR, trip="connect", code=12514, times=2)
        await engine.open()
        assert await engine.read(reading) == [(1,)]
        await engine.close()
        await pool.close()

    async def test_a_listener_that_stays_away_is_not_asked_for_ever(self, server):
        async with engine_on(server, "pool", size=8, attempts=3) as engine:
            server.faults.add(FaultKind.LOST_BEFORE, statement="FROM t", times=99)
            server.faults.add(FaultKind.ERROR, trip="connect", code=12514, times=99)
            before = server.count("connect")
            with pytest.raises(StoreUnavailableError):
                await engine.read(reading)
            assert server.count("connect") - before <= 2 * 4

    async def test_retries_end_with_the_deadline(self, server, monkeypatch):
        monkeypatch.setattr(operation, "_PAUSE_S", 30.0)
        async with engine_on(server, "pool", operation_timeout_s=0.1) as engine:
            server.faults.add(FaultKind.ERROR, statement="^UPDATE", code=60, times=99)
            async with asyncio.timeout(10):
                with pytest.raises((StoreTimeoutError, StoreBusyError)):
                    await engine.write(writing)


class TestLostCommits:
    @pytest.mark.parametrize("kind", POOLS)
    async def test_a_commit_that_took_effect_is_found_out(self, server, script, kind):
        asked = 0

        async def settled(transaction):
            nonlocal asked
            asked += 1
            await transaction.run(query("SELECT a FROM t"))
            return "found"

        async with engine_on(server, kind) as engine:
            server.faults.add(FaultKind.LOST_AFTER, trip=commit_trip(kind))
            assert await engine.write(writing, settled=settled) == "found"
            assert asked == 1
            assert len(script.committed) == 2

    @pytest.mark.parametrize("kind", POOLS)
    async def test_a_commit_that_did_not_take_effect_is_done_again(self, server, script, kind):
        async def settled(transaction):
            await transaction.run(query("SELECT a FROM t"))

        async with engine_on(server, kind) as engine:
            server.faults.add(FaultKind.LOST_BEFORE, trip=commit_trip(kind))
            assert await engine.write(writing, settled=settled) == "written"
            assert len(script.committed) == 2

    @pytest.mark.parametrize("kind", KINDS)
    async def test_without_a_way_to_find_out_the_error_says_what_is_not_known(self, server, kind):
        async with engine_on(server, kind) as engine:
            server.faults.add(FaultKind.LOST_AFTER, trip=commit_trip(kind))
            with pytest.raises(StoreUnavailableError, match="is not known") as caught:
                await engine.write(writing)
            # The same call might write it twice.
            assert not caught.value.retryable
            assert isinstance(caught.value.__cause__, StoreUnavailableError)

    async def test_a_commit_that_arrives_while_it_is_done_again_counts_once(self, server, script):
        """The old session may commit after it was asked whether it had."""
        answers = iter([None, "late"])

        async def settled(transaction):
            await transaction.run(query("SELECT a FROM t"))
            return next(answers)

        async with engine_on(server, "pool") as engine:
            server.faults.add(FaultKind.LOST_BEFORE, trip="pipeline")
            server.faults.add(FaultKind.ERROR, statement="^INSERT", code=1)
            assert await engine.write(writing, settled=settled) == "late"
            assert script.committed == []

    async def test_a_conflict_that_is_somebody_elses_stays_one(self, server):
        async def settled(transaction):
            await transaction.run(query("SELECT a FROM t"))

        async with engine_on(server, "pool") as engine:
            server.faults.add(FaultKind.LOST_BEFORE, trip="pipeline")
            server.faults.add(FaultKind.ERROR, statement="^INSERT", code=1)
            with pytest.raises(ConflictError):
                await engine.write(writing, settled=settled)

    async def test_asking_is_tried_again_as_any_read(self, server):
        async def settled(transaction):
            await transaction.run(query("SELECT 9 FROM t"))
            return "found"

        async with engine_on(server, "pool") as engine:
            server.faults.add(FaultKind.LOST_AFTER, trip="pipeline")
            server.faults.add(FaultKind.LOST_BEFORE, statement="SELECT 9", times=2)
            assert await engine.write(writing, settled=settled) == "found"

    async def test_if_nobody_can_be_asked_the_error_says_what_is_not_known(self, server):
        async def settled(transaction):
            await transaction.run(query("SELECT 9 FROM t"))

        async with engine_on(server, "pool") as engine:
            server.faults.add(FaultKind.LOST_AFTER, trip="pipeline")
            server.faults.add(FaultKind.ERROR, statement="SELECT 9", code=942, times=99)
            with pytest.raises(StoreUnavailableError, match="is not known"):
                await engine.write(writing, settled=settled)

    async def test_asking_ends_in_time_though_nobody_answers(self, server):
        async def settled(transaction):
            await transaction.run(query("SELECT 9 FROM t"))

        async with engine_on(server, "pool", size=1, stop_grace_s=0.05) as engine:
            server.faults.add(FaultKind.LOST_AFTER, trip="pipeline")
            server.faults.add(FaultKind.DEAF, statement="SELECT 9", times=9)
            async with asyncio.timeout(10):
                with pytest.raises(StoreTimeoutError):
                    await engine.write(writing, timeout_s=0.2, settled=settled)
                await at_rest(engine)

    async def test_an_error_in_answer_to_a_commit_is_no_secret(self, server, script):
        """The database says that it rolled back: nothing has to be found out."""

        async def settled(transaction):
            raise AssertionError("nobody needs to ask")

        async with engine_on(server, "blocking pool") as engine:
            server.faults.add(FaultKind.ERROR, trip="commit", code=2290)
            with pytest.raises(StoreError, match="ORA-02290"):
                await engine.write(writing, settled=settled)
            assert script.committed == []

    async def test_what_was_lost_before_the_commit_was_sent_needs_no_answer(self, server, script):
        async def settled(transaction):
            raise AssertionError("nobody needs to ask")

        async with engine_on(server, "pool") as engine:
            server.faults.add(FaultKind.LOST_AFTER, statement="FOR UPDATE")
            assert await engine.write(writing, settled=settled) == "written"
            assert len(script.committed) == 2

    async def test_a_call_that_timed_out_in_the_driver_may_have_committed(self, server):
        async with engine_on(server, "blocking connection", operation_timeout_s=0.3) as engine:
            server.faults.add(FaultKind.HANG_AFTER, trip="commit")
            with pytest.raises((StoreTimeoutError, StoreUnavailableError), match="not known"):
                await engine.write(writing)


class TestTelling:
    async def test_every_retry_is_told(self, server):
        told: list[Event] = []
        async with engine_on(server, "pool") as engine:
            server.faults.add(FaultKind.ERROR, statement="^UPDATE", code=60, times=2)
            with subscribe(told.append):
                await engine.write(writing)
        retries = [event for event in told if event.name == "store.retry"]
        assert [event.attributes["error.type"] for event in retries] == ["ORA-00060"] * 2
        assert [event.attributes["attempt"] for event in retries] == [1, 2]

    async def test_a_connection_that_was_cut_is_told(self, server):
        told: list[Event] = []
        async with engine_on(server, "pool", stop_grace_s=0.05) as engine:
            server.faults.add(FaultKind.DEAF, statement="FOR UPDATE")
            with subscribe(told.append), pytest.raises(StoreTimeoutError):
                await engine.write(writing, timeout_s=0.05)
        (cut,) = [event for event in told if event.name == "store.connection_cut"]
        assert cut.level == "warning"


class TestConnectionsAreNotUsedTooLong:
    async def test_what_cannot_be_rolled_back_is_not_used_again(self, server):
        async with engine_on(server, "pool", size=1) as engine:
            server.faults.add(FaultKind.ERROR, statement="^UPDATE", code=1722)
            server.faults.add(FaultKind.LOST_BEFORE, trip="rollback")
            with pytest.raises(StoreError, match="ORA-01722"):
                await engine.write(writing)
            await at_rest(engine)
            assert await engine.read(reading) == [(1,)]
            assert len(server.sessions) == 2

    async def test_a_failed_statement_keeps_the_connection(self, server, script):
        async with engine_on(server, "pool", size=1) as engine:

            def fail(_):
                raise ora(1722)

            script.on("^UPDATE", respond=fail, times=1)
            with pytest.raises(StoreError):
                await engine.write(writing)
            await engine.write(lambda transaction: transaction.finish(INSERT))
            assert len(server.sessions) == 1
