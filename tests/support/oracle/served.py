"""A store on an emulated Oracle server, for tests that look at both."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import oracledb
import psycopg

from agentmemory.config import SchemaPolicy
from agentmemory.stores.oracle.store import OracleStore
from tests.support.oracle.server import OracleServer
from tests.support.oracle.store import (
    WITH_STORE,
    make_store_template,
    new_pool,
    oracle_server,
    oracle_store,
)


@dataclass(frozen=True, slots=True)
class Served:
    """An open store, the server it is on, and a pool for another one."""

    server: OracleServer
    store: OracleStore
    pool: oracledb.AsyncConnectionPool

    @contextlib.asynccontextmanager
    async def another(self) -> AsyncIterator[OracleStore]:
        """Open the same store as another process would."""
        async with oracle_store(self.server, schema_policy=SchemaPolicy.REQUIRE_EXISTING) as store:
            yield store

    @contextlib.asynccontextmanager
    async def holding(self, sql: str) -> AsyncIterator[psycopg.AsyncConnection[tuple[object, ...]]]:
        """Hold what SQL of the emulation locks or changes, in a transaction of its own.

        Yields:
            The connection, to be committed or rolled back; at the end it is rolled back.
        """
        database = self.server.database
        async with await psycopg.AsyncConnection.connect(
            database.server.uri(database.name)
        ) as connection:
            await connection.execute(sql)
            yield connection
            await connection.rollback()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a query of the emulation behind the store's back."""
        return self.server.database.run(sql)


@contextlib.asynccontextmanager
async def served_store(**options: object) -> AsyncIterator[Served]:
    """Open an empty store on a server of its own; nothing may be left behind.

    Args:
        options: As of `OracleServer`.
    """
    await make_store_template()
    with oracle_server(WITH_STORE, **options) as server:
        async with oracle_store(server, schema_policy=SchemaPolicy.REQUIRE_EXISTING) as store:
            pool = new_pool()
            server.forget()
            try:
                yield Served(server, store, pool)
            finally:
                await pool.close(force=True)
        # The driver's cursors of a trip that failed live as long as the frames of its error.
        server.forget()
        gc.collect()
        server.check_clean()
