"""Decay and diversity in the pipeline, and the order in which the stages run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentmemory import (
    AsyncAgentMemory,
    DecayConfig,
    DiversityConfig,
    MemorySearchConfig,
    PruningMemorySearchConfig,
    ReciprocalRankFusion,
    ScoreFusion,
    SearchPreset,
    SearchResult,
    SearchStrategy,
    TopKMemorySearchConfig,
)
from agentmemory.testing import FrozenClock, HashEmbedder
from tests.retrieval.parts import Judge, PlainReranker, backwards, fill, places

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


def memory_of(**options: Any) -> AsyncAgentMemory:
    options.setdefault("embedder", HashEmbedder())
    return AsyncAgentMemory(":memory:", clock=FrozenClock(NOW), **options)


def ids(hits: list[SearchResult]) -> list[str]:
    return [hit.id for hit in hits]


def stage(hit: SearchResult, name: str) -> Any:
    (found,) = [trace for trace in hit.explain.stages if trace.stage == name]
    return found


async def add(memory: AsyncAgentMemory, name: str, text: str, days: float, **fields: Any) -> None:
    await memory.add_memory(
        text, user_id="u1", memory_id=name, timestamp=NOW - timedelta(days=days), **fields
    )


async def test_of_equally_relevant_records_the_newer_one_wins_and_says_why() -> None:
    async with memory_of() as memory:
        await add(memory, "a-old", "The project is late.", 70)
        await add(memory, "b-new", "The project is late!", 0)
        config = MemorySearchConfig(decay=DecayConfig())
        hits = await memory.search("project", user_id="u1", search_config=config)
        assert ids(hits) == ["b-new", "a-old"]
        for hit, freshness in ((hits[0], 1.0), (hits[1], 0.5**10)):
            relevance = stage(hit, "fusion").score
            assert hit.score == pytest.approx(0.7 * relevance + 0.3 * freshness)
            assert stage(hit, "decay").score == hit.score
        assert "70.0 days old, freshness 0.001" in stage(hits[1], "decay").reason


async def test_a_relevant_old_record_beats_a_fresh_one_beside_the_point() -> None:
    async with memory_of() as memory:
        await add(memory, "old", "The garden gate code is kept by Mira.", 7)
        await add(memory, "new", "Mira went out.", 0)
        config = MemorySearchConfig(decay=DecayConfig())
        hits = await memory.search("garden gate code", user_id="u1", search_config=config)
        assert ids(hits) == ["old", "new"]


async def test_what_is_stable_does_not_age() -> None:
    config = MemorySearchConfig(decay=DecayConfig(combine="multiply"))
    async with memory_of() as memory:
        await add(memory, "stable", "The project is late.", 700, stability="stable")
        await add(memory, "rule", "The project is late. ", 700, memory_type="guideline")
        await add(memory, "old", "The project is late!", 700)
        hits = await memory.search("project", user_id="u1", search_config=config)
        scores = {hit.id: (hit.score, stage(hit, "fusion").score) for hit in hits}
        assert scores["stable"][0] == pytest.approx(scores["stable"][1])
        assert scores["rule"][0] == pytest.approx(scores["rule"][1])
        assert scores["old"][0] < 1e-20
        assert "does not age" in stage(hits[0], "decay").reason


async def test_the_age_counts_from_the_event_and_the_future_is_fresh() -> None:
    config = MemorySearchConfig(decay=DecayConfig(combine="multiply"))
    async with memory_of() as memory:
        await add(memory, "soon", "The project ends.", -30)
        await memory.add_memory("The project ends!", user_id="u1", memory_id="now")
        await add(memory, "then", "The project ends?", 7)
        hits = await memory.search("project", user_id="u1", search_config=config)
        factors = {hit.id: hit.score / stage(hit, "fusion").score for hit in hits}
        assert factors == pytest.approx({"soon": 1.0, "now": 1.0, "then": 0.5})


async def test_looking_back_the_age_counts_from_then() -> None:
    config = MemorySearchConfig(decay=DecayConfig(combine="multiply"))
    async with memory_of() as memory:
        await add(memory, "then", "The project ends?", 100)
        (hit,) = await memory.search(
            "project", user_id="u1", search_config=config, as_of=NOW - timedelta(days=93)
        )
        assert hit.score / stage(hit, "fusion").score == pytest.approx(0.5)


async def test_linear_decay_and_half_lives_by_type() -> None:
    decay = DecayConfig(shape="linear", combine="multiply", half_life_days_by_type={"fact": 70})
    config = MemorySearchConfig(decay=decay)
    async with memory_of() as memory:
        await add(memory, "memory", "The project ends.", 7)
        await add(memory, "gone", "The project ends?", 14)
        await add(memory, "fact", "The project ends!", 14, memory_type="fact")
        hits = await memory.search("project", user_id="u1", search_config=config)
        factors = {hit.id: hit.score / stage(hit, "fusion").score for hit in hits}
        assert factors == pytest.approx({"memory": 0.5, "gone": 0.0, "fact": 0.9})


async def test_a_rerankers_scores_decay_on_their_own_scale() -> None:
    reranker = PlainReranker(lambda query, documents: [(1, 0.8), (0, 0.4)])
    config = TopKMemorySearchConfig(
        reranker=reranker, decay=DecayConfig(recency_weight=0.5), reranker_max_candidates=2
    )
    async with memory_of(embedder=None) as memory:
        await fill(memory, 3)
        hits = await memory.search("apple", user_id="u1", search_config=config)
        assert places(hits) == [1, 0, 2]
        assert [hit.score for hit in hits[:2]] == pytest.approx([0.9, 0.7])
        assert hits[2].score < 0.7
    logits = PlainReranker(lambda query, documents: [(0, 7.0), (1, -5.0), (2, 1.0)])
    config = TopKMemorySearchConfig(reranker=logits, decay=DecayConfig(recency_weight=0.0))
    async with memory_of(embedder=None) as memory:
        await fill(memory, 3)
        hits = await memory.search("apple", user_id="u1", search_config=config)
        assert places(hits) == [0, 2, 1]
        assert [hit.score for hit in hits] == pytest.approx([1.0, 0.625, 0.25])
        hits = await memory.search(
            "apple", user_id="u1", search_config=TopKMemorySearchConfig(reranker=logits)
        )
        assert [(hit.score, hit.distance) for hit in hits] == [(7.0, 0.0), (1.0, 0.0), (-5.0, 1.0)]


async def test_near_duplicates_collapse_into_the_best_and_are_counted() -> None:
    config = MemorySearchConfig(diversity=DiversityConfig(balance=None))
    async with memory_of() as memory:
        for name in ("a", "b", "c"):
            await memory.add_memory(
                "Likes green tea." if name == "a" else "likes  GREEN tea!",
                user_id="u1",
                memory_id=name,
            )
        await memory.add_memory("Drinks tea on boats with Ulf.", user_id="u1", memory_id="d")
        hits = await memory.search("tea", user_id="u1", search_config=config)
        assert ids(hits) == ["a", "d"]
        assert stage(hits[0], "diversity").reason == "stands for 2 near duplicates"
        assert stage(hits[1], "diversity").reason == "no near duplicate"


async def test_marginal_relevance_widens_the_results() -> None:
    async with memory_of() as memory:
        for index in range(4):
            await memory.add_memory(
                f"green tea tea tea cup {index}", user_id="u1", memory_id=f"same{index}"
            )
        await memory.add_memory(
            "tea ship sailed slowly northwards under heavy storm", user_id="u1", memory_id="else"
        )
        plain = await memory.search("tea", user_id="u1", max_results=2)
        assert "else" not in ids(plain)
        config = MemorySearchConfig(
            diversity=DiversityConfig(balance=0.3, duplicate_threshold=None)
        )
        wide = await memory.search("tea", user_id="u1", max_results=2, search_config=config)
        assert ids(wide) == [ids(plain)[0], "else"]
        narrow = MemorySearchConfig(
            diversity=DiversityConfig(balance=1.0, duplicate_threshold=None)
        )
        assert ids(
            await memory.search("tea", user_id="u1", max_results=2, search_config=narrow)
        ) == ids(plain)


async def test_diversity_works_without_vectors() -> None:
    config = MemorySearchConfig(diversity=DiversityConfig())
    async with memory_of(embedder=None) as memory:
        await memory.add_memory("Likes tea.", user_id="u1", memory_id="a")
        await memory.add_memory("likes TEA.", user_id="u1", memory_id="b")
        await memory.add_memory("Tea is hot.", user_id="u1", memory_id="c")
        assert len(await memory.search("tea", user_id="u1", search_config=config)) == 2


async def test_what_replaced_a_record_stands_before_it_after_every_stage() -> None:
    config = TopKMemorySearchConfig(
        reranker=PlainReranker(backwards),
        decay=DecayConfig(),
        diversity=DiversityConfig(balance=0.0, duplicate_threshold=None),
    )
    async with memory_of() as memory:
        await add(memory, "old", "Mira lives in Bergen, near the fish market.", 0)
        await add(memory, "new", "Mira moved to Oslo.", 400)
        await memory.link_records("new", "old", "supersedes", user_id="u1")
        for chosen in (None, config):
            hits = await memory.search("Bergen fish market", user_id="u1", search_config=chosen)
            assert ids(hits) == ["new", "old"]


async def test_the_stages_run_in_their_order_and_are_timed_when_asked() -> None:
    config = PruningMemorySearchConfig(
        reranker=PlainReranker(backwards),
        decay=DecayConfig(),
        diversity=DiversityConfig(),
        pruner=Judge(range(20)),
        soft_token_budget=10_000,
    )
    async with memory_of() as memory:
        await fill(memory, 6)
        plain = await memory.search("apple", user_id="u1", search_config=config)
        names = ["fusion", "rerank", "decay", "diversity", "prune", "budget"]
        assert [trace.stage for trace in plain[0].explain.stages] == names
        assert all(trace.duration_s is None for trace in plain[0].explain.stages)
        assert await memory.search("apple", user_id="u1", search_config=config) == plain
        traced = await memory.search("apple", user_id="u1", search_config=config, trace=True)
        stages = traced[0].explain.stages
        assert [trace.stage for trace in stages] == ["query", "retrieve", *names]
        assert all(trace.duration_s is not None and trace.duration_s >= 0 for trace in stages)
        for place, hit in enumerate(plain, start=1):
            assert stage(hit, "prune").rank == place
        assert "tokens" in stage(plain[0], "budget").reason


async def test_the_cut_comes_after_decay_and_diversity() -> None:
    async with memory_of() as memory:
        await fill(memory, 12, timestamp=NOW - timedelta(days=700))
        await add(memory, "r99", "apple" + " stone" * 12, 0)
        config = MemorySearchConfig(decay=DecayConfig(recency_weight=0.9))
        hits = await memory.search("apple", user_id="u1", max_results=2, search_config=config)
        assert ids(hits)[0] == "r99"
        exact = MemorySearchConfig(decay=DecayConfig(recency_weight=0.9), candidate_pool="exact")
        hits = await memory.search("apple", user_id="u1", max_results=2, search_config=exact)
        assert "r99" not in ids(hits)


async def test_twice_the_results_go_on_from_the_reranker() -> None:
    config = TopKMemorySearchConfig(
        reranker=PlainReranker(backwards), decay=DecayConfig(recency_weight=1.0)
    )
    async with memory_of(embedder=None) as memory:
        for place in range(30):
            await memory.add_memory(
                f"{'apple ' * (30 - place)}{'stone ' * place}number {place}",
                user_id="u1",
                memory_id=f"r{place:02d}",
                timestamp=NOW - timedelta(days=30 - abs(place - 8)),
            )
        hits = await memory.search("apple", user_id="u1", max_results=5, search_config=config)
        # Of the 15 that the reranker saw, its best 10 are those from 14 down to 5; the freshest
        # of these is 14, and 8 is the oldest.
        assert places(hits) == [14, 13, 12, 5, 11]
        assert all(5 <= place <= 14 for place in places(hits))


async def test_each_fusion_may_be_asked_for() -> None:
    async with memory_of() as memory:
        await fill(memory, 3)
        for fusion, word in (
            (ScoreFusion(lexical_weight=1.0), "words"),
            (ReciprocalRankFusion(), "k 60"),
        ):
            config = MemorySearchConfig(fusion=fusion)
            hits = await memory.search("apple", user_id="u1", search_config=config)
            assert word in stage(hits[0], "fusion").reason
            assert places(hits)[0] == 0


async def test_strategies_may_be_chosen_by_call() -> None:
    async with memory_of() as memory:
        await memory.add_memory("plum", user_id="u1")
        for strategy, lexical, vector in (
            (SearchStrategy.KEYWORD, True, False),
            ("vector", False, True),
            ("hybrid", True, True),
        ):
            config = MemorySearchConfig(strategy=strategy)  # type: ignore[arg-type]
            (hit,) = await memory.search("plum", user_id="u1", search_config=config)
            assert (hit.explain.lexical is not None, hit.explain.cosine is not None) == (
                lexical,
                vector,
            )


@pytest.mark.parametrize("preset", list(SearchPreset))
async def test_presets_follow_the_table(preset: SearchPreset) -> None:
    async with memory_of(
        search_config=TopKMemorySearchConfig(reranker=PlainReranker(backwards))
    ) as memory:
        await fill(memory, 3)
        hits = await memory.search("apple", user_id="u1", search_config=preset)
        assert len(hits) == 3
        names = {trace.stage for trace in hits[0].explain.stages}
        expected = {
            SearchPreset.SIMPLE: set(),
            SearchPreset.TECHNICAL: set(),
            SearchPreset.RECENT: {"decay"},
            SearchPreset.DIVERSE: {"diversity"},
            SearchPreset.PRECISE: {"rerank"},
            SearchPreset.FULL: {"rerank", "decay", "diversity"},
        }[preset]
        assert names == {"fusion"} | expected
        assert (hits[0].explain.lexical is None) == (preset is SearchPreset.SIMPLE)


async def test_the_simple_preset_finds_by_words_where_there_is_no_embedder() -> None:
    async with memory_of(embedder=None, search_config=SearchPreset.SIMPLE) as memory:
        await fill(memory, 3)
        hits = await memory.search("apple", user_id="u1")
        assert places(hits) == [0, 1, 2]
        assert "there is no embedder" in hits[0].explain.notes[0]
