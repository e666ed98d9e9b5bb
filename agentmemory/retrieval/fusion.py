"""One score out of two arms; pure. May import requests, records and checks.

A candidate carries the raw scores of both arms whatever arm brought it, so that a missing score
is never taken for a low one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

from agentmemory.checks import check_int, check_number
from agentmemory.records import MEMORY_TYPES
from agentmemory.requests import Candidate, Fused

if TYPE_CHECKING:
    from agentmemory.protocols import IFusion


T = TypeVar("T")

Why = tuple[str | Callable[..., str], tuple[Any, ...]]
"""A reason in words; or what says it in words, and what that is called with."""

Scored = tuple[Candidate, float, Why]
"""A candidate, its fused score, 0.0 to 1.0, and why."""

_DISTILLED: Final = frozenset({*MEMORY_TYPES, "user_profile", "agent_profile"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Priors:
    """What raises a candidate beside its two scores; the scores themselves span 0 to 1.

    Args:
        actor: Added when the query names the speaker, or whom a memory is about.
        role: Added for what users said and for distilled memories: what an assistant or a
            tool said is evidence more rarely.
        scope: Added for each dimension that was given inexactly and matches.
    """

    actor: float = 0.4
    role: float = 0.35
    scope: float = 0.1

    def __post_init__(self) -> None:
        for name in ("actor", "role", "scope"):
            check_number(getattr(self, name), argument=name, minimum=0, maximum=10)

    @property
    def ceiling(self) -> float:
        """The most they can add to a score."""
        return self.actor + self.role + 3 * self.scope

    def of(self, candidate: Candidate) -> tuple[float, str]:
        """Return what is added for a candidate, and why."""
        record = candidate.record
        total = 0.0
        reasons = []
        if candidate.actor_match and self.actor:
            total += self.actor
            who = f"speaker {record.actor!r}" if record.actor else "whom it is about"
            reasons.append(f"{who} named +{self.actor:g}")
        if self.role and (record.role == "user" or record.record_type in _DISTILLED):
            total += self.role
            what = record.record_type if record.role is None else f"role {record.role}"
            reasons.append(f"{what} +{self.role:g}")
        if candidate.scope_matches and self.scope:
            added = self.scope * candidate.scope_matches
            total += added
            reasons.append(f"preferred scope +{added:g}")
        return total, ", ".join(reasons)

    def of_each(self, candidates: Sequence[Candidate]) -> list[tuple[float, str]]:
        """Return the same for each of several candidates, of which most are alike."""
        known: dict[tuple[object, ...], tuple[float, str]] = {}
        priors = []
        for candidate in candidates:
            record = candidate.record
            named = (True, record.actor) if candidate.actor_match else None
            kind = (named, record.role, record.record_type, candidate.scope_matches)
            prior = known.get(kind)
            if prior is None:
                prior = known[kind] = self.of(candidate)
            priors.append(prior)
        return priors


DEFAULT_PRIORS: Final = Priors()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreFusion:
    """Normalised weighted sum of both arms, plus priors, scaled to 0..1.

    The lexical score is divided by the pool's best, the cosine is scaled from the pool's worst
    to its best. Score-aware fusion keeps what ranks throw away; for the comparison with
    reciprocal ranks see docs/retrieval-experiments.md. Formula: convex combination as analysed
    by Bruch et al., "An Analysis of Fusion Functions for Hybrid Retrieval" (2023).

    Args:
        lexical_weight: Weight of the lexical arm, 0.0 to 1.0; the vector arm has the rest.
        priors: What is added beside the two scores.
    """

    lexical_weight: float = 0.45
    priors: Priors = DEFAULT_PRIORS

    def __post_init__(self) -> None:
        check_number(self.lexical_weight, argument="lexical_weight", minimum=0, maximum=1)

    def fuse(self, candidates: Sequence[Candidate]) -> list[Fused]:
        """Score every candidate and return them best first."""
        return _fused(self.scored(candidates))

    def scored(self, candidates: Sequence[Candidate]) -> list[Scored]:
        """Do the same, but say why only when asked."""
        lexical = [c.lexical for c in candidates if c.lexical is not None]
        cosines = [c.cosine for c in candidates if c.cosine is not None]
        best_lexical = max(lexical, default=0.0)
        low, high = min(cosines, default=0.0), max(cosines, default=0.0)
        weight = self.lexical_weight
        if not cosines:
            weight = 1.0
        elif not lexical or best_lexical <= 0:
            weight = 0.0
        most = 1 + self.priors.ceiling
        scored: list[Scored] = []
        for candidate, (prior, why) in zip(
            candidates, self.priors.of_each(candidates), strict=True
        ):
            words = (candidate.lexical or 0.0) / best_lexical if best_lexical > 0 else 0.0
            near = 0.0
            if candidate.cosine is not None:
                near = (candidate.cosine - low) / (high - low) if high > low else 1.0
            total = weight * words + (1 - weight) * near + prior
            about = (words, near, weight, why, total, most)
            scored.append((candidate, total / most, (_why_scored, about)))
        return in_order(scored)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReciprocalRankFusion:
    """Weighted sum of reciprocal ranks, plus priors, scaled to 0..1.

    Score of a candidate: sum over arms of weight / (k + rank), divided by its maximum.
    Formula: Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and
    individual Rank Learning Methods" (2009). Ranks are those among the pool's candidates.

    Args:
        k: Flattens the difference between the first ranks; 1 or more. Default 60.
        lexical_weight: Weight of the lexical arm, 0.0 to 1.0; the vector arm has the rest.
        priors: What is added beside the two arms.
    """

    k: int = 60
    lexical_weight: float = 0.5
    priors: Priors = DEFAULT_PRIORS

    def __post_init__(self) -> None:
        check_int(self.k, argument="k", minimum=1)
        check_number(self.lexical_weight, argument="lexical_weight", minimum=0, maximum=1)

    def fuse(self, candidates: Sequence[Candidate]) -> list[Fused]:
        """Score every candidate and return them best first."""
        return _fused(self.scored(candidates))

    def scored(self, candidates: Sequence[Candidate]) -> list[Scored]:
        """Do the same, but say why only when asked."""
        by_words = _ranks([(c.lexical or 0.0, c) for c in candidates if c.lexical])
        by_vector = _ranks([(c.cosine, c) for c in candidates if c.cosine is not None])
        weights = (self.lexical_weight, 1 - self.lexical_weight)
        if not by_vector:
            weights = (1.0, 0.0)
        elif not by_words:
            weights = (0.0, 1.0)
        scored: list[Scored] = []
        for candidate, (prior, why) in zip(
            candidates, self.priors.of_each(candidates), strict=True
        ):
            ranks = (by_words.get(candidate.record.id), by_vector.get(candidate.record.id))
            total = sum(
                weight / (self.k + rank)
                for weight, rank in zip(weights, ranks, strict=True)
                if rank is not None
            )
            score = (total * (self.k + 1) + prior) / (1 + self.priors.ceiling)
            scored.append((candidate, score, (_why_ranked, (ranks, self.k, why))))
        return in_order(scored)


def scored(fusion: IFusion, candidates: Sequence[Candidate]) -> list[Scored]:
    """Score every candidate by any fusion; those of ours say why only when asked."""
    # Not what derives from them, which may fuse otherwise.
    if type(fusion) is ScoreFusion or type(fusion) is ReciprocalRankFusion:
        return fusion.scored(candidates)
    return [(item.candidate, item.score, (item.reason, ())) for item in fusion.fuse(candidates)]


def _fused(scored: Sequence[Scored]) -> list[Fused]:
    return [
        Fused(
            candidate=candidate,
            score=score,
            reason=reason if isinstance(reason, str) else reason(*about),
        )
        for candidate, score, (reason, about) in scored
    ]


def in_order(scored: list[tuple[Candidate, float, T]]) -> list[tuple[Candidate, float, T]]:
    """Put candidates with their scores, and whatever belongs to them, into the order of results."""
    if len({score for _, score, _ in scored}) == len(scored):
        # Nothing but the score decides, which is found out faster than what else would.
        return sorted(scored, key=itemgetter(1), reverse=True)
    return sorted(scored, key=lambda item: order_key(item[0], item[1]))


def _why_scored(
    words: float, near: float, weight: float, why: str, total: float, most: float
) -> str:
    arms = f"words {words:.3f} x {weight:g} + vector {near:.3f} x {1 - weight:g}"
    added = f", {why}" if why else ""
    return f"{arms}{added}, {total:.3f} of {most:g}"


def _why_ranked(ranks: tuple[int | None, int | None], k: int, why: str) -> str:
    by_words, by_vector = [str(rank) if rank else "-" for rank in ranks]
    reason = f"rank {by_words} by words, {by_vector} by vector, k {k}"
    return f"{reason}, {why}" if why else reason


def _ranks(scored: Sequence[tuple[float, Candidate]]) -> dict[str, int]:
    ordered = sorted(scored, key=lambda pair: order_key(pair[1], pair[0]))
    return {candidate.record.id: rank for rank, (_, candidate) in enumerate(ordered, start=1)}


def order_key(candidate: Candidate, score: float) -> tuple[float, float, str]:
    """Return the total order of results: score, then the newer, then id."""
    record = candidate.record
    return (-score, -record.effective_time.timestamp(), record.id)
