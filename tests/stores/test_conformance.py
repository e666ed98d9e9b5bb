"""The SQLite store does what every store must do, in a file and in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentmemory.protocols import MemoryStore
from agentmemory.stores.sqlite.store import SqliteStore
from agentmemory.testing.conformance import StoreConformance


class TestSqliteFile(StoreConformance):
    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path: Path) -> None:
        self.path = tmp_path / "memory.db"

    def new_store(self) -> MemoryStore:
        return SqliteStore(str(self.path))


class TestSqliteInMemory(StoreConformance):
    def new_store(self) -> MemoryStore:
        return SqliteStore(":memory:")
