"""Units of work on an Oracle database, on every kind of connection."""

from __future__ import annotations

import asyncio
import contextvars
import os
from typing import Any

import oracledb
import pytest

from agentmemory.errors import (
    ClosedError,
    ConflictError,
    SchemaMismatchError,
    StoreBusyError,
    StoreError,
    StoreUnavailableError,
    UsageError,
    ValidationError,
)
from agentmemory.stores.oracle import engine as engine_module
from agentmemory.stores.oracle.engine import OracleEngine
from agentmemory.stores.oracle.statement import BindType
from tests.support.oracle.errors import ora
from tests.support.oracle.faults import FaultKind
from tests.support.oracle_engines import (
    DSN,
    INSERT,
    KINDS,
    LOGIN,
    POOLS,
    SELECT,
    URL,
    at_rest,
    block,
    change,
    engine_on,
    given,
    many,
    query,
    reading,
    scripted,
    start,
    writing,
)

ASYNC = ("url", "pool", "connection")


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


class TestTransactions:
    @pytest.mark.parametrize("kind", KINDS)
    async def test_a_read_returns_rows_and_leaves_no_transaction(self, server, kind):
        async with engine_on(server, kind) as engine:
            assert await engine.read(reading) == [(1,)]
            assert not server.open_transactions

    @pytest.mark.parametrize("kind", KINDS)
    async def test_a_write_is_committed_as_a_whole(self, server, script, kind):
        async with engine_on(server, kind) as engine:
            assert await engine.write(writing) == "written"
            assert [request.text[:6] for request in script.committed] == ["INSERT", "UPDATE"]

    @pytest.mark.parametrize("kind", KINDS)
    async def test_a_write_without_finish_is_committed_when_it_returns(self, server, script, kind):
        async with engine_on(server, kind) as engine:

            async def work(transaction):
                await transaction.run(INSERT)
                return 7

            assert await engine.write(work) == 7
            assert len(script.committed) == 1

    @pytest.mark.parametrize("kind", KINDS)
    async def test_what_fails_in_the_middle_is_rolled_back_as_a_whole(self, server, script, kind):
        script.on(r"^UPDATE", respond=_raiser(lambda: ora(1, "T_PK")))
        async with engine_on(server, kind) as engine:
            with pytest.raises(ConflictError, match="T_PK") as caught:
                await engine.write(writing)
            assert isinstance(caught.value.__cause__, oracledb.IntegrityError)
            assert not server.open_transactions
            assert script.committed == []

    @pytest.mark.parametrize("kind", KINDS)
    async def test_an_error_of_the_work_itself_rolls_back_and_reaches_the_caller(
        self, server, script, kind
    ):
        async with engine_on(server, kind) as engine:

            async def work(transaction):
                await transaction.run(INSERT)
                raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await engine.write(work)
            assert not server.open_transactions
            assert script.committed == []

    @pytest.mark.parametrize("kind", KINDS)
    async def test_rows_that_a_read_locked_are_free_again_when_it_returns(self, server, kind):
        async with engine_on(server, kind) as engine:

            async def work(transaction):
                await transaction.run(query("SELECT a FROM t FOR UPDATE"))

            await engine.read(work)
            assert not server.open_transactions

    async def test_a_read_may_not_write_and_nothing_follows_finish(self, server, script):
        async with engine_on(server, "pool") as engine:
            kept: list[Any] = []

            async def changes(transaction):
                kept.append(transaction)
                await transaction.run(INSERT)

            async def commits(transaction):
                await transaction.finish()

            async def goes_on(transaction):
                await transaction.finish(INSERT)
                await transaction.run(SELECT)

            for work in (changes, commits):
                with pytest.raises(UsageError, match="read operation"):
                    await engine.read(work)
            with pytest.raises(UsageError, match="over"):
                await engine.write(goes_on)
            with pytest.raises(UsageError, match="over"):
                await kept[0].run(SELECT)

    async def test_rows_of_no_rows_and_no_statements_make_no_trip(self, server):
        async with engine_on(server, "connection") as engine:

            async def work(transaction):
                assert await transaction.run() == []
                assert await transaction.run(many("INSERT INTO t VALUES (:a)")) == [[]]
                return await transaction.finish()

            assert await engine.write(work) == []
            assert server.trips == []
            async with asyncio.timeout(10):
                assert await engine.write(
                    lambda transaction: transaction.run(many("INSERT INTO t VALUES (:a)"), SELECT)
                ) == [[], [(1,)]]

    @pytest.mark.parametrize("kind", KINDS)
    async def test_a_write_is_committed_whatever_the_driver_says_of_transactions(
        self, server, script, kind, monkeypatch
    ):
        """The flag may be stale after a pipeline; what was changed is known without it."""
        async with engine_on(server, kind) as engine:
            for cls in (oracledb.AsyncConnection, oracledb.Connection):
                monkeypatch.setattr(cls, "transaction_in_progress", False)
            await engine.write(lambda transaction: transaction.run(INSERT, SELECT))
            monkeypatch.undo()
            assert len(script.committed) == 1

    async def test_a_write_that_only_read_needs_no_commit(self, server):
        async with engine_on(server, "connection") as engine:
            await engine.write(lambda transaction: transaction.run(SELECT, SELECT))
            assert [trip.name for trip in server.trips] == ["pipeline"]


