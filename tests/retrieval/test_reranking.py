"""A reranker may reorder; it never adds, drops or alters, and a broken one loses nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from agentmemory import (
    AsyncAgentMemory,
    ModelError,
    Reranker,
    TopKMemorySearchConfig,
    ValidationError,
)
from agentmemory.protocols import RerankResponse, RerankResult
from agentmemory.telemetry import Event, subscribe
from agentmemory.testing import FakeServer, Fault
from tests.retrieval.parts import Hanging, PlainReranker, backwards, fill, places, text_of


def lexical(**options: Any) -> AsyncAgentMemory:
    return AsyncAgentMemory(":memory:", embedder=None, **options)


def top_k(reranker: Any, **options: Any) -> TopKMemorySearchConfig:
    return TopKMemorySearchConfig(reranker=reranker, **options)


async def test_the_records_of_these_tests_come_in_order() -> None:
    async with lexical() as memory:
        await fill(memory, 40)
        assert places(await memory.search("apple", user_id="u1", max_results=40)) == [*range(40)]


async def test_a_reranker_over_http_puts_the_best_record_first() -> None:
    async with (
        FakeServer() as server,
        Reranker("any", api_base=server.base_url) as reranker,
        lexical(search_config=top_k(reranker)) as memory,
    ):
        await memory.add_memory("tea tea tea tea", user_id="u1", memory_id="words")
        await memory.add_memory("Serve tea at four", user_id="u1", memory_id="answer")
        hits = await memory.search("tea at four", user_id="u1", search_config=None)
        assert [hit.id for hit in hits] == ["answer", "words"]
        assert hits[0].score == 1.0
        trace = hits[0].explain.stages[-1]
        assert (trace.stage, trace.rank, trace.score) == ("rerank", 1, 1.0)
        (request,) = server.requests
        assert request.json["query"] == "tea at four"
        assert sorted(request.json["documents"]) == ["Serve tea at four", "tea tea tea tea"]


async def test_it_sees_the_query_and_raw_texts_and_only_reorders() -> None:
    reranker = PlainReranker(backwards)
    async with lexical() as memory:
        await fill(memory, 5)
        plain = await memory.search("apple", user_id="u1")
        hits = await memory.search("apple", user_id="u1", search_config=top_k(reranker))
        assert places(hits) == [4, 3, 2, 1, 0]
        assert reranker.calls == [("apple", [text_of(place, 5) for place in range(5)])]
        assert {hit.id: hit.record for hit in hits} == {hit.id: hit.record for hit in plain}
        assert [hit.score for hit in hits] == [1.0, 0.8, 0.6, 0.4, 0.2]


async def test_the_parts_of_structured_messages_reach_it_as_text() -> None:
    reranker = PlainReranker(backwards)
    async with lexical() as memory:
        thread = await memory.create_thread(user_id="u1")
        await thread.add_messages(
            [
                {"role": "user", "content": [{"type": "text", "text": "apple pie"}]},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "text", "text": "apple tart"},
                        {"type": "text", "text": "with cream"},
                    ],
                },
            ]
        )
        await thread.search("apple", search_config=top_k(reranker))
        ((_, documents),) = reranker.calls
        assert all(isinstance(document, str) for document in documents)
        assert sorted(text.split()[1] for text in documents) == ["pie", "tart"]
        assert any("with cream" in text for text in documents)
        card = await thread.get_context_card(query="apple", search_config=top_k(reranker))
        assert len(card.relevant_results) == 2


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([(2, 0.9), (0, 0.5)], [2, 0, 1, 3]),
        ([(2, 0.9), (2, 0.1), (3, 0.8), (0, 0.7), (1, 0.6)], [2, 3, 0, 1]),
        ([(7, 1.0), (-1, 1.0), (1, 0.5)], [1, 0, 2, 3]),
        ([(0, math.nan), (1, math.inf), (3, 0.1)], [3, 0, 1, 2]),
        ([(True, 9.0), ("2", 9.0), (1.5, 9.0), (None, 9.0), (3, 0.1)], [3, 0, 1, 2]),
        ([(0, "0.1"), (1, "much"), (2, None), (3, 0.5)], [3, 0, 1, 2]),
        ([(0, 0.1), (1, 0.2), (2, 0.2), (3, 0.1)], [1, 2, 0, 3]),
    ],
    ids=["missing", "repeated", "out of range", "not finite", "no index", "no score", "ties"],
)
async def test_whatever_it_answers_each_record_stays_exactly_once(
    pairs: list[tuple[Any, Any]], expected: list[int]
) -> None:
    reranker = PlainReranker(lambda query, documents: pairs)
    async with lexical() as memory:
        await fill(memory, 4)
        hits = await memory.search("apple", user_id="u1", search_config=top_k(reranker))
        assert places(hits) == expected


async def test_a_record_without_a_score_says_so() -> None:
    reranker = PlainReranker(lambda query, documents: [(1, 0.9)])
    async with lexical() as memory:
        await fill(memory, 2)
        hits = await memory.search("apple", user_id="u1", search_config=top_k(reranker))
        assert [hit.explain.stages[-1].reason for hit in hits] == [
            "scored by the reranker",
            "not scored, place kept",
        ]


class Raising:
    async def rerank(self, query: str, documents: Sequence[str]) -> RerankResponse:
        raise RuntimeError("out of memory")


class Silent:
    async def rerank(self, query: str, documents: Sequence[str]) -> Any:
        return None


class Blocking:
    def rerank(self, query: str, documents: Sequence[str]) -> RerankResponse:
        return RerankResponse(results=(RerankResult(0, 1.0),))


@pytest.mark.parametrize(
    ("reranker", "why"),
    [
        (Raising(), "RuntimeError: out of memory"),
        (Hanging(), "did not answer within 0.05 s"),
        (Silent(), "the reranker failed"),
        (Blocking(), "the reranker failed"),
        (PlainReranker(lambda query, documents: []), "scores none of the 5 texts"),
        (PlainReranker(lambda query, documents: [(0, math.nan), (99, 1.0)]), "scores none"),
    ],
    ids=["raises", "hangs", "answers nothing", "is not async", "is empty", "is nonsense"],
)
async def test_one_that_fails_leaves_the_order_and_says_so_unless_strict(
    reranker: Any, why: str
) -> None:
    events: list[Event] = []
    # Only the one that hangs may meet the deadline, however slow the machine.
    deadline = 0.05 if isinstance(reranker, Hanging) else 60
    config = top_k(reranker, stage_deadline_s=deadline)
    async with lexical() as memory:
        await fill(memory, 5)
        with subscribe(events.append):
            hits = await memory.search("apple", user_id="u1", search_config=config)
        assert places(hits) == [0, 1, 2, 3, 4]
        for hit in hits:
            assert hit.explain.notes[0].startswith("rerank left out: ")
            assert why in hit.explain.notes[0]
        (event,) = (event for event in events if event.level == "warning")
        assert event.name == "search.degraded"
        assert event.attributes["agentmemory.stage"] == "rerank"
        with pytest.raises(ModelError, match=why):
            await memory.search("apple", user_id="u1", search_config=replace(config, strict=True))


async def test_a_server_that_fails_or_lies_leaves_the_order() -> None:
    async with (
        FakeServer() as server,
        Reranker("any", api_base=server.base_url, max_attempts=1) as reranker,
        lexical(search_config=top_k(reranker, stage_deadline_s=5)) as memory,
    ):
        await fill(memory, 3)
        server.script(Fault.status(500), Fault(kind="invalid_json"))
        for _ in range(2):
            hits = await memory.search("apple", user_id="u1")
            assert places(hits) == [0, 1, 2]
            assert hits[0].explain.notes[0].startswith("rerank left out")


async def test_the_exact_pool_only_reorders_what_would_be_returned_anyway() -> None:
    reranker = PlainReranker(backwards)
    async with lexical() as memory:
        await fill(memory, 20)
        config = top_k(reranker, candidate_pool="exact")
        hits = await memory.search("apple", user_id="u1", max_results=5, search_config=config)
        assert places(hits) == [4, 3, 2, 1, 0]
        assert len(reranker.calls[-1][1]) == 5
        hits = await memory.search(
            "apple", user_id="u1", max_results=5, search_config=top_k(reranker)
        )
        assert places(hits) == [14, 13, 12, 11, 10]
        assert len(reranker.calls[-1][1]) == 15


async def test_what_lies_behind_its_candidates_keeps_its_order() -> None:
    reranker = PlainReranker(backwards)
    async with lexical() as memory:
        await fill(memory, 10)
        config = top_k(reranker, reranker_max_candidates=3)
        hits = await memory.search("apple", user_id="u1", max_results=6, search_config=config)
        assert places(hits) == [2, 1, 0, 3, 4, 5]
        assert len(reranker.calls[0][1]) == 3


@pytest.mark.parametrize(("count", "seen"), [(1, 3), (10, 30), (25, 40)])
async def test_three_times_the_results_are_seen_unless_told(count: int, seen: int) -> None:
    reranker = PlainReranker(backwards)
    async with lexical() as memory:
        await fill(memory, 40)
        await memory.search("apple", user_id="u1", max_results=count, search_config=top_k(reranker))
        assert len(reranker.calls[0][1]) == seen


async def test_several_types_are_reranked_once_over_the_combined_results() -> None:
    reranker = PlainReranker(backwards)
    async with lexical() as memory:
        await memory.add_memory("apple one", user_id="u1", memory_type="fact")
        await memory.add_memory("apple two", user_id="u1", memory_type="preference")
        hits = await memory.search(
            "apple",
            user_id="u1",
            record_types=["fact", "preference"],
            search_config=top_k(reranker),
        )
        assert len(hits) == 2
        ((_, documents),) = reranker.calls
        assert len(documents) == 2


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"reranker": "cohere/rerank"}, "reranker"),
        ({"reranker_max_candidates": 0}, "reranker_max_candidates"),
        ({"reranker_max_candidates": 1001}, "reranker_max_candidates"),
        ({"reranker_max_candidates": True}, "reranker_max_candidates"),
        ({"max_results": 0}, "max_results"),
        ({"max_results": 1001}, "max_results"),
        ({"max_results": "5"}, "max_results"),
        ({"candidate_pool": "narrow"}, "candidate_pool"),
        ({"candidate_pool": 0}, "candidate_pool"),
        ({"strict": 1}, "strict"),
        ({"stage_deadline_s": 0}, "stage_deadline_s"),
        ({"token_budget": 1.5}, "token_budget"),
        ({"strategy": "fuzzy"}, "strategy"),
        ({"fusion": object()}, "fusion"),
        ({"rewriter": "model"}, "rewriter"),
        ({"decay": 7}, "decay"),
        ({"diversity": 0.5}, "diversity"),
    ],
)
def test_options_out_of_range_are_refused_by_name(options: Any, argument: str) -> None:
    with pytest.raises(ValidationError, match=f"`{argument}`") as caught:
        TopKMemorySearchConfig(**options)
    assert caught.value.argument == argument
