"""Search through the three layers."""

from __future__ import annotations

import importlib.util
import logging
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest

import agentmemory.parts
from agentmemory import (
    AsyncAgentMemory,
    ConfigurationError,
    EmbedderMismatchError,
    MemorySearchConfig,
    ModelError,
    ScopedRecord,
    SearchScope,
    SearchStrategy,
)
from agentmemory.protocols import EmbedderFingerprint
from agentmemory.telemetry import Event, subscribe
from agentmemory.testing import FrozenClock, HashEmbedder
from tests.client.conftest import hybrid, lexical


class BrokenEmbedder(HashEmbedder):
    """Fails on command."""

    def __init__(self) -> None:
        super().__init__()
        self.failure: Exception | None = None

    async def embed(self, texts: Any, *, is_query: bool = False) -> Any:
        """Fail, or embed."""
        if self.failure is not None:
            raise self.failure
        return await super().embed(texts, is_query=is_query)


async def test_search_finds_by_type_and_limits_results() -> None:
    async with hybrid() as memory:
        thread = await memory.create_thread(user_id="u1")
        await thread.add_messages(
            [{"role": "user", "content": f"tea number {i}"} for i in range(12)]
        )
        await thread.add_memory("Drinks green tea.", memory_type="preference")
        await memory.add_memory("Tea grows in Assam.", user_id="u1", memory_type="fact")
        assert len(await memory.search("tea", user_id="u1")) == 10
        hits = await memory.search("tea", user_id="u1", record_types=["fact", "preference"])
        assert {hit.record.record_type for hit in hits} == {"fact", "preference"}
        assert len(await memory.search("tea", user_id="u1", max_results=3)) == 3


async def test_a_user_never_sees_another_users_records() -> None:
    users = ["u1", "u10", "u1 ", "U1", "u1\u0301", "%", "u_", "u1' OR '1'='1", None]
    async with hybrid() as memory:
        for index, user in enumerate(users):
            thread = await memory.create_thread(user_id=user)
            await thread.add_messages([{"role": "user", "content": f"lantern {index}"}])
            await memory.add_memory(f"lantern memory {index}", user_id=user)
        for index, user in enumerate(users):
            hits = await memory.search("lantern", user_id=user, max_results=100)
            assert sorted(hit.content for hit in hits) == [
                f"lantern {index}",
                f"lantern memory {index}",
            ]
            page = await memory.list_memories(user_id=user)
            assert [record.content for record in page] == [f"lantern memory {index}"]
        everything = await memory.store.search("lantern", max_results=100)
        assert len(everything) == 2 * len(users)


async def test_scope_of_the_three_layers() -> None:
    async with lexical() as memory:
        own = await memory.create_thread(thread_id="own", user_id="u1", agent_id="a1")
        sibling = await memory.create_thread(thread_id="sibling", user_id="u1", agent_id="a1")
        stranger = await memory.create_thread(thread_id="stranger", user_id="u1", agent_id="a2")
        for thread in (stranger, sibling, own):
            await thread.add_messages([{"role": "user", "content": "the same kite"}])

        def threads(hits: list[Any]) -> list[str]:
            return [hit.record.thread_id for hit in hits]

        # A thread: its user and agent exactly, its own records first.
        assert threads(await own.search("kite")) == ["own", "sibling"]
        assert threads(await own.search("kite", exact_thread_match=True)) == ["own"]
        assert threads(await own.search("kite", thread_id="sibling")) == ["sibling"]
        # A client: omitted dimensions do not filter; a given one is exact unless told.
        assert set(threads(await memory.search("kite", user_id="u1"))) == {
            "own",
            "sibling",
            "stranger",
        }
        assert threads(await memory.search("kite", user_id="u1", agent_id="a2")) == ["stranger"]
        preferred = await memory.search(
            "kite", user_id="u1", thread_id="stranger", exact_thread_match=False
        )
        assert threads(preferred)[0] == "stranger"
        assert len(preferred) == 3
        assert await memory.search("kite", user_id="u1", agent_id=None) == []
        # The store: nothing given, nothing filtered.
        assert len(await memory.store.search("kite")) == 3
        scope = SearchScope(thread_id="sibling")
        assert threads(await memory.store.search("kite", scope=scope)) == ["sibling"]


async def test_results_are_in_a_total_order() -> None:
    clock = FrozenClock(datetime.fromisoformat("2026-05-04T12:00:00+00:00"))
    async with lexical(clock=clock) as memory:
        for name in ("b", "a", "c"):
            await memory.add_memory("twin", user_id="u1", memory_id=name)
        clock.advance(days=1)
        await memory.add_memory("twin", user_id="u1", memory_id="z")
        hits = await memory.search("twin", user_id="u1")
        assert [hit.id for hit in hits] == ["z", "a", "b", "c"]


