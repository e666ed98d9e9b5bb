"""Reranking and pruning of context cards: each result set by itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agentmemory import (
    AsyncAgentMemory,
    AsyncThread,
    DecayConfig,
    DiversityConfig,
    MemorySearchConfig,
    PruningEvaluationMode,
    PruningMemorySearchConfig,
    TopKMemorySearchConfig,
)
from agentmemory.protocols import RerankResponse
from tests.retrieval.parts import Judge, PlainReranker, backwards


@asynccontextmanager
async def dinner(**options: Any) -> AsyncIterator[AsyncThread]:
    """A thread with five memories of each of three types, and five messages."""
    async with AsyncAgentMemory(":memory:", embedder=None, **options) as memory:
        thread = await memory.create_thread(user_id="u1")
        number = 0
        for memory_type in ("fact", "preference", "guideline"):
            for place in range(5):
                text = f"{'apple ' * (5 - place)}{'stone ' * place}number {number}"
                await thread.add_memory(text, memory_type=memory_type, memory_id=f"m{number:02d}")
                number += 1
        await thread.add_messages(
            [
                {
                    "role": "user",
                    "id": f"m{15 + place}",
                    "content": f"{'apple ' * (5 - place)}{'stone ' * place}number {15 + place}",
                }
                for place in range(5)
            ]
        )
        yield thread


def numbers(results: Sequence[Any]) -> list[int]:
    return [int(result.id[1:]) for result in results]


async def test_memories_and_messages_are_reranked_apart() -> None:
    reranker = PlainReranker(backwards)
    async with dinner(search_config=TopKMemorySearchConfig(reranker=reranker)) as thread:
        await thread.get_context_card(query="apple", max_relevant_results=5)
        memories, messages = sorted(reranker.calls, key=lambda call: -len(call[1]))
        assert len(memories[1]) == 15
        assert len(messages[1]) == 5
        assert all(query == "apple" for query, _ in reranker.calls)


async def test_each_requested_type_is_reranked_by_itself() -> None:
    reranker = PlainReranker(backwards)
    config = TopKMemorySearchConfig(reranker=reranker)
    async with dinner(search_config=config) as thread:
        card = await thread.get_context_card(
            query="apple",
            max_relevant_results=5,
            min_relevant_results_by_type={"fact": 2, "message": 1},
        )
        assert sorted(len(documents) for _, documents in reranker.calls) == [3, 5, 15]
        # Each search lets its reranker promote what lies deeper than it returns.
        assert numbers(card.relevant_results)[:2] == [4, 3]
        assert numbers(card.relevant_results)[2] == 17


async def test_each_result_set_is_pruned_by_itself() -> None:
    judge = Judge([0, 1, 5, 15])
    config = PruningMemorySearchConfig(
        pruner=judge,
        evaluation_mode=PruningEvaluationMode.EXHAUSTIVE,
        protected_fraction=0.0,
    )
    async with dinner(search_config=config) as thread:
        card = await thread.get_context_card(
            query="apple",
            max_relevant_results=8,
            min_relevant_results_by_type={"fact": 3, "message": 2},
        )
        assert set(numbers(card.relevant_results)) <= {0, 1, 5, 15}
        assert numbers(card.relevant_results)[:3] == [0, 1, 15]
        # Three facts, two messages, and eight of all memories.
        assert len(judge.asked) == 3 + 2 + 8


async def test_the_cap_of_a_top_k_configuration_never_cuts_an_explicit_maximum() -> None:
    async with dinner(search_config=TopKMemorySearchConfig(max_results=2)) as thread:
        card = await thread.get_context_card(query="apple")
        assert len(card.relevant_results) == 2
        card = await thread.get_context_card(query="apple", max_relevant_results=9)
        assert len(card.relevant_results) == 9
        card = await thread.get_context_card(
            query="apple", min_relevant_results_by_type={"fact": 2, "preference": 2}
        )
        assert len(card.relevant_results) == 4


async def test_a_call_and_a_thread_configure_a_card_too() -> None:
    reranker = PlainReranker(backwards)
    async with dinner() as thread:
        plain = await thread.get_context_card(query="apple")
        card = await thread.get_context_card(
            query="apple", search_config=TopKMemorySearchConfig(reranker=reranker)
        )
        assert numbers(card.relevant_results) != numbers(plain.relevant_results)
        assert [s.stage for s in card.relevant_results[0].explain.stages] == [
            "fusion",
            "rerank",
            "card",
        ]


async def test_configured_budgets_bound_a_card() -> None:
    async with dinner(search_config=MemorySearchConfig(soft_token_budget=1)) as thread:
        card = await thread.get_context_card(query="apple")
        assert len(card.relevant_results) == 1
        card = await thread.get_context_card(query="apple", soft_token_budget=0)
        assert len(card.relevant_results) == 5


class Raising:
    async def rerank(self, query: str, documents: Sequence[str]) -> RerankResponse:
        raise RuntimeError("out of memory")


async def test_a_card_survives_a_failing_stage_and_says_so_once() -> None:
    async with dinner() as thread:
        plain = await thread.get_context_card(query="apple")
        card = await thread.get_context_card(
            query="apple", search_config=TopKMemorySearchConfig(reranker=Raising())
        )
        assert numbers(card.relevant_results) == numbers(plain.relevant_results)
        assert card.content == plain.content
        assert card.explain.notes == (
            "rerank left out: the reranker failed: RuntimeError: out of memory",
        )


@pytest.mark.parametrize("balance", [0.3, None])
async def test_decay_and_diversity_work_in_a_card(balance: float | None) -> None:
    config = MemorySearchConfig(decay=DecayConfig(), diversity=DiversityConfig(balance=balance))
    async with dinner() as thread:
        await thread.add_memory("apple apple apple apple apple number 0", memory_id="m99")
        card = await thread.get_context_card(
            query="apple", max_relevant_results=20, search_config=config
        )
        found = numbers(card.relevant_results)
        assert len({0, 99} & set(found)) == 1
        assert len(found) == len(set(found))
