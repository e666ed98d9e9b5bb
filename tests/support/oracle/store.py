"""Stores on emulated Oracle databases, for tests.

`oracle_databases` keeps the template of a database that holds an empty store, so that a test
begins with a clone of it instead of migrations.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Final

import oracledb

from agentmemory.config import SchemaPolicy
from tests.support.oracle.database import OracleDatabase
from tests.support.oracle.postgres import embedded_server
from tests.support.oracle.server import HOST, PASSWORD, SERVICE, USER, OracleServer, installed

if TYPE_CHECKING:
    from agentmemory.stores.oracle.store import OracleStore

DSN: Final = f"{HOST}/{SERVICE}"
LOGIN: Final[dict[str, Any]] = {"user": USER, "password": PASSWORD}
EMPTY: Final = "oracle"
WITH_STORE: Final = "oracle_with_store"


@contextlib.contextmanager
def oracle_server(template: str = EMPTY, **options: Any) -> Iterator[OracleServer]:
    """Install a server with a database of its own, which is dropped at the end.

    Args:
        template: `EMPTY`, or `WITH_STORE` for one that holds an empty store "DEFAULT".
        options: As of `OracleServer`.
    """
    postgres = embedded_server()
    if template == WITH_STORE and template not in postgres.templates:
        raise AssertionError("`make_store_template` makes it, in a loop")
    name = postgres.clone(template)
    server = OracleServer(OracleDatabase(postgres, name), **options)
    try:
        with installed(server):
            yield server
    finally:
        server.shut_down()
        postgres.drop(name)


def database_of(server: OracleServer) -> OracleDatabase:
    """Return the database behind a server, for a look or a change beside the emulation."""
    assert isinstance(server.database, OracleDatabase)
    return server.database


def new_pool(**options: Any) -> oracledb.AsyncConnectionPool:
    """Return a pool to the installed server."""
    return oracledb.create_pool_async(DSN, **LOGIN, **{"min": 1, "max": 4, **options})


def new_blocking_pool(**options: Any) -> oracledb.ConnectionPool:
    """Return a pool of blocking connections to the installed server."""
    return oracledb.create_pool(DSN, **LOGIN, **{"min": 1, "max": 4, **options})


@contextlib.asynccontextmanager
async def oracle_store(
    server: OracleServer, *, pool: dict[str, Any] | None = None, **options: Any
) -> AsyncIterator[OracleStore]:
    """Open a store on a pool of its own; both are closed at the end.

    Args:
        server: The installed server.
        pool: Options of the pool.
        options: As of `OracleStore`.
    """
    from agentmemory.stores.oracle.store import OracleStore

    connections = new_pool(**(pool or {}))
    store = OracleStore(
        connections, **{"schema_policy": SchemaPolicy.CREATE_IF_NECESSARY, **options}
    )
    try:
        await store.open()
        try:
            yield store
        finally:
            await store.close()
    finally:
        await connections.close(force=True)
        await server.settle()


async def make_store_template() -> None:
    """Make the template with an empty store, unless this process has it."""
    postgres = embedded_server()
    if WITH_STORE in postgres.templates:
        return
    name = postgres.clone(EMPTY)
    server = OracleServer(OracleDatabase(postgres, name))
    with installed(server):
        async with oracle_store(server):
            pass
    server.shut_down()
    postgres.rename(name, WITH_STORE)
