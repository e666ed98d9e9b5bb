"""Nobody sees another's memory in an Oracle store: the histories of the SQLite store's test."""

from __future__ import annotations

import contextlib

from agentmemory import AsyncAgentMemory
from agentmemory.stores.oracle.store import OracleStore
from agentmemory.testing import HashEmbedder
from tests.isolation.test_no_leaks import Isolation, run_isolation
from tests.support.oracle.store import WITH_STORE, make_store_template, new_pool, oracle_server

EXAMPLES = 15


class OracleIsolation(Isolation):
    """The same users, on an emulated Oracle database."""

    def new_memory(self) -> AsyncAgentMemory:
        self.run(make_store_template())
        self.stack = contextlib.ExitStack()
        self.server = self.stack.enter_context(oracle_server(WITH_STORE))
        return self.run(self._new_memory())

    async def _new_memory(self) -> AsyncAgentMemory:
        self.pool = new_pool()
        return AsyncAgentMemory(store=OracleStore(self.pool), embedder=HashEmbedder(16))

    def teardown(self) -> None:
        if not hasattr(self, "memory"):
            return
        self.run(self.memory.close())
        self.run(self.pool.close(force=True))
        self.run(self.server.settle())
        self.server.check_clean()
        self.stack.close()
        self.loop.close()


def test_nobody_ever_sees_anothers_memory_in_oracle() -> None:
    run_isolation(OracleIsolation, examples=EXAMPLES, steps=150)
