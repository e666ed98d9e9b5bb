"""The emulated driver behaves as python-oracledb does."""

from __future__ import annotations

import array
import asyncio
import datetime as dt
import decimal
import inspect
from typing import Any

import oracledb
import pytest

from tests.support.oracle import driver
from tests.support.oracle.errors import code_of, ora
from tests.support.oracle.faults import FaultKind
from tests.support.oracle.internals import thin_impl
from tests.support.oracle.scripted import Script
from tests.support.oracle.server import HOST, PASSWORD, SERVICE, USER, OracleServer, installed
from tests.support.oracle.values import Column

DSN = f"{HOST}/{SERVICE}"
LOGIN: dict[str, Any] = {"user": USER, "password": PASSWORD}


@pytest.fixture
def script():
    return Script()


@pytest.fixture
def server(script):
    with installed(OracleServer(script)) as server:
        yield server


@pytest.fixture
async def connection(server):
    connection = await oracledb.connect_async(DSN, **LOGIN)
    yield connection
    if connection._impl is not None:
        await connection.close()
    await server.settle()


class TestFaithfulness:
    async def test_everything_the_driver_hands_out_is_of_its_own_classes(self, server, connection):
        pool = oracledb.create_pool_async(DSN, **LOGIN)
        blocking = oracledb.create_pool(DSN, **LOGIN)
        with blocking.acquire() as other:
            assert type(other) is oracledb.Connection
            assert type(other.cursor()) is oracledb.Cursor
        assert type(connection) is oracledb.AsyncConnection
        assert type(connection.cursor()) is oracledb.AsyncCursor
        assert type(pool) is oracledb.AsyncConnectionPool
        assert type(blocking) is oracledb.ConnectionPool
        await pool.close()
        blocking.close()

    @pytest.mark.parametrize(
        ("own", "drivers"),
        [("EmulatedConnection", "ThinConnImpl"), ("EmulatedCursor", "ThinCursorImpl")],
    )
    def test_overridden_methods_take_what_the_drivers_take(self, own, drivers):
        ours, theirs = getattr(driver, own), getattr(thin_impl, drivers)
        compared = 0
        for name, method in vars(ours).items():
            original = getattr(theirs, name, None)
            if not inspect.isfunction(method) or original is None or name == "__init__":
                continue
            try:
                expected = inspect.signature(original)
            except ValueError:
                continue
            compared += 1
            got = inspect.signature(method)
            assert len(got.parameters) == len(expected.parameters), name
        assert compared > 3

    async def test_wrong_arguments_are_the_drivers_errors(self, script, connection):
        script.on("dual", rows=[(1,)])
        with pytest.raises(TypeError):
            await connection.fetchall("SELECT 1 FROM dual", fetch_size=3)
        with pytest.raises(oracledb.DatabaseError, match="DPY-4008"):
            await connection.execute("SELECT :a FROM dual", {"b": 1})
        with pytest.raises(oracledb.DatabaseError, match="DPY-4010"):
            await connection.execute("SELECT :a FROM dual")
        with pytest.raises(oracledb.NotSupportedError, match="DPY-3002"):
            await connection.execute("SELECT :a FROM dual", {"a": object()})
        with pytest.raises(oracledb.NotSupportedError, match="DPY-3002"):
            await connection.execute("SELECT :a FROM dual", {"a": {"x": 1}})


