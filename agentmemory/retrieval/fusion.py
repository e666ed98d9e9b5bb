"""One score out of two arms; pure. May import requests, records and checks.

A candidate carries the raw scores of both arms whatever arm brought it, so that a missing score
is never taken for a low one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from agentmemory.checks import check_int, check_number
from agentmemory.records import MEMORY_TYPES
from agentmemory.requests import Candidate, Fused

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
            named = record.actor if candidate.actor_match else None
            kind = (
                candidate.actor_match,
                named,
                record.role,
                record.record_type,
                candidate.scope_matches,
            )
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
        shown_weight, shown_rest, shown_most = f"{weight:g}", f"{1 - weight:g}", f"{most:g}"
        fused = []
        for candidate, (prior, why) in zip(
            candidates, self.priors.of_each(candidates), strict=True
        ):
            words = (candidate.lexical or 0.0) / best_lexical if best_lexical > 0 else 0.0
            near = 0.0
            if candidate.cosine is not None:
                near = (candidate.cosine - low) / (high - low) if high > low else 1.0
            total = weight * words + (1 - weight) * near + prior
            added = f", {why}" if why else ""
            reason = (
                f"words {words:.3f} x {shown_weight} + vector {near:.3f} x {shown_rest}{added}, "
                f"{total:.3f} of {shown_most}"
            )
            fused.append(Fused(candidate=candidate, score=total / most, reason=reason))
        return sorted(fused, key=lambda item: order_key(item.candidate, item.score))


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
        by_words = _ranks([(c.lexical or 0.0, c) for c in candidates if c.lexical])
        by_vector = _ranks([(c.cosine, c) for c in candidates if c.cosine is not None])
        weights = (self.lexical_weight, 1 - self.lexical_weight)
        if not by_vector:
            weights = (1.0, 0.0)
        elif not by_words:
            weights = (0.0, 1.0)
        fused = []
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
            shown = [str(rank) if rank else "-" for rank in ranks]
            reason = f"rank {shown[0]} by words, {shown[1]} by vector, k {self.k}"
            fused.append(
                Fused(
                    candidate=candidate, score=score, reason=f"{reason}, {why}" if why else reason
                )
            )
        return sorted(fused, key=lambda item: order_key(item.candidate, item.score))


def _ranks(scored: Sequence[tuple[float, Candidate]]) -> dict[str, int]:
    ordered = sorted(scored, key=lambda pair: order_key(pair[1], pair[0]))
    return {candidate.record.id: rank for rank, (_, candidate) in enumerate(ordered, start=1)}


def order_key(candidate: Candidate, score: float) -> tuple[float, float, str]:
    """Return the total order of results: score, then the newer, then id."""
    record = candidate.record
    return (-score, -record.effective_time.timestamp(), record.id)