async def test_a_result_explains_itself() -> None:
    async with hybrid() as memory:
        await memory.add_memory("The ferry leaves at seven.", user_id="u1", memory_type="fact")
        await memory.add_memory("Buy bread.", user_id="u1")
        hit = (await memory.search("ferry seven", user_id="u1"))[0]
        assert isinstance(hit.record, ScopedRecord)
        assert hit.explain.lexical is not None
        assert hit.explain.lexical > 0
        assert (hit.explain.lexical_rank, hit.explain.vector_rank) == (1, 1)
        assert hit.explain.cosine is not None
        assert hit.distance == pytest.approx(1 - hit.explain.cosine)
        assert hit.explain.distance_kind == "cosine"
        assert 0 <= hit.score <= 1
        stage = hit.explain.stages[0]
        assert (stage.stage, stage.rank, stage.score) == ("fusion", 1, hit.score)
        assert "words" in stage.reason


async def test_lexical_distance_is_one_minus_score() -> None:
    async with lexical() as memory:
        await memory.add_memory("The ferry leaves at seven.", user_id="u1")
        hit = (await memory.search("ferry", user_id="u1"))[0]
        assert hit.distance == pytest.approx(1 - hit.score)
        assert (hit.explain.cosine, hit.explain.distance_kind) == (None, "score")


async def test_strategies_use_only_their_arm() -> None:
    async with hybrid(search_strategy=SearchStrategy.KEYWORD) as memory:
        await memory.add_memory("plum", user_id="u1")
        hits = await memory.search("plum", user_id="u1")
        assert hits[0].explain.cosine is None
    async with hybrid(search_strategy="vector") as memory:
        await memory.add_memory("plum", user_id="u1")
        hits = await memory.search("plum", user_id="u1")
        assert (hits[0].explain.lexical, hits[0].explain.lexical_rank) == (None, None)
        assert hits[0].explain.cosine == pytest.approx(1.0)


@pytest.mark.parametrize("query", ["*", "🙂", "the", "AND", "(", '"', "NEAR(", "-", "u:x"])
async def test_odd_queries_never_match_everything(query: str) -> None:
    async with lexical() as memory:
        await memory.add_memory("Ordinary text about boats.", user_id="u1")
        assert await memory.search(query, user_id="u1") == []


async def test_budgets_bound_the_formatted_results() -> None:
    async with lexical() as memory:
        for index in range(6):
            await memory.add_memory(f"orchard {index} " + "apples " * 30, user_id="u1")
        everything = await memory.search("orchard", user_id="u1")
        counter = memory._parts.counter
        sizes = [counter.count(hit.formatted_content) for hit in everything]
        hard = await memory.search("orchard", user_id="u1", token_budget=sum(sizes[:3]))
        assert [hit.id for hit in hard] == [hit.id for hit in everything[:3]]
        soft = await memory.search("orchard", user_id="u1", soft_token_budget=sizes[0] + 1)
        assert [hit.id for hit in soft] == [hit.id for hit in everything[:2]]
        assert await memory.search("orchard", user_id="u1", token_budget=1) == []
        off = await memory.search("orchard", user_id="u1", token_budget=0, soft_token_budget=-1)
        assert len(off) == 6


async def test_without_an_embedder_search_is_lexical_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(agentmemory.parts, "_said", set())
    with caplog.at_level(logging.WARNING, logger="agentmemory"):
        for _ in range(2):
            async with AsyncAgentMemory(":memory:") as memory:
                await memory.add_memory("Plum jam.", user_id="u1")
                assert len(await memory.search("plum", user_id="u1")) == 1
    said = [record for record in caplog.records if "no embedder" in record.message]
    assert len(said) == 1


async def test_another_embedder_is_refused_until_reembedding(path: Path) -> None:
    async with AsyncAgentMemory(path, embedder=HashEmbedder(16, model="a")) as memory:
        await memory.add_memory("Plum jam.", user_id="u1")
    async with AsyncAgentMemory(path, embedder=HashEmbedder(32, model="b")) as memory:
        with pytest.raises(EmbedderMismatchError, match="'a'"):
            await memory.search("plum", user_id="u1")
        with pytest.raises(EmbedderMismatchError):
            await memory.add_memory("Cherry jam.", user_id="u1")
        assert (await memory.stats()).records == {"memory": 1}
        assert await memory.reembed() == 1
        assert len(await memory.search("plum", user_id="u1")) == 1
        assert (await memory.stats()).embedder == "b"


async def test_records_written_without_an_embedder_are_found_by_words_and_can_be_embedded(
    path: Path,
) -> None:
    async with lexical(path) as memory:
        await memory.add_memory("Plum jam.", user_id="u1")
    async with hybrid(path) as memory:
        hit = (await memory.search("plum", user_id="u1"))[0]
        assert hit.explain.cosine is None
        assert await memory.reembed() == 1
        hit = (await memory.search("plum", user_id="u1"))[0]
        assert hit.explain.cosine is not None
    with pytest.raises(ConfigurationError):
        async with lexical(path) as memory:
            await memory.reembed()


