"""What a client does with memories, and with messages across threads.

May import parts, memories, links and below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

from agentmemory.checks import check_optional_id
from agentmemory.config import TimeToLiveAnchor
from agentmemory.handles.base import ClientHandle, explicit_user
from agentmemory.links import link_to_add
from agentmemory.memories import (
    add_memory,
    delete_record,
    exact_scope,
    get_record,
    get_records,
    list_records,
    update_record,
)
from agentmemory.records import (
    MEMORY_TYPES,
    Layer,
    MemoryType,
    Record,
    RecordType,
    ScopedRecord,
    Stability,
    Tier,
)
from agentmemory.requests import (
    Deletion,
    Page,
)
from agentmemory.scope import (
    NOT_SET_MARKER,
    NotSet,
    OptionalId,
)

_MESSAGE: tuple[RecordType, ...] = ("message",)


class ClientMemories(ClientHandle):
    """Memories and messages of a client."""

    async def add_memory(
        self,
        content: str,
        *,
        user_id: OptionalId = NOT_SET_MARKER,
        agent_id: str | None = None,
        thread_id: str | None = None,
        memory_type: MemoryType = "memory",
        memory_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        timestamp: datetime | str | None = None,
        stability: Stability | Literal["stable", "volatile"] | None = None,
        valid_from: datetime | str | None = None,
        valid_to: datetime | str | None = None,
        ttl_days: float | timedelta | None | NotSet = NOT_SET_MARKER,
        ttl_anchor: TimeToLiveAnchor | Literal["created_at", "timestamp"] = (
            TimeToLiveAnchor.CREATED_AT
        ),
        layer: Layer | Literal["critical", "rule", "context", "background"] | None = None,
        tags: Sequence[str] = (),
        compressed: str | None = None,
        memory_id_to_link: str | None = None,
        link_type: str | None = None,
        link_id: str | None = None,
        link_timestamp: datetime | str | None = None,
        link_metadata: Mapping[str, Any] | None = None,
    ) -> str:
        """Store a durable memory.

        Args:
            content: What to remember.
            user_id: The user it belongs to, or None for none; always needed.
            agent_id: The agent it belongs to; default none.
            thread_id: The conversation it belongs to; default none.
            memory_type: "memory", "fact", "guideline" or "preference".
            memory_id: The caller's id; default a new UUIDv7.
            metadata: JSON-like values of the caller's own.
            timestamp: When what it says happened; default unknown.
            stability: "stable" or "volatile"; default by its type.
            valid_from: From when it is true, inclusive; default always.
            valid_to: Until when it is true, exclusive; default for ever.
            ttl_days: Days, or a `timedelta`, until it disappears; None: as long as allowed;
                default as the client's retention says.
            ttl_anchor: From when `ttl_days` counts: "created_at" or "timestamp".
            layer: For layered retrieval: "critical" is in every result and card, "rule", "context"
                and "background" when an intent asks for them; default none.
            tags: Words layered retrieval finds it by; those of a strict vocabulary, if one is
                loaded.
            compressed: A shorter wording, shown where a token budget asks for it.
            memory_id_to_link: A memory to link the new one to, together with `link_type`.
            link_type: "supersedes", "refines", "duplicates", "supports", "contradicts",
                "depends_on" or a label of the caller's own.
            link_id: The caller's id of the link; default a new UUIDv7.
            link_timestamp: When what the link says happened.
            link_metadata: JSON-like values of the caller's own.

        Returns:
            The memory's id.

        Raises:
            ScopeError: No `user_id`.
            ValidationError: An argument is not as described.
            ConflictError: The id is taken.
            NotFoundError: There is no such thread, or no memory to link to in this scope.
        """
        return await add_memory(
            self._parts,
            content,
            memory_type=memory_type,
            memory_id=memory_id,
            user_id=check_optional_id(explicit_user(user_id), argument="user_id"),
            agent_id=check_optional_id(agent_id, argument="agent_id"),
            thread_id=check_optional_id(thread_id, argument="thread_id"),
            metadata=metadata,
            timestamp=timestamp,
            stability=stability,
            valid_from=valid_from,
            valid_to=valid_to,
            ttl_days=ttl_days,
            ttl_anchor=ttl_anchor,
            layer=layer,
            tags=tags,
            compressed=compressed,
            link=link_to_add(
                memory_id_to_link,
                link_type,
                link_id=link_id,
                link_timestamp=link_timestamp,
                link_metadata=link_metadata,
                within_agent=agent_id is not None,
            ),
        )

    async def get_memory(
        self,
        memory_id: str,
        *,
        user_id: OptionalId = NOT_SET_MARKER,
        agent_id: OptionalId = NOT_SET_MARKER,
        thread_id: OptionalId = NOT_SET_MARKER,
    ) -> Record:
        """Return a memory.

        Args:
            memory_id: Its id.
            user_id: The user it has to belong to (None: to none); omitted: not checked.
            agent_id: Likewise for the agent.
            thread_id: Likewise for the thread.

        Raises:
            NotFoundError: No such memory in that scope.
        """
        return await get_record(
            self._parts,
            memory_id,
            argument="memory_id",
            scope=exact_scope(user_id, agent_id, thread_id),
            record_types=MEMORY_TYPES,
        )

    async def get_memories(
        self,
        memory_ids: Sequence[str],
        *,
        user_id: OptionalId = NOT_SET_MARKER,
        agent_id: OptionalId = NOT_SET_MARKER,
        thread_id: OptionalId = NOT_SET_MARKER,
    ) -> tuple[ScopedRecord, ...]:
        """Return several memories at once, in the order of their ids.

        Args:
            memory_ids: 1 to 1000 ids; one that is no memory of the scope is left out.
            user_id: The user they have to belong to (None: to none); omitted: not checked.
            agent_id: Likewise for the agent.
            thread_id: Likewise for the thread.

        Raises:
            ValidationError: `memory_ids` is no list of 1 to 1000 ids.
        """
        return await get_records(
            self._parts,
            memory_ids,
            argument="memory_ids",
            scope=exact_scope(user_id, agent_id, thread_id),
            record_types=MEMORY_TYPES,
        )

    async def update_memory(
        self,
        memory_id: str,
        *,
        content: str | NotSet = NOT_SET_MARKER,
        metadata: Mapping[str, Any] | None | NotSet = NOT_SET_MARKER,
        timestamp: datetime | str | None | NotSet = NOT_SET_MARKER,
        valid_from: datetime | str | None | NotSet = NOT_SET_MARKER,
        valid_to: datetime | str | None | NotSet = NOT_SET_MARKER,
        ttl_days: float | timedelta | None | NotSet = NOT_SET_MARKER,
        ttl_anchor: TimeToLiveAnchor | Literal["created_at", "timestamp"] = (
            TimeToLiveAnchor.CREATED_AT
        ),
        layer: Layer
        | Literal["critical", "rule", "context", "background"]
        | None
        | NotSet = NOT_SET_MARKER,
        tags: Sequence[str] | NotSet = NOT_SET_MARKER,
        compressed: str | None | NotSet = NOT_SET_MARKER,
        user_id: OptionalId = NOT_SET_MARKER,
        agent_id: OptionalId = NOT_SET_MARKER,
        thread_id: OptionalId = NOT_SET_MARKER,
    ) -> Record:
        """Change what is given of a memory; the scope arguments only say where it has to be.

        What is not given stays as it is; `ttl_days` counts anew from now or from the timestamp. A
        new content drops a shorter wording (`compressed`) that is not given with it.

        Raises:
            NotFoundError: No such memory in that scope.
            ValidationError: Nothing to change, or an argument is not as described.
        """
        return await update_record(
            self._parts,
            memory_id,
            argument="memory_id",
            scope=exact_scope(user_id, agent_id, thread_id),
            record_types=MEMORY_TYPES,
            content=content,
            metadata=metadata,
            timestamp=timestamp,
            valid_from=valid_from,
            valid_to=valid_to,
            ttl_days=ttl_days,
            ttl_anchor=ttl_anchor,
            layer=layer,
            tags=tags,
            compressed=compressed,
        )

    async def delete_memory(
        self,
        memory_id: str,
        *,
        user_id: OptionalId = NOT_SET_MARKER,
        agent_id: OptionalId = NOT_SET_MARKER,
        thread_id: OptionalId = NOT_SET_MARKER,
    ) -> Deletion:
        """Delete a memory; the scope arguments only say where it has to be.

        Raises:
            NotFoundError: No such memory in that scope.
        """
        return await delete_record(
            self._parts,
            memory_id,
            argument="memory_id",
            scope=exact_scope(user_id, agent_id, thread_id),
            record_types=MEMORY_TYPES,
        )

    async def list_memories(
        self,
        *,
        user_id: OptionalId = NOT_SET_MARKER,
        agent_id: OptionalId = NOT_SET_MARKER,
        thread_id: OptionalId = NOT_SET_MARKER,
        record_types: Sequence[MemoryType] | None = None,
        metadata_filter: Mapping[str, Any] | None = None,
        include_invalid_results: bool = True,
        tiers: Sequence[Tier | Literal["hot", "warm", "cold", "archived", "deprecated"]]
        | None = None,
        event_after: datetime | str | None = None,
        event_before: datetime | str | None = None,
        created_after: datetime | str | None = None,
        created_before: datetime | str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        order: Literal["created", "event"] = "created",
        descending: bool = False,
    ) -> Page[ScopedRecord]:
        """Return one page of a user's memories.

        Args:
            user_id: The user, or None for memories without one; always needed.
            agent_id: Only those of this agent, or None for those without one; default all.
            thread_id: Likewise for the thread.
            record_types: Only these types; default all memory types.
            metadata_filter: A metadata filter.
            include_invalid_results: Whether invalid memories are listed.
            tiers: Only these tiers; default all but "archived" and "deprecated".
            event_after: Only what happened (else was stored) at or after this time.
            event_before: Only what happened (else was stored) before this time.
            created_after: Only what was stored at or after this time.
            created_before: Only what was stored before this time.
            limit: Most memories on the page, 1 to 1000.
            cursor: `next_cursor` of the page before; None for the first.
            order: "created" (order of writing) or "event" (when it happened).
            descending: Newest first.

        Raises:
            ScopeError: No `user_id`.
            ValidationError: An argument is not as described.
        """
        return await list_records(
            self._parts,
            scope=exact_scope(explicit_user(user_id), agent_id, thread_id),
            record_types=record_types,
            default_types=MEMORY_TYPES,
            metadata_filter=metadata_filter,
            include_invalid_results=include_invalid_results,
            limit=limit,
            cursor=cursor,
            order=order,
            descending=descending,
            tiers=tiers,
            times={
                "event_after": event_after,
                "event_before": event_before,
                "created_after": created_after,
                "created_before": created_before,
            },
        )

    async def list_messages(
        self,
        *,
        user_id: OptionalId = NOT_SET_MARKER,
        agent_id: OptionalId = NOT_SET_MARKER,
        thread_id: OptionalId = NOT_SET_MARKER,
        metadata_filter: Mapping[str, Any] | None = None,
        event_after: datetime | str | None = None,
        event_before: datetime | str | None = None,
        created_after: datetime | str | None = None,
        created_before: datetime | str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        order: Literal["created", "event"] = "created",
        descending: bool = False,
    ) -> Page[ScopedRecord]:
        """Return one page of a user's messages; the arguments are those of `list_memories`.

        Raises:
            ScopeError: No `user_id`.
            ValidationError: An argument is not as described.
        """
        return await list_records(
            self._parts,
            scope=exact_scope(explicit_user(user_id), agent_id, thread_id),
            record_types=_MESSAGE,
            default_types=_MESSAGE,
            metadata_filter=metadata_filter,
            include_invalid_results=True,
            limit=limit,
            cursor=cursor,
            order=order,
            descending=descending,
            times={
                "event_after": event_after,
                "event_before": event_before,
                "created_after": created_after,
                "created_before": created_before,
            },
        )
