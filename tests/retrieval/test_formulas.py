"""Every formula of the pipeline against values computed by hand."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentmemory.config import DecayConfig, DiversityConfig
from agentmemory.errors import ValidationError
from agentmemory.records import Layer, ScopedRecord, Stability
from agentmemory.requests import Candidate
from agentmemory.retrieval.budget import select_within_budget
from agentmemory.retrieval.decay import (
    decayed,
    freshness,
    freshness_of_each,
    is_exempt,
    why_decayed,
)
from agentmemory.retrieval.diversity import (
    maximal_marginal_relevance,
    near_duplicates,
    similarities,
)
from agentmemory.retrieval.fusion import Priors, ReciprocalRankFusion, ScoreFusion
from agentmemory.retrieval.lifecycle import replacements_first

CASES = Path(__file__).parent.parent / "cases"
NOW = datetime(2026, 1, 8, tzinfo=UTC)
BARE = Priors(actor=0.0, role=0.0, scope=0.0)


def cases(name: str) -> list[dict[str, Any]]:
    """The cases of a file, one JSON object a line."""
    return [json.loads(line) for line in (CASES / name).read_text("utf-8").splitlines()]


def record(name: str = "r", **fields: Any) -> ScopedRecord:
    """A record with some fields set otherwise."""
    values: dict[str, Any] = {
        "id": name,
        "record_type": "memory",
        "content": name,
        "created_at": NOW,
        "updated_at": NOW,
        **fields,
    }
    return ScopedRecord(**values)


@pytest.mark.parametrize("case", cases("budgets.jsonl"), ids=lambda case: case["why"])
def test_budgets(case: dict[str, Any]) -> None:
    kept = select_within_budget(
        case["sizes"], token_budget=case["hard"], soft_token_budget=case["soft"]
    )
    assert kept == case["sizes"][: case["kept"]]


@pytest.mark.parametrize(
    "case", [c for c in cases("time.jsonl") if "shape" in c], ids=lambda case: case["why"]
)
def test_freshness(case: dict[str, Any]) -> None:
    age = datetime.fromisoformat(case["now"]) - datetime.fromisoformat(case["stored"])
    half_life = timedelta(days=case["half_life_days"])
    found = freshness(age, half_life=half_life, shape=case["shape"])
    assert found == pytest.approx(case["freshness"])


@pytest.mark.parametrize(
    "case",
    [c for c in cases("time.jsonl") if "blend" in c or "multiply" in c],
    ids=lambda case: case["why"],
)
def test_decay_combines_relevance_and_freshness(case: dict[str, Any]) -> None:
    config = (
        DecayConfig(recency_weight=case["blend"])
        if "blend" in case
        else DecayConfig(combine="multiply")
    )
    week_old = record(event_time=NOW - timedelta(days=7))
    assert case["freshness"] == 0.5
    (fresh,) = freshness_of_each([week_old], config=config, now=NOW)
    assert decayed(case["relevance"], fresh, config=config) == pytest.approx(case["score"])
    assert why_decayed(week_old, fresh, NOW) == "7.0 days old, freshness 0.500"


def test_what_does_not_age() -> None:
    assert is_exempt(record(stability=Stability.STABLE))
    assert is_exempt(record(layer=Layer.CRITICAL))
    assert is_exempt(record(record_type="guideline"))
    assert not is_exempt(record(record_type="guideline", stability=Stability.VOLATILE))
    assert not is_exempt(record())
    old = record(stability=Stability.STABLE, event_time=NOW - timedelta(days=700))
    assert freshness_of_each([old], config=DecayConfig(), now=NOW) == [1.0]
    assert why_decayed(old, 1.0, NOW) == "does not age"


def test_half_life_by_type() -> None:
    config = DecayConfig(half_life_days=7, half_life_days_by_type={"fact": 70})
    assert config.half_life_of("fact") == timedelta(days=70)
    assert config.half_life_of("message") == timedelta(days=7)


@pytest.mark.parametrize(
    ("argument", "make"),
    [
        ("half_life_days", lambda: DecayConfig(half_life_days=0)),
        ("recency_weight", lambda: DecayConfig(recency_weight=1.1)),
        ("shape", lambda: DecayConfig(shape="step")),  # type: ignore[arg-type]
        ("combine", lambda: DecayConfig(combine="sum")),  # type: ignore[arg-type]
        ("half_life_days_by_type", lambda: DecayConfig(half_life_days_by_type={"memo": 1})),
        ("balance", lambda: DiversityConfig(balance=2)),
        ("duplicate_threshold", lambda: DiversityConfig(duplicate_threshold=-1)),
        ("lexical_weight", lambda: ScoreFusion(lexical_weight=2)),
        ("k", lambda: ReciprocalRankFusion(k=0)),
        ("actor", lambda: Priors(actor=-1)),
    ],
)
def test_values_out_of_range_are_refused_by_name(argument: str, make: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        make()
    assert caught.value.argument == argument


def test_marginal_relevance_by_hand() -> None:
    """λ 0.5 over scaled relevance 1, 0.8, 0: the twin of the first loses to the stranger.

    Second pick: the twin gets 0.5 * 0.8 - 0.5 * 1 = -0.1, the stranger 0.5 * 0 - 0.5 * 0 = 0.
    """
    first = np.array([1.0, 0.0], dtype=np.float32)
    stranger = np.array([0.0, 1.0], dtype=np.float32)
    chosen = maximal_marginal_relevance(
        [1.0, 0.9, 0.5], similarities([first, first, stranger]), balance=0.5, count=3
    )
    assert chosen == [0, 2, 1]
    relevance_only = maximal_marginal_relevance(
        [1.0, 0.9, 0.5], similarities([first, first, stranger]), balance=1.0, count=3
    )
    assert relevance_only == [0, 1, 2]
    assert maximal_marginal_relevance([], similarities([]), balance=0.7, count=3) == []
    nowhere = similarities([None, None])
    assert maximal_marginal_relevance([0.2, 0.2], nowhere, balance=0.7, count=5) == [0, 1]


def test_near_duplicates_keep_the_best_and_count_the_rest() -> None:
    a = np.array([1.0, 0.0], dtype=np.float32)
    b = np.array([0.6, 0.8], dtype=np.float32)
    groups = near_duplicates(
        ["Likes tea.", "likes  TEA.", "Enjoys tea.", "Rows boats."],
        similarities([a, None, a, b]),
        threshold=0.97,
    )
    assert groups == {0: [1, 2], 3: []}


def test_score_fusion_by_hand() -> None:
    """Words 4 and 2 of best 4; cosines 0.2, 0.8 and 0.5 over 0.2 to 0.8; weight one half each."""
    candidates = [
        Candidate(record=record("a"), lexical=4.0, cosine=0.2),
        Candidate(record=record("b"), lexical=2.0, cosine=0.8),
        Candidate(record=record("c"), lexical=0.0, cosine=0.5),
    ]
    fused = ScoreFusion(lexical_weight=0.5, priors=BARE).fuse(candidates)
    assert [(item.candidate.record.id, round(item.score, 6)) for item in fused] == [
        ("b", 0.75),
        ("a", 0.5),
        ("c", 0.25),
    ]


def test_score_fusion_with_one_arm_uses_that_arm_alone() -> None:
    words = [Candidate(record=record("a"), lexical=1.0), Candidate(record=record("b"), lexical=2.0)]
    fused = ScoreFusion(priors=BARE).fuse(words)
    assert [item.score for item in fused] == [1.0, 0.5]
    near = [Candidate(record=record("a"), cosine=0.1), Candidate(record=record("b"), cosine=0.9)]
    fused = ScoreFusion(priors=BARE).fuse(near)
    assert [(item.candidate.record.id, item.score) for item in fused] == [("b", 1.0), ("a", 0.0)]
    assert ScoreFusion().fuse([]) == []


def test_priors_by_hand() -> None:
    """The user's own words get 0.35, a named speaker 0.4, a preferred scope 0.1 each, of 2.05."""
    candidate = Candidate(
        record=record("a", record_type="message", role="user", actor="Mira"),
        lexical=1.0,
        actor_match=True,
        scope_matches=2,
    )
    (fused,) = ScoreFusion().fuse([candidate])
    assert fused.score == pytest.approx((1.0 + 0.4 + 0.35 + 0.2) / 2.05)
    assert "Mira" in fused.reason