class TestRoundTrips:
    @pytest.mark.parametrize("kind", ASYNC)
    async def test_statements_and_their_commit_travel_together(self, server, kind):
        async with engine_on(server, kind) as engine:
            await engine.write(writing)
            await at_rest(engine)
            trips = [trip for trip in server.trips if trip.name != "rollback"]
            assert [trip.name for trip in trips] == ["execute", "pipeline"]
            assert [text[:6] for text in trips[1].statements] == ["INSERT", "UPDATE", "COMMIT"]

    async def test_one_statement_is_committed_in_its_own_trip(self, server):
        async with engine_on(server, "connection") as engine:
            await engine.write(lambda transaction: transaction.finish(INSERT))
            assert [trip.name for trip in server.trips] == ["pipeline"]

    async def test_a_server_without_pipelining_gets_one_statement_at_a_time(self):
        with scripted(version=(21, 3, 0, 0, 0), pipelining=False) as (server, script):
            async with engine_on(server, "connection") as engine:
                assert not engine.capabilities.pipelining
                assert await engine.write(writing) == "written"
                assert server.count("execute") == 3
                assert server.count("commit") == 1
                assert len(script.committed) == 2

    async def test_ddl_travels_alone_and_blocks_do_not(self, server):
        async with engine_on(server, "connection") as engine:
            await engine.write(
                lambda transaction: transaction.run(
                    INSERT, block("BEGIN NULL; END;"), block("CREATE TABLE u (a NUMBER)"), SELECT
                )
            )
            assert [(trip.name, len(trip.statements)) for trip in server.trips] == [
                ("pipeline", 2),
                ("execute", 1),
                ("execute", 1),
            ]

    async def test_long_answers_come_in_one_trip_once_their_length_is_known(self, server, script):
        script.on(r"FROM many", rows=[(number,) for number in range(1000)])
        wide = query("SELECT a FROM many")
        async with engine_on(server, "connection") as engine:
            for trips in (4, 1):
                server.forget()
                rows = await engine.read(lambda transaction: transaction.run(wide))
                assert len(rows[0]) == 1000
                assert len(server.trips) == trips


