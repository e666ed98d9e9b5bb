"""Memories with a scripted language model, and small helpers of these tests."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from agentmemory import AsyncAgentMemory
from agentmemory.extraction import worker
from agentmemory.testing import FrozenClock

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


@pytest.fixture
def clock() -> FrozenClock:
    """A clock that stands still."""
    return FrozenClock(NOW)


@pytest.fixture
def fast_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Failed work is due at once."""
    monkeypatch.setattr(worker, "RETRY_BASE_S", 0.0)


def memory_with(llm: Any = None, connection: Any = ":memory:", **options: Any) -> AsyncAgentMemory:
    """A memory that searches words only."""
    return AsyncAgentMemory(connection, embedder=None, llm=llm, **options)


def item(number: int, text: str, *messages: int, kind: str = "fact", **more: Any) -> dict[str, Any]:
    """One memory as a model answers it."""
    return {
        "number": number,
        "type": kind,
        "text": text,
        "messages": list(messages or (1,)),
        **more,
    }


def answer(*items: dict[str, Any], links: Any = ()) -> dict[str, Any]:
    """A model's whole answer."""
    return {"memories": list(items), "links": list(links)}


def user(text: str, **more: Any) -> dict[str, Any]:
    """A message of the user."""
    return {"role": "user", "content": text, **more}
