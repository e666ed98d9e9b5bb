"""Engines of the Oracle store on every kind of connection, behind a scripted server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from typing import Any, Final, TypeVar

import oracledb

from agentmemory.stores.oracle.engine import OracleEngine
from agentmemory.stores.oracle.statement import BindType, Statement, StatementKind, Transaction
from tests.support.oracle.errors import ora
from tests.support.oracle.scripted import Script
from tests.support.oracle.server import HOST, PASSWORD, SERVICE, USER, OracleServer, installed

T = TypeVar("T")

DSN: Final = f"{HOST}/{SERVICE}"
LOGIN: Final[dict[str, Any]] = {"user": USER, "password": PASSWORD}
URL: Final = f"oracle://{USER}:correct%20horse@{HOST}/{SERVICE}"

POOLS: Final = ("url", "pool", "blocking pool")
SINGLES: Final = ("connection", "blocking connection")
KINDS: Final = (*POOLS, *SINGLES)

Work = Callable[[Transaction], Awaitable[Any]]


def query(text: str, **binds: Any) -> Statement:
    """Return a query."""
    return Statement(name="test.query", text=text, kind=StatementKind.QUERY, binds=binds)


def change(text: str, types: dict[str, BindType] | None = None, **binds: Any) -> Statement:
    """Return a statement that changes rows."""
    return Statement(
        name="test.change", text=text, kind=StatementKind.DML, binds=binds, types=types or {}
    )


def many(text: str, *rows: dict[str, Any], **types: BindType) -> Statement:
    """Return a statement that runs once for each row."""
    return Statement(name="test.many", text=text, kind=StatementKind.MANY, rows=rows, types=types)


def block(text: str) -> Statement:
    """Return a PL/SQL block or DDL."""
    return Statement(name="test.block", text=text, kind=StatementKind.BLOCK)


SELECT: Final = query("SELECT a FROM t")
INSERT: Final = change("INSERT INTO t (a) VALUES (1)")


async def reading(transaction: Transaction) -> Any:
    """Read in one trip."""
    (rows,) = await transaction.run(SELECT)
    return rows


async def writing(transaction: Transaction) -> str:
    """Lock in one trip, write and commit in the next."""
    await transaction.run(query("SELECT a FROM t FOR UPDATE"))
    await transaction.finish(INSERT, change("UPDATE t SET a = 2"))
    return "written"


def answers_probes(script: Script) -> None:
    """Let a script answer what an engine asks when it is opened."""
    script.on(
        r"product_component_version",
        rows=[("Oracle AI Database 26ai Free", "23.26.0.0.0")],
    )
    script.on(r"SESSION_USER", rows=[("MEMORY_APP", "MEMORY_APP")])
    script.on(r"session_privs", rows=[("CREATE JOB",), ("CREATE TABLE",)])
    script.on(r"all_objects", rows=[(1,)])
    script.on(r"all_mining_models", rows=[("MEMORY_APP", "MINI")])

    def refused(_: object) -> Any:
        raise ora(942, "v$vector_memory_pool")

    script.on(r"vector_memory_pool", respond=refused)


@contextlib.contextmanager
def scripted(**options: Any) -> Iterator[tuple[OracleServer, Script]]:
    """Install a server that answers from a script: probes, and `SELECT a FROM t`.

    Args:
        options: As of `OracleServer`.
    """
    script = Script()
    answers_probes(script)
    script.on(r"FROM t\b", rows=[(1,)])
    with installed(OracleServer(script, **options)) as server:
        yield server, script


@contextlib.asynccontextmanager
async def given(kind: str, *, size: int = 2) -> AsyncIterator[Any]:
    """Give what is passed as `connection`, and close it at the end.

    Args:
        kind: One of `KINDS`.
        size: How many connections a pool has.
    """
    if kind == "url":
        yield f"{URL}?max_connections={size}"
    elif kind == "pool":
        pool = oracledb.create_pool_async(DSN, **LOGIN, min=1, max=size)
        try:
            yield pool
        finally:
            await pool.close(force=True)
    elif kind == "connection":
        connection = await oracledb.connect_async(DSN, **LOGIN)
        try:
            yield connection
        finally:
            connection.terminate()
    elif kind == "blocking pool":
        blocking = oracledb.create_pool(DSN, **LOGIN, min=1, max=size)
        try:
            yield blocking
        finally:
            blocking.close(force=True)
    else:
        single = oracledb.connect(DSN, **LOGIN)
        try:
            yield single
        finally:
            with contextlib.suppress(oracledb.Error):
                single.close()


@contextlib.asynccontextmanager
async def engine_on(
    server: OracleServer, kind: str, *, size: int = 2, **options: Any
) -> AsyncIterator[OracleEngine]:
    """Open an engine, and see that it leaves nothing behind.

    Args:
        server: The installed server.
        kind: One of `KINDS`.
        size: How many connections a pool has.
        options: As of `OracleEngine`.
    """
    async with given(kind, size=size) as connection:
        engine = OracleEngine(connection, **options)
        await engine.open()
        await at_rest(engine)
        server.forget()
        try:
            yield engine
        finally:
            server.faults.planned.clear()
            await at_rest(engine)
            if kind == "url":
                await _refilled(engine)
            await engine.close()
            if kind in POOLS and kind != "url":
                assert connection.busy == 0, "a connection was not given back"
    await server.settle()
    assert not server.open_transactions
    assert not server.violations, server.violations
    if kind == "url":
        assert not server.open_sessions, "the pool that the engine made is still there"


def start(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Begin a call that the test goes on without."""
    return asyncio.get_running_loop().create_task(work)


async def at_rest(engine: OracleEngine) -> None:
    """Wait until every connection was given back."""
    await engine._background.settle(10)
    assert not engine._background._tasks


async def _refilled(engine: OracleEngine) -> None:
    """Wait until a pool has the connection again that it keeps: opening one takes a while."""
    pool: Any = getattr(engine._source, "_pool", None)
    async with asyncio.timeout(10):
        while pool is not None and pool.opened < pool.min:
            await asyncio.sleep(0)
