"""Verbs on the profiles of users and agents; may import memories, parts and below.

A profile is a record that belongs to its user or agent and to nobody else, one for each; a user
and an agent may have the same id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from agentmemory.checks import check_bool, check_id, check_text
from agentmemory.errors import NotFoundError, ValidationError
from agentmemory.memories import exact_scope, list_records
from agentmemory.parts import Parts, checked_metadata
from agentmemory.records import RecordType, ScopedRecord, new_id
from agentmemory.requests import Deletion, ListQuery, Page, RecordChanges, RecordFilter
from agentmemory.scope import NOT_SET_MARKER, NotSet, ScopeFilter

Kind = Literal["user", "agent"]

_TYPES: Final[Mapping[Kind, RecordType]] = {"user": "user_profile", "agent": "agent_profile"}


async def add_profile(
    parts: Parts, kind: Kind, owner_id: Any, information: Any, *, metadata: Any
) -> str:
    """Store the profile of a user or an agent and return its owner's id."""
    owner = check_id(owner_id, argument=f"{kind}_id")
    check_text(information, argument="information")
    now = parts.clock.now()
    record = ScopedRecord(
        id=new_id(),
        record_type=_TYPES[kind],
        content=information,
        metadata=checked_metadata(metadata),
        created_at=now,
        updated_at=now,
        user_id=owner if kind == "user" else None,
        agent_id=owner if kind == "agent" else None,
    )
    await parts.ready()
    await parts.recorder.add_memories((record,))
    return owner


async def get_profile(parts: Parts, kind: Kind, owner_id: Any) -> ScopedRecord:
    """Return the profile of a user or an agent.

    Raises:
        NotFoundError: There is none.
    """
    record_filter = _filter(parts, kind, owner_id)
    await parts.ready()
    page = await parts.store.list_records(ListQuery(filter=record_filter, limit=1))
    if not page.items:
        raise NotFoundError(_missing(kind, owner_id))
    return page.items[0]


async def update_profile(
    parts: Parts,
    kind: Kind,
    owner_id: Any,
    *,
    information: str | NotSet,
    metadata: Mapping[str, Any] | None | NotSet,
) -> ScopedRecord:
    """Change what is given of a profile."""
    if information is NOT_SET_MARKER and metadata is NOT_SET_MARKER:
        msg = "nothing to change: give `information` or `metadata`"
        raise ValidationError(msg, argument="information")
    changes = RecordChanges(
        content=(
            NOT_SET_MARKER
            if information is NOT_SET_MARKER
            else check_text(information, argument="information")
        ),
        metadata=NOT_SET_MARKER if metadata is NOT_SET_MARKER else checked_metadata(metadata),
    )
    found = await get_profile(parts, kind, owner_id)
    record_filter = RecordFilter(
        scope=_scope(kind, owner_id),
        now=parts.clock.now(),
        record_types=(_TYPES[kind],),
        ids=(found.id,),
    )
    return await parts.recorder.update(record_filter, changes)


async def delete_profile(parts: Parts, kind: Kind, owner_id: Any, *, cascade: Any) -> Deletion:
    """Delete a profile, and with `cascade` all that belongs to its user or agent."""
    check_bool(cascade, argument="cascade")
    record_filter = _filter(parts, kind, owner_id)
    await parts.ready()
    if cascade:
        deletion = await parts.recorder.delete_scope(record_filter.scope)
    else:
        deletion = await parts.recorder.delete(record_filter)
    if not deletion.counts:
        raise NotFoundError(_missing(kind, owner_id))
    return deletion


async def list_profiles(
    parts: Parts,
    kind: Kind,
    *,
    metadata_filter: Mapping[str, Any] | None,
    limit: int,
    cursor: str | None,
    descending: bool,
) -> Page[ScopedRecord]:
    """Return one page of the profiles of all users or all agents."""
    types = (_TYPES[kind],)
    return await list_records(
        parts,
        scope=ScopeFilter(),
        record_types=types,
        default_types=types,
        metadata_filter=metadata_filter,
        include_invalid_results=True,
        limit=limit,
        cursor=cursor,
        order="created",
        descending=descending,
    )


def _scope(kind: Kind, owner_id: Any) -> ScopeFilter:
    owner = check_id(owner_id, argument=f"{kind}_id")
    return exact_scope(user_id=owner) if kind == "user" else exact_scope(agent_id=owner)


def _filter(parts: Parts, kind: Kind, owner_id: Any) -> RecordFilter:
    return RecordFilter(
        scope=_scope(kind, owner_id), now=parts.clock.now(), record_types=(_TYPES[kind],)
    )


def _missing(kind: Kind, owner_id: str) -> str:
    return f"there is no profile of {kind} {owner_id!r}"
