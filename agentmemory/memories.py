"""Verbs on durable memories that the client and its threads share.

Each takes a resolved scope, so that a thread can only reach what is its own. May import parts,
retrieval, stores and below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from agentmemory.checks import (
    check_bool,
    check_choice,
    check_id,
    check_int,
    check_list,
    check_optional_time,
    check_text,
)
from agentmemory.config import TimeToLiveAnchor
from agentmemory.errors import NotFoundError, ValidationError
from agentmemory.links import LinkToAdd
from agentmemory.parts import Parts, checked_metadata
from agentmemory.records import (
    MEMORY_TYPES,
    ImageContent,
    Layer,
    MemoryType,
    RecordType,
    ScopedRecord,
    Stability,
    Tier,
    new_id,
)
from agentmemory.requests import (
    MAX_LIST_LIMIT,
    Deletion,
    JobDraft,
    ListQuery,
    Page,
    RecordChanges,
    RecordFilter,
)
from agentmemory.retrieval.request import check_record_types, check_tiers
from agentmemory.scope import NOT_SET_MARKER, DimensionMatch, NotSet, OptionalId, ScopeFilter
from agentmemory.stores.filters import parse_filter


def exact_scope(
    user_id: OptionalId = NOT_SET_MARKER,
    agent_id: OptionalId = NOT_SET_MARKER,
    thread_id: OptionalId = NOT_SET_MARKER,
) -> ScopeFilter:
    """Return a scope that is exact where an id or a None was given and open elsewhere."""

    def match(value: OptionalId) -> DimensionMatch:
        if value is NOT_SET_MARKER:
            return DimensionMatch()
        return DimensionMatch(exact=True, value=None if value is None else str(value))

    return ScopeFilter(user=match(user_id), agent=match(agent_id), thread=match(thread_id))


async def add_memory(
    parts: Parts,
    content: str,
    *,
    memory_type: MemoryType,
    memory_id: str | None,
    user_id: str | None,
    agent_id: str | None,
    thread_id: str | None,
    metadata: Mapping[str, Any] | None,
    timestamp: Any,
    stability: Any,
    valid_from: Any,
    valid_to: Any,
    ttl_days: Any,
    ttl_anchor: Any,
    layer: Any,
    tags: Any,
    compressed: Any,
    link: LinkToAdd | None,
) -> str:
    """Store one memory, and the link from it if there is one, and return its id."""
    check_text(content, argument="content")
    check_choice(memory_type, argument="memory_type", choices=MEMORY_TYPES)
    now = parts.clock.now()
    event_time = check_optional_time(timestamp, argument="timestamp")
    start, end = check_validity(valid_from, valid_to)
    record = ScopedRecord(
        id=new_id() if memory_id is None else check_id(memory_id, argument="memory_id"),
        record_type=memory_type,
        content=parts.redacted(content),
        metadata=checked_metadata(metadata),
        layer=check_layer(layer),
        tags=parts.vocabulary.check_tags(tags),
        compressed=_checked_wording(parts, compressed),
        stability=check_stability(stability),
        event_time=event_time,
        valid_from=start,
        valid_to=end,
        created_at=now,
        updated_at=now,
        expires_at=parts.retention.expiry(ttl_days, ttl_anchor, now=now, event_time=event_time),
        user_id=user_id,
        agent_id=agent_id,
        thread_id=thread_id,
    )
    links = () if link is None else (link.relation(record, now),)
    link_filter = None
    if link is not None:
        scope = exact_scope(user_id, agent_id if link.within_agent else NOT_SET_MARKER)
        link_filter = RecordFilter(scope=scope, now=now)
    await parts.ready()
    stored = await parts.recorder.add_memories((record,), links=links, link_filter=link_filter)
    return stored[0].id


def check_validity(valid_from: Any, valid_to: Any) -> tuple[datetime | None, datetime | None]:
    """Accept an interval of times, either end open.

    Raises:
        ValidationError: An end is no aware time, or the end is not after the start.
    """
    start = check_optional_time(valid_from, argument="valid_from")
    end = check_optional_time(valid_to, argument="valid_to")
    if start is not None and end is not None and end <= start:
        msg = f"`valid_to` {valid_to!r} is not after `valid_from` {valid_from!r}"
        raise ValidationError(msg, argument="valid_to")
    return start, end


def check_stability(value: Any) -> Stability | None:
    """Accept None, a `Stability` or its text."""
    if value is None:
        return None
    choices = tuple(item.value for item in Stability)
    return Stability(check_choice(value, argument="stability", choices=choices))


def check_layer(value: Any) -> Layer | None:
    """Accept None, a `Layer` or its text."""
    if value is None:
        return None
    choices = tuple(item.value for item in Layer)
    return Layer(check_choice(value, argument="layer", choices=choices))


def _checked_wording(parts: Parts, compressed: Any) -> str | None:
    if compressed is None:
        return None
    return parts.redacted(check_text(compressed, argument="compressed"))


async def get_record(
    parts: Parts,
    record_id: str,
    *,
    argument: str,
    scope: ScopeFilter,
    record_types: tuple[RecordType, ...],
) -> ScopedRecord:
    """Return one record of a scope.

    Raises:
        NotFoundError: No such record of these types in that scope.
    """
    record_filter = by_id(parts, record_id, argument=argument, scope=scope, types=record_types)
    await parts.ready()
    found = await parts.store.get_records(record_filter)
    if not found:
        raise NotFoundError(_missing(record_id, record_types))
    return found[0]


async def get_records(
    parts: Parts,
    record_ids: Sequence[str],
    *,
    argument: str,
    scope: ScopeFilter,
    record_types: tuple[RecordType, ...],
) -> tuple[ScopedRecord, ...]:
    """Return the records of a scope among some ids, in the order of these."""
    listed = check_list(record_ids, argument=argument, of="ids")
    if not 1 <= len(listed) <= MAX_LIST_LIMIT:
        msg = f"`{argument}` holds {len(listed)} ids; accepted: 1 to {MAX_LIST_LIMIT}"
        raise ValidationError(msg, argument=argument)
    record_filter = RecordFilter(
        scope=scope,
        now=parts.clock.now(),
        record_types=record_types,
        tiers=tuple(Tier),
        ids=tuple(dict.fromkeys(check_id(item, argument=argument) for item in listed)),
    )
    await parts.ready()
    return await parts.store.get_records(record_filter)


async def update_record(
    parts: Parts,
    record_id: str,
    *,
    argument: str,
    scope: ScopeFilter,
    record_types: tuple[RecordType, ...],
    content: str | NotSet,
    metadata: Mapping[str, Any] | None | NotSet,
    timestamp: Any,
    valid_from: Any = NOT_SET_MARKER,
    valid_to: Any = NOT_SET_MARKER,
    ttl_days: Any = NOT_SET_MARKER,
    ttl_anchor: Any = TimeToLiveAnchor.CREATED_AT,
    content_argument: str = "content",
    image: ImageContent | None = None,
    jobs: Sequence[JobDraft] = (),
    layer: Any = NOT_SET_MARKER,
    tags: Any = NOT_SET_MARKER,
    compressed: Any = NOT_SET_MARKER,
) -> ScopedRecord:
    """Change what is given of one record of a scope.

    A new content ends a mark for review and drops a shorter wording that is not renewed with it.
    """
    if content is not NOT_SET_MARKER:
        check_text(content, argument=content_argument)
    given = (content, metadata, timestamp, valid_from, valid_to, ttl_days, layer, tags, compressed)
    if image is None and all(value is NOT_SET_MARKER for value in given):
        msg = f"nothing to change: give `{content_argument}` or another value"
        raise ValidationError(msg, argument=content_argument)
    start, end = check_validity(
        None if valid_from is NOT_SET_MARKER else valid_from,
        None if valid_to is NOT_SET_MARKER else valid_to,
    )
    record_filter = by_id(parts, record_id, argument=argument, scope=scope, types=record_types)
    expires_at: datetime | None | NotSet = NOT_SET_MARKER
    if ttl_days is not NOT_SET_MARKER:
        event_time = check_optional_time(
            None if timestamp is NOT_SET_MARKER else timestamp, argument="timestamp"
        )
        if timestamp is NOT_SET_MARKER and ttl_anchor == TimeToLiveAnchor.TIMESTAMP:
            await parts.ready()
            stored = await parts.store.get_records(record_filter)
            event_time = stored[0].event_time if stored else None
        expires_at = parts.retention.expiry(
            ttl_days, ttl_anchor, now=parts.clock.now(), event_time=event_time
        )
    wording: str | None | NotSet = NOT_SET_MARKER
    if compressed is not NOT_SET_MARKER:
        wording = _checked_wording(parts, compressed)
    elif content is not NOT_SET_MARKER:
        wording = None
    changes = RecordChanges(
        content=content if content is NOT_SET_MARKER else parts.redacted(str(content)),
        metadata=NOT_SET_MARKER if metadata is NOT_SET_MARKER else checked_metadata(metadata),
        event_time=(
            NOT_SET_MARKER
            if timestamp is NOT_SET_MARKER
            else check_optional_time(timestamp, argument="timestamp")
        ),
        valid_from=NOT_SET_MARKER if valid_from is NOT_SET_MARKER else start,
        valid_to=NOT_SET_MARKER if valid_to is NOT_SET_MARKER else end,
        expires_at=expires_at,
        layer=NOT_SET_MARKER if layer is NOT_SET_MARKER else check_layer(layer),
        tags=NOT_SET_MARKER if tags is NOT_SET_MARKER else parts.vocabulary.check_tags(tags),
        compressed=wording,
        review_reason=NOT_SET_MARKER if content is NOT_SET_MARKER else None,
    )
    await parts.ready()
    return await parts.recorder.update(record_filter, changes, jobs=jobs, image=image)


async def delete_record(
    parts: Parts,
    record_id: str,
    *,
    argument: str,
    scope: ScopeFilter,
    record_types: tuple[RecordType, ...],
) -> Deletion:
    """Delete one record of a scope.

    Raises:
        NotFoundError: No such record of these types in that scope.
    """
    record_filter = by_id(parts, record_id, argument=argument, scope=scope, types=record_types)
    await parts.ready()
    deletion = await parts.recorder.delete(record_filter)
    if not deletion.records:
        raise NotFoundError(_missing(record_id, record_types))
    return deletion


async def list_records(
    parts: Parts,
    *,
    scope: ScopeFilter,
    record_types: Any,
    default_types: tuple[RecordType, ...],
    metadata_filter: Mapping[str, Any] | None,
    include_invalid_results: bool,
    limit: int,
    cursor: str | None,
    order: Literal["created", "event"],
    descending: bool,
    tiers: Any = None,
    times: Mapping[str, Any] | None = None,
) -> Page[ScopedRecord]:
    """Return one page of the records of a scope."""
    types = check_record_types(record_types)
    unknown = [name for name in types or () if name not in default_types]
    if unknown:
        msg = f"`record_types` holds {unknown[0]!r}; accepted: {', '.join(default_types)}"
        raise ValidationError(msg, argument="record_types")
    parse_filter(metadata_filter)
    check_bool(include_invalid_results, argument="include_invalid_results")
    check_bool(descending, argument="descending")
    check_int(limit, argument="limit", minimum=1, maximum=MAX_LIST_LIMIT)
    check_choice(order, argument="order", choices=("created", "event"))
    bounds = {
        name: check_optional_time(value, argument=name) for name, value in (times or {}).items()
    }
    query = ListQuery(
        filter=RecordFilter(
            scope=scope,
            now=parts.clock.now(),
            record_types=types or default_types,
            include_invalid=include_invalid_results,
            metadata=metadata_filter,
            tiers=check_tiers(tiers),
            event_after=bounds.get("event_after"),
            event_before=bounds.get("event_before"),
            created_after=bounds.get("created_after"),
            created_before=bounds.get("created_before"),
        ),
        limit=limit,
        order=order,
        descending=descending,
        after=cursor,
    )
    await parts.ready()
    return await parts.store.list_records(query)


def by_id(
    parts: Parts,
    record_id: str,
    *,
    argument: str,
    scope: ScopeFilter,
    types: tuple[RecordType, ...],
) -> RecordFilter:
    """Return the filter that lets one record through."""
    return RecordFilter(
        scope=scope,
        now=parts.clock.now(),
        record_types=types,
        tiers=tuple(Tier),
        ids=(check_id(record_id, argument=argument),),
    )


def _missing(record_id: str, record_types: tuple[RecordType, ...]) -> str:
    kind = record_types[0] if len(record_types) == 1 else "memory"
    return f"there is no {kind} {record_id!r} in this scope"
