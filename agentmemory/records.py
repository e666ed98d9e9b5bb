"""What is stored: records, threads and links, as plain frozen values.

May import scope, errors and checks. Times are aware and in UTC.
"""

from __future__ import annotations

import enum
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal, get_args

RecordType = Literal[
    "message",
    "memory",
    "fact",
    "guideline",
    "preference",
    "image",
    "user_profile",
    "agent_profile",
]
"""Every kind of record."""

MemoryType = Literal["memory", "fact", "guideline", "preference"]
"""The kinds of durable, memory-like records."""

RECORD_TYPES: Final[tuple[RecordType, ...]] = get_args(RecordType)
MEMORY_TYPES: Final[tuple[MemoryType, ...]] = get_args(MemoryType)


class RecordStatus(enum.StrEnum):
    """Whether a record still stands."""

    VALID = "valid"
    INVALID = "invalid"


class Tier(enum.StrEnum):
    """Where a record is in its life."""

    HOT = "hot"
    WARM = "warm"
    COLD = "cold"
    ARCHIVED = "archived"
    DEPRECATED = "deprecated"


class Layer(enum.StrEnum):
    """How a memory takes part in layered retrieval; CRITICAL is always in the prompt."""

    CRITICAL = "critical"
    RULE = "rule"
    CONTEXT = "context"
    BACKGROUND = "background"


class Stability(enum.StrEnum):
    """Whether time wears a record down; `stable` ones are exempt from decay."""

    STABLE = "stable"
    VOLATILE = "volatile"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One stored item.

    Args:
        id: Unique in its store.
        record_type: What it is.
        content: Its text.
        metadata: The caller's JSON-like values.
        status: `valid`, or `invalid` once something replaced it.
        role: For messages: who spoke, as chat models name it.
        actor: The speaker's name.
        compressed: A shorter wording of `content`, if there is one.
        tier: Where it is in its life.
        layer: For layered retrieval, if it takes part.
        tags: Words it is found by in layered retrieval.
        confidence: 0.0 to 1.0; 1.0 at write.
        hit_count: How often layered retrieval returned it and was asked to count.
        last_hit_at: When it did so last.
        stability: Whether decay applies; None means by its type.
        trust: Where its text came from ("user", "assistant", "tool", "document", …).
        event_time: When what it says happened.
        valid_from: Start of the interval in which it is true, inclusive.
        valid_to: End of that interval, exclusive.
        created_at: When it was stored.
        updated_at: When it was last changed.
        expires_at: When it disappears.
        revision: Counts its changes, from 1.
        sources: Ids of the messages it came from.
        seq: Its place in the order of writing; 0 before it is stored.
        invalidation_reason: Why it is invalid, if it is.
        invalidated_at: Since when it is invalid, if it is.
        replaced_by: Id of the record that replaced it, a valid one if there is, else None.
        review_reason: Why it may not hold any more though it is valid: what it depends on died.
    """

    id: str
    record_type: RecordType
    content: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    status: RecordStatus = RecordStatus.VALID
    role: str | None = None
    actor: str | None = None
    compressed: str | None = None
    tier: Tier = Tier.HOT
    layer: Layer | None = None
    tags: tuple[str, ...] = ()
    confidence: float = 1.0
    hit_count: int = 0
    last_hit_at: datetime | None = None
    stability: Stability | None = None
    trust: str | None = None
    event_time: datetime | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None = None
    revision: int = 1
    sources: tuple[str, ...] = ()
    seq: int = 0
    invalidation_reason: str | None = None
    invalidated_at: datetime | None = None
    replaced_by: str | None = None
    review_reason: str | None = None

    @property
    def timestamp(self) -> str | None:
        """The event time, else the time of writing, as ISO-8601 text in UTC."""
        return iso_time(self.event_time or self.created_at)

    @property
    def effective_time(self) -> datetime:
        """The event time, else the time of writing."""
        return self.event_time or self.created_at


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopedRecord(Record):
    """A record that belongs to a user, an agent or a thread, any of which may be None."""

    user_id: str | None = None
    agent_id: str | None = None
    thread_id: str | None = None


ImageMimeType = Literal["image/png", "image/jpeg", "image/webp"]
"""Every kind of image that can be stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageContent:
    """What is stored of an image besides its description.

    Args:
        mime_type: "image/png", "image/jpeg" or "image/webp".
        width: In pixels.
        height: In pixels.
        size_bytes: Size of the file.
        data: The file; None unless it was asked for.
    """

    mime_type: ImageMimeType
    width: int
    height: int
    size_bytes: int
    data: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRecord(ScopedRecord):
    """A stored image; its `content` is the description it is found by."""

    image: ImageContent


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadRecord:
    """A stored thread.

    Args:
        id: Unique in its store.
        user_id: The user it belongs to, or None.
        agent_id: The agent it belongs to, or None.
        metadata: The caller's JSON-like values.
        config: Settings that reopen with the thread.
        created_at: When it was made.
        updated_at: When it or its settings last changed.
        revision: Counts its changes, from 1.
    """

    id: str
    user_id: str | None
    agent_id: str | None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    created_at: datetime
    updated_at: datetime
    revision: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRelation:
    """A typed, directed link between two memory-like records.

    Args:
        id: Unique in its store.
        source_record_id: Where the link starts.
        source_record_type: The type of that record.
        target_record_id: Where it ends.
        target_record_type: The type of that record.
        relation_type: The label seen from the source.
        opposite_relation_type: The label seen from the target.
        timestamp: When what the link says happened, if told.
        metadata: The caller's JSON-like values.
        created_at: When it was stored.
    """

    id: str
    source_record_id: str
    source_record_type: MemoryType
    target_record_id: str
    target_record_type: MemoryType
    relation_type: str
    opposite_relation_type: str
    timestamp: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    created_at: datetime

    def label_from(self, record_id: str) -> str:
        """Return the label of the link as seen from one of its ends."""
        if record_id == self.source_record_id:
            return self.relation_type
        return self.opposite_relation_type


LINK_TYPES: Final[Mapping[str, str]] = {
    "supersedes": "is_superseded_by",
    "refines": "is_refined_by",
    "duplicates": "duplicates",
    "supports": "is_supported_by",
    "contradicts": "contradicts",
    "depends_on": "is_dependency_of",
}
"""The built-in link types and their labels seen from the target."""

LIFECYCLE_LINK_TYPES: Final = frozenset({"supersedes", "refines", "duplicates"})
"""Link types that make their target invalid for as long as the link stands."""


def iso_time(value: datetime | None) -> str | None:
    """Return a time as ISO-8601 text in UTC with a `Z`, or None."""
    if value is None:
        return None
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


_uuid_lock = threading.Lock()
_last_uuid_time = 0


def new_id() -> str:
    """Return a UUIDv7 (RFC 9562): unique, and growing in the order of creation in a process.

    The 48-bit millisecond clock is followed by 12 bits of its fraction, so that ids made in
    one process sort in the order they were made.
    """
    global _last_uuid_time  # noqa: PLW0603 - the monotonic counter is per process by design
    with _uuid_lock:
        ticks = time.time_ns() * 4096 // 1_000_000
        ticks = max(ticks, _last_uuid_time + 1)
        _last_uuid_time = ticks
    random_bits = int.from_bytes(os.urandom(8)) & 0x3FFF_FFFF_FFFF_FFFF
    value = (ticks >> 12) << 80 | 0x7 << 76 | (ticks & 0xFFF) << 64 | 0b10 << 62 | random_bits
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