class TestValues:
    @pytest.mark.parametrize("kind", KINDS)
    async def test_nulls_of_a_batch_have_the_type_of_their_column(self, server, script, kind):
        statement = many(
            "INSERT INTO t VALUES (:n, :j, :v, :b, :d)",
            {"n": None, "j": None, "v": None, "b": None, "d": None},
            {"n": 1, "j": {"x": 1}, "v": [1.0, 2.0], "b": b"z", "d": 0.5},
            n=BindType.NUMBER,
            j=BindType.JSON,
            v=BindType.VECTOR,
            b=BindType.BLOB,
            d=BindType.DOUBLE,
        )
        async with engine_on(server, kind) as engine:
            await engine.write(lambda transaction: transaction.finish(statement))
        first, second = script.committed[-1].executions
        kinds = {name: bind.type for name, bind in first.items()}
        assert kinds == {
            "N": oracledb.DB_TYPE_NUMBER,
            "J": oracledb.DB_TYPE_JSON,
            "V": oracledb.DB_TYPE_VECTOR,
            "B": oracledb.DB_TYPE_RAW,
            "D": oracledb.DB_TYPE_BINARY_DOUBLE,
        }
        assert all(bind.value is None for bind in first.values())
        assert {name: bind.type for name, bind in second.items()} == kinds
        assert list(second["V"].value) == [1.0, 2.0]

    @pytest.mark.parametrize("kind", KINDS)
    async def test_large_texts_cost_no_trip_of_their_own(self, server, script, kind):
        async with engine_on(server, kind) as engine:
            text = "é" * 100_000
            await engine.write(
                lambda transaction: transaction.finish(
                    change("INSERT INTO t (c) VALUES (:c)", {"c": BindType.CLOB}, c=text)
                )
            )
            assert server.count("create_temp_lob") == 0
        assert script.committed[-1].binds["C"] == text


class TestGivenObjects:
    @pytest.mark.parametrize("kind", ["pool", "blocking pool"])
    async def test_a_given_pool_stays_open(self, server, kind):
        async with given(kind) as pool:
            engine = OracleEngine(pool)
            await engine.open()
            await engine.close()
            assert pool.opened == 1
            other = OracleEngine(pool)
            await other.open()
            assert await other.read(reading) == [(1,)]
            await other.close()

    @pytest.mark.parametrize("kind", ["connection", "blocking connection"])
    async def test_a_given_connection_stays_open_and_as_it_was(self, server, kind):
        async with given(kind) as connection:
            handler = lambda cursor, value, arraysize: None  # noqa: E731
            shown = lambda cursor, metadata: None  # noqa: E731
            connection.autocommit = True
            connection.inputtypehandler = handler
            connection.outputtypehandler = shown
            connection.call_timeout = 5000
            engine = OracleEngine(connection)
            await engine.open()
            await engine.write(writing)
            await engine.close()
            assert connection.is_healthy()
            assert connection.autocommit is True
            assert connection.inputtypehandler is handler
            assert connection.outputtypehandler is shown
            assert connection.call_timeout == 5000

    @pytest.mark.parametrize("kind", ["connection", "blocking connection"])
    async def test_autocommit_of_a_given_connection_does_not_tear_a_write_apart(
        self, server, script, kind
    ):
        script.on(r"^UPDATE", respond=_raiser(lambda: ora(2290, "T_CK")))
        async with given(kind) as connection:
            connection.autocommit = True
            engine = OracleEngine(connection)
            await engine.open()
            with pytest.raises(StoreError, match="T_CK"):
                await engine.write(writing)
            assert script.committed == []
            await engine.close()

    @pytest.mark.parametrize("kind", ["connection", "blocking connection"])
    async def test_a_connection_with_an_open_transaction_is_refused_and_left_alone(
        self, server, script, kind
    ):
        async with given(kind) as connection:
            engine = OracleEngine(connection)
            await engine.open()
            cursor = connection.cursor()
            answer = cursor.execute("INSERT INTO t (a) VALUES (9)")
            if asyncio.iscoroutine(answer):
                await answer
            cursor.close()
            with pytest.raises(UsageError, match=r"`connection`.*transaction in progress"):
                await engine.read(reading)
            assert len(server.open_transactions) == 1
            answer = connection.commit()
            if answer is not None:
                await answer
            assert [request.text for request in script.committed] == [
                "INSERT INTO t (a) VALUES (9)"
            ]
            assert await engine.read(reading) == [(1,)]
            await engine.close()

    @pytest.mark.parametrize("kind", ["connection", "blocking connection"])
    async def test_a_single_connection_serves_one_operation_at_a_time(self, server, kind):
        async with engine_on(server, kind) as engine:
            busy = 0
            most = 0

            async def work(transaction):
                nonlocal busy, most
                busy += 1
                most = max(most, busy)
                await transaction.run(SELECT)
                busy -= 1

            async with asyncio.TaskGroup() as group:
                for _ in range(8):
                    group.create_task(engine.read(work))
            assert most == 1

    async def test_a_connection_that_is_not_open_is_refused_by_name(self, server):
        closed = oracledb.connect(DSN, **LOGIN)
        closed.close()
        pending = oracledb.connect_async(DSN, **LOGIN)
        for connection in (closed, pending):
            with pytest.raises(ValueError, match=r"`connection`.*not open"):
                await OracleEngine(connection).open()
        await (await pending).close()

    async def test_a_closed_pool_is_an_error_that_says_so(self, server):
        pool = oracledb.create_pool_async(DSN, **LOGIN)
        engine = OracleEngine(pool)
        await pool.close()
        with pytest.raises(StoreUnavailableError) as caught:
            await engine.open()
        assert not caught.value.retryable


