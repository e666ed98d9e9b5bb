"""What a message is found by when the turns around it come, change and go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import anyio.lowlevel
import numpy as np
import pytest

from agentmemory import AsyncAgentMemory
from agentmemory.testing import HashEmbedder
from tests.client.conftest import hybrid, lexical


async def _found(memory: AsyncAgentMemory, word: str) -> set[str]:
    return {hit.content for hit in await memory.search(word, user_id="u1")}


@pytest.mark.parametrize("make", [lexical, hybrid])
async def test_an_answer_is_found_by_the_question_before_it(
    make: Callable[[], AsyncAgentMemory],
) -> None:
    async with make() as memory:
        thread = await memory.create_thread(user_id="u1")
        await thread.add_messages([{"role": "assistant", "content": "Which ferry did you take?"}])
        await thread.add_messages([{"role": "user", "content": "The early one."}])
        assert await _found(memory, "ferry") == {"Which ferry did you take?", "The early one."}


async def test_changing_a_message_rewrites_what_its_neighbours_indexed_of_it() -> None:
    async with lexical() as memory:
        thread = await memory.create_thread(user_id="u1")
        ids = await thread.add_messages(
            [
                {"role": "user", "content": "alpha"},
                {"role": "user", "content": "walrus"},
                {"role": "user", "content": "omega"},
            ]
        )
        assert await _found(memory, "walrus") == {"alpha", "walrus", "omega"}
        await thread.update_message(ids[1], content="penguin")
        assert await _found(memory, "walrus") == set()
        assert await _found(memory, "penguin") == {"alpha", "penguin", "omega"}


async def test_deleting_a_message_rewrites_what_its_neighbours_indexed_of_it() -> None:
    async with lexical() as memory:
        thread = await memory.create_thread(user_id="u1")
        ids = await thread.add_messages(
            [
                {"role": "user", "content": "alpha"},
                {"role": "user", "content": "walrus"},
                {"role": "user", "content": "omega"},
            ]
        )
        await thread.delete_message(ids[1])
        assert await _found(memory, "walrus") == set()
        assert await _found(memory, "omega") == {"alpha", "omega"}


@pytest.mark.parametrize("change", ["append", "update", "delete"])
async def test_vectors_are_what_a_fresh_import_would_give(change: str) -> None:
    """However a thread came about, its vectors are those of its present content."""

    async def vectors(memory: AsyncAgentMemory) -> list[float]:
        hits = await memory.search("zebra", user_id="u1", max_results=100)
        return [hit.explain.cosine or 0.0 for hit in sorted(hits, key=lambda hit: hit.content)]

    texts = ["apple pie", "banana bread", "cherry cake", "date square"]
    async with hybrid() as fresh, hybrid() as grown:
        final = {
            "append": texts,
            "update": ["apple pie", "zebra", "cherry cake", "date square"],
            "delete": ["apple pie", "cherry cake", "date square"],
        }[change]
        thread = await fresh.create_thread(user_id="u1")
        await thread.add_messages([{"role": "user", "content": text} for text in final])
        thread = await grown.create_thread(user_id="u1")
        ids = []
        for text in texts:
            ids += await thread.add_messages([{"role": "user", "content": text}])
        if change == "update":
            await thread.update_message(ids[1], content="zebra")
        if change == "delete":
            await thread.delete_message(ids[1])
        assert np.allclose(await vectors(fresh), await vectors(grown))
        assert (await grown.stats()).vectors == len(final)


class Patient(HashEmbedder):
    """Lets others run while it works."""

    async def embed(self, texts: Sequence[str], *, is_query: bool = False) -> Any:
        """Embed after a while."""
        await anyio.lowlevel.checkpoint()
        return await super().embed(texts, is_query=is_query)


async def test_a_delete_cancelled_at_any_point_leaves_no_message_without_its_vector() -> None:
    async with AsyncAgentMemory(":memory:", embedder=Patient()) as memory:
        thread = await memory.create_thread(user_id="u1")
        outcomes = set()
        for steps in range(60):
            ids = await thread.add_messages(
                [{"role": "user", "content": f"turn {i} about rain"} for i in range(3)]
            )
            task = asyncio.create_task(thread.delete_message(ids[1]))  # noqa: TID251 - its cancel is what is tested
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task], timeout=10)
            outcomes.add(task.cancelled())
            stats = await memory.stats()
            assert stats.vectors == sum(stats.records.values()), steps
            await memory.delete_thread(thread.thread_id)
            thread = await memory.create_thread(user_id="u1")
        assert True in outcomes


async def test_reembedding_gives_the_same_vectors_again() -> None:
    async with hybrid() as memory:
        thread = await memory.create_thread(user_id="u1")
        await thread.add_messages(
            [{"role": "user", "content": f"turn {i} about rain"} for i in range(5)]
        )
        await thread.add_memory("Rain is welcome.")
        before = {h.id: h.explain.cosine or 0.0 for h in await memory.search("rain", user_id="u1")}
        assert await memory.reembed() == 6
        after = {h.id: h.explain.cosine or 0.0 for h in await memory.search("rain", user_id="u1")}
        assert after.keys() == before.keys()
        assert np.allclose([after[key] for key in before], [before[key] for key in before])


async def test_the_speaker_is_matched_apart_from_the_content() -> None:
    async with lexical() as memory:
        thread = await memory.create_thread(user_id="u1")
        await thread.add_messages(
            [
                {"role": "user", "name": "Mira", "content": "I went sailing."},
                {"role": "user", "name": "Jonas", "content": "I went sailing too."},
            ]
        )
        hits = await memory.search("When did Jonas go sailing?", user_id="u1")
        assert hits[0].content == "I went sailing too."
        assert "Jonas" in hits[0].explain.stages[0].reason
        assert {h.content for h in await memory.search("Mira", user_id="u1")} == {"I went sailing."}


async def test_names_of_speakers_leave_the_embedded_query() -> None:
    embedder = HashEmbedder()
    async with AsyncAgentMemory(":memory:", embedder=embedder) as memory:
        thread = await memory.create_thread(user_id="u1")
        await thread.add_messages([{"role": "user", "name": "Mira", "content": "I like tea."}])
        await memory.search("What does Mira like?", user_id="u1")
        queries = [texts for texts, is_query in embedder.calls if is_query]
        assert queries == [("What does like?",)]


async def test_a_message_is_found_by_its_date_and_its_metadata() -> None:
    async with lexical() as memory:
        thread = await memory.create_thread(user_id="u1")
        await thread.add_messages(
            [
                {
                    "role": "user",
                    "content": "Look at this!",
                    "timestamp": "2026-05-08T13:56:00+00:00",
                    "metadata": {"caption": ["a heron by the canal"]},
                }
            ]
        )
        for query in ("what happened on 8 May 2026?", "heron", "5月8日"):
            assert await _found(memory, query) == {"Look at this!"}


async def test_a_long_message_is_found_by_any_part_and_comes_back_whole() -> None:
    filler = "The committee discussed the budget for the coming year at great length. " * 40
    text = f"{filler}The password of the boathouse is kingfisher. {filler}"
    async with lexical() as memory:
        thread = await memory.create_thread(user_id="u1")
        await thread.add_messages([{"role": "assistant", "content": text}])
        await thread.add_messages([{"role": "user", "content": "Thanks."}])
        assert (await memory.stats()).chunks > 3
        hits = await memory.search("kingfisher boathouse", user_id="u1")
        assert [hit.content for hit in hits] == [text]
