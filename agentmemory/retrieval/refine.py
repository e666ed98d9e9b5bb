"""From a fused pool to the results of one result set: rerank, decay, diversity, cut, prune.

Every stage is optional and explained on the result. One that fails is left out: the order stays
as it was, each result carries a note, and the warning event `search.degraded` tells of it; with
`strict` the failure is raised. May import the pure stages of this room and what lies below.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from agentmemory.errors import ConfigurationError, ModelError
from agentmemory.protocols import MemoryStore
from agentmemory.retrieval.decay import decayed, freshness_of_each, why_decayed
from agentmemory.retrieval.diversity import (
    maximal_marginal_relevance,
    near_duplicates,
    similarities,
)
from agentmemory.retrieval.fusion import in_order
from agentmemory.retrieval.lifecycle import replacements_first
from agentmemory.retrieval.prune import prune
from agentmemory.retrieval.ranked import Ranked, Step
from agentmemory.retrieval.rerank import rerank_order
from agentmemory.retrieval.settings import SearchSettings
from agentmemory.telemetry import Event, emit

if TYPE_CHECKING:
    from agentmemory.requests import FloatVector

RERANKED_PER_RESULT: Final = 3
KEPT_PER_RESULT: Final = 2


class Refiner:
    """Runs the stages after fusion on one result set.

    Args:
        store: Gives the stored vectors.
        settings: Which stages run, and how.
        now: The time records are as old as.
    """

    def __init__(self, store: MemoryStore, settings: SearchSettings, *, now: datetime) -> None:
        self._store = store
        self._settings = settings
        self._now = now

    async def refine(self, ranked: Sequence[Ranked], query: str, count: int) -> list[Ranked]:
        """Return at most `count` results, best first."""
        settings = self._settings
        items = list(ranked)
        if settings.candidate_pool == "exact":
            items = items[:count]
        if settings.reranker is not None:
            items = await self._reranked(items, query, count)
        if settings.decay is not None:
            items = self._decayed(items)
        items = settled(items)
        if settings.diversity is not None:
            items = settled(await self._diverse(items, count))
        items = items[:count]
        if settings.prunes:
            items = await self._pruned(items, query)
        return items

    async def _reranked(self, items: list[Ranked], query: str, count: int) -> list[Ranked]:
        settings = self._settings
        limit = settings.reranker_max_candidates or RERANKED_PER_RESULT * count
        head, tail = items[:limit], items[limit:]
        started = time.perf_counter()
        assert settings.reranker is not None  # noqa: S101 - the caller asked
        try:
            order = await rerank_order(
                settings.reranker,
                query,
                [item.record.content for item in head],
                deadline_s=settings.stage_deadline_s,
            )
        except ModelError as error:
            return self._degraded(items, "rerank", error)
        took = time.perf_counter() - started
        reordered = []
        for rank, (place, score) in enumerate(order, start=1):
            reason = "scored by the reranker" if score is not None else "not scored, place kept"
            reordered.append(head[place].after(Step("rerank", rank, score, reason, took)))
        if settings.candidate_pool != "exact":
            return [*reordered, *tail][: KEPT_PER_RESULT * count]
        return [*reordered, *tail]

    def _decayed(self, items: list[Ranked]) -> list[Ranked]:
        config = self._settings.decay
        assert config is not None  # noqa: S101 - the caller asked
        started = time.perf_counter()
        fresh = freshness_of_each([item.record for item in items], config=config, now=self._now)
        scored = [
            (item.candidate, decayed(relevance, freshness, config=config), (item, freshness))
            for relevance, freshness, item in zip(scaled(items), fresh, items, strict=True)
        ]
        ordered = in_order(scored)
        took = time.perf_counter() - started
        return [
            item.after(
                Step("decay", rank, score, why_decayed, took, (item.record, freshness, self._now))
            )
            for rank, (_, score, (item, freshness)) in enumerate(ordered, start=1)
        ]

    async def _diverse(self, items: list[Ranked], count: int) -> list[Ranked]:
        config = self._settings.diversity
        assert config is not None  # noqa: S101 - the caller asked
        started = time.perf_counter()
        similarity = similarities(await self._vectors_of(items))
        collapsed: dict[int, int] = dict.fromkeys(range(len(items)), 0)
        if config.duplicate_threshold is not None:
            texts = [item.record.content for item in items]
            groups = near_duplicates(texts, similarity, threshold=config.duplicate_threshold)
            collapsed = {place: len(others) for place, others in groups.items()}
        places = list(collapsed)
        if len(places) < len(items):
            similarity = similarity[places][:, places]
        if config.balance is not None:
            chosen = maximal_marginal_relevance(
                scaled([items[place] for place in places]),
                similarity,
                balance=config.balance,
                count=count,
            )
            places = [places[index] for index in chosen]
        took = time.perf_counter() - started
        result = []
        for rank, place in enumerate(places, start=1):
            others = collapsed[place]
            reason = f"stands for {others} near duplicates" if others else "no near duplicate"
            result.append(items[place].after(Step("diversity", rank, None, reason, took)))
        return result

    async def _vectors_of(self, items: Sequence[Ranked]) -> list[FloatVector | None]:
        """Return the vectors of candidates, those that were not brought along from the store."""
        missing = [item.record.id for item in items if item.candidate.vector is None]
        stored = await self._store.vectors(missing) if missing else {}
        return [
            stored.get(item.record.id) if item.candidate.vector is None else item.candidate.vector
            for item in items
        ]

    async def _pruned(self, items: list[Ranked], query: str) -> list[Ranked]:
        settings = self._settings
        if settings.pruner is None:
            if settings.strict:
                msg = "pruning is configured but there is no pruner; give one to the client"
                raise ConfigurationError(msg)
            note = "not pruned: pruning is configured but there is no pruner"
            return [item.noting(note) for item in items]
        started = time.perf_counter()
        try:
            outcome = await prune(
                settings.pruner,
                query,
                [item.record for item in items],
                mode=settings.evaluation_mode,
                num_probe_points=settings.num_probe_points,
                protected_fraction=settings.protected_fraction,
                deadline_s=settings.stage_deadline_s,
            )
        except ModelError as error:
            return self._degraded(items, "prune", error)
        if outcome.failures:
            if settings.strict:
                raise ModelError(outcome.failures[0])
            _tell("prune", f"pruned in part: {outcome.failures[0]}", "model")
        took = time.perf_counter() - started
        emit(
            Event(
                name="search.pruned",
                message=f"kept {len(outcome.kept)} of {len(items)} results",
                level="debug",
                attributes={
                    "agentmemory.model.calls": outcome.calls,
                    "gen_ai.usage.input_tokens": outcome.input_tokens,
                    "gen_ai.usage.output_tokens": outcome.output_tokens,
                },
                duration_s=took,
            )
        )
        kept = []
        for rank, place in enumerate(outcome.kept, start=1):
            item = items[place].after(Step("prune", rank, None, outcome.reasons[place], took))
            for failure in outcome.failures:
                item = item.noting(f"pruned in part: {failure}")
            kept.append(item)
        return kept

    def _degraded(self, items: list[Ranked], stage: str, error: ModelError) -> list[Ranked]:
        if self._settings.strict:
            raise error
        _tell(stage, f"the stage {stage!r} was left out: {error}", error.code)
        return [item.noting(f"{stage} left out: {error}") for item in items]


def _tell(stage: str, message: str, code: str) -> None:
    emit(
        Event(
            name="search.degraded",
            message=message,
            level="warning",
            attributes={"error.type": code, "agentmemory.stage": stage},
        )
    )


def settled(items: Sequence[Ranked]) -> list[Ranked]:
    """Put what replaced an invalid record in front of it, and say so."""
    if not any(item.candidate.record.replaced_by for item in items):
        return list(items)
    ordered = replacements_first(
        items, key=lambda item: item.record.id, replaced_by=lambda item: item.record.replaced_by
    )
    before = {item.record.id: rank for rank, item in enumerate(items, start=1)}
    result = []
    for rank, item in enumerate(ordered, start=1):
        if before[item.record.id] == rank:
            result.append(item)
            continue
        replaced_by = item.record.replaced_by
        reason = f"behind {replaced_by}, which replaced it" if replaced_by else "moved up for it"
        result.append(item.after(Step("lifecycle", rank, None, reason)))
    return result


def scaled(items: Sequence[Ranked]) -> list[float]:
    """Return the scores on one scale of 0 to 1 that keeps the order of the items.

    A reranker's scores within 0 to 1 stay as they are; others are spread evenly from their worst
    to their best, as `(1 + n * share) / (n + 1)`. What a reranker did not score stands below the
    worst that it did.
    """
    if all(len(item.steps) < 2 for item in items):
        return [item.score for item in items]
    given = [_reranked_score(item) for item in items]
    known = [score for score in given if score is not None]
    if not known:
        return [item.score for item in items]
    low, high = min(known), max(known)
    if low < 0 or high > 1:
        count, spread = len(known), high - low
        given = [
            None
            if score is None
            else (1 + count * ((score - low) / spread if spread > 0 else 1.0)) / (count + 1)
            for score in given
        ]
        low = min(score for score in given if score is not None)
    return [
        low * item.score if score is None else score
        for item, score in zip(items, given, strict=True)
    ]


def _reranked_score(item: Ranked) -> float | None:
    """Return the reranker's score if no stage after it gave another one."""
    for step in reversed(item.steps):
        if step.stage != "lifecycle":
            return step.score if step.stage == "rerank" else None
    return None
