from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmemory.errors import LayerBudgetError, ValidationError
from agentmemory.ontology.compression import (
    CriticalOverflow,
    LayerBudgets,
    check_budgets,
    compress,
    count_tokens,
)
from agentmemory.ontology.result import LayeredMemory
from agentmemory.records import Layer, ScopedRecord

NOW = datetime(2026, 5, 4, tzinfo=UTC)


class Letters:
    """Counts the letters x, so that a test says what a memory costs."""

    def count(self, text: str) -> int:
        return text.count("x")


COUNTER = Letters()


def memory(name: str, cost: int, short: int | None = None) -> LayeredMemory:
    record = ScopedRecord(
        id=name,
        record_type="memory",
        content="x" * cost,
        compressed=None if short is None else "x" * short,
        created_at=NOW,
        updated_at=NOW,
    )
    return LayeredMemory(
        record=record, text=record.content, tokens=count_tokens(record.content, COUNTER)
    )


def ids(found: tuple[LayeredMemory, ...]) -> list[str]:
    return [item.id for item in found]


def fit(budgets: LayerBudgets, *, keep: bool = True, **layers: list[LayeredMemory]):
    return compress(
        {Layer(name): found for name, found in layers.items()},
        budgets,
        COUNTER,
        keep_best_rule=keep,
    )


SMALL = LayerBudgets(critical=10, rule=20, context=10, background=10, reserve=0)


def test_the_defaults_are_the_documents():
    budgets = LayerBudgets()
    assert (budgets.critical, budgets.rule, budgets.context, budgets.background) == (
        600,
        1800,
        800,
        600,
    )
    assert budgets.reserve == 200
    assert budgets.total + budgets.reserve == 4000


def test_what_fits_stays_in_full():
    shown, report = fit(SMALL, critical=[memory("c", 10)], rule=[memory("r", 20, 1)])
    assert shown[Layer.RULE][0].text == "x" * 20
    assert (report.triggered, report.trimmed, report.tokens_after) == ("", (), 30)


def test_shorter_wordings_come_first_and_only_if_they_are_shorter():
    shown, report = fit(
        SMALL, rule=[memory("a", 30, 5), memory("b", 30, 40)], context=[memory("k", 9)]
    )
    assert [item.tokens for item in shown[Layer.RULE]] == [5, 30]
    assert report.compressed == ("a",)
    assert report.tokens_after == 44


def layers_beside(critical: int) -> tuple[list[str], tuple[str, ...]]:
    shown, report = fit(
        SMALL,
        critical=[memory("c", critical)],
        rule=[memory("r1", 9), memory("r2", 9)],
        context=[memory("k1", 5), memory("k2", 5)],
        background=[memory("b1", 5), memory("b2", 5)],
    )
    return [item.id for layer in Layer for item in shown[layer]][1:], report.trimmed


def test_background_goes_first_then_context_then_the_lowest_rule():
    assert layers_beside(12) == (["r1", "r2", "k1", "k2", "b1", "b2"], ())
    assert layers_beside(13) == (["r1", "r2", "k1", "k2", "b1"], ("b2",))
    assert layers_beside(18) == (["r1", "r2", "k1", "k2"], ("b2", "b1"))
    assert layers_beside(23) == (["r1", "r2", "k1"], ("b2", "b1", "k2"))
    assert layers_beside(32) == (["r1", "r2"], ("b2", "b1", "k2", "k1"))
    assert layers_beside(33)[0] == ["r1", "k1"]
    assert layers_beside(50) == (["r1"], ("b2", "b1", "k2", "k1", "r2"))


def test_an_unused_share_flows_on():
    shown, _ = fit(
        SMALL,
        critical=[memory("c", 2)],
        rule=[memory("r", 12)],
        context=[memory("k1", 13), memory("k2", 13)],
        background=[memory("b", 13)],
    )
    # 8 + 8 flow on to CONTEXT, which takes 26 of its 26; nothing is left for BACKGROUND but 10.
    assert ids(shown[Layer.CONTEXT]) == ["k1", "k2"]
    assert shown[Layer.BACKGROUND] == ()


def test_what_the_lower_layers_leave_flows_back():
    shown, report = fit(SMALL, rule=[memory(f"r{n}", 10) for n in range(9)])
    assert ids(shown[Layer.RULE]) == ["r0", "r1", "r2", "r3", "r4"]
    assert report.trimmed == ("r8", "r7", "r6", "r5")


