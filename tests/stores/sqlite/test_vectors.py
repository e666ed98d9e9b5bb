"""The vector cache finds the same in whole vectors and in one bit per dimension."""

from __future__ import annotations

from typing import Any

import pytest

from agentmemory import AsyncAgentMemory
from agentmemory.stores.sqlite import vectors
from agentmemory.testing import HashEmbedder


async def found_with(monkeypatch: pytest.MonkeyPatch, budget: int) -> list[Any]:
    monkeypatch.setattr(vectors, "FLOAT_BUDGET_BYTES", budget)
    async with AsyncAgentMemory(
        ":memory:", embedder=HashEmbedder(96), search_strategy="vector"
    ) as memory:
        index = memory._parts.store._vectors  # type: ignore[attr-defined]
        index._budget = budget
        rounds = []
        for start in (0, 30, 300):
            for number in range(start, start + 300, 10):
                await memory.add_memory(f"kite number {number}", user_id="u1")
            await memory.add_memory("kite number 7", user_id="u2")
            hits = await memory.search("kite number 120", user_id="u1", max_results=5)
            rounds.append([(hit.content, round(hit.score, 5)) for hit in hits])
        assert index._binary == (budget == 0)
        await memory.delete_user("u1")
        assert await memory.search("kite", user_id="u1") == []
        assert len(await memory.search("kite", user_id="u2")) == 3
        return rounds


async def test_one_bit_per_dimension_with_exact_rescoring_finds_what_whole_vectors_find(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert await found_with(monkeypatch, 0) == await found_with(monkeypatch, 64 * 1024 * 1024)