class TestValues:
    async def test_bound_values_arrive_as_the_database_would_have_them(self, server, connection):
        cursor = connection.cursor()
        cursor.setinputsizes(
            j=oracledb.DB_TYPE_JSON, v=oracledb.DB_TYPE_VECTOR, t=oracledb.DB_TYPE_TIMESTAMP
        )
        moment = dt.datetime(2026, 3, 1, 12, 30, 15, 250000, tzinfo=dt.UTC)
        await cursor.execute(
            "INSERT INTO x VALUES (:e, :j, :v, :t, :d, :n)",
            e="",
            j={"a": 1, "b": [0.5, None]},
            v=array.array("f", [1, 2]),
            t=moment,
            d=moment,
            n=1.5,
        )
        cursor.close()
        (bound,) = server.executed[-1].binds
        assert bound["E"] is None
        assert bound["J"] == {"a": decimal.Decimal(1), "b": [decimal.Decimal("0.5"), None]}
        assert list(bound["V"]) == [1, 2]
        assert bound["T"] == dt.datetime(2026, 3, 1, 12, 30, 15, 250000)  # noqa: DTZ001
        assert bound["D"].microsecond == 0, "a datetime without a declared type is a DATE"
        assert bound["N"] == decimal.Decimal("1.5")

    async def test_type_handlers_work_in_pipelines(self, server, connection):
        def handler(cursor, value, arraysize):
            if isinstance(value, dict):
                return cursor.var(oracledb.DB_TYPE_JSON, arraysize=arraysize)
            return None

        connection.inputtypehandler = handler
        pipeline = oracledb.create_pipeline()
        pipeline.add_executemany("INSERT INTO x VALUES (:j)", [{"j": {"a": 1}}, {"j": {"a": 2}}])
        await connection.run_pipeline(pipeline)
        assert [row["J"]["a"] for row in server.executed[-1].binds] == [1, 2]

    async def test_fetched_values_are_the_drivers(self, script, connection):
        columns = [
            Column("N", oracledb.DB_TYPE_NUMBER),
            Column("F", oracledb.DB_TYPE_NUMBER),
            Column("C", oracledb.DB_TYPE_CLOB),
            Column("J", oracledb.DB_TYPE_JSON),
        ]
        row = (decimal.Decimal(7), decimal.Decimal("0.5"), "text", {"a": decimal.Decimal(1)})
        script.on("dual", rows=[row], columns=columns)
        (plain,) = await connection.fetchall("SELECT 1 FROM dual", fetch_lobs=False)
        assert plain == (7, 0.5, "text", {"a": decimal.Decimal(1)})
        assert type(plain[0]) is int
        (lob,) = await connection.fetchall("SELECT 1 FROM dual")
        assert await lob[2].read() == "text"
        connection.outputtypehandler = lambda cursor, info: (
            cursor.var(oracledb.DB_TYPE_LONG, arraysize=cursor.arraysize)
            if info.type_code is oracledb.DB_TYPE_CLOB
            else None
        )
        ((_, _, text, _),) = await connection.fetchall("SELECT 1 FROM dual")
        assert text == "text"

    async def test_a_large_text_costs_round_trips_in_a_block_only(self, server, connection):
        text = "x" * 40_000
        server.forget()
        await connection.execute("INSERT INTO x VALUES (:c)", {"c": text})
        assert [trip.name for trip in server.trips] == ["execute"]
        server.forget()
        await connection.execute("BEGIN keep(:c); END;", {"c": text})
        assert [trip.name for trip in server.trips] == ["create_temp_lob", "write_lob", "execute"]
        assert [executed.binds for executed in server.executed] == [({"C": text},)]


class TestRoundTrips:
    async def test_a_pipeline_is_one(self, script, server, connection):
        script.on("dual", rows=[(1,), (2,)])
        pipeline = oracledb.create_pipeline()
        pipeline.add_execute("INSERT INTO x VALUES (:a)", {"a": 1})
        pipeline.add_fetchall("SELECT 1 FROM dual")
        pipeline.add_commit()
        server.forget()
        results = await connection.run_pipeline(pipeline)
        assert results[1].rows == [(1,), (2,)]
        assert [trip.name for trip in server.trips] == ["pipeline"]
        assert [request.text for request in script.committed] == ["INSERT INTO x VALUES (:a)"]

    async def test_an_older_server_runs_a_pipeline_piece_by_piece(self, script, server, connection):
        server.pipelining = False
        pipeline = oracledb.create_pipeline()
        pipeline.add_execute("INSERT INTO x VALUES (1)")
        pipeline.add_commit()
        server.forget()
        await connection.run_pipeline(pipeline)
        assert [trip.name for trip in server.trips] == ["execute", "commit"]

    @pytest.mark.parametrize(
        ("count", "prefetch", "trips"),
        [
            (2, 3, ["execute"]),
            (3, 3, ["execute", "fetch"]),
            (150, 2, ["execute", "fetch", "fetch"]),
        ],
    )
    async def test_rows_beyond_the_prefetched_cost_more(
        self, script, server, connection, count, prefetch, trips
    ):
        script.on("dual", rows=[(number,) for number in range(count)])
        with connection.cursor() as cursor:
            cursor.prefetchrows = prefetch
            server.forget()
            await cursor.execute("SELECT 1 FROM dual")
            assert len(await cursor.fetchall()) == count
        assert [trip.name for trip in server.trips] == trips

    async def test_lobs_json_and_vectors_cost_one_more(self, script, server, connection):
        script.on("dual", rows=[({"a": 1},)])
        for expected in (["execute", "define"], ["execute", "fetch"]):
            server.forget()
            await connection.fetchall("SELECT 1 FROM dual")
            assert [trip.name for trip in server.trips] == expected

    async def test_a_pool_pings_and_rolls_back(self, server):
        pool = oracledb.create_pool_async(DSN, **LOGIN, min=1, max=2, ping_interval=0)
        async with pool.acquire() as connection:
            await connection.execute("INSERT INTO x VALUES (1)")
            assert connection.transaction_in_progress
            assert len(server.open_transactions) == 1
        assert not server.open_transactions
        async with pool.acquire():
            pass
        assert [trip.name for trip in server.trips] == ["connect", "execute", "rollback", "ping"]
        await pool.close()
        assert not server.open_sessions


