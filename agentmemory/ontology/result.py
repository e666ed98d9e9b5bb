"""What layered retrieval hands back, and how it renders for a prompt.

May import records, text and the routing of this room. Layers stay apart, so that whoever trims
knows what may go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from agentmemory.ontology.routing import Routing
from agentmemory.records import Layer, ScopedRecord
from agentmemory.text.xml import Node, render

LAYERS: Final = (Layer.CRITICAL, Layer.RULE, Layer.CONTEXT, Layer.BACKGROUND)
"""The layers in the order in which they are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayeredMemory:
    """A memory as one layer of a result holds it.

    Args:
        record: What is stored.
        text: What is shown of it: its content, or its shorter wording.
        tokens: What the rendered text costs.
        score: What it was ranked by within its layer; 1.0 for CRITICAL.
        match: How well it matches the keywords, 0.0 to 1.0.
        keywords: The keywords it matches.
        reason: Why it is here, in words.
    """

    record: ScopedRecord
    text: str
    tokens: int
    score: float = 1.0
    match: float = 1.0
    keywords: tuple[str, ...] = ()
    reason: str = ""

    @property
    def id(self) -> str:
        """The memory's id."""
        return self.record.id

    @property
    def content(self) -> str:
        """The memory's full text."""
        return self.record.content

    @property
    def is_compressed(self) -> bool:
        """Whether the shorter wording is shown."""
        return self.text != self.record.content


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressionReport:
    """What a token budget did to a result.

    Args:
        budget: The tokens that all layers may cost together, the reserve aside.
        tokens_before: What they cost in full.
        tokens_after: What they cost as they are shown.
        triggered: Why texts were shortened or left out; empty if nothing was.
        compressed: Ids of the memories that show their shorter wording.
        trimmed: Ids of the memories that were left out, in the order in which they went.
        critical_overflow: How many tokens CRITICAL takes beyond its share; nothing of it is cut.
        over_budget: How many tokens the result costs beyond the budget all the same.
    """

    budget: int
    tokens_before: int
    tokens_after: int
    triggered: str = ""
    compressed: tuple[str, ...] = ()
    trimmed: tuple[str, ...] = ()
    critical_overflow: int = 0
    over_budget: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalResult:
    """What an intent needs, by layer.

    Args:
        keywords: What was looked for.
        critical: All CRITICAL memories of the scope, in the order of writing.
        rule: The best RULE memories, best first.
        context: The best CONTEXT memories, best first.
        background: The best BACKGROUND memories, best first.
        routing: Which layers were chosen, and why.
        compression: What the token budget did; None without one.
        notes: What else there is to know, such as a stage that was left out.
    """

    keywords: tuple[str, ...]
    critical: tuple[LayeredMemory, ...] = ()
    rule: tuple[LayeredMemory, ...] = ()
    context: tuple[LayeredMemory, ...] = ()
    background: tuple[LayeredMemory, ...] = ()
    routing: Routing
    compression: CompressionReport | None = None
    notes: tuple[str, ...] = field(default=())

    def layer(self, layer: Layer) -> tuple[LayeredMemory, ...]:
        """Return the memories of one layer."""
        found: tuple[LayeredMemory, ...] = getattr(self, layer.value)
        return found

    @property
    def memories(self) -> tuple[LayeredMemory, ...]:
        """The memories of all layers, CRITICAL first."""
        return tuple(item for layer in LAYERS for item in self.layer(layer))

    @property
    def counts(self) -> Mapping[str, int]:
        """How many memories each layer holds."""
        return MappingProxyType({layer.value: len(self.layer(layer)) for layer in LAYERS})

    @property
    def tokens(self) -> Mapping[str, int]:
        """What each layer costs in tokens."""
        return MappingProxyType(
            {layer.value: sum(item.tokens for item in self.layer(layer)) for layer in LAYERS}
        )

    @property
    def token_count(self) -> int:
        """What all layers cost in tokens."""
        return sum(self.tokens.values())

    @property
    def reasons(self) -> Mapping[str, str]:
        """Why each memory is here, by its id."""
        return MappingProxyType({item.id: item.reason for item in self.memories})

    def to_xml(self) -> str:
        """Render for a prompt, safe whatever the memories hold; empty without memories."""
        sections = [
            layer_node(layer, [item.text for item in self.layer(layer)])
            for layer in LAYERS
            if self.layer(layer)
        ]
        return render(Node("layered_memory", sections)) if sections else ""

    def to_text(self) -> str:
        """Render as plain text: a heading for each layer, a line for each memory."""
        parts = []
        for layer in LAYERS:
            lines = [f"- {' '.join(item.text.split())}" for item in self.layer(layer)]
            if lines:
                parts.append("\n".join((layer.name, *lines)))
        return "\n\n".join(parts)


def layer_node(layer: Layer, texts: Sequence[str]) -> Node:
    """Return the element of one layer."""
    return Node(layer.value, [Node("memory", text) for text in texts])
