"""Memories to test with; each is opened by `async with` inside the test."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentmemory import AsyncAgentMemory
from agentmemory.testing import FrozenClock, HashEmbedder

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


@pytest.fixture
def clock() -> FrozenClock:
    """A clock that stands still."""
    return FrozenClock(NOW)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database file that does not exist yet."""
    return tmp_path / "memory.db"


def lexical(connection: Any = ":memory:", **options: Any) -> AsyncAgentMemory:
    """A memory that searches words only."""
    return AsyncAgentMemory(connection, embedder=None, **options)


def hybrid(connection: Any = ":memory:", **options: Any) -> AsyncAgentMemory:
    """A memory with a deterministic embedder."""
    return AsyncAgentMemory(connection, embedder=HashEmbedder(), **options)