class TestPoolsMadeHere:
    async def test_a_pool_waits_within_bounds_and_is_closed(self, server, monkeypatch):
        made: list[dict[str, Any]] = []
        create = oracledb.create_pool_async

        def noting(**given: Any) -> oracledb.AsyncConnectionPool:
            made.append(given)
            return create(**given)

        monkeypatch.setattr(oracledb, "create_pool_async", noting)
        engine = OracleEngine(URL, max_connections=5, acquire_timeout_s=1.5)
        await engine.open()
        (arguments,) = made
        assert arguments["getmode"] is oracledb.POOL_GETMODE_TIMEDWAIT
        assert arguments["wait_timeout"] == 1500
        assert arguments["max"] == 5
        assert arguments["stmtcachesize"] == 100
        assert arguments["tcp_connect_timeout"] > 0
        assert server.open_sessions
        await engine.close()
        await engine.close()
        assert server.open_sessions == []

    async def test_thick_mode_gets_a_blocking_pool(self, server, script, monkeypatch):
        monkeypatch.setattr(oracledb, "is_thin_mode", lambda: False)
        engine = OracleEngine(URL)
        await engine.open()
        assert await engine.write(writing) == "written"
        assert not engine.capabilities.pipelining
        await engine.close()
        assert server.open_sessions == []
        assert len(script.committed) == 2

    async def test_after_a_failure_to_open_nothing_stays_and_it_may_be_tried_again(self, server):
        server.faults.add(FaultKind.ERROR, trip="connect", code=1017, times=10)
        engine = OracleEngine(URL)
        with pytest.raises(StoreUnavailableError, match="credentials") as caught:
            await engine.open()
        assert not caught.value.retryable
        server.faults.planned.clear()
        await engine.open()
        assert await engine.read(reading) == [(1,)]
        await engine.close()

    @pytest.mark.parametrize("kind", ["url", "pool", "blocking pool"])
    async def test_who_waits_too_long_for_a_connection_is_told(self, server, kind):
        async with engine_on(server, kind, size=1, acquire_timeout_s=0.05) as engine:
            holding, done = asyncio.Event(), asyncio.Event()

            async def hold(transaction):
                await transaction.run(SELECT)
                holding.set()
                await done.wait()

            holder = start(engine.read(hold))
            await holding.wait()
            with pytest.raises(StoreBusyError, match="in use") as caught:
                await engine.read(reading)
            assert caught.value.retryable
            done.set()
            await holder
            await at_rest(engine)
            assert await engine.read(reading) == [(1,)]

    async def test_a_given_pool_that_others_use_up_is_waited_for_within_bounds(self, server):
        pool = oracledb.create_pool_async(DSN, **LOGIN, min=1, max=1)
        engine = OracleEngine(pool, acquire_timeout_s=0.05)
        await engine.open()
        await at_rest(engine)
        others = await pool.acquire()
        with pytest.raises(StoreBusyError, match="in use"):
            await engine.read(reading)
        await others.close()
        await at_rest(engine)
        assert await engine.read(reading) == [(1,)]
        await engine.close()
        assert pool.busy == 0
        await pool.close()


