"""The Oracle store does what every store must do, on an emulated database."""

from __future__ import annotations

import pytest

from agentmemory.config import SchemaPolicy
from agentmemory.protocols import MemoryStore
from agentmemory.stores.oracle.store import OracleStore
from agentmemory.testing.conformance import StoreConformance
from tests.support.oracle.store import (
    WITH_STORE,
    database_of,
    make_store_template,
    new_pool,
    oracle_server,
)


class _OnOracle(StoreConformance):
    text_index = True

    @pytest.fixture(autouse=True)
    async def _database(self):
        await make_store_template()
        with oracle_server(WITH_STORE) as server:
            if not self.text_index:
                database_of(server).run("DELETE FROM oracle_sys.all_objects")
                database_of(server).run(
                    "UPDATE memory_app.agentmemory_store SET settings = "
                    "settings || '{\"text\": null}'"
                )
            self.pool = new_pool()
            yield
            await self.pool.close(force=True)
            await server.settle()
            server.check_clean()

    def new_store(self) -> MemoryStore:
        return OracleStore(self.pool, schema_policy=SchemaPolicy.REQUIRE_EXISTING)


class TestOracle(_OnOracle):
    pass


class TestOracleWithoutTextIndex(_OnOracle):
    text_index = False


del _OnOracle
