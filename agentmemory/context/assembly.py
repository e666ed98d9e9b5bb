"""A card's parts put together: the order of sections, the budget of the whole, the text.

May import extraction's shortening, results, text, protocols and records. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from agentmemory.extraction.shortening import beginning
from agentmemory.protocols import TokenCounter
from agentmemory.records import Record
from agentmemory.results import (
    CardExplanation,
    ContextCard,
    SearchResult,
    Summary,
    result_node,
)
from agentmemory.text.xml import Node, render

USUAL_ORDER: Final = (
    "profiles",
    "always_on",
    "summary",
    "topics",
    "relevant_information",
    "recent_messages",
)
"""The order of sections: what always holds, then that of the documents."""

STABLE_ORDER: Final = (
    "profiles",
    "always_on",
    "topics",
    "summary",
    "recent_messages",
    "transcript",
    "relevant_information",
)
"""The order of a stable card: the more rarely something changes, the earlier it stands."""


_Size = Callable[["CardParts"], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CardParts:
    """What a card is made of.

    Args:
        query: What was searched for.
        summary: The stored summary and the topics.
        transcript: What came after the summary.
        relevant: The records found, best first.
        recent: The last messages, oldest first.
        always_on: Records that are shown whatever is asked.
        profiles: Profiles of the user and the agent.
        notes: What went wrong or was left out.
    """

    query: str
    summary: Summary
    transcript: str = ""
    relevant: tuple[SearchResult, ...] = ()
    recent: tuple[Record, ...] = ()
    always_on: tuple[SearchResult, ...] = ()
    profiles: tuple[SearchResult, ...] = ()
    notes: tuple[str, ...] = field(default=())


def assemble(
    parts: CardParts, *, counter: TokenCounter, token_limit: int, stable: bool
) -> ContextCard:
    """Return the card, cut down to its limit.

    Over the limit go, until it is kept: the last relevant records, the oldest of the recent
    messages, the beginning of the transcript, the end of the summary, topics, profiles, and only
    then what is always on.

    Args:
        parts: What it is made of.
        counter: Measures it.
        token_limit: Most tokens of the whole card; not positive: no limit.
        stable: Whether what rarely changes stands first.
    """
    order = STABLE_ORDER if stable else USUAL_ORDER
    kept = parts
    sections = _sections(kept, order)
    content = _text(sections)
    tokens = counter.count(content)
    if 0 < token_limit < tokens:
        kept = _fitted(parts, order, counter, token_limit)
        sections = _sections(kept, order)
        content = _text(sections)
        tokens = counter.count(content)
    return ContextCard(
        content=content,
        summary="\n".join(filter(None, (kept.summary.content, kept.transcript))),
        topics=kept.summary.topics,
        relevant_results=kept.relevant,
        recent_messages=kept.recent,
        always_on=kept.always_on,
        profiles=kept.profiles,
        explain=CardExplanation(
            query=kept.query,
            sections={node.tag: counter.count(render(node)) for node in sections},
            token_count=tokens,
            notes=kept.notes,
        ),
    )


def _fitted(parts: CardParts, order: Sequence[str], counter: TokenCounter, limit: int) -> CardParts:
    """Cut one section after another, each no further than needed."""

    def size(candidate: CardParts) -> int:
        return counter.count(_text(_sections(candidate, order)))

    kept = parts
    for name, from_end in (
        ("relevant", True),
        ("recent", False),
        ("transcript", False),
        ("summary", True),
        ("topics", True),
        ("profiles", True),
        ("always_on", True),
    ):
        if size(kept) <= limit:
            break
        if name == "summary":
            kept = _with_shorter_summary(kept, size, counter, limit)
        else:
            kept = _with_fewer(kept, name, size, limit, from_end=from_end)
    note = f"cut down to the card's limit of {limit} tokens"
    return replace(kept, notes=(*kept.notes, note))


def _with_fewer(
    parts: CardParts, name: str, size: _Size, limit: int, *, from_end: bool
) -> CardParts:
    items: tuple[Any, ...]
    if name == "topics":
        items = parts.summary.topics
    elif name == "transcript":
        items = tuple(parts.transcript.splitlines())
    else:
        items = getattr(parts, name)

    def with_items(count: int) -> CardParts:
        some = items[:count] if from_end else items[len(items) - count :]
        if name == "topics":
            return replace(parts, summary=replace(parts.summary, topics=some))
        if name == "transcript":
            return replace(parts, transcript="\n".join(some))
        changed: dict[str, Any] = {name: some}
        return replace(parts, **changed)

    low, high = 0, len(items)
    while low < high:
        middle = (low + high + 1) // 2
        if size(with_items(middle)) <= limit:
            low = middle
        else:
            high = middle - 1
    return with_items(low)


def _with_shorter_summary(
    parts: CardParts, size: _Size, counter: TokenCounter, limit: int
) -> CardParts:
    empty = replace(parts, summary=replace(parts.summary, content=""))
    room = limit - size(empty)
    while room > 0:
        text = beginning(parts.summary.content, room, counter)
        shorter = replace(parts, summary=replace(parts.summary, content=text))
        over = size(shorter) - limit
        if over <= 0:
            return shorter
        room -= over
    return empty


def _text(sections: Sequence[Node]) -> str:
    return render(Node("context_card", sections)) if sections else ""


def _sections(parts: CardParts, order: Sequence[str]) -> list[Node]:
    summary = parts.summary
    nodes: dict[str, Node] = {}
    if parts.profiles:
        nodes["profiles"] = Node("profiles", [result_node(item) for item in parts.profiles])
    if parts.always_on:
        nodes["always_on"] = Node("always_on", [result_node(item) for item in parts.always_on])
    texts = [summary.content, parts.transcript]
    if "transcript" in order:
        # What changes with every message must not stand before what stays.
        if parts.transcript:
            nodes["transcript"] = Node("transcript", parts.transcript)
        texts = texts[:1]
    if any(texts):
        nodes["summary"] = Node("summary", "\n".join(filter(None, texts)))
    if summary.topics:
        nodes["topics"] = Node("topics", [Node("topic", topic) for topic in summary.topics])
    if parts.relevant:
        nodes["relevant_information"] = Node(
            "relevant_information", [result_node(item) for item in parts.relevant]
        )
    if parts.recent:
        nodes["recent_messages"] = Node(
            "recent_messages", [_message_node(item) for item in parts.recent]
        )
    return [nodes[name] for name in order if name in nodes]


def _message_node(message: Record) -> Node:
    parts = [
        ("timestamp", message.timestamp),
        ("role", message.role),
        ("name", message.actor),
        ("content", message.content),
    ]
    return Node("message", [Node(tag, text) for tag, text in parts if text is not None])
