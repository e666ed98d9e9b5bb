"""A real Oracle database for the live suite, named by the environment.

`AGENTMEMORY_ORACLE_DSN`, `AGENTMEMORY_ORACLE_USER` and `AGENTMEMORY_ORACLE_PASSWORD`. The suite
makes a store of its own there, "LIVE_TESTS", anew, and no other.
"""

from __future__ import annotations

import os
from typing import Any, Final

import oracledb

from agentmemory.config import SchemaPolicy
from agentmemory.stores.oracle.schema import TABLES, TEMPORARY, Tables
from agentmemory.stores.oracle.store import OracleStore

STORE_ID: Final = "LIVE_TESTS"
T: Final = Tables(STORE_ID)
_VARIABLES: Final = ("DSN", "USER", "PASSWORD")

_made: set[str] = set()


def missing_variables() -> list[str]:
    """Return the variables that are not set."""
    names = [f"AGENTMEMORY_ORACLE_{name}" for name in _VARIABLES]
    return [name for name in names if not os.environ.get(name)]


def new_pool() -> oracledb.AsyncConnectionPool:
    """Return a pool on the database; needs a running loop."""
    dsn, user, password = (os.environ[f"AGENTMEMORY_ORACLE_{name}"] for name in _VARIABLES)
    return oracledb.create_pool_async(user=user, password=password, dsn=dsn, min=1, max=8)


async def empty_store(pool: oracledb.AsyncConnectionPool) -> None:
    """Leave the suite's store as a new one, made in this process if it was not yet."""
    if STORE_ID not in _made:
        store = OracleStore(pool, memory_store_id=STORE_ID, schema_policy=SchemaPolicy.RECREATE)
        await store.open()
        await store.close()
        _made.add(STORE_ID)
        return
    async with pool.acquire() as connection:
        for table in reversed(TABLES):
            if table not in TEMPORARY:
                await connection.execute(f"DELETE FROM {getattr(T, table)}")
        await connection.commit()


def live_store(pool: Any, **options: Any) -> OracleStore:
    """Return the suite's store, not open yet."""
    return OracleStore(pool, memory_store_id=STORE_ID, **options)


async def rows(pool: oracledb.AsyncConnectionPool, sql: str, **binds: Any) -> list[Any]:
    """Return the rows of a query that only the suite asks."""
    async with pool.acquire() as connection:
        found: list[Any] = await connection.fetchall(sql, binds)
        return found
