"""A search that waits for a model ends at once when it is cancelled, whichever way."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import pytest

from agentmemory import (
    AsyncAgentMemory,
    LlmResponse,
    MemorySearchConfig,
    PruningMemorySearchConfig,
    TopKMemorySearchConfig,
)
from agentmemory.protocols import ChatMessage, RerankResponse
from agentmemory.testing import HashEmbedder
from tests.retrieval.parts import fill, places


class Waiting:
    """A model of any kind that says that it was asked, and then waits for ever."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.released = 0

    async def _wait(self) -> None:
        self.asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.released += 1

    async def rerank(self, query: str, documents: Sequence[str]) -> RerankResponse:
        """Wait."""
        await self._wait()
        raise AssertionError

    async def generate(
        self,
        prompt: str | Sequence[ChatMessage],
        *,
        response_json_schema: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
    ) -> LlmResponse:
        """Wait."""
        await self._wait()
        raise AssertionError


def configured(stage: str, model: Waiting) -> MemorySearchConfig:
    if stage == "rerank":
        return TopKMemorySearchConfig(reranker=model)
    if stage == "rewrite":
        return MemorySearchConfig(rewriter=model)
    return PruningMemorySearchConfig(pruner=model, evaluation_mode=stage)  # type: ignore[arg-type]


@pytest.mark.parametrize("stage", ["rewrite", "rerank", "fast", "extended", "exhaustive"])
@pytest.mark.parametrize("by", ["task", "scope"])
async def test_a_cancelled_search_ends_and_leaves_the_memory_usable(stage: str, by: str) -> None:
    model = Waiting()
    config = configured(stage, model)
    async with AsyncAgentMemory(":memory:", embedder=HashEmbedder()) as memory:
        await fill(memory, 20)

        async def search() -> None:
            await memory.search("apple", user_id="u1", search_config=config)

        with anyio.fail_after(20):
            if by == "task":
                async with asyncio.TaskGroup() as tasks:
                    task = tasks.create_task(search())
                    await model.asked.wait()
                    task.cancel()
                assert task.cancelled()
            else:
                async with anyio.create_task_group() as group:
                    group.start_soon(search)
                    await model.asked.wait()
                    group.cancel_scope.cancel()
        assert model.released >= 1
        hits = await memory.search("apple", user_id="u1", max_results=3)
        assert places(hits) == [0, 1, 2]
