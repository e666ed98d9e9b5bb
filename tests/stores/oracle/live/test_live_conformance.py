"""The Oracle store on a real database does what every store must do: `nox -s oracle_live`."""

from __future__ import annotations

import pytest

from agentmemory.protocols import MemoryStore
from agentmemory.testing.conformance import StoreConformance
from tests.support.oracle_live import live_store

pytestmark = [pytest.mark.oracle_live, pytest.mark.timeout(600)]


class TestLiveOracle(StoreConformance):
    @pytest.fixture(autouse=True)
    def _database(self, pool) -> None:
        self.pool = pool

    def new_store(self) -> MemoryStore:
        return live_store(self.pool)
