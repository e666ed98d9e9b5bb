"""What a search runs with: call over thread over client, budgets, and what a thread stores."""

from __future__ import annotations

import json
import sqlite3
import warnings
from pathlib import Path
from typing import Any

import pytest

import agentmemory.config
from agentmemory import (
    AsyncAgentMemory,
    ConfigurationError,
    DecayConfig,
    DiversityConfig,
    ISearchConfig,
    MemorySearchConfig,
    Priors,
    PruningEvaluationMode,
    PruningMemorySearchConfig,
    ReciprocalRankFusion,
    ScoreFusion,
    SearchPreset,
    SearchStrategy,
    StoreError,
    TopKMemorySearchConfig,
    ValidationError,
)
from agentmemory.retrieval.settings import from_stored, to_stored
from agentmemory.telemetry import Event, subscribe
from tests.retrieval.parts import Judge, PlainReranker, backwards, fill, places


def lexical(connection: Any = ":memory:", **options: Any) -> AsyncAgentMemory:
    return AsyncAgentMemory(connection, embedder=None, **options)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture(autouse=True)
def _warned_of_nothing() -> None:
    agentmemory.config._warn_of_budgets.cache_clear()


@pytest.mark.parametrize(
    "config",
    [MemorySearchConfig(), TopKMemorySearchConfig(), PruningMemorySearchConfig()],
    ids=lambda config: config.kind,
)
def test_every_configuration_meets_the_protocol(config: MemorySearchConfig) -> None:
    assert isinstance(config, ISearchConfig)
    assert isinstance(config, MemorySearchConfig)


async def test_a_top_k_configuration_says_how_many_results_unless_the_call_does() -> None:
    async with lexical(search_config=TopKMemorySearchConfig(max_results=3)) as memory:
        await fill(memory, 12)
        assert len(await memory.search("apple", user_id="u1")) == 3
        assert len(await memory.search("apple", user_id="u1", max_results=7)) == 7
        thread = await memory.create_thread(user_id="u1")
        assert len(await thread.search("apple", agent_id=None)) == 3


async def test_a_call_overrides_the_thread_and_the_thread_the_client() -> None:
    async with lexical(search_config=TopKMemorySearchConfig(max_results=2)) as memory:
        await fill(memory, 12)
        thread = await memory.create_thread(
            user_id="u1", search_config=TopKMemorySearchConfig(max_results=4)
        )
        assert len(await thread.search("apple")) == 4
        call = TopKMemorySearchConfig(max_results=6)
        assert len(await thread.search("apple", search_config=call)) == 6
        # What the call leaves out comes from the thread.
        call = TopKMemorySearchConfig(strategy=SearchStrategy.KEYWORD)
        assert len(await thread.search("apple", search_config=call)) == 4


async def test_a_plain_configuration_of_a_call_leaves_pruning_as_it_is() -> None:
    judge = Judge([0])
    config = PruningMemorySearchConfig(
        pruner=judge, evaluation_mode=PruningEvaluationMode.EXHAUSTIVE
    )
    async with lexical(search_config=config) as memory:
        await fill(memory, 5)
        plain = MemorySearchConfig(strategy=SearchStrategy.KEYWORD)
        assert places(await memory.search("apple", user_id="u1", search_config=plain)) == [0]
        top_k = TopKMemorySearchConfig()
        assert len(await memory.search("apple", user_id="u1", search_config=top_k)) == 5


async def test_the_configured_pruner_is_found_below_the_call() -> None:
    judge = Judge([0])
    async with lexical(pruner_llm=judge) as memory:
        await fill(memory, 5)
        call = PruningMemorySearchConfig(evaluation_mode=PruningEvaluationMode.EXHAUSTIVE)
        assert places(await memory.search("apple", user_id="u1", search_config=call)) == [0]
        assert len(judge.asked) == 4


@pytest.mark.parametrize("value", ["top_k", {"max_results": 3}, 5, TopKMemorySearchConfig])
async def test_something_else_is_refused_everywhere(value: Any) -> None:
    with pytest.raises(ValidationError, match="`search_config`"):
        lexical(search_config=value)
    async with lexical() as memory:
        thread = await memory.create_thread(user_id="u1", thread_id="t")
        for call in (
            lambda: memory.create_thread(user_id="u1", search_config=value),
            lambda: memory.get_thread("t", search_config=value),
            lambda: memory.update_thread("t", search_config=value),
            lambda: memory.search("apple", user_id="u1", search_config=value),
            lambda: memory.store.search("apple", search_config=value),
            lambda: thread.search("apple", search_config=value),
            lambda: thread.get_context_card(search_config=value),
        ):
            with pytest.raises(ValidationError, match="`search_config`"):
                await call()


