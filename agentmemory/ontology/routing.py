"""Which layers an intent asks for first; pure, may import records and this room's intent.

A table of cues says it: each row that has a cue in the intent adds its layers, in the order of the
table. CRITICAL is in every result whatever the table says.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import lru_cache
from typing import Any, Final

from agentmemory.checks import check_list, check_text
from agentmemory.errors import ValidationError
from agentmemory.ontology.intent import Intent
from agentmemory.records import Layer

_SPACED: Final = re.compile(r"[a-z0-9]", re.ASCII)


@dataclass(frozen=True, slots=True)
class Route:
    """A row of the routing table.

    Args:
        layers: What is looked at, the first first.
        cues: Words and phrases that choose it, in any language; English ones match whole words.
        rule_names: Whether the name of a rule of the vocabulary is a cue too.

    Raises:
        ValidationError: No layer, an unknown one, or an empty cue.
    """

    layers: tuple[Layer, ...]
    _: KW_ONLY
    cues: tuple[str, ...]
    rule_names: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", check_layers(self.layers))
        cues = check_list(self.cues, argument="cues", of="words")
        checked = tuple(check_text(cue, argument="cues").casefold() for cue in cues)
        object.__setattr__(self, "cues", checked)

    def cues_in(self, intent: Intent) -> tuple[str, ...]:
        """Return the cues that an intent holds."""
        text = " ".join(intent.text.casefold().split())
        found = [cue for cue in self.cues if _holds(text, cue)]
        if self.rule_names:
            found.extend(name for name in intent.rules if name not in found)
        return tuple(found)


def check_layers(value: Any, *, argument: str = "layers") -> tuple[Layer, ...]:
    """Accept a list of layers, as members or as text.

    Raises:
        ValidationError: A bare string, an empty list or an unknown layer.
    """
    items = check_list(value, argument=argument, of="layers")
    accepted = ", ".join(layer.value for layer in Layer)
    if not items:
        raise ValidationError(f"`{argument}` is empty; accepted: {accepted}", argument=argument)
    try:
        return tuple(dict.fromkeys(Layer(str(item)) for item in items))
    except ValueError:
        unknown = next(item for item in items if str(item) not in set(Layer))
        msg = f"`{argument}` holds {unknown!r}; accepted: {accepted}"
        raise ValidationError(msg, argument=argument) from None


DEFAULT_ROUTES: Final[tuple[Route, ...]] = (
    Route(
        (Layer.CRITICAL,),
        cues=(
            "必须", "不得", "强制", "红线", "禁止", "硬约束",
            "must", "must not", "mandatory", "forbidden", "prohibited", "red line",
            "hard constraint", "hard constraints", "never allowed",
        ),
    ),
    Route(
        (Layer.RULE, Layer.CRITICAL),
        cues=(
            "规则", "认证", "信用", "阈值",
            "rule", "rules", "certification", "certificate", "certificates", "credit",
            "threshold", "thresholds", "policy", "policies",
        ),
        rule_names=True,
    ),
    Route(
        (Layer.RULE, Layer.CONTEXT),
        cues=("看看", "查看", "查询", "影响", "check", "look at", "look up", "affect",
         "affected", "impact"),
    ),
    Route(
        (Layer.CONTEXT, Layer.RULE),
        cues=(
            "上次", "刚才", "我们确认", "之前", "结论",
            "last time", "just now", "we confirmed", "we agreed", "we decided", "earlier",
            "previously", "conclusion",
        ),
    ),
    Route(
        (Layer.BACKGROUND, Layer.CONTEXT),
        cues=(
            "背景", "历史", "通常情况", "通常", "一般来说",
            "background", "history", "historical", "historically", "usually", "in general",
        ),
    ),
)  # fmt: skip
"""The table that routes intents by default."""

NO_CUE: Final = (Layer.RULE, Layer.CONTEXT)
"""What is looked at when no row has a cue in the intent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """Which layers were chosen, and why.

    Args:
        layers: In the order of the table; CRITICAL belongs to every result all the same.
        cues: The words that chose them.
        reason: Why, in words.
    """

    layers: tuple[Layer, ...]
    cues: tuple[str, ...] = field(default=())
    reason: str


def route(intent: Intent, table: Sequence[Route] = DEFAULT_ROUTES) -> Routing:
    """Choose the layers of an intent."""
    layers: list[Layer] = []
    cues: list[str] = []
    reasons: list[str] = []
    for row in table:
        found = row.cues_in(intent)
        if found:
            layers.extend(row.layers)
            cues.extend(found)
            names = ", ".join(layer.name for layer in row.layers)
            reasons.append(f"{', '.join(map(repr, found))}: {names}")
    if not layers:
        return Routing(layers=NO_CUE, reason="no cue: RULE, CONTEXT")
    return Routing(
        layers=tuple(dict.fromkeys(layers)),
        cues=tuple(dict.fromkeys(cues)),
        reason="; ".join(reasons),
    )


def _holds(text: str, cue: str) -> bool:
    # Most intents hold few cues, and looking for a substring is fast.
    return cue in text and (not _SPACED.search(cue) or _whole(cue).search(text) is not None)


@lru_cache(maxsize=1024)
def _whole(cue: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![^\W_]){re.escape(cue)}(?![^\W_])")