def test_the_best_routed_rule_stays_whatever_it_costs():
    shown, report = fit(SMALL, rule=[memory("r1", 90), memory("r2", 1)], context=[memory("k", 5)])
    assert ids(shown[Layer.RULE]) == ["r1"]
    assert report.over_budget == 40
    shown, _ = fit(SMALL, keep=False, rule=[memory("r1", 90), memory("r2", 1)])
    assert "r1" not in ids(shown[Layer.RULE])


def test_critical_is_kept_in_full_and_reported():
    shown, report = fit(
        SMALL,
        critical=[memory("c1", 40, 1), memory("c2", 30, 1)],
        rule=[memory("r", 3)],
        context=[memory("k", 3)],
    )
    assert [item.tokens for item in shown[Layer.CRITICAL]] == [40, 30]
    assert (report.critical_overflow, report.over_budget) == (60, 23)
    assert ids(shown[Layer.RULE]) == ["r"]
    assert report.trimmed == ("k",)


def test_critical_overflow_raises_if_chosen():
    budgets = replace(SMALL, critical_overflow=CriticalOverflow.RAISE)
    with pytest.raises(LayerBudgetError, match="11 tokens"):
        fit(budgets, critical=[memory("c", 11)])
    fit(budgets, critical=[memory("c", 10)])


def test_critical_overflow_compresses_if_chosen_and_keeps_the_rest():
    budgets = replace(SMALL, critical_overflow=CriticalOverflow("compress"))
    shown, report = fit(budgets, critical=[memory("c1", 12, 6), memory("c2", 7)])
    assert [item.tokens for item in shown[Layer.CRITICAL]] == [6, 7]
    assert report.critical_overflow == 3
    shown, report = fit(budgets, critical=[memory("c1", 10, 6)])
    assert not shown[Layer.CRITICAL][0].is_compressed


def test_tokens_and_counts_trigger():
    by_tokens = replace(SMALL, trigger_tokens=5)
    assert fit(by_tokens, rule=[memory("r", 6, 2)])[1].tokens_after == 2
    assert fit(by_tokens, rule=[memory("r", 5, 2)])[1].tokens_after == 5
    by_count = replace(SMALL, trigger_count=1)
    _, report = fit(by_count, rule=[memory("r1", 3, 2), memory("r2", 3, 2)])
    assert (report.tokens_after, report.triggered) == (4, "2 memories, more than 1")


def test_a_number_of_tokens_scales_the_shares():
    budgets = check_budgets(None, 400)
    assert budgets is not None
    assert (
        budgets.critical,
        budgets.rule,
        budgets.context,
        budgets.background,
        budgets.reserve,
    ) == (60, 180, 80, 60, 20)
    assert check_budgets(None, None) is None


@pytest.mark.parametrize(
    ("build", "named"),
    [
        (lambda: LayerBudgets(rule=-1), "rule"),
        (lambda: LayerBudgets(trigger_count=-1), "trigger_count"),
        (lambda: LayerBudgets(critical_overflow="cut"), "critical_overflow"),  # type: ignore[arg-type]
        (lambda: check_budgets(4000, None), "budgets"),
        (lambda: check_budgets(None, 0), "token_budget"),
        (
            lambda: LayerBudgets(critical=0, rule=0, context=0, background=0, reserve=0).scaled(9),
            "budgets",
        ),
    ],
)
def test_bad_budgets_are_refused_by_name(build: Any, named: str):
    with pytest.raises(ValidationError, match=f"`{named}`"):
        build()


costs = st.lists(st.tuples(st.integers(1, 30), st.none() | st.integers(1, 30)), max_size=6)


@given(costs, costs, costs, costs)
def test_critical_and_the_best_rule_survive_and_the_rest_fits(
    critical: Any, rule: Any, context: Any, background: Any
):
    names = iter(range(100))
    layers = {
        layer.value: [memory(f"m{next(names)}", cost, short) for cost, short in found]
        for layer, found in zip(Layer, (critical, rule, context, background), strict=True)
    }
    shown, report = compress(
        {Layer(name): found for name, found in layers.items()}, SMALL, COUNTER, keep_best_rule=True
    )
    assert ids(shown[Layer.CRITICAL]) == [item.id for item in layers["critical"]]
    assert ids(shown[Layer.RULE])[:1] == [item.id for item in layers["rule"]][:1]
    for layer in Layer:
        assert ids(shown[layer]) == [
            item.id for item in layers[layer.value] if item.id in ids(shown[layer])
        ]
    kept = {item.id for found in shown.values() for item in found}
    everything = {item.id for found in layers.values() for item in found}
    assert kept | set(report.trimmed) == everything
    must_stay = sum(item.tokens for item in (*shown[Layer.CRITICAL], *shown[Layer.RULE][:1]))
    assert report.tokens_after <= max(SMALL.total, must_stay)