async def test_configured_budgets_apply_and_a_call_overrides_or_disables_them() -> None:
    async with lexical() as memory:
        await fill(memory, 6)
        everything = await memory.search("apple", user_id="u1")
        size = memory._parts.counter.count(everything[0].formatted_content)
        config = MemorySearchConfig(token_budget=3 * size, soft_token_budget=size)

        async def found(**budgets: Any) -> int:
            hits = await memory.search("apple", user_id="u1", search_config=config, **budgets)
            return len(hits)

        assert await found() == 1
        assert await found(soft_token_budget=size + 1) == 2
        assert await found(soft_token_budget=0) in {2, 3}
        assert await found(soft_token_budget=-1, token_budget=0) == 6
        assert await found(soft_token_budget=None, token_budget=None) == 1
        assert await found(token_budget=size - 1, soft_token_budget=0) == 0


@pytest.mark.parametrize("budget", [0, -5, None])
async def test_a_configured_budget_that_is_not_positive_is_off(budget: int | None) -> None:
    config = MemorySearchConfig(token_budget=budget, soft_token_budget=budget)
    async with lexical(search_config=config) as memory:
        await fill(memory, 6)
        assert len(await memory.search("apple", user_id="u1")) == 6


async def test_a_hard_budget_that_is_not_above_the_soft_one_warns_once() -> None:
    with pytest.warns(UserWarning, match="`token_budget` 800 is not above `soft_token_budget` 800"):
        config = MemorySearchConfig(token_budget=800, soft_token_budget=800)
    MemorySearchConfig(token_budget=800, soft_token_budget=800)
    async with lexical(search_config=config) as memory:
        await fill(memory, 2)
        await memory.search("apple", user_id="u1")
        with pytest.warns(UserWarning, match="`token_budget` 700"):
            await memory.search("apple", user_id="u1", token_budget=700)
        await memory.search("apple", user_id="u1", token_budget=700)


def test_budgets_that_are_off_or_apart_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MemorySearchConfig(token_budget=2400, soft_token_budget=800)
        MemorySearchConfig(token_budget=0, soft_token_budget=800)
        MemorySearchConfig(token_budget=800, soft_token_budget=-1)
        MemorySearchConfig(token_budget=800)


EVERYTHING = PruningMemorySearchConfig(
    token_budget=900,
    soft_token_budget=300,
    strategy=SearchStrategy.KEYWORD,
    fusion=ReciprocalRankFusion(k=10, lexical_weight=0.4, priors=Priors(actor=0.1)),
    rewriter=None,
    decay=DecayConfig(shape="linear", half_life_days_by_type={"fact": 30}),
    diversity=DiversityConfig(balance=None),
    candidate_pool="exact",
    strict=True,
    stage_deadline_s=2.5,
    reranker=None,
    reranker_max_candidates=7,
    evaluation_mode=PruningEvaluationMode.EXTENDED,
    num_probe_points=4,
    protected_fraction=0.2,
)


@pytest.mark.parametrize(
    "config",
    [
        EVERYTHING,
        MemorySearchConfig(),
        MemorySearchConfig(decay=None, diversity=None, token_budget=None),
        MemorySearchConfig(fusion=ScoreFusion(lexical_weight=0.3)),
        TopKMemorySearchConfig(max_results=5),
        *(preset.config() for preset in SearchPreset),
    ],
)
def test_plain_values_come_back_as_they_were_stored(config: MemorySearchConfig) -> None:
    stored = to_stored(config)
    assert from_stored(json.loads(json.dumps(stored))) == config


def test_live_objects_are_never_stored() -> None:
    class OwnFusion:
        def fuse(self, candidates: Any) -> Any:
            return []

    config = PruningMemorySearchConfig(
        pruner=Judge([]), rewriter=Judge([]), reranker=PlainReranker(backwards), fusion=OwnFusion()
    )
    assert to_stored(config) == {"kind": "pruning"}


async def test_a_new_thread_stores_the_clients_configuration(path: Path) -> None:
    config = TopKMemorySearchConfig(max_results=3, reranker=PlainReranker(backwards))
    async with lexical(path, search_config=config) as memory:
        await memory.create_thread(thread_id="t", user_id="u1")
    database = sqlite3.connect(path)
    text = "\n".join(database.iterdump())
    database.close()
    assert '"max_results":3' in text
    assert "PlainReranker" not in text
    async with lexical(path) as memory:
        await fill(memory, 12)
        thread = await memory.get_thread("t")
        assert places(await thread.search("apple")) == [0, 1, 2]