def test_reciprocal_ranks_by_hand() -> None:
    """With k 60 and equal weights: a is 1st and 2nd, b is 2nd and 1st, c is only 3rd by vector."""
    candidates = [
        Candidate(record=record("a"), lexical=4.0, cosine=0.5),
        Candidate(record=record("b"), lexical=2.0, cosine=0.8),
        Candidate(record=record("c"), lexical=0.0, cosine=0.2),
    ]
    fused = ReciprocalRankFusion(priors=BARE).fuse(candidates)
    by_id = {item.candidate.record.id: item.score for item in fused}
    assert by_id["a"] == pytest.approx(61 * (0.5 / 61 + 0.5 / 62))
    assert by_id["b"] == pytest.approx(61 * (0.5 / 62 + 0.5 / 61))
    assert by_id["c"] == pytest.approx(61 * 0.5 / 63)


def test_what_replaced_a_record_stands_before_it() -> None:
    replaced = {"old": "new", "older": "old", "x": "y", "y": "x"}

    def order(*names: str) -> list[str]:
        return replacements_first(names, key=lambda name: name, replaced_by=replaced.get)

    assert order("old", "a", "new") == ["new", "old", "a"]
    assert order("older", "b", "new", "old") == ["new", "old", "older", "b"]
    assert order("new", "old") == ["new", "old"]
    assert order("old", "a") == ["old", "a"]
    assert sorted(order("x", "y", "a")) == ["a", "x", "y"]
