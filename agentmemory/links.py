"""Verbs on links that the client and its threads share; may import parts and below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from agentmemory.checks import (
    check_id,
    check_int,
    check_list,
    check_optional_time,
    check_text,
)
from agentmemory.errors import ValidationError
from agentmemory.parts import Parts, checked_metadata
from agentmemory.records import LINK_TYPES, RecordRelation, ScopedRecord, new_id
from agentmemory.requests import (
    MAX_LIST_LIMIT,
    LinkChanges,
    LinkQuery,
    Page,
    RecordFilter,
)
from agentmemory.scope import NOT_SET_MARKER, NotSet, ScopeFilter

MAX_LABEL_CHARS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkToAdd:
    """A checked link from a memory that is being added to one that is there."""

    target_id: str
    relation_type: str
    relation_id: str
    timestamp: datetime | None
    metadata: Mapping[str, Any]
    within_agent: bool

    def relation(self, source: ScopedRecord, now: datetime) -> RecordRelation:
        """Return the link as it will be stored; the store fills in the type of the target."""
        return RecordRelation(
            id=self.relation_id,
            source_record_id=source.id,
            source_record_type=source.record_type,  # type: ignore[arg-type]
            target_record_id=self.target_id,
            target_record_type="memory",
            relation_type=self.relation_type,
            opposite_relation_type=LINK_TYPES.get(self.relation_type, self.relation_type),
            timestamp=self.timestamp,
            metadata=self.metadata,
            created_at=now,
        )


def link_to_add(
    memory_id_to_link: Any,
    link_type: Any,
    *,
    link_id: Any,
    link_timestamp: Any,
    link_metadata: Any,
    within_agent: bool,
) -> LinkToAdd | None:
    """Check the link arguments of `add_memory`: the id and the type together, or neither.

    Raises:
        ValidationError: One without the other, or an argument is not as described.
    """
    if memory_id_to_link is None and link_type is None:
        extra = {
            "link_id": link_id,
            "link_timestamp": link_timestamp,
            "link_metadata": link_metadata,
        }
        for name, value in extra.items():
            if value is not None:
                msg = f"`{name}` was given without `memory_id_to_link` and `link_type`"
                raise ValidationError(msg, argument=name)
        return None
    if memory_id_to_link is None or link_type is None:
        missing = "memory_id_to_link" if memory_id_to_link is None else "link_type"
        msg = f"`{missing}` is missing; `memory_id_to_link` and `link_type` go together"
        raise ValidationError(msg, argument=missing)
    return LinkToAdd(
        target_id=check_id(memory_id_to_link, argument="memory_id_to_link"),
        relation_type=check_label(link_type, argument="link_type"),
        relation_id=new_id() if link_id is None else check_id(link_id, argument="link_id"),
        timestamp=check_optional_time(link_timestamp, argument="link_timestamp"),
        metadata=checked_metadata(link_metadata),
        within_agent=within_agent,
    )


def check_label(value: Any, *, argument: str) -> str:
    """Accept a link's label: a built-in type or a word of the caller's own.

    Raises:
        ValidationError: No text, or longer than 64 characters.
    """
    label = check_text(value, argument=argument)
    if len(label) > MAX_LABEL_CHARS:
        msg = f"`{argument}` has {len(label)} characters; at most {MAX_LABEL_CHARS} are accepted"
        raise ValidationError(msg, argument=argument)
    return label


def check_opposite(relation_type: str, opposite: Any) -> str:
    """Return the label seen from the target; the built-in types have theirs.

    Raises:
        ValidationError: Another one for a built-in type.
    """
    name = "opposite_relation_type"
    fixed = LINK_TYPES.get(relation_type)
    if opposite is None:
        return fixed or relation_type
    label = check_label(opposite, argument=name)
    if fixed is not None and label != fixed:
        msg = f"`{name}` is {label!r}; for {relation_type!r} only {fixed!r} is accepted"
        raise ValidationError(msg, argument=name)
    return label


async def link_records(
    parts: Parts,
    source_record_id: Any,
    target_record_id: Any,
    relation_type: Any,
    *,
    scope: ScopeFilter,
    opposite_relation_type: Any,
    relation_id: Any,
    timestamp: Any,
    metadata: Any,
) -> RecordRelation:
    """Link two memories of a scope."""
    now = parts.clock.now()
    label = check_label(relation_type, argument="relation_type")
    link = RecordRelation(
        id=new_id() if relation_id is None else check_id(relation_id, argument="relation_id"),
        source_record_id=check_id(source_record_id, argument="source_record_id"),
        source_record_type="memory",
        target_record_id=check_id(target_record_id, argument="target_record_id"),
        target_record_type="memory",
        relation_type=label,
        opposite_relation_type=check_opposite(label, opposite_relation_type),
        timestamp=check_optional_time(timestamp, argument="timestamp"),
        metadata=checked_metadata(metadata),
        created_at=now,
    )
    if link.source_record_id == link.target_record_id:
        msg = f"`target_record_id` {target_record_id!r} is the source itself"
        raise ValidationError(msg, argument="target_record_id")
    await parts.ready()
    return await parts.store.add_link(
        link, record_filter=RecordFilter(scope=scope, now=now), now=now
    )


async def update_record_link(
    parts: Parts,
    relation_id: Any,
    *,
    scope: ScopeFilter,
    relation_type: Any,
    opposite_relation_type: Any,
    timestamp: Any,
    metadata: Any,
) -> RecordRelation:
    """Change what is given of a link between memories of a scope."""
    check_id(relation_id, argument="relation_id")
    given = (relation_type, opposite_relation_type, timestamp, metadata)
    if all(value is NOT_SET_MARKER for value in given):
        msg = (
            "nothing to change: give `relation_type`, `opposite_relation_type`, `timestamp` or "
            "`metadata`"
        )
        raise ValidationError(msg, argument="relation_type")
    now = parts.clock.now()
    record_filter = RecordFilter(scope=scope, now=now)
    await parts.ready()
    label: str | NotSet = NOT_SET_MARKER
    opposite: str | NotSet = NOT_SET_MARKER
    if relation_type is not NOT_SET_MARKER:
        label = check_label(relation_type, argument="relation_type")
        other = None if opposite_relation_type is NOT_SET_MARKER else opposite_relation_type
        opposite = check_opposite(label, other)
    elif opposite_relation_type is not NOT_SET_MARKER:
        page = await parts.store.list_links(LinkQuery(filter=record_filter, ids=(relation_id,)))
        present = page.items[0].relation_type if page.items else ""
        opposite = check_opposite(present, opposite_relation_type)
    return await parts.store.update_link(
        relation_id,
        LinkChanges(
            relation_type=label,
            opposite_relation_type=opposite,
            timestamp=(
                NOT_SET_MARKER
                if timestamp is NOT_SET_MARKER
                else check_optional_time(timestamp, argument="timestamp")
            ),
            metadata=NOT_SET_MARKER if metadata is NOT_SET_MARKER else checked_metadata(metadata),
        ),
        record_filter=record_filter,
        now=now,
    )


async def delete_record_link(parts: Parts, relation_id: Any, *, scope: ScopeFilter) -> None:
    """Delete a link between memories of a scope."""
    check_id(relation_id, argument="relation_id")
    now = parts.clock.now()
    await parts.ready()
    await parts.store.delete_link(
        relation_id, record_filter=RecordFilter(scope=scope, now=now), now=now
    )


async def list_record_links(
    parts: Parts,
    *,
    scope: ScopeFilter,
    record_id: Any,
    relation_types: Any,
    limit: Any,
    cursor: str | None,
) -> Page[RecordRelation]:
    """Return one page of the links between memories of a scope."""
    types: Sequence[Any] | None = None
    if relation_types is not None:
        types = check_list(relation_types, argument="relation_types", of="link types")
        for item in types:
            check_label(item, argument="relation_types")
    query = LinkQuery(
        filter=RecordFilter(scope=scope, now=parts.clock.now()),
        record_id=None if record_id is None else check_id(record_id, argument="record_id"),
        relation_types=None if types is None else tuple(types),
        limit=check_int(limit, argument="limit", minimum=1, maximum=MAX_LIST_LIMIT),
        after=cursor,
    )
    await parts.ready()
    return await parts.store.list_links(query)