async def test_a_stored_configuration_keeps_its_kind_and_takes_live_objects_of_the_client(
    path: Path,
) -> None:
    judge = Judge([0])
    async with lexical(path) as memory:
        await fill(memory, 6)
        await memory.create_thread(
            thread_id="top", user_id="u1", search_config=TopKMemorySearchConfig(max_results=4)
        )
        await memory.create_thread(
            thread_id="pruned",
            user_id="u1",
            search_config=PruningMemorySearchConfig(
                evaluation_mode=PruningEvaluationMode.EXHAUSTIVE, pruner=Judge([])
            ),
        )
    # A client that prunes, with a reranker: the top-k thread reranks and does not prune.
    config = PruningMemorySearchConfig(pruner=judge, reranker=PlainReranker(backwards))
    async with lexical(path, search_config=config) as memory:
        top = await memory.get_thread("top")
        assert places(await top.search("apple")) == [5, 4, 3, 2]
        assert judge.asked == []
        pruned = await memory.get_thread("pruned")
        await pruned.search("apple")
        assert sorted(judge.asked) == [[0], [1], [2], [3], [4]]


async def test_a_thread_that_prunes_opens_without_a_pruner_and_says_so(path: Path) -> None:
    async with lexical(path, pruner_llm=Judge([])) as memory:
        await fill(memory, 5)
        await memory.create_thread(thread_id="t", user_id="u1")
    events: list[Event] = []
    async with lexical(path) as memory:
        with subscribe(events.append):
            thread = await memory.get_thread("t")
        (event,) = (event for event in events if event.level == "warning")
        assert event.name == "search.no_pruner"
        assert "'t'" in event.message
        hits = await thread.search("apple")
        assert places(hits) == [0, 1, 2, 3, 4]
        for hit in hits:
            assert hit.explain.notes == (
                "not pruned: pruning is configured but there is no pruner",
            )
        card = await thread.get_context_card(query="apple")
        assert card.explain.notes == hits[0].explain.notes
        with pytest.raises(ConfigurationError, match="pruner"):
            await thread.search("apple", search_config=MemorySearchConfig(strict=True))


async def test_opening_with_a_configuration_does_not_store_it_and_updating_does(path: Path) -> None:
    async with lexical(path) as memory:
        await fill(memory, 12)
        await memory.create_thread(thread_id="t", user_id="u1")
        four = TopKMemorySearchConfig(max_results=4)
        opened = await memory.get_thread("t", search_config=four)
        assert len(await opened.search("apple")) == 4
        assert len(await (await memory.get_thread("t")).search("apple")) == 10
        updated = await memory.update_thread("t", search_config=four)
        assert len(await updated.search("apple")) == 4
    async with lexical(path) as memory:
        thread = await memory.get_thread("t")
        assert len(await thread.search("apple")) == 4
        await memory.update_thread("t", metadata={"a": 1})
        assert len(await (await memory.get_thread("t")).search("apple")) == 4
        cleared = await memory.update_thread("t", search_config=None)
        assert len(await cleared.search("apple")) == 10
        assert len(await (await memory.get_thread("t")).search("apple")) == 10


async def test_a_preset_may_be_stored_and_its_choice_against_a_reranker_holds(path: Path) -> None:
    config = TopKMemorySearchConfig(reranker=PlainReranker(backwards))
    async with lexical(path, search_config=config) as memory:
        await fill(memory, 3)
        await memory.create_thread(
            thread_id="t", user_id="u1", search_config=SearchPreset.TECHNICAL
        )
    async with lexical(path, search_config=config) as memory:
        thread = await memory.get_thread("t")
        assert places(await thread.search("apple")) == [0, 1, 2]
        assert places(await memory.search("apple", user_id="u1")) == [2, 1, 0]


@pytest.mark.parametrize(
    "stored",
    [
        {"kind": "quantum"},
        {"kind": "top_k", "warp": 9},
        {"kind": "plain", "fusion": {"form": "new", "priors": {}}},
        {"kind": "plain", "decay": {"shape": "step"}},
        {},
    ],
)
def test_what_a_newer_release_stored_is_refused_and_not_misread(stored: Any) -> None:
    with pytest.raises(StoreError, match="search configuration"):
        from_stored(stored)
