from __future__ import annotations

import math

import pytest

from benchmarks.metrics import (
    METRICS,
    bootstrap_interval,
    by_category,
    hit_at,
    judge,
    mean_values,
    ndcg_at,
    percentile,
    recall_all_at,
    recall_at,
    reciprocal_rank_at,
)

RANKED = ["a", "b", "c", "d", "e", "f"]


def test_recall_is_the_share_of_relevant_ids_found():
    assert recall_at(RANKED, {"b", "e", "x"}, 3) == pytest.approx(1 / 3)
    assert recall_at(RANKED, {"b", "e", "x"}, 5) == pytest.approx(2 / 3)
    assert recall_at(RANKED, {"x"}, 6) == 0.0
    assert recall_at([], {"x"}, 6) == 0.0


def test_relevant_ids_given_twice_count_once():
    assert recall_at(RANKED, ["b", "b", "x"], 3) == pytest.approx(1 / 2)


def test_recall_all_needs_every_relevant_id():
    assert recall_all_at(RANKED, {"a", "d"}, 3) == 0.0
    assert recall_all_at(RANKED, {"a", "d"}, 4) == 1.0


def test_hit_needs_any_relevant_id():
    assert hit_at(RANKED, {"d", "x"}, 3) == 0.0
    assert hit_at(RANKED, {"d", "x"}, 4) == 1.0


def test_reciprocal_rank_looks_at_the_first_relevant_id():
    assert reciprocal_rank_at(RANKED, {"c", "e"}, 10) == pytest.approx(1 / 3)
    assert reciprocal_rank_at(RANKED, {"c"}, 2) == 0.0


def test_ndcg_discounts_by_the_logarithm_of_the_rank():
    # Relevant at ranks 2 and 5 of three: (1/log2(3) + 1/log2(6)) / (1 + 1/log2(3) + 1/log2(4))
    assert ndcg_at(RANKED, {"b", "e", "x"}, 10) == pytest.approx(1.0177825 / 2.1309298)
    assert ndcg_at(RANKED, {"a", "b", "c"}, 10) == pytest.approx(1.0)
    assert ndcg_at(RANKED, {"b"}, 10) == pytest.approx(1 / math.log2(3))


def test_ndcg_of_more_relevant_ids_than_places_can_still_be_perfect():
    assert ndcg_at(RANKED, set(RANKED), 2) == pytest.approx(1.0)


def test_judging_computes_each_metric_at_its_own_depth():
    ranked = [str(number) for number in range(1, 21)]
    row = judge(ranked, {"6", "12", "40", "41"}, category="temporal", conversation="conv-a")
    assert dict(row.values) == pytest.approx(
        {
            "recall_at_5": 0.0,
            "recall_at_10": 0.25,
            "recall_at_20": 0.5,
            "recall_all_at_10": 0.0,
            "hit_at_10": 1.0,
            "mrr_at_10": 1 / 6,
            # (1/log2(7)) / (1 + 1/log2(3) + 1/log2(4) + 1/log2(5))
            "ndcg_at_10": 0.3562072 / 2.5616063,
        }
    )
    assert set(row.values) == set(METRICS)


def test_the_mean_counts_every_question_the_same():
    rows = [
        judge(["a"], {"a"}, category="x", conversation="1"),
        judge(["a"], {"b"}, category="x", conversation="1"),
        judge(["a"], {"b"}, category="y", conversation="2"),
        judge(["a"], {"a"}, category="x", conversation="2"),
    ]
    assert mean_values(rows)["recall_at_10"] == pytest.approx(0.5)
    groups = by_category(rows)
    assert {name: len(group) for name, group in groups.items()} == {"x": 3, "y": 1}
    assert mean_values(groups["x"])["recall_at_10"] == pytest.approx(2 / 3)
    assert mean_values(groups["y"])["recall_at_10"] == 0.0


def test_the_bootstrap_interval_is_repeatable_and_near_the_normal_one():
    values = [1.0] * 60 + [0.0] * 40
    low, high = bootstrap_interval(values, seed=1)
    assert (low, high) == bootstrap_interval(values, seed=1)
    assert (low, high) != bootstrap_interval(values, seed=2)
    # Normal approximation: 0.6 ± 1.96 · sqrt(0.6 · 0.4 / 100) = 0.504 … 0.696
    assert low == pytest.approx(0.504, abs=0.02)
    assert high == pytest.approx(0.696, abs=0.02)


def test_the_bootstrap_interval_of_equal_values_is_a_point():
    assert bootstrap_interval([0.25] * 10) == (0.25, 0.25)


def test_a_wider_level_gives_a_wider_interval():
    values = [0.0, 0.5, 1.0] * 20
    narrow = bootstrap_interval(values, level=0.5)
    wide = bootstrap_interval(values, level=0.99)
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_percentiles_are_interpolated():
    assert percentile([4.0, 1.0, 3.0, 2.0], 0.5) == pytest.approx(2.5)
    assert percentile([0.0, 10.0], 0.95) == pytest.approx(9.5)
    assert percentile([7.0], 0.95) == 7.0


def test_what_cannot_be_judged_is_refused():
    with pytest.raises(ValueError, match="`k`"):
        recall_at(RANKED, {"a"}, 0)
    with pytest.raises(ValueError, match="`relevant`"):
        ndcg_at(RANKED, set(), 10)
    with pytest.raises(ValueError, match="twice"):
        reciprocal_rank_at(["a", "a"], {"a"}, 10)
    with pytest.raises(ValueError, match="no questions"):
        mean_values([])
    with pytest.raises(ValueError, match="no values"):
        bootstrap_interval([])
    with pytest.raises(ValueError, match="`level`"):
        bootstrap_interval([1.0], level=95)
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)
