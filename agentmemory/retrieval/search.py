"""The search pipeline: one query, both arms, fusion, the stages after it, budgets, results.

May import the rest of this room, stores, models, text and below.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from agentmemory.config import SearchStrategy
from agentmemory.errors import ModelError
from agentmemory.protocols import AnswersTogether, Clock, MemoryStore, TokenCounter
from agentmemory.records import MEMORY_TYPES
from agentmemory.requests import Candidate, CandidateQuery, Expansion, QueryTerm
from agentmemory.results import (
    DEFAULT_FORMAT,
    Explanation,
    SearchResult,
    SearchResultFormatConfig,
    StageTrace,
)
from agentmemory.retrieval.budget import kept_within
from agentmemory.retrieval.expand import with_linked
from agentmemory.retrieval.fan_out import fan_out
from agentmemory.retrieval.lifecycle import as_known
from agentmemory.retrieval.ranked import Ranked
from agentmemory.retrieval.refine import Refiner, settled, with_timings_hidden
from agentmemory.retrieval.request import SearchRequest
from agentmemory.retrieval.rewrite import hypothetical_answer
from agentmemory.retrieval.settings import SearchSettings
from agentmemory.retrieval.vectorizer import Vectorizer
from agentmemory.telemetry import MEMORY_QUERY_TEXT, MEMORY_RECORD_COUNT, Event, emit, memory_span
from agentmemory.text.analyzer import analyze, analyze_query

if TYPE_CHECKING:
    import anyio

    from agentmemory.requests import FloatVector

POOL_PER_RESULT: Final = 4
MINIMUM_POOL: Final = 60

_WORD: Final = re.compile(r"\S+")


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedQuery:
    """A query ready for both arms; one serves every search of a fan-out.

    Args:
        text: The query as it was asked.
        terms: Words for the lexical arm.
        vector: The query's unit vector; None without a vector arm.
        actor_terms: Words that may name a speaker.
        notes: What went wrong on the way.
    """

    text: str
    terms: tuple[QueryTerm, ...] = ()
    vector: FloatVector | None = None
    actor_terms: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


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
        self._counter = token_counter
        self._clock = clock
        self._format = format_config

    async def search(self, request: SearchRequest) -> list[SearchResult]:
        """Return the best results for a request, best first."""
        with memory_span("search_memory", store_id=self._store.store_id) as span:
            span.set_content(MEMORY_QUERY_TEXT, request.query)
            prepared = await self.prepare(request)
            ranked = self.fuse(await self.candidates(request, prepared), request.settings)
            refined = await self.refine(request, ranked)
            results = self.within_budget(
                await self.expand(request, self.results(refined, prepared)), request
            )
            span.set(MEMORY_RECORD_COUNT, len(results))
            return results

    async def prepare(self, request: SearchRequest) -> PreparedQuery:
        """Analyse, rewrite and embed a query; a failing model leaves the words and a note."""
        settings = request.settings
        actors = await self._store.actors(request.record_filter(self._clock.now()))
        actor_tokens = frozenset(token for actor in actors for token in analyze(actor))
        actor_terms = actor_tokens.intersection(analyze(request.query)) if actors else frozenset()
        terms: tuple[QueryTerm, ...] = ()
        if settings.strategy is not SearchStrategy.VECTOR:
            terms = without_names(analyze_query(request.query), actor_terms)
        vector = None
        notes: list[str] = []
        if settings.strategy is not SearchStrategy.KEYWORD and self._vectorizer.is_available:
            text = text_without_names(request.query, actor_terms)
            if settings.rewriter is not None:
                text = await self._rewritten(request, text, notes)
            vector = await self._query_vector(text, settings, notes)
        return PreparedQuery(
            text=request.query,
            terms=terms,
            vector=vector,
            actor_terms=actor_terms,
            notes=tuple(notes),
        )

    async def _rewritten(self, request: SearchRequest, text: str, notes: list[str]) -> str:
        settings = request.settings
        assert settings.rewriter is not None  # noqa: S101 - the caller asked
        try:
            return await hypothetical_answer(
                settings.rewriter, request.query, deadline_s=settings.stage_deadline_s
            )
        except ModelError as error:
            if settings.strict:
                raise
            notes.append(f"rewrite left out: {error}")
            _tell("the query was not rewritten", error)
            return text

    async def _query_vector(
        self, text: str, settings: SearchSettings, notes: list[str]
    ) -> FloatVector | None:
        try:
            return await self._vectorizer.query_vector(text)
        except ModelError as error:
            if settings.strict or settings.strategy is SearchStrategy.VECTOR:
                raise
            notes.append(f"searched by words only: {error}")
            _tell("searched by words only, the query was not embedded", error)
            return None

    async def candidates(
        self, request: SearchRequest, prepared: PreparedQuery
    ) -> tuple[Candidate, ...]:
        """Return what both arms bring for a request."""
        found = await self._store.candidates(self._candidate_query(request, prepared))
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
        fused = settings.fusion.fuse(candidates)
        took = time.perf_counter() - started
        return settled(
            [
                Ranked(
                    candidate=item.candidate,
                    score=item.score,
                    stages=(
                        StageTrace(
                            stage="fusion",
                            rank=rank,
                            score=item.score,
                            reason=item.reason,
                            duration_s=took,
                        ),
                    ),
                )
                for rank, item in enumerate(fused, start=1)
            ]
        )

    async def refine(self, request: SearchRequest, ranked: Sequence[Ranked]) -> list[Ranked]:
        """Run the stages after fusion on one result set and cut it to what was asked for."""
        refiner = Refiner(self._store, request.settings, now=self._clock.now())
        items = await refiner.refine(ranked, request.query, request.count)
        return items if request.trace else with_timings_hidden(items)

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
        distance = 1.0 - candidate.cosine if candidate.cosine is not None else 1.0 - item.score
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
                stages=item.stages,
                notes=(*prepared.notes, *item.notes),
            ),
            format_config=self._format,
        )

    def within_budget(
        self, results: list[SearchResult], request: SearchRequest
    ) -> list[SearchResult]:
        """Keep the leading results that fit the budgets, linked records included."""
        settings = request.settings
        hard = settings.token_budget if request.token_budget is None else request.token_budget
        soft = (
            settings.soft_token_budget
            if request.soft_token_budget is None
            else request.soft_token_budget
        )
        if (hard or 0) <= 0 and (soft or 0) <= 0:
            return results
        sizes = [self._counter.count(result.formatted_content) for result in results]
        kept = kept_within(sizes, soft=soft, hard=hard)
        total = 0
        traced = []
        for rank, (result, size) in enumerate(
            zip(results[:kept], sizes[:kept], strict=True), start=1
        ):
            total += size
            stage = StageTrace(
                stage="budget",
                rank=rank,
                score=result.score,
                reason=f"{size} tokens, {total} in all",
            )
            explain = replace(result.explain, stages=(*result.explain.stages, stage))
            traced.append(replace(result, explain=explain))
        return traced


def _tell(what: str, error: ModelError) -> None:
    emit(
        Event(
            name="search.degraded",
            message=f"{what}: {error}",
            level="warning",
            attributes={"error.type": error.code},
        )
    )


def without_names(terms: tuple[QueryTerm, ...], names: frozenset[str]) -> tuple[QueryTerm, ...]:
    """Leave out words that name a speaker, unless nothing else is asked."""
    if not names:
        return terms
    return tuple(term for term in terms if term.text not in names) or terms


def text_without_names(text: str, names: frozenset[str]) -> str:
    """Leave words that name a speaker out of a text, unless nothing else is asked."""
    if not names:
        return text
    kept = [word for word in _WORD.findall(text) if names.isdisjoint(analyze(word))]
    return " ".join(kept) or text
