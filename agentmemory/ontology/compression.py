"""Fits layers into a token budget; pure, may import config values, text and this room's result.

Each layer has a share, and what it does not use flows on to the next. Shorter wordings are used
first; then BACKGROUND goes, then CONTEXT, then RULE from its end, but never the best RULE memory an
intent was routed to. CRITICAL is never cut.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from agentmemory.checks import check_choice, check_int
from agentmemory.errors import LayerBudgetError, ValidationError
from agentmemory.ontology.result import CompressionReport, LayeredMemory
from agentmemory.protocols import TokenCounter
from agentmemory.records import Layer
from agentmemory.text.xml import element

BACKGROUND_FLOOR: Final = 100
"""BACKGROUND is only looked at when more tokens than this are left."""

_TRIMMED: Final = (Layer.BACKGROUND, Layer.CONTEXT, Layer.RULE)


class CriticalOverflow(enum.StrEnum):
    """What happens when CRITICAL needs more than its share."""

    KEEP = "keep"
    RAISE = "raise"
    COMPRESS = "compress"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerBudgets:
    """How many tokens each layer may cost, and when that counts.

    Args:
        critical: Share of CRITICAL. Default 600.
        rule: Share of RULE. Default 1800.
        context: Share of CONTEXT. Default 800.
        background: Share of BACKGROUND. Default 600.
        reserve: Left free for what stands around the memories. Default 200.
        critical_overflow: What happens when CRITICAL needs more than its share: KEEP shows all of
            it in full and reports it, RAISE raises `LayerBudgetError`, COMPRESS shows shorter
            wordings where there are any, and then keeps and reports.
        trigger_tokens: Shorten when the layers cost more tokens than this. Default None: when
            they cost more than all shares together.
        trigger_count: Shorten also when there are more memories than this. Default None: never.

    Raises:
        ValidationError: A number is negative, or the policy unknown.
    """

    critical: int = 600
    rule: int = 1800
    context: int = 800
    background: int = 600
    reserve: int = 200
    critical_overflow: CriticalOverflow = CriticalOverflow.KEEP
    trigger_tokens: int | None = None
    trigger_count: int | None = None

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name == "critical_overflow":
                choices = tuple(policy.value for policy in CriticalOverflow)
                chosen = check_choice(value, argument=item.name, choices=choices)
                object.__setattr__(self, item.name, CriticalOverflow(chosen))
            elif value is not None or not item.name.startswith("trigger_"):
                check_int(value, argument=item.name, minimum=0)

    @property
    def total(self) -> int:
        """What all layers may cost together."""
        return self.critical + self.rule + self.context + self.background

    def scaled(self, tokens: int) -> LayerBudgets:
        """Return budgets in the same proportions that cost this much together with the reserve."""
        check_int(tokens, argument="token_budget", minimum=1)
        whole = self.total + self.reserve
        if not whole:
            msg = "`budgets` gives no layer any tokens, so that they have no proportions"
            raise ValidationError(msg, argument="budgets")
        names = ("rule", "context", "background", "reserve")
        shares = {name: tokens * int(getattr(self, name)) // whole for name in names}
        return replace(
            self,
            critical=tokens - sum(shares.values()),
            rule=shares["rule"],
            context=shares["context"],
            background=shares["background"],
            reserve=shares["reserve"],
        )


DEFAULT_BUDGETS: Final = LayerBudgets()
"""What the layers may cost unless the caller says otherwise: 4,000 tokens with the reserve."""

Layers = Mapping[Layer, Sequence[LayeredMemory]]


def count_tokens(text: str, counter: TokenCounter) -> int:
    """Return what a memory costs in a rendered result."""
    return counter.count(element("memory", text))


def compress(
    layers: Layers, budgets: LayerBudgets, counter: TokenCounter, *, keep_best_rule: bool
) -> tuple[dict[Layer, tuple[LayeredMemory, ...]], CompressionReport]:
    """Fit layers into their budgets.

    Args:
        layers: The memories of each layer, best first, in full.
        budgets: What they may cost.
        counter: Measures them.
        keep_best_rule: Whether the first RULE memory stays in any case.

    Raises:
        LayerBudgetError: CRITICAL needs more than its share, and the policy is RAISE.
    """
    shown = {layer: list(layers.get(layer, ())) for layer in Layer}
    before = _cost(item for found in shown.values() for item in found)
    count = sum(map(len, shown.values()))
    triggered = _trigger(before, count, budgets)
    overflow = _cost(shown[Layer.CRITICAL]) - budgets.critical
    if overflow > 0 and budgets.critical_overflow is CriticalOverflow.RAISE:
        msg = (
            f"CRITICAL memories cost {overflow + budgets.critical} tokens and `critical` is "
            f"{budgets.critical}; raise it, or choose critical_overflow KEEP or COMPRESS"
        )
        raise LayerBudgetError(msg)
    if overflow > 0 and budgets.critical_overflow is CriticalOverflow.COMPRESS:
        shown[Layer.CRITICAL] = [_shorter(item, counter) for item in shown[Layer.CRITICAL]]
        triggered = triggered or "CRITICAL costs more than its share"
        overflow = _cost(shown[Layer.CRITICAL]) - budgets.critical
    trimmed: list[str] = []
    if triggered:
        for layer in _TRIMMED:
            shown[layer] = [_shorter(item, counter) for item in shown[layer]]
        trimmed = _trim(shown, budgets, keep_best_rule=keep_best_rule)
    everything = [item for layer in Layer for item in shown[layer]]
    after = _cost(everything)
    return {layer: tuple(found) for layer, found in shown.items()}, CompressionReport(
        budget=budgets.total,
        tokens_before=before,
        tokens_after=after,
        triggered=triggered,
        compressed=tuple(item.id for item in everything if item.is_compressed),
        trimmed=tuple(trimmed),
        critical_overflow=max(0, overflow),
        over_budget=max(0, after - budgets.total),
    )


def left_for_background(layers: Layers, budgets: LayerBudgets) -> int:
    """Return how many tokens the layers above BACKGROUND leave."""
    used = _cost(
        item for layer, found in layers.items() if layer is not Layer.BACKGROUND for item in found
    )
    return budgets.total - used


def _trigger(tokens: int, count: int, budgets: LayerBudgets) -> str:
    limit = budgets.total if budgets.trigger_tokens is None else budgets.trigger_tokens
    if tokens > limit:
        return f"{tokens} tokens, more than {limit}"
    if budgets.trigger_count is not None and count > budgets.trigger_count:
        return f"{count} memories, more than {budgets.trigger_count}"
    return ""


def _trim(
    shown: dict[Layer, list[LayeredMemory]], budgets: LayerBudgets, *, keep_best_rule: bool
) -> list[str]:
    """Keep of each layer what fits its share and what flows on to it, then what is left over."""
    whole = {layer: list(shown[layer]) for layer in _TRIMMED}
    kept: dict[Layer, set[str]] = {layer: set() for layer in _TRIMMED}
    room = budgets.total - _cost(shown[Layer.CRITICAL])
    if keep_best_rule and whole[Layer.RULE]:
        best = whole[Layer.RULE][0]
        kept[Layer.RULE].add(best.id)
        room -= best.tokens
    shares: Mapping[Layer, int] = {
        Layer.RULE: budgets.rule,
        Layer.CONTEXT: budgets.context,
        Layer.BACKGROUND: budgets.background,
    }
    flow = max(0, budgets.critical - _cost(shown[Layer.CRITICAL]))
    for layer in reversed(_TRIMMED):
        share = shares[layer] + flow
        used = sum(item.tokens for item in whole[layer] if item.id in kept[layer])
        for item in whole[layer]:
            if item.id in kept[layer]:
                continue
            if used + item.tokens > share or item.tokens > room:
                break
            kept[layer].add(item.id)
            used += item.tokens
            room -= item.tokens
        flow = max(0, share - used)
    # What no layer took flows back to the first that was cut.
    for layer in reversed(_TRIMMED):
        for item in whole[layer]:
            if item.id not in kept[layer]:
                if item.tokens > room:
                    break
                kept[layer].add(item.id)
                room -= item.tokens
    trimmed: list[str] = []
    for layer in _TRIMMED:
        trimmed.extend(item.id for item in reversed(whole[layer]) if item.id not in kept[layer])
        shown[layer] = [item for item in whole[layer] if item.id in kept[layer]]
    return trimmed


def _shorter(item: LayeredMemory, counter: TokenCounter) -> LayeredMemory:
    wording = item.record.compressed
    if not wording:
        return item
    tokens = count_tokens(wording, counter)
    return replace(item, text=wording, tokens=tokens) if tokens < item.tokens else item


def _cost(items: Iterable[LayeredMemory]) -> int:
    return sum(item.tokens for item in items)


def check_budgets(budgets: Any, token_budget: Any) -> LayerBudgets | None:
    """Accept budgets, a number of tokens in all, both, or None for no budget.

    Raises:
        ValidationError: Something else.
    """
    if budgets is not None and not isinstance(budgets, LayerBudgets):
        msg = f"`budgets` is {budgets!r}; accepted: LayerBudgets or None"
        raise ValidationError(msg, argument="budgets")
    if token_budget is None:
        return budgets
    return (budgets or LayerBudgets()).scaled(token_budget)