class TestFaults:
    async def test_an_error_leaves_the_connection(self, script, server, connection):
        script.on("dual", rows=[(1,)])
        server.faults.add(FaultKind.ERROR, statement="INSERT", code=60)
        with pytest.raises(oracledb.DatabaseError) as caught:
            await connection.execute("INSERT INTO x VALUES (1)")
        assert code_of(caught.value) == "ORA-00060"
        assert await connection.fetchall("SELECT 1 FROM dual") == [(1,)]

    async def test_an_integrity_error_is_one(self, script, connection):
        script.on("INSERT", error=ora(1, "MEMORY.DEFAULT_RECORD_ID"))
        with pytest.raises(oracledb.IntegrityError, match="ORA-00001"):
            await connection.execute("INSERT INTO x VALUES (1)")

    @pytest.mark.parametrize(
        ("kind", "committed"), [(FaultKind.LOST_BEFORE, 0), (FaultKind.LOST_AFTER, 1)]
    )
    async def test_a_lost_commit_may_have_taken_effect(
        self, script, server, connection, kind, committed
    ):
        await connection.execute("INSERT INTO x VALUES (1)")
        server.faults.add(kind, trip="commit")
        with pytest.raises(oracledb.DatabaseError) as caught:
            await connection.commit()
        assert caught.value.args[0].is_session_dead
        assert not connection.is_healthy()
        assert len(script.committed) == committed
        with pytest.raises(oracledb.DatabaseError, match="DPY-4011"):
            await connection.execute("INSERT INTO x VALUES (1)")

    async def test_a_failing_operation_stops_a_pipeline(self, script, server, connection):
        pipeline = oracledb.create_pipeline()
        for value in (1, 2, 3):
            pipeline.add_execute(f"INSERT INTO x VALUES ({value})")
        server.faults.add(FaultKind.ERROR, statement=r"\(2\)", code=60)
        with pytest.raises(oracledb.DatabaseError, match="ORA-00060"):
            await connection.run_pipeline(pipeline)
        assert server.statements[-2:] == ["INSERT INTO x VALUES (1)", "INSERT INTO x VALUES (2)"]
        server.faults.add(FaultKind.ERROR, statement=r"\(2\)", code=60)
        results = await connection.run_pipeline(pipeline, continue_on_error=True)
        assert [result.error and result.error.full_code for result in results] == [
            None,
            "ORA-00060",
            None,
        ]

    @pytest.mark.parametrize(
        ("kind", "pending"), [(FaultKind.HANG_BEFORE, 0), (FaultKind.HANG_AFTER, 1)]
    )
    async def test_a_hanging_request_meets_the_call_timeout(
        self, server, connection, kind, pending
    ):
        connection.call_timeout = 20
        server.faults.add(kind, statement="INSERT")
        with pytest.raises(oracledb.DatabaseError, match="DPY-4024"):
            await connection.execute("INSERT INTO x VALUES (1)")
        assert len(server.open_transactions) == pending
        assert connection.is_healthy()

    async def test_a_deaf_network_costs_the_connection(self, server, connection):
        connection.call_timeout = 20
        server.faults.add(FaultKind.DEAF, statement="INSERT")
        with pytest.raises(oracledb.DatabaseError, match="DPY-4011"):
            await connection.execute("INSERT INTO x VALUES (1)")
        assert not server.open_sessions


class TestCancellation:
    async def test_one_cancellation_is_acknowledged(self, script, server, connection):
        script.on("dual", rows=[(1,)])
        server.faults.add(FaultKind.HANG_BEFORE, statement="INSERT")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(connection.execute("INSERT INTO x VALUES (1)"), 0.02)
        assert await connection.fetchall("SELECT 1 FROM dual") == [(1,)]
        assert not server.violations

    async def test_a_second_one_breaks_the_connection(self, script, server, connection):
        script.on("dual", rows=[(1,)])
        server.faults.add(FaultKind.DEAF, statement="INSERT")
        running = asyncio.get_running_loop().create_task(
            connection.execute("INSERT INTO x VALUES (1)")
        )
        for _ in range(2):
            await asyncio.sleep(0.01)
            running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        connection.call_timeout = 10
        with pytest.raises(oracledb.DatabaseError):
            await connection.fetchall("SELECT 1 FROM dual")
        assert server.violations
        server.violations.clear()

    async def test_the_driver_may_not_know_of_a_cancelled_change(self, server, connection):
        server.faults.add(FaultKind.HANG_AFTER, statement="INSERT")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(connection.execute("INSERT INTO x VALUES (1)"), 0.02)
        assert len(server.open_transactions) == 1
        assert not connection.transaction_in_progress


class TestBlocking:
    def test_connections_and_cursors(self, script, server):
        script.on("dual", rows=[(1,)])
        pool = oracledb.SessionPool(DSN, **LOGIN, min=1, max=1)
        with pool.acquire() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM dual")
            assert cursor.fetchall() == [(1,)]
            cursor.execute("INSERT INTO x VALUES (:a)", a=1)
            connection.commit()
        assert [request.binds for request in script.committed] == [{"A": 1}]
        assert pool.busy == 0
        pool.close()
        server.check_clean()
        assert not server.open_sessions

    def test_a_full_pool_gives_up_in_time(self, server):
        pool = oracledb.create_pool(
            DSN, **LOGIN, max=1, getmode=oracledb.POOL_GETMODE_TIMEDWAIT, wait_timeout=20
        )
        with pool.acquire(), pytest.raises(oracledb.DatabaseError, match="DPY-4005"):
            pool.acquire()
        pool.close()
