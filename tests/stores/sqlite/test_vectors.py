"""The vector cache finds the same in whole vectors and in one bit per dimension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from agentmemory import AsyncAgentMemory, SearchPreset
from agentmemory.requests import Candidate, CandidateQuery
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


@pytest.mark.parametrize("budget", [0, 64 * 1024 * 1024])
async def test_candidates_bring_their_vectors_along_when_they_will_be_needed(budget: int) -> None:
    async with AsyncAgentMemory(":memory:", embedder=HashEmbedder(96)) as memory:
        store: Any = memory._parts.store
        store._vectors._budget = budget
        for number in range(30):
            await memory.add_memory(f"kite number {number}", user_id="u1")
        asked: list[Sequence[str]] = []
        brought: list[Candidate] = []
        vectors, candidates = store.vectors, store.candidates

        async def spied_vectors(ids: Sequence[str]) -> Any:
            asked.append(ids)
            return await vectors(ids)

        async def spied_candidates(query: CandidateQuery) -> Any:
            found = await candidates(query)
            brought.extend(found)
            return found

        store.vectors, store.candidates = spied_vectors, spied_candidates
        diverse = await memory.search(
            "kite number", user_id="u1", search_config=SearchPreset.DIVERSE
        )
        assert len(diverse) == 10
        assert asked == []
        stored = await vectors([item.record.id for item in brought])
        assert len(stored) == 30
        for item in brought:
            assert item.vector is not None
            assert (item.vector == stored[item.record.id]).all()

        async def bare_candidates(query: CandidateQuery) -> Any:
            return tuple(replace(item, vector=None) for item in await candidates(query))

        store.candidates = bare_candidates
        again = await memory.search("kite number", user_id="u1", search_config=SearchPreset.DIVERSE)
        assert again == diverse
        assert len(asked) == 1
        store.candidates = spied_candidates
        brought.clear()
        await memory.search("kite number", user_id="u1")
        assert {item.vector is None for item in brought} == {True}
