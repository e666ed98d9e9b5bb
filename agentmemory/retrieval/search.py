"""The search pipeline: one query, both arms, fusion, the stages after it, budgets, results.

May import the rest of this room, stores, models, text and below.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from agentmemory.protocols import (
    AnswersTogether,
    Clock,
    MemoryStore,
    RemembersActors,
    TokenCounter,
)
from agentmemory.records import MEMORY_TYPES
from agentmemory.requests import Candidate, CandidateQuery, Expansion
from agentmemory.results import (
    DEFAULT_FORMAT,
    Explanation,
    SearchResult,
    SearchResultFormatConfig,
    StageTrace,
)
from agentmemory.retrieval.budget import select_within_budget
from agentmemory.retrieval.expand import with_linked
from agentmemory.retrieval.fan_out import fan_out
from agentmemory.retrieval.fusion import scored
from agentmemory.retrieval.lifecycle import as_known
from agentmemory.retrieval.query import PreparedQuery, named_actors, prepare_query
from agentmemory.retrieval.ranked import Ranked, Step
from agentmemory.retrieval.refine import Refiner, settled
from agentmemory.retrieval.request import SearchRequest
from agentmemory.retrieval.settings import SearchSettings
from agentmemory.retrieval.vectorizer import Vectorizer
from agentmemory.telemetry import MEMORY_QUERY_TEXT, MEMORY_RECORD_COUNT, memory_span

if TYPE_CHECKING:
    import anyio

POOL_PER_RESULT: Final = 4
MINIMUM_POOL: Final = 60
COUNTED_RESULTS: Final = 512
"""Of how many results, as they are shown, the number of tokens is kept."""


class Searcher:
    """Searches one store.

    Args:
        store: The store.
        vectorizer: Embeds queries.
        token_counter: Measures results for the budgets.
        clock: Tells what has expired.
        format_config: Rendering defaults of the results.
    """

    def __init__(
        self,
        store: MemoryStore,
        vectorizer: Vectorizer,
        *,
        token_counter: TokenCounter,
        clock: Clock,
        format_config: SearchResultFormatConfig = DEFAULT_FORMAT,
    ) -> None:
        self._store = store
        self._vectorizer = vectorizer
        # The same records are found again and again in a conversation.
        self._count = lru_cache(maxsize=COUNTED_RESULTS)(token_counter.count)
        self._clock = clock
        self._format = format_config

    async def search(self, request: SearchRequest) -> list[SearchResult]:
        """Return the best results for a request, best first."""
        with memory_span("search_memory", store_id=self._store.store_id) as span:
            span.set_content(MEMORY_QUERY_TEXT, request.query)
            started = time.perf_counter()
            prepared = await self.prepare(request)
            between = time.perf_counter()
            found = await self.candidates(request, prepared)
            if self.is_misread(request, prepared):
                prepared = await self.prepare(request)
                between = time.perf_counter()
                found = await self.candidates(request, prepared)
            if request.trace:
                prepared = _traced(
                    prepared,
                    StageTrace(stage="query", reason="made ready", duration_s=between - started),
                    StageTrace(
                        stage="retrieve",
                        reason=f"{len(found)} brought by both arms",
                        duration_s=time.perf_counter() - between,
                    ),
                )
            refined = await self.refine(request, self.fuse(found, request.settings))
            results = self.within_budget(
                await self.expand(request, self.results(refined, prepared)), request
            )
            span.set(MEMORY_RECORD_COUNT, len(results))
            return results

    async def prepare(self, request: SearchRequest) -> PreparedQuery:
        """Make the query of a request ready; requests that share it may share the answer."""
        prepared = await prepare_query(
            request.query,
            actors=await self._actors(request),
            settings=request.settings,
            vectorizer=self._vectorizer,
        )
        if request.trace or not prepared.stages:
            return prepared
        untimed = tuple(replace(stage, duration_s=None) for stage in prepared.stages)
        return replace(prepared, stages=untimed)

    async def _actors(self, request: SearchRequest) -> tuple[str, ...]:
        record_filter = request.record_filter(self._clock.now())
        if isinstance(self._store, RemembersActors):
            return self._store.remembered_actors(record_filter)
        return await self._store.actors(record_filter)

    def is_misread(self, request: SearchRequest, prepared: PreparedQuery) -> bool:
        """Whether the search brought to light that the query names other speakers than it seemed.

        To be asked after the candidates came; the query is then prepared and asked again.
        """
        if not isinstance(self._store, RemembersActors):
            return False
        actors = self._store.remembered_actors(request.record_filter(self._clock.now()))
        return named_actors(request.query, actors) != prepared.actor_terms

    async def candidates(
        self, request: SearchRequest, prepared: PreparedQuery
    ) -> tuple[Candidate, ...]:
        """Return what both arms bring for a request."""
        found = await self._store.candidates(self._candidate_query(request, prepared))
        if request.known_as_of is None:
            return found
        return tuple(
            replace(item, record=as_known(item.record, request.known_as_of)) for item in found
        )

    def _candidate_query(self, request: SearchRequest, prepared: PreparedQuery) -> CandidateQuery:
        pool = request.settings.candidate_pool
        if pool is None:
            pool = max(POOL_PER_RESULT * request.count, MINIMUM_POOL)
        elif pool == "exact":
            pool = request.count
        return CandidateQuery(
            filter=request.record_filter(self._clock.now()),
            pool=max(pool, request.count),
            terms=prepared.terms,
            vector=prepared.vector,
            actor_terms=prepared.actor_terms,
            with_vectors=request.settings.diversity is not None,
        )

    async def candidates_of_each(
        self,
        requests: Sequence[SearchRequest],
        prepared: PreparedQuery,
        *,
        limiter: anyio.CapacityLimiter,
    ) -> list[tuple[Candidate, ...]]:
        """Return the candidates of several requests that share a query, in request order.

        The requests fan out in one task group; a store that answers them in a single round trip
        does so instead, with the same result.
        """
        if isinstance(self._store, AnswersTogether):
            async with limiter:
                return await self._store.candidates_together(
                    [self._candidate_query(request, prepared) for request in requests]
                )
        return await fan_out(
            lambda request: self.candidates(request, prepared), requests, limiter=limiter
        )

    def fuse(self, candidates: Sequence[Candidate], settings: SearchSettings) -> list[Ranked]:
        """Order candidates by one score; scores are comparable within one call only."""
        started = time.perf_counter()
        fused = scored(settings.fusion, candidates)
        took = time.perf_counter() - started
        return settled(
            [
                Ranked(candidate, score, (Step("fusion", rank, score, reason, took, about),))
                for rank, (candidate, score, (reason, about)) in enumerate(fused, start=1)
            ]
        )

    async def refine(self, request: SearchRequest, ranked: Sequence[Ranked]) -> list[Ranked]:
        """Run the stages after fusion on one result set and cut it to what was asked for."""
        now = request.as_of or request.known_as_of or self._clock.now()
        refiner = Refiner(self._store, request.settings, now=now)
        items = await refiner.refine(ranked, request.query, request.count)
        return items if request.trace else [item.untimed() for item in items]

    async def expand(
        self, request: SearchRequest, results: list[SearchResult]
    ) -> list[SearchResult]:
        """Attach linked memories to the memory-like results."""
        roots = tuple(result.id for result in results if result.record.record_type in MEMORY_TYPES)
        if not request.num_hops or not request.max_linked_results or not roots:
            return results
        trees = await self._store.expand(
            Expansion(
                filter=request.record_filter(self._clock.now()),
                roots=roots,
                hops=request.num_hops,
                limit=request.max_linked_results,
            )
        )
        return with_linked(results, trees, known_at=request.known_as_of)

    def results(self, ranked: Sequence[Ranked], prepared: PreparedQuery) -> list[SearchResult]:
        """Turn ranked candidates into results."""
        return [self._result(item, prepared) for item in ranked]

    def _result(self, item: Ranked, prepared: PreparedQuery) -> SearchResult:
        candidate = item.candidate
        measured = candidate.cosine is not None
        # A reranker's scores may lie anywhere.
        near = item.score if candidate.cosine is None else candidate.cosine
        distance = 1.0 - (near if measured else min(max(near, 0.0), 1.0))
        return SearchResult(
            record=candidate.record,
            score=item.score,
            distance=distance,
            explain=Explanation(
                lexical=candidate.lexical,
                cosine=candidate.cosine,
                lexical_rank=candidate.lexical_rank,
                vector_rank=candidate.vector_rank,
                distance_kind="cosine" if measured else "score",
                stages=(*prepared.stages, *(step.trace() for step in item.steps)),
                notes=(*prepared.notes, *item.notes),
            ),
            format_config=self._format,
        )

    def within_budget(
        self, results: list[SearchResult], request: SearchRequest
    ) -> list[SearchResult]:
        """Keep the leading results that fit the budgets, linked records included."""
        hard, soft = request.budgets
        if hard is None and soft is None:
            return results
        started = time.perf_counter()
        # Counted one by one: what follows the last that fits is not even rendered.
        sizes = (self._count(result.formatted_content) for result in results)
        kept = select_within_budget(sizes, token_budget=hard, soft_token_budget=soft)
        took = time.perf_counter() - started if request.trace else None
        total = 0
        traced = []
        for rank, (result, size) in enumerate(zip(results, kept, strict=False), start=1):
            total += size
            stage = StageTrace(
                stage="budget",
                rank=rank,
                score=result.score,
                reason=f"{size} tokens, {total} in all",
                duration_s=took,
            )
            explain = replace(result.explain, stages=(*result.explain.stages, stage))
            traced.append(replace(result, explain=explain))
        return traced


def _traced(prepared: PreparedQuery, query: StageTrace, candidates: StageTrace) -> PreparedQuery:
    return replace(prepared, stages=(query, *prepared.stages, candidates))
