"""What a thread does with its memories.

May import parts, memories, links and below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

from agentmemory.config import TimeToLiveAnchor
from agentmemory.handles.base import ThreadHandle
from agentmemory.links import link_to_add
from agentmemory.memories import (
    add_memory,
    delete_record,
    get_record,
    list_records,
    update_record,
)
from agentmemory.records import (
    MEMORY_TYPES,
    Layer,
    MemoryType,
    Record,
    ScopedRecord,
    Stability,
    Tier,
)
from agentmemory.requests import Deletion, Page
from agentmemory.scope import (
    NOT_SET_MARKER,
    NotSet,
)


class ThreadMemories(ThreadHandle):
    """Memories of a thread."""

    async def add_memory(
        self,
        content: str,
        *,
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
        """Store a memory of this thread's user and agent.

        Args:
            content: What to remember.
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
            ValidationError: An argument is not as described.
            ConflictError: The id is taken.
            NotFoundError: The thread was deleted, or there is no memory to link to.
        """
        return await add_memory(
            self._parts,
            content,
            memory_type=memory_type,
            memory_id=memory_id,
            user_id=self.user_id,
            agent_id=self.agent_id,
            thread_id=self.thread_id,
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
                within_agent=True,
            ),
        )

    async def get_memory(self, memory_id: str) -> Record:
        """Return a memory of this thread.

        Raises:
            NotFoundError: There is none with this id in this thread.
        """
        return await get_record(
            self._parts,
            memory_id,
            argument="memory_id",
            scope=self._scope,
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
    ) -> Record:
        """Change what is given of a memory of this thread.

        What is not given stays as it is; `ttl_days` counts anew from now or from the timestamp. A
        new content drops a shorter wording (`compressed`) that is not given with it.

        Raises:
            NotFoundError: There is none with this id in this thread.
            ValidationError: Nothing to change, or an argument is not as described.
        """
        return await update_record(
            self._parts,
            memory_id,
            argument="memory_id",
            scope=self._scope,
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

    async def delete_memory(self, memory_id: str) -> Deletion:
        """Delete a memory of this thread.

        Raises:
            NotFoundError: There is none with this id in this thread.
        """
        return await delete_record(
            self._parts,
            memory_id,
            argument="memory_id",
            scope=self._scope,
            record_types=MEMORY_TYPES,
        )

    async def list_memories(
        self,
        *,
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
        """Return one page of the memories of this thread.

        Raises:
            ValidationError: An argument is not as described.
        """
        return await list_records(
            self._parts,
            scope=self._scope,
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