class TestLife:
    async def test_before_open_and_after_close_every_call_says_so(self, server):
        engine = OracleEngine(URL)
        with pytest.raises(UsageError, match="not open"):
            await engine.read(reading)
        await engine.open()
        with pytest.raises(UsageError, match="once"):
            await engine.open()
        await engine.close()
        for call in (engine.read(reading), engine.write(writing), engine.open()):
            with pytest.raises(ClosedError):
                await call

    async def test_closing_waits_for_what_runs(self, server, script):
        async with engine_on(server, "pool") as engine:
            begun, go_on = asyncio.Event(), asyncio.Event()

            async def work(transaction):
                begun.set()
                await go_on.wait()
                await transaction.finish(INSERT)
                return "done"

            running = start(engine.write(work))
            await begun.wait()
            closing = start(engine.close())
            await asyncio.sleep(0)
            go_on.set()
            assert await running == "done"
            await closing
            assert len(script.committed) == 1

    @pytest.mark.parametrize("kind", ["url", "pool", "connection", "blocking pool"])
    async def test_closing_stops_what_does_not_end(self, server, script, kind, monkeypatch):
        monkeypatch.setattr(engine_module, "_CLOSE_PATIENCE_S", 0.05)
        async with engine_on(server, kind) as engine:
            hangs = asyncio.Event()
            loop = asyncio.get_running_loop()
            server.faults.add(
                FaultKind.HANG_BEFORE,
                statement="FOR UPDATE",
                call=lambda: loop.call_soon_threadsafe(hangs.set),
            )
            running = start(engine.write(writing))
            await hangs.wait()
            await engine.close()
            with pytest.raises(ClosedError):
                await running
            assert script.committed == []

    def test_another_loop_is_refused(self, server):
        engine = OracleEngine(URL)

        async def open_and_leave():
            await engine.open()

        async def use():
            with pytest.raises(UsageError, match="another event loop"):
                await engine.read(reading)
            await engine.close()

        with asyncio.Runner() as first:
            first.run(open_and_leave())
            with asyncio.Runner() as second:
                second.run(use())
            first.run(at_rest(engine))
            first.run(engine._source.close(1))

    def test_objects_of_asyncio_serve_their_own_loop_only(self, server):
        async def make():
            pool = oracledb.create_pool_async(DSN, **LOGIN)
            return pool, OracleEngine(pool)

        async def use(engine):
            with pytest.raises(UsageError, match=r"another event loop.*blocking API"):
                await engine.open()

        with asyncio.Runner() as first:
            pool, engine = first.run(make())
            with asyncio.Runner() as second:
                second.run(use(engine))
                second.run(use(OracleEngine(pool)))
            first.run(pool.close())

    async def test_a_forked_process_is_refused(self, server, monkeypatch):
        async with engine_on(server, "pool") as engine:
            pid = os.getpid()
            monkeypatch.setattr(os, "getpid", lambda: pid + 1)
            for call in (engine.read(reading), engine.close()):
                with pytest.raises(UsageError, match="fork"):
                    await call
            monkeypatch.undo()

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("max_connections", 0),
            ("max_connections", 2.5),
            ("acquire_timeout_s", 0),
            ("operation_timeout_s", float("nan")),
            ("operation_timeout_s", "1"),
            ("attempts", 0),
            ("stop_grace_s", -1),
        ],
    )
    def test_arguments_out_of_range_are_named(self, name, value):
        with pytest.raises(ValidationError, match=f"`{name}`") as caught:
            OracleEngine(URL, **{name: value})
        assert caught.value.argument == name

    async def test_a_deadline_out_of_range_is_named(self, server):
        async with engine_on(server, "pool") as engine:
            with pytest.raises(ValidationError, match="`timeout_s`"):
                await engine.read(reading, timeout_s=0)


