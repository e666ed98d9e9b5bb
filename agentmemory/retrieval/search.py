"""The search pipeline: one query, both arms, fusion, budgets, results.

May import the rest of this room, stores, models, text and below.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from agentmemory.config import SearchStrategy
from agentmemory.errors import ModelError
from agentmemory.protocols import Clock, MemoryStore, TokenCounter
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
from agentmemory.retrieval.fusion import Fused, IFusion, ScoreFusion
from agentmemory.retrieval.lifecycle import replacements_first
from agentmemory.retrieval.request import SearchRequest
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A candidate on its way through the pipeline."""

    candidate: Candidate
    score: float
    stages: tuple[StageTrace, ...] = ()
    notes: tuple[str, ...] = field(default=())


class Searcher:
    """Searches one store.

    Args:
        store: The store.
        vectorizer: Embeds queries.
        token_counter: Measures results for the budgets.
        clock: Tells what has expired.
        fusion: Makes one score of both arms.
        format_config: Rendering defaults of the results.
    """

    def __init__(
        self,
        store: MemoryStore,
        vectorizer: Vectorizer,
        *,
        token_counter: TokenCounter,
        clock: Clock,
        fusion: IFusion | None = None,
        format_config: SearchResultFormatConfig = DEFAULT_FORMAT,
    ) -> None:
        self._store = store
        self._vectorizer = vectorizer
        self._counter = token_counter
        self._clock = clock
        self._fusion = fusion or ScoreFusion()
        self._format = format_config

    async def search(self, request: SearchRequest) -> list[SearchResult]:
        """Return the best results for a request, best first."""
        with memory_span("search_memory", store_id=self._store.store_id) as span:
            span.set_content(MEMORY_QUERY_TEXT, request.query)
            prepared = await self.prepare(request)
            ranked = await self.rank(request, prepared)
            results = self.results(ranked[: request.max_results], prepared)
            results = self.within_budget(
                await self.expand(request, results),
                token_budget=request.token_budget,
                soft_token_budget=request.soft_token_budget,
            )
            span.set(MEMORY_RECORD_COUNT, len(results))
            return results

    async def prepare(self, request: SearchRequest) -> PreparedQuery:
        """Analyse and embed a query; a failing embedder leaves the words and a note."""
        actors = await self._store.actors(request.record_filter(self._clock.now()))
        actor_tokens = frozenset(token for actor in actors for token in analyze(actor))
        actor_terms = actor_tokens.intersection(analyze(request.query)) if actors else frozenset()
        terms: tuple[QueryTerm, ...] = ()
        if request.strategy is not SearchStrategy.VECTOR:
            terms = without_names(analyze_query(request.query), actor_terms)
        vector = None
        notes: tuple[str, ...] = ()
        if request.strategy is not SearchStrategy.KEYWORD and self._vectorizer.is_available:
            try:
                vector = await self._vectorizer.query_vector(
                    text_without_names(request.query, actor_terms)
                )
            except ModelError as error:
                if request.strategy is SearchStrategy.VECTOR:
                    raise
                notes = (f"searched by words only: {error}",)
                emit(
                    Event(
                        name="search.degraded",
                        message=f"searched by words only, the query was not embedded: {error}",
                        level="warning",
                        attributes={"error.type": error.code},
                    )
                )
        return PreparedQuery(
            text=request.query,
            terms=terms,
            vector=vector,
            actor_terms=actor_terms,
            notes=notes,
        )

    async def rank(self, request: SearchRequest, prepared: PreparedQuery) -> list[Ranked]:
        """Return the whole pool of a request, best first."""
        candidates = await self.candidates(request, prepared)
        return self.fuse(candidates)

    async def candidates(
        self, request: SearchRequest, prepared: PreparedQuery
    ) -> tuple[Candidate, ...]:
        """Return what both arms bring for a request."""
        return await self._store.candidates(
            CandidateQuery(
                filter=request.record_filter(self._clock.now()),
                pool=max(POOL_PER_RESULT * request.max_results, MINIMUM_POOL),
                terms=prepared.terms,
                vector=prepared.vector,
                actor_terms=prepared.actor_terms,
            )
        )

    async def candidates_of_each(
        self,
        requests: Sequence[SearchRequest],
        prepared: PreparedQuery,
        *,
        limiter: anyio.CapacityLimiter,
    ) -> list[tuple[Candidate, ...]]:
        """Return the candidates of several requests that share a query, in request order."""
        return await fan_out(
            lambda request: self.candidates(request, prepared), requests, limiter=limiter
        )

    def fuse(self, candidates: Sequence[Candidate]) -> list[Ranked]:
        """Order candidates by one score; scores are comparable within one call only.

        What replaced an invalid record stands in front of it.
        """
        ranked = [
            Ranked(candidate=item.candidate, score=item.score, stages=_stages(item, rank))
            for rank, item in enumerate(self._fusion.fuse(candidates), start=1)
        ]
        if all(item.candidate.record.replaced_by is None for item in ranked):
            return ranked
        ordered = replacements_first(
            ranked,
            key=lambda item: item.candidate.record.id,
            replaced_by=lambda item: item.candidate.record.replaced_by,
        )
        return [_settled(item, rank) for rank, item in enumerate(ordered, start=1)]

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
        return with_linked(results, trees)

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
        self,
        results: list[SearchResult],
        *,
        token_budget: int | None,
        soft_token_budget: int | None,
    ) -> list[SearchResult]:
        """Keep the leading results that fit the budgets, linked records included."""
        if (token_budget or 0) <= 0 and (soft_token_budget or 0) <= 0:
            return results
        sizes = [self._counter.count(result.formatted_content) for result in results]
        kept = kept_within(sizes, soft=soft_token_budget, hard=token_budget)
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


def _stages(item: Fused, rank: int) -> tuple[StageTrace, ...]:
    return (StageTrace(stage="fusion", rank=rank, score=item.score, reason=item.reason),)


def _settled(item: Ranked, rank: int) -> Ranked:
    """Say where a record went once what replaced it stands in front."""
    if item.stages[-1].rank == rank:
        return item
    replaced_by = item.candidate.record.replaced_by
    reason = f"behind {replaced_by}, which replaced it" if replaced_by else "moved by replacement"
    stage = StageTrace(stage="lifecycle", rank=rank, score=item.score, reason=reason)
    return replace(item, stages=(*item.stages, stage))


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
