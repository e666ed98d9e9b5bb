"""What a client does with links between memories.

May import parts, memories, links and below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from agentmemory.handles.base import ClientHandle, explicit_user
from agentmemory.links import (
    delete_record_link,
    link_records,
    list_record_links,
    update_record_link,
)
from agentmemory.memories import exact_scope
from agentmemory.records import RecordRelation
from agentmemory.requests import Page
from agentmemory.scope import (
    NOT_SET_MARKER,
    NotSet,
    OptionalId,
)


class ClientLinks(ClientHandle):
    """Links between the memories of a client."""

    async def link_records(
        self,
        source_record_id: str,
        target_record_id: str,
        relation_type: str,
        *,
        opposite_relation_type: str | None = None,
        relation_id: str | None = None,
        timestamp: datetime | str | None = None,
        metadata: Mapping[str, Any] | None = None,
        user_id: OptionalId = NOT_SET_MARKER,
        agent_id: OptionalId = NOT_SET_MARKER,
        thread_id: OptionalId = NOT_SET_MARKER,
    ) -> RecordRelation:
        """Link two memories; the scope arguments only say where both ends have to be.

        Args:
            source_record_id: Where the link starts.
            target_record_id: Where it ends. "supersedes", "refines" and "duplicates" make this
                memory invalid for as long as the link stands.
            relation_type: A built-in type ("supersedes", "refines", "duplicates", "supports",
                "contradicts", "depends_on") or a label of the caller's own.
            opposite_relation_type: The label seen from the target; default the built-in one,
                or the same label.
            relation_id: The caller's id; default a new UUIDv7.
            timestamp: When what the link says happened; default unknown.
            metadata: JSON-like values of the caller's own.
            user_id: The user both memories have to belong to; omitted: not checked.
            agent_id: Likewise for the agent.
            thread_id: Likewise for the thread.

        Raises:
            NotFoundError: An end is no memory in that scope.
            ConflictError: The id is taken, or the same link exists.
            ValidationError: An argument is not as described.
        """
        return await link_records(
            self._parts,
            source_record_id,
            target_record_id,
            relation_type,
            scope=exact_scope(user_id, agent_id, thread_id),
            opposite_relation_type=opposite_relation_type,
            relation_id=relation_id,
            timestamp=timestamp,
            metadata=metadata,
        )

    async def update_record_link(
        self,
        relation_id: str,
        *,
        relation_type: str | NotSet = NOT_SET_MARKER,
        opposite_relation_type: str | NotSet = NOT_SET_MARKER,
        timestamp: datetime | str | None | NotSet = NOT_SET_MARKER,
        metadata: Mapping[str, Any] | None | NotSet = NOT_SET_MARKER,
        user_id: OptionalId = NOT_SET_MARKER,
        agent_id: OptionalId = NOT_SET_MARKER,
        thread_id: OptionalId = NOT_SET_MARKER,
    ) -> RecordRelation:
        """Change what is given of a link; its ends stay.

        Raises:
            NotFoundError: No such link in that scope.
            ConflictError: A link with the same ends and the new type exists.
            ValidationError: Nothing to change, or an argument is not as described.
        """
        return await update_record_link(
            self._parts,
            relation_id,
            scope=exact_scope(user_id, agent_id, thread_id),
            relation_type=relation_type,
            opposite_relation_type=opposite_relation_type,
            timestamp=timestamp,
            metadata=metadata,
        )

    async def delete_record_link(
        self,
        relation_id: str,
        *,
        user_id: OptionalId = NOT_SET_MARKER,
        agent_id: OptionalId = NOT_SET_MARKER,
        thread_id: OptionalId = NOT_SET_MARKER,
    ) -> None:
        """Delete a link; a memory that no other lifecycle link ends at is valid again.

        Raises:
            NotFoundError: No such link in that scope.
        """
        await delete_record_link(
            self._parts, relation_id, scope=exact_scope(user_id, agent_id, thread_id)
        )

    async def list_record_links(
        self,
        *,
        user_id: OptionalId = NOT_SET_MARKER,
        agent_id: OptionalId = NOT_SET_MARKER,
        thread_id: OptionalId = NOT_SET_MARKER,
        record_id: str | None = None,
        relation_types: Sequence[str] | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[RecordRelation]:
        """Return one page of links in the order they were made.

        Args:
            user_id: The user, or None for memories without one; always needed.
            agent_id: Only between memories of this agent; default all.
            thread_id: Likewise for the thread.
            record_id: Only links that start or end at this memory; default all.
            relation_types: Only these types; default all.
            limit: Most links on the page, 1 to 1000.
            cursor: `next_cursor` of the page before; None for the first.

        Raises:
            ScopeError: No `user_id`.
            ValidationError: An argument is not as described.
        """
        return await list_record_links(
            self._parts,
            scope=exact_scope(explicit_user(user_id), agent_id, thread_id),
            record_id=record_id,
            relation_types=relation_types,
            limit=limit,
            cursor=cursor,
        )