class TestApplicationContext:
    @pytest.mark.parametrize("kind", KINDS)
    async def test_a_session_has_the_callers_context_for_as_long_as_the_operation(
        self, server, script, kind
    ):
        tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="none")
        seen: list[dict[str, str]] = []

        def note(request):
            (session,) = [one for one in server.sessions if one.number == _of(server)]
            seen.append(dict(session.app_context.get("CLIENTCONTEXT", {})))
            return _one_row()

        script.on(r"FROM t\b", respond=note)
        async with engine_on(
            server,
            kind,
            size=1,
            app_context=lambda: {"CLIENTCONTEXT": {"tenant": tenant.get()}},
        ) as engine:
            for name in ("maya", "bo"):
                tenant.set(name)
                await engine.read(reading)
            assert seen == [{"tenant": "maya"}, {"tenant": "bo"}]
            await at_rest(engine)
            if kind in POOLS:
                assert not any(any(one.app_context.values()) for one in server.open_sessions)

    @pytest.mark.parametrize("kind", KINDS)
    async def test_no_value_outlives_its_operation_though_the_next_gives_other_names(
        self, server, script, kind
    ):
        given: dict[str, dict[str, str]] = {}
        seen: list[dict[str, dict[str, str]]] = []

        def note(request):
            (session,) = [one for one in server.sessions if one.number == _of(server)]
            seen.append(
                {
                    name: {key: value for key, value in values.items() if value}
                    for name, values in session.app_context.items()
                }
            )
            return _one_row()

        script.on(r"FROM t\b", respond=note)
        async with engine_on(server, kind, size=1, app_context=lambda: given) as engine:
            given = {"CLIENTCONTEXT": {"tenant": "maya", "role": "admin"}}
            await engine.read(reading)
            given = {"CLIENTCONTEXT": {"tenant": "bo"}}
            await engine.read(reading)
            given = {}
            await engine.read(reading)
        assert seen[0] == {"CLIENTCONTEXT": {"tenant": "maya", "role": "admin"}}
        assert seen[1] == {"CLIENTCONTEXT": {"tenant": "bo"}}
        assert not any(seen[2].values())

    async def test_a_failing_context_is_the_callers_error_and_costs_no_connection(self, server):
        failing = False

        def context():
            if failing:
                raise LookupError("no tenant")
            return {}

        async with engine_on(server, "connection", app_context=context) as engine:
            failing = True
            with pytest.raises(LookupError, match="no tenant"):
                await engine.read(reading)
            failing = False
            assert await engine.read(reading) == [(1,)]


class TestNotes:
    async def test_errors_name_the_statements_that_travelled(self, server, script):
        script.on(r"^UPDATE", respond=_raiser(lambda: ora(942, "T")))
        async with engine_on(server, "pool") as engine:
            with pytest.raises(SchemaMismatchError) as caught:
                await engine.write(writing)
            assert caught.value.__notes__ == ["statements: test.change, test.change"]


def _raiser(make: Any) -> Any:
    def respond(_: object) -> Any:
        raise make()

    return respond


def _one_row() -> Any:
    from tests.support.oracle.values import Answer, Column

    return Answer(columns=[Column("A", oracledb.DB_TYPE_NUMBER)], rows=[(1,)])


def _of(server: Any) -> int:
    return int(server.trips[-1].session)
