"""What a message is found by when the turns around it come, change and go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import anyio.lowlevel
import numpy as np
import pytest

from agentmemory import AsyncAgentMemory
from agentmemory.errors import ModelUnavailableError, StaleReadError, WaitTimeoutError
from agentmemory.extraction import worker
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


class Held(HashEmbedder):
    """Embeds nothing until it is released, once it is held."""

    def __init__(self) -> None:
        super().__init__()
        self.held = asyncio.Event()
        self.asked = asyncio.Event()
        self.is_held = False

    async def embed(self, texts: Sequence[str], *, is_query: bool = False) -> Any:
        """Embed when released."""
        if self.is_held:
            self.asked.set()
            await self.held.wait()
        return await super().embed(texts, is_query=is_query)


async def _turns(memory: AsyncAgentMemory, number: int) -> None:
    """Store three turns, of which the middle one expires."""
    thread = await memory.create_thread(user_id="u1", thread_id=f"t{number}")
    for place, word in enumerate(("apple", "zebra", "cherry")):
        message = {"role": "user", "content": f"{word} {number}", "id": f"{number}{word}"}
        await thread.add_messages([message], ttl_days=0 if place == 1 else None)


async def _cosine(memory: AsyncAgentMemory, name: str) -> float | None:
    hits = await memory.search("cherry", user_id="u1", max_results=100)
    return next(hit.explain.cosine for hit in hits if hit.id == name)


async def _without_the_zebra(number: int) -> float | None:
    """Return how near the last turn is to a word in a thread that never had another turn."""
    async with hybrid() as memory:
        thread = await memory.create_thread(user_id="u1")
        for word in ("apple", "cherry"):
            message = {"role": "user", "content": f"{word} {number}", "id": f"{number}{word}"}
            await thread.add_messages([message])
        return await _cosine(memory, f"{number}cherry")


async def test_a_purge_cancelled_at_any_point_is_followed_by_the_vectors_it_took() -> None:
    async with AsyncAgentMemory(":memory:", embedder=Patient()) as memory:
        outcomes = set()
        for steps in range(40):
            await _turns(memory, steps)
            task = asyncio.create_task(memory.purge_expired())  # noqa: TID251 - its cancel is what is tested
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task], timeout=10)
            outcomes.add(task.cancelled())
            await memory.purge_expired()
            await memory.wait_for_memory_extraction(20)
            stats = await memory.stats()
            assert (stats.vectors, stats.jobs) == (sum(stats.records.values()), {}), steps
        assert True in outcomes
        assert await _cosine(memory, "39cherry") == pytest.approx(await _without_the_zebra(39))


@pytest.mark.parametrize("way", ["purge", "delete", "fallback"])
async def test_what_a_cancel_left_without_a_vector_gets_it_in_the_next_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """The work was stored with the write, and is done by whoever opens the store next."""
    monkeypatch.setattr(worker, "DRAIN_S", 0.05)
    path = tmp_path / "m.db"
    embedder = Held()
    async with AsyncAgentMemory(path, embedder=embedder) as memory:
        await _turns(memory, 1)
        thread = await memory.get_thread("t1")
        writing: Coroutine[Any, Any, object]
        if way != "purge":
            await memory.purge_expired()
            await memory.wait_for_memory_extraction(20)
        if way == "fallback":
            store: Any = memory._parts.store
            add = store.add_records

            async def never_first(*args: Any, tail: Any = None, **more: Any) -> Any:
                if tail is not None:
                    message = "somebody else was faster"
                    raise StaleReadError(message)
                embedder.is_held = True
                return await add(*args, **more)

            monkeypatch.setattr(store, "add_records", never_first)
            writing = thread.add_messages([{"role": "user", "content": "date", "id": "1date"}])
        elif way == "delete":
            # The vector after it cannot be made in time, so that the delete goes without it.
            monkeypatch.setattr(memory._parts.recorder, "_delete_one", _in_vain)
            embedder.is_held = True
            writing = thread.delete_message("1apple")
        else:
            embedder.is_held = True
            writing = memory.purge_expired()
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            task = group.create_task(writing)
            await embedder.asked.wait()
            stats = await memory.stats()
            task.cancel()
        assert task.cancelled()
        assert stats.vectors == sum(stats.records.values()) - 1
    async with AsyncAgentMemory(path, embedder=HashEmbedder()) as memory:
        await memory.wait_for_memory_extraction(20)
        stats = await memory.stats()
        assert stats.vectors == sum(stats.records.values())
        assert stats.jobs == {}
        if way == "purge":
            expected = await _without_the_zebra(1)
            assert await _cosine(memory, "1cherry") == pytest.approx(expected)


async def _in_vain(_: object) -> None:
    """Delete nothing."""


async def test_vectors_that_cannot_be_made_are_tried_again() -> None:
    class Failing(HashEmbedder):
        fails = False

        async def embed(self, texts: Sequence[str], *, is_query: bool = False) -> Any:
            if self.fails:
                message = "down"
                raise ModelUnavailableError(message)
            return await super().embed(texts, is_query=is_query)

    embedder = Failing()
    async with AsyncAgentMemory(":memory:", embedder=embedder) as memory:
        await _turns(memory, 1)
        embedder.fails = True
        await memory.purge_expired()
        with pytest.raises(WaitTimeoutError):
            await memory.wait_for_memory_extraction(0.3)
        assert (await memory.stats()).vectors == 1
        embedder.fails = False
        await memory.wait_for_memory_extraction(20)
        assert (await memory.stats()).vectors == 2


async def test_without_vectors_nothing_is_left_to_be_renewed() -> None:
    async with lexical() as memory:
        await _turns(memory, 1)
        await memory.purge_expired()
        await (await memory.get_thread("t1")).delete_message("1apple")
        assert (await memory.stats()).jobs == {}


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
