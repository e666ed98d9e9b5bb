"""Rows of the SQLite tables to records and back; may import records, requests, scope.

Times are stored as whole microseconds since 1970 in UTC, so that they compare as numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import orjson

from agentmemory.records import (
    LIFECYCLE_LINK_TYPES,
    Layer,
    RecordStatus,
    ScopedRecord,
    Stability,
    ThreadRecord,
    Tier,
)
from agentmemory.stores.drafts import draft_of
from agentmemory.stores.sqlite.schema import Tables

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def to_micros(value: datetime | None) -> int | None:
    """Return whole microseconds since 1970; exact for every datetime."""
    return None if value is None else (value - _EPOCH) // _MICROSECOND


def from_micros(value: int | None) -> datetime | None:
    """Return the aware UTC time of whole microseconds since 1970."""
    return None if value is None else _EPOCH + timedelta(microseconds=value)


def _time(value: int) -> datetime:
    return _EPOCH + timedelta(0, 0, value)


def dump_json(value: Mapping[str, Any] | Sequence[Any]) -> str:
    """Return compact JSON text."""
    return orjson.dumps(value).decode()


_DRAFT: Final = draft_of(ScopedRecord)

LIFECYCLE_SQL: Final = f"({', '.join(repr(name) for name in sorted(LIFECYCLE_LINK_TYPES))})"
"""The lifecycle link types as a list in SQL."""

RECORD_COLUMNS: Final = (
    "seq",
    "id",
    "record_type",
    "user_id",
    "agent_id",
    "thread_id",
    "role",
    "actor",
    "content",
    "compressed",
    "metadata",
    "status",
    "invalidation_reason",
    "invalidated_at",
    "review_reason",
    "tier",
    "layer",
    "tags",
    "confidence",
    "hit_count",
    "last_hit_at",
    "stability",
    "trust",
    "event_time",
    "valid_from",
    "valid_to",
    "created_at",
    "updated_at",
    "expires_at",
    "revision",
)


@lru_cache(maxsize=64)
def record_select(t: Tables, alias: str = "r") -> str:
    """Return the select list that `record_from_row` reads."""
    columns = ", ".join(f"{alias}.{name}" for name in RECORD_COLUMNS)
    sources = (
        f"CASE {alias}.record_type WHEN 'message' THEN '[]' ELSE "
        f"(SELECT json_group_array(s.message_id ORDER BY s.position) "
        f"FROM {t.source} s WHERE s.record_seq = {alias}.seq) END"
    )
    replaced_by = (
        # Along the chain of replacements to a valid one; without one, the latest step of it.
        f"CASE {alias}.status WHEN 'invalid' THEN ("
        f"WITH RECURSIVE up (seq, step, link_seq) AS ("
        f"SELECT l.source_seq, 1, l.seq FROM {t.link} l WHERE l.target_seq = {alias}.seq "
        f"AND l.relation_type IN {LIFECYCLE_SQL} "
        f"UNION SELECT l.source_seq, 2, l.seq FROM up JOIN {t.link} l ON l.target_seq = up.seq "
        f"AND l.relation_type IN {LIFECYCLE_SQL}) "
        f"SELECT w.id FROM up JOIN {t.record} w ON w.seq = up.seq WHERE w.seq <> {alias}.seq "
        f"ORDER BY w.status DESC, up.step, up.link_seq DESC LIMIT 1) END"
    )
    return f"{columns}, {sources}, {replaced_by}"


def record_from_row(row: Sequence[Any]) -> ScopedRecord:
    """Build a record from a row of `record_select`."""
    draft = object.__new__(_DRAFT)
    (
        draft.seq,
        draft.id,
        draft.record_type,
        draft.user_id,
        draft.agent_id,
        draft.thread_id,
        draft.role,
        draft.actor,
        draft.content,
        draft.compressed,
        metadata,
        status,
        draft.invalidation_reason,
        invalidated_at,
        draft.review_reason,
        tier,
        layer,
        tags,
        draft.confidence,
        draft.hit_count,
        last_hit_at,
        stability,
        draft.trust,
        event_time,
        valid_from,
        valid_to,
        created_at,
        updated_at,
        expires_at,
        draft.revision,
        sources,
        draft.replaced_by,
    ) = row
    draft.metadata = {} if metadata == "{}" else orjson.loads(metadata)
    # Looking in a table would hash the text first, which takes longer than to compare it.
    draft.status = RecordStatus.VALID if status == "valid" else RecordStatus(status)
    draft.invalidated_at = None if invalidated_at is None else _time(invalidated_at)
    draft.tier = Tier.HOT if tier == "hot" else Tier(tier)
    draft.layer = None if layer is None else Layer(layer)
    draft.tags = () if tags == "[]" else tuple(orjson.loads(tags))
    draft.last_hit_at = None if last_hit_at is None else _time(last_hit_at)
    draft.stability = None if stability is None else Stability(stability)
    draft.event_time = None if event_time is None else _time(event_time)
    draft.valid_from = None if valid_from is None else _time(valid_from)
    draft.valid_to = None if valid_to is None else _time(valid_to)
    draft.created_at = created = _time(created_at)
    draft.updated_at = created if updated_at == created_at else _time(updated_at)
    draft.expires_at = None if expires_at is None else _time(expires_at)
    draft.sources = () if sources == "[]" else tuple(orjson.loads(sources))
    draft.__class__ = ScopedRecord
    record: ScopedRecord = draft
    return record


INSERT_COLUMNS: Final = RECORD_COLUMNS[1:]


def record_values(record: ScopedRecord) -> tuple[Any, ...]:
    """Return the values of `INSERT_COLUMNS` for a record."""
    return (
        record.id,
        record.record_type,
        record.user_id,
        record.agent_id,
        record.thread_id,
        record.role,
        record.actor,
        record.content,
        record.compressed,
        dump_json(record.metadata),
        record.status.value,
        record.invalidation_reason,
        to_micros(record.invalidated_at),
        record.review_reason,
        record.tier.value,
        record.layer,
        dump_json(record.tags),
        record.confidence,
        record.hit_count,
        to_micros(record.last_hit_at),
        record.stability,
        record.trust,
        to_micros(record.event_time),
        to_micros(record.valid_from),
        to_micros(record.valid_to),
        to_micros(record.created_at),
        to_micros(record.updated_at),
        to_micros(record.expires_at),
        record.revision,
    )


THREAD_SELECT: Final = "id, user_id, agent_id, metadata, config, created_at, updated_at, revision"


def thread_from_row(row: Sequence[Any]) -> ThreadRecord:
    """Build a thread from a row of `THREAD_SELECT`."""
    thread_id, user_id, agent_id, metadata, config, created_at, updated_at, revision = row
    return ThreadRecord(
        id=thread_id,
        user_id=user_id,
        agent_id=agent_id,
        metadata=orjson.loads(metadata),
        config=orjson.loads(config),
        created_at=_time(created_at),
        updated_at=_time(updated_at),
        revision=revision,
    )
