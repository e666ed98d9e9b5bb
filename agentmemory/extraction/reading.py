"""From a model's answer to memories and links: what it may claim, and what is left out.

The schema has been checked; here the answer is held against the messages it is about. May import
the pure modules of this room, ontology's lifecycle, text, extraction_config, protocols and records.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from agentmemory.extraction.duplicates import is_near_duplicate, support
from agentmemory.extraction.evidence import lowest_trust, may_instruct, trust_of
from agentmemory.extraction.prompts import MAX_MEMORIES
from agentmemory.extraction.times import resolve_time
from agentmemory.ontology.lifecycle import layer_of
from agentmemory.records import (
    LIFECYCLE_LINK_TYPES,
    LINK_TYPES,
    MemoryType,
    RecordRelation,
    ScopedRecord,
    Stability,
    new_id,
)
from agentmemory.text.redaction import redact_secrets

DEFAULT_CONFIDENCE: Final = 0.8
_MOST_WORDS: Final = 20

Rejection = tuple[str, Any]
"""Why an item was left out, and the item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A memory that is about to be written.

    Args:
        number: How the answer calls it.
        memory_type: Its type.
        content: Its text.
        sources: The messages it comes from.
        trust: That of its least trusted source.
        confidence: 0.0 to 1.0.
        event_time: When it happened.
        valid_to: When it stops being true.
        stability: Whether time wears it down.
        tags: Words and names it is found by.
        details: What else is known: "importance", "entities".
    """

    number: int
    memory_type: MemoryType
    content: str
    sources: tuple[ScopedRecord, ...]
    trust: str
    confidence: float
    event_time: datetime | None = None
    valid_to: datetime | None = None
    stability: Stability | None = None
    tags: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkDraft:
    """A link that is about to be written: from a draft to a stored memory, by number."""

    memory: int
    stored: int
    relation: str


@dataclass(slots=True, kw_only=True)
class Reading:
    """What an answer holds.

    Args:
        drafts: The memories.
        links: The links.
        rejected: What was left out, with the reason.
    """

    drafts: list[Draft] = field(default_factory=list)
    links: list[LinkDraft] = field(default_factory=list)
    rejected: list[Rejection] = field(default_factory=list)


def read_answer(
    value: Mapping[str, Any],
    messages: Sequence[ScopedRecord],
    *,
    stored_count: int,
    redact: bool = True,
) -> Reading:
    """Hold an answer against the messages it is about.

    Args:
        value: The answer, of the schema.
        messages: What the numbers of messages mean, from 1.
        stored_count: How many stored memories the model was shown.
        redact: Whether secrets are blacked out.
    """
    reading = Reading()
    for item in value.get("memories", ())[:MAX_MEMORIES]:
        _read_memory(item, messages, reading, redact=redact)
    reading.rejected.extend(
        (f"more than {MAX_MEMORIES} memories", item)
        for item in value.get("memories", ())[MAX_MEMORIES:]
    )
    read_links(value.get("links", ()), reading, stored_count=stored_count)
    return reading


def _read_memory(
    item: Mapping[str, Any], messages: Sequence[ScopedRecord], reading: Reading, *, redact: bool
) -> None:
    text = " ".join(item["text"].split())
    if redact:
        text = redact_secrets(text)
    if not text or "\x00" in text:
        reading.rejected.append(("no text", item))
        return
    numbers = [number for number in item["messages"] if 1 <= number <= len(messages)]
    if not numbers:
        reading.rejected.append(("comes from no message of the batch", item))
        return
    if any(draft.number == item["number"] for draft in reading.drafts):
        reading.rejected.append(("its number stands twice", item))
        return
    if any(is_near_duplicate(text, draft.content) for draft in reading.drafts):
        reading.rejected.append(("says what another one says", item))
        return
    sources = tuple(messages[number - 1] for number in sorted(set(numbers)))
    sources = _with_hidden_source(text, sources, messages)
    trust = lowest_trust(map(trust_of, sources))
    kind: MemoryType = item["type"]
    if kind == "guideline" and not may_instruct(trust):
        # What a tool or a document asks for is known, but nobody has to follow it.
        kind = "memory"
        reading.rejected.append((f"text of a {trust} is no guideline; kept as a memory", item))
    said_at = sources[-1].effective_time
    event_time = resolve_time(item.get("event_time"), said_at) or sources[-1].event_time
    valid_to = resolve_time(item.get("valid_to"), said_at)
    if valid_to is not None and event_time is not None and valid_to <= event_time:
        valid_to = None
    stability = item.get("stability")
    entities = _words(item.get("entities"))
    details: dict[str, Any] = {}
    if "importance" in item:
        details["importance"] = item["importance"]
    if entities:
        details["entities"] = list(entities)
    reading.drafts.append(
        Draft(
            number=item["number"],
            memory_type=kind,
            content=text,
            sources=sources,
            trust=trust,
            confidence=float(item.get("confidence", DEFAULT_CONFIDENCE)),
            event_time=event_time,
            valid_to=valid_to,
            stability=None if stability is None else Stability(stability),
            tags=tuple(dict.fromkeys((*_words(item.get("tags")), *entities))),
            details=details,
        )
    )


def _words(value: Any) -> tuple[str, ...]:
    words = (" ".join(word.replace("\x00", "").split())[:200] for word in value or ())
    return tuple(dict.fromkeys(word for word in words if word))[:_MOST_WORDS]


def _with_hidden_source(
    text: str, claimed: tuple[ScopedRecord, ...], messages: Sequence[ScopedRecord]
) -> tuple[ScopedRecord, ...]:
    """Add the tool or document that says it, if what the model claims says less of it.

    A text that talks a model into naming the user as the source of its own words gains nothing.
    """
    backing = max(support(text, record.content) for record in claimed)
    for message in messages:
        if message in claimed or may_instruct(trust_of(message)):
            continue
        if support(text, message.content) > backing:
            return tuple(sorted((*claimed, message), key=lambda record: record.seq))
    return claimed


def read_links(items: Sequence[Mapping[str, Any]], reading: Reading, *, stored_count: int) -> None:
    """Add the links whose both ends exist, each once."""
    known = {draft.number for draft in reading.drafts}
    for item in items:
        link = LinkDraft(memory=item["memory"], stored=item["stored"], relation=item["relation"])
        if link.memory not in known or not 1 <= link.stored <= stored_count:
            reading.rejected.append(("an end of the link is unknown", item))
        elif link not in reading.links:
            reading.links.append(link)


def relation_of(
    link: LinkDraft, source: ScopedRecord, target: ScopedRecord, now: datetime
) -> RecordRelation | None:
    """Return the link to store, or None where it would link a memory with itself.

    What is less trusted can speak against what is more trusted, but not take its place.
    """
    if source.id == target.id:
        return None
    relation = link.relation
    if relation in LIFECYCLE_LINK_TYPES and _less_trusted(source, target):
        relation = "contradicts" if relation == "supersedes" else "supports"
    return RecordRelation(
        id=new_id(),
        source_record_id=source.id,
        source_record_type=source.record_type,  # type: ignore[arg-type] # memory-like
        target_record_id=target.id,
        target_record_type=target.record_type,  # type: ignore[arg-type] # memory-like
        relation_type=relation,
        opposite_relation_type=LINK_TYPES[relation],
        created_at=now,
    )


def _less_trusted(source: ScopedRecord, target: ScopedRecord) -> bool:
    own = source.trust or "user"
    other = target.trust or "user"
    return own != other and lowest_trust([own, other]) == own and not may_instruct(own)


def inherited_metadata(
    sources: Sequence[ScopedRecord], *, rule: bool | Sequence[str]
) -> dict[str, Any]:
    """Return the metadata that all source messages agree on, as far as the rule lets it through."""
    if rule is False or not sources:
        return {}
    first = sources[0].metadata
    keys = list(first) if rule is True else [key for key in rule if key in first]
    return {
        key: first[key]
        for key in keys
        if all(key in other.metadata and other.metadata[key] == first[key] for other in sources)
    }


def to_record(
    draft: Draft,
    *,
    owner: tuple[str | None, str | None, str],
    inherit: bool | Sequence[str],
    now: datetime,
) -> ScopedRecord:
    """Return the record to store.

    Args:
        draft: The memory.
        owner: User, agent and thread.
        inherit: As `memory_extraction_inherit_message_metadata`.
        now: The time of writing.
    """
    user_id, agent_id, thread_id = owner
    expiries = [record.expires_at for record in draft.sources if record.expires_at is not None]
    metadata = inherited_metadata(draft.sources, rule=inherit)
    if draft.details:
        metadata = {**metadata, "extraction": dict(draft.details)}
    return ScopedRecord(
        id=new_id(),
        record_type=draft.memory_type,
        content=draft.content,
        metadata=metadata,
        layer=layer_of(draft.memory_type),
        tags=draft.tags,
        confidence=draft.confidence,
        stability=draft.stability,
        trust=draft.trust,
        event_time=draft.event_time,
        valid_to=draft.valid_to,
        created_at=now,
        updated_at=now,
        expires_at=min(expiries) if expiries else None,
        sources=tuple(record.id for record in draft.sources),
        user_id=user_id,
        agent_id=agent_id,
        thread_id=thread_id,
    )


def renumbered(reading: Reading, start: int) -> Reading:
    """Return a reading whose memories are numbered from `start`, so that readings can be joined."""
    numbers = {draft.number: start + place for place, draft in enumerate(reading.drafts)}
    return Reading(
        drafts=[replace(draft, number=numbers[draft.number]) for draft in reading.drafts],
        links=[replace(link, memory=numbers[link.memory]) for link in reading.links],
        rejected=reading.rejected,
    )
