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
    hybrid_index_model: str | None = None

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
            if self.hybrid_index_model is not None:
                database_of(server).run(
                    "INSERT INTO oracle_sys.all_mining_models VALUES ($1, $2, 'EMBEDDING')",
                    *self.hybrid_index_model.split("."),
                )
            self.pool = new_pool()
            yield
            await self.pool.close(force=True)
            await server.settle()
            server.check_clean()

    def new_store(self) -> MemoryStore:
        if self.hybrid_index_model is None:
            return OracleStore(self.pool, schema_policy=SchemaPolicy.REQUIRE_EXISTING)
        return OracleStore(
            self.pool,
            schema_policy=SchemaPolicy.CREATE_IF_NECESSARY,
            hybrid_index_model=self.hybrid_index_model,
        )


class TestOracle(_OnOracle):
    pass


class TestOracleWithoutTextIndex(_OnOracle):
    text_index = False


class TestOracleWithHybridIndex(_OnOracle):
    hybrid_index_model = "KEEPER.MINILM"


del _OnOracle