async def test_a_failing_embedder_loses_no_data_and_says_so() -> None:
    events: list[Event] = []
    embedder = BrokenEmbedder()
    async with AsyncAgentMemory(":memory:", embedder=embedder) as memory:
        await memory.add_memory("Plum jam.", user_id="u1")
        embedder.failure = RuntimeError("the model fell over")
        with subscribe(events.append):
            await memory.add_memory("Plum cake.", user_id="u1")
            hits = await memory.search("plum", user_id="u1")
        assert {hit.content for hit in hits} == {"Plum jam.", "Plum cake."}
        assert all("fell over" in hit.explain.notes[0] for hit in hits)
        names = [event.name for event in events if event.level == "warning"]
        assert names == ["embedding.skipped", "search.degraded"]
        embedder.failure = None
        assert await memory.reembed() == 2
        assert (await memory.stats()).vectors == 2


@pytest.mark.parametrize("shape", ["rows", "nan", "flat"])
async def test_a_lying_embedder_never_puts_nonsense_into_the_store(shape: str) -> None:
    class Liar(HashEmbedder):
        async def embed(self, texts: Any, *, is_query: bool = False) -> Any:
            matrix = await super().embed(texts, is_query=is_query)
            if is_query:
                return matrix
            if shape == "rows":
                return matrix[:0]
            if shape == "flat":
                return matrix.ravel()
            return matrix * np.nan

    async with AsyncAgentMemory(":memory:", embedder=Liar()) as memory:
        await memory.add_memory("Plum jam.", user_id="u1")
        assert (await memory.stats()).vectors == 0
        assert len(await memory.search("plum", user_id="u1")) == 1


async def test_a_zero_vector_never_becomes_nan() -> None:
    class Mute(HashEmbedder):
        async def embed(self, texts: Any, *, is_query: bool = False) -> Any:
            return (await super().embed(texts, is_query=is_query)) * 0

        async def fingerprint(self) -> EmbedderFingerprint:
            return EmbedderFingerprint(model="mute", dimension=64)

    async with AsyncAgentMemory(":memory:", embedder=Mute()) as memory:
        thread = await memory.create_thread(user_id="u1")
        await thread.add_messages([{"role": "user", "content": "plum"}] * 2)
        for hit in await memory.search("plum", user_id="u1"):
            assert not np.isnan(hit.score)
            assert not np.isnan(hit.distance)


async def test_a_vector_search_finds_by_words_when_the_embedder_fails_unless_strict() -> None:
    embedder = BrokenEmbedder()
    async with AsyncAgentMemory(
        ":memory:", embedder=embedder, search_strategy=SearchStrategy.VECTOR
    ) as memory:
        await memory.add_memory("Plum jam.", user_id="u1")
        embedder.failure = RuntimeError("gone")
        (hit,) = await memory.search("plum", user_id="u1")
        assert "by words only" in hit.explain.notes[0]
        with pytest.raises(ModelError, match="gone"):
            await memory.search("plum", user_id="u1", search_config=MemorySearchConfig(strict=True))


async def test_several_stores_live_in_one_file(path: Path) -> None:
    async with (
        hybrid(path, memory_store_id="left") as left,
        hybrid(path, memory_store_id="right") as right,
    ):
        await left.add_memory("The left kite.", user_id="u1", memory_id="same")
        await right.add_memory("The right kite.", user_id="u1", memory_id="same")
        for memory, text in ((left, "The left kite."), (right, "The right kite.")):
            hits = await memory.store.search("kite")
            assert [hit.content for hit in hits] == [text]
    async with lexical(path, memory_store_id="LEFT") as memory:
        assert (await memory.stats()).records == {"memory": 1}


async def test_searches_and_writes_run_side_by_side(path: Path) -> None:
    async with hybrid(path) as memory:
        thread = await memory.create_thread(user_id="u1")

        async def write(index: int) -> None:
            await thread.add_messages([{"role": "user", "content": f"kite {index}"}])

        async def read() -> None:
            for _ in range(5):
                await memory.search("kite", user_id="u1")

        async with anyio.create_task_group() as group:
            for index in range(20):
                group.start_soon(write, index)
            for _ in range(4):
                group.start_soon(read)
        stats = await memory.stats()
        assert (stats.records["message"], stats.vectors) == (20, 20)


async def test_a_memory_about_a_named_speaker_is_not_behind_what_that_speaker_said() -> None:
    async with lexical() as memory:
        thread = await memory.create_thread(user_id="u1")
        await thread.add_messages(
            [
                {"role": "user", "name": "Maya", "content": "I live for long walks."},
                {"role": "user", "name": "Maya", "content": "Do people live on that island?"},
                {"role": "user", "name": "Maya", "content": "Live music tonight!"},
            ]
        )
        await thread.add_memory("Maya lives in Utrecht now.", memory_type="fact")
        await thread.add_memory("The cat lives upstairs.", memory_type="fact")
        hits = await memory.search("Where does Maya live now?", user_id="u1")
        assert hits[0].content == "Maya lives in Utrecht now."
        assert "about" in hits[0].explain.stages[0].reason
        assert hits[-1].content == "The cat lives upstairs."
