"""A conversation and its verbs; thin: the rooms below do the work.

May import parts, memories, context and below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

import anyio

from agentmemory.checks import check_int
from agentmemory.config import TimeToLiveAnchor
from agentmemory.context.card import DEFAULT_FALLBACK_MESSAGES, CardOwner, CardRequest
from agentmemory.context.summary import DEFAULT_SUMMARY_TOKENS
from agentmemory.links import (
    delete_record_link,
    link_records,
    link_to_add,
    list_record_links,
    update_record_link,
)
from agentmemory.memories import (
    add_memory,
    delete_record,
    exact_scope,
    get_record,
    list_records,
    update_record,
)
from agentmemory.messages import Message, to_messages
from agentmemory.parts import Parts, checked_metadata
from agentmemory.records import (
    MEMORY_TYPES,
    MemoryType,
    Record,
    RecordRelation,
    RecordType,
    ScopedRecord,
    Stability,
    ThreadRecord,
    Tier,
    new_id,
)
from agentmemory.requests import Deletion, Page
from agentmemory.results import ContextCard, SearchResult, SearchResultFormatConfig, Summary
from agentmemory.retrieval.request import (
    DEFAULT_MAX_LINKED_RESULTS,
    DEFAULT_MAX_RESULTS,
    SearchRequest,
)
from agentmemory.scope import (
    NOT_SET_MARKER,
    IdOrNone,
    NotSet,
    OptionalFlag,
    OptionalId,
    Scope,
    ScopeFilter,
    merge_search_scope,
    resolve_thread_scope,
)

DEFAULT_TYPE_SEARCH_CONCURRENCY = 5

_MESSAGE: tuple[RecordType, ...] = ("message",)


class AsyncThread:
    """A conversation of a user with an agent; made by a client, not by hand.

    Messages live in the thread. Memories added here carry its thread id and belong to its user
    and agent, whose other threads find them too.
    """

    def __init__(
        self, parts: Parts, record: ThreadRecord, *, context_card_type_search_concurrency: int
    ) -> None:
        self._parts = parts
        self._record = record
        check_int(
            context_card_type_search_concurrency,
            argument="context_card_type_search_concurrency",
            minimum=1,
            maximum=1000,
        )
        self._concurrency = context_card_type_search_concurrency

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(thread_id={self.thread_id!r}, user_id={self.user_id!r}, "
            f"agent_id={self.agent_id!r})"
        )

    @property
    def thread_id(self) -> str:
        """The thread's id."""
        return self._record.id

    @property
    def user_id(self) -> str | None:
        """The user it belongs to, or None."""
        return self._record.user_id

    @property
    def agent_id(self) -> str | None:
        """The agent it belongs to, or None."""
        return self._record.agent_id

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The caller's metadata as of when this handle was made."""
        return self._record.metadata

    async def add_messages(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        *,
        ttl_days: float | timedelta | None | NotSet = NOT_SET_MARKER,
        ttl_anchor: TimeToLiveAnchor | Literal["created_at", "timestamp"] = (
            TimeToLiveAnchor.CREATED_AT
        ),
    ) -> list[str]:
        """Append messages.

        Args:
            messages: OpenAI-style dicts (`role`, `content`, optional `name`, `timestamp`,
                `metadata`, `id`) or `Message` objects, oldest first. All are stored, or none.
            ttl_days: Days, or a `timedelta`, until they disappear; None: as long as allowed;
                default as the client's retention says.
            ttl_anchor: From when `ttl_days` counts: "created_at" or "timestamp".

        Returns:
            The messages' ids in order.

        Raises:
            ValidationError: A message is malformed, or an id stands twice.
            ConflictError: An id is taken.
            NotFoundError: The thread was deleted.
        """
        checked = to_messages(messages)
        now = self._parts.clock.now()
        records = [
            ScopedRecord(
                id=message.id or new_id(),
                record_type="message",
                content=message.content,
                metadata=checked_metadata(message.metadata),
                role=message.role,
                actor=message.name,
                event_time=message.timestamp,
                created_at=now,
                updated_at=now,
                expires_at=self._parts.retention.expiry(
                    ttl_days, ttl_anchor, now=now, event_time=message.timestamp
                ),
                user_id=self.user_id,
                agent_id=self.agent_id,
                thread_id=self.thread_id,
            )
            for message in checked
        ]
        await self._parts.ready()
        stored = await self._parts.recorder.add_messages(self.thread_id, records)
        return [record.id for record in stored]

    async def get_messages(
        self,
        *,
        limit: int = 100,
        cursor: str | None = None,
        descending: bool = False,
        metadata_filter: Mapping[str, Any] | None = None,
    ) -> Page[ScopedRecord]:
        """Return one page of the thread's messages in the order they were added.

        Args:
            limit: Most messages on the page, 1 to 1000.
            cursor: `next_cursor` of the page before; None for the first.
            descending: Newest first.
            metadata_filter: A metadata filter.

        Raises:
            ValidationError: An argument is not as described.
        """
        return await list_records(
            self._parts,
            scope=self._scope,
            record_types=_MESSAGE,
            default_types=_MESSAGE,
            metadata_filter=metadata_filter,
            include_invalid_results=True,
            limit=limit,
            cursor=cursor,
            order="created",
            descending=descending,
        )

    async def get_message(self, message_id: str) -> Record:
        """Return a message of this thread.

        Raises:
            NotFoundError: There is none with this id in this thread.
        """
        return await get_record(
            self._parts,
            message_id,
            argument="message_id",
            scope=self._scope,
            record_types=_MESSAGE,
        )

    async def update_message(
        self,
        message_id: str,
        *,
        content: str | NotSet = NOT_SET_MARKER,
        metadata: Mapping[str, Any] | None | NotSet = NOT_SET_MARKER,
        timestamp: datetime | str | None | NotSet = NOT_SET_MARKER,
    ) -> Record:
        """Change what is given of a message of this thread.

        Args:
            message_id: The message.
            content: New text.
            metadata: New metadata as a whole; None for none.
            timestamp: New time; None for unknown.

        Raises:
            NotFoundError: There is none with this id in this thread.
            ValidationError: Nothing to change, or an argument is not as described.
        """
        return await update_record(
            self._parts,
            message_id,
            argument="message_id",
            scope=self._scope,
            record_types=_MESSAGE,
            content=content,
            metadata=metadata,
            timestamp=timestamp,
        )

    async def delete_message(self, message_id: str) -> Deletion:
        """Delete a message of this thread.

        Raises:
            NotFoundError: There is none with this id in this thread.
        """
        return await delete_record(
            self._parts,
            message_id,
            argument="message_id",
            scope=self._scope,
            record_types=_MESSAGE,
        )

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
    ) -> Record:
        """Change what is given of a memory of this thread.

        What is not given stays as it is; `ttl_days` counts anew from now or from the timestamp.

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
    ) -> RecordRelation:
        """Link two memories of this thread's user and agent.

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
            scope=self._memory_scope,
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
            scope=self._memory_scope,
            relation_type=relation_type,
            opposite_relation_type=opposite_relation_type,
            timestamp=timestamp,
            metadata=metadata,
        )

    async def delete_record_link(
        self,
        relation_id: str,
    ) -> None:
        """Delete a link; a memory that no other lifecycle link ends at is valid again.

        Raises:
            NotFoundError: No such link in that scope.
        """
        await delete_record_link(self._parts, relation_id, scope=self._memory_scope)

    async def list_record_links(
        self,
        *,
        record_id: str | None = None,
        relation_types: Sequence[str] | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[RecordRelation]:
        """Return one page of links in the order they were made.

        Args:
            record_id: Only links that start or end at this memory; default all.
            relation_types: Only these types; default all.
            limit: Most links on the page, 1 to 1000.
            cursor: `next_cursor` of the page before; None for the first.

        Raises:
            ValidationError: An argument is not as described.
        """
        return await list_record_links(
            self._parts,
            scope=self._memory_scope,
            record_id=record_id,
            relation_types=relation_types,
            limit=limit,
            cursor=cursor,
        )

    async def search(
        self,
        query: str,
        *,
        user_id: OptionalId = NOT_SET_MARKER,
        agent_id: OptionalId = NOT_SET_MARKER,
        thread_id: OptionalId = NOT_SET_MARKER,
        exact_user_match: OptionalFlag = NOT_SET_MARKER,
        exact_agent_match: OptionalFlag = NOT_SET_MARKER,
        exact_thread_match: OptionalFlag = NOT_SET_MARKER,
        scope: Scope | None = None,
        max_results: int = DEFAULT_MAX_RESULTS,
        record_types: Sequence[RecordType] | None = None,
        metadata_filter: Mapping[str, Any] | None = None,
        include_invalid_results: bool = True,
        num_hops: int = 0,
        max_linked_results: int = DEFAULT_MAX_LINKED_RESULTS,
        event_after: datetime | str | None = None,
        event_before: datetime | str | None = None,
        created_after: datetime | str | None = None,
        created_before: datetime | str | None = None,
        as_of: datetime | str | None = None,
        known_as_of: datetime | str | None = None,
        token_budget: int | None = None,
        soft_token_budget: int | None = None,
    ) -> list[SearchResult]:
        """Search what belongs to this thread's user and agent; its own records rank higher.

        Args:
            query: What to look for.
            user_id: Another user, or None for records without one; default this thread's.
            agent_id: Likewise for the agent.
            thread_id: Only this thread's records; default any thread's, this one's first.
            exact_user_match: False: the user ranks instead of filtering.
            exact_agent_match: False: the agent ranks instead of filtering.
            exact_thread_match: True: only records of the thread.
            scope: A `Scope` or `SearchScope` instead of the single fields.
            max_results: Most results, 1 to 1000.
            record_types: Only these types; default all.
            metadata_filter: A metadata filter.
            include_invalid_results: Whether invalid records are found; they never stand before
                the valid one that replaced them.
            num_hops: How far to follow links from each memory found, 0 to 5.
            max_linked_results: Most linked memories of one result, over all hops; 0: none.
            event_after: Only what happened (else was stored) at or after this time.
            event_before: Only what happened (else was stored) before this time.
            created_after: Only what was stored at or after this time.
            created_before: Only what was stored before this time.
            as_of: Only what was true at this time, by `valid_from` and `valid_to`.
            known_as_of: Only what had been stored by this time.
            token_budget: Hard limit of the formatted results in tokens.
            soft_token_budget: The result that reaches this sum is the last.

        Raises:
            ValidationError: An argument is not as described.
        """
        resolved = resolve_thread_scope(
            merge_search_scope(
                scope,
                user_id=user_id,
                agent_id=agent_id,
                thread_id=thread_id,
                exact_user_match=exact_user_match,
                exact_agent_match=exact_agent_match,
                exact_thread_match=exact_thread_match,
            ),
            user_id=self.user_id,
            agent_id=self.agent_id,
            thread_id=self.thread_id,
        )
        request = SearchRequest(
            query=query,
            scope=resolved,
            max_results=max_results,
            record_types=record_types,  # type: ignore[arg-type]
            metadata_filter=metadata_filter,
            include_invalid_results=include_invalid_results,
            num_hops=num_hops,
            max_linked_results=max_linked_results,
            event_after=event_after,  # type: ignore[arg-type]
            event_before=event_before,  # type: ignore[arg-type]
            created_after=created_after,  # type: ignore[arg-type]
            created_before=created_before,  # type: ignore[arg-type]
            as_of=as_of,  # type: ignore[arg-type]
            known_as_of=known_as_of,  # type: ignore[arg-type]
            token_budget=token_budget,
            soft_token_budget=soft_token_budget,
            strategy=self._parts.strategy,
        )
        await self._parts.ready()
        return await self._parts.searcher.search(request)

    async def get_summary(
        self, *, except_last: int = 0, token_budget: int = DEFAULT_SUMMARY_TOKENS
    ) -> Summary:
        """Return the thread in brief: its latest messages as a transcript.

        Args:
            except_last: Leave out this many of the last messages, 0 to 900.
            token_budget: Most tokens; not positive: no limit.

        Raises:
            ValidationError: An argument is not as described.
        """
        check_int(except_last, argument="except_last", minimum=0, maximum=900)
        check_int(token_budget, argument="token_budget")
        await self._parts.ready()
        return await self._parts.cards.summary(
            self._owner, except_last=except_last, token_budget=token_budget
        )

    async def get_context_card(
        self,
        *,
        query: str | None = None,
        max_relevant_results: int | NotSet = NOT_SET_MARKER,
        min_relevant_results_by_type: Mapping[str, int] | None = None,
        max_recent_messages: int = 0,
        except_last_messages: int = 0,
        fallback_message_count: int = DEFAULT_FALLBACK_MESSAGES,
        metadata_filter: Mapping[str, Any] | None = None,
        include_invalid_results: bool = True,
        token_budget: int | None = None,
        soft_token_budget: int | None = None,
        format_config: SearchResultFormatConfig | None = None,
    ) -> ContextCard:
        """Build compact context for the next answer.

        Args:
            query: What to search for; default the latest user message.
            max_relevant_results: Most relevant records, 0 to 1000; default 5, or the sum of the
                minima if that is more.
            min_relevant_results_by_type: How many records of "memory", "fact", "guideline",
                "preference" or "message" to look for first, best effort.
            max_recent_messages: How many of the last messages to show.
            except_last_messages: Leave out this many of the last messages everywhere, for the
                caller shows them itself; `max_recent_messages` is then 0 or the same.
            fallback_message_count: How many messages stand in for a summary.
            metadata_filter: A metadata filter on the relevant records.
            include_invalid_results: Whether invalid records may be relevant.
            token_budget: Hard limit of the relevant section in tokens.
            soft_token_budget: The record that reaches this sum is the last.
            format_config: What to show of each record, over the card's defaults.

        Raises:
            ValidationError: An argument is not as described.
        """
        request = CardRequest(
            query=query,
            max_relevant_results=max_relevant_results,
            min_relevant_results_by_type=min_relevant_results_by_type,
            max_recent_messages=max_recent_messages,
            except_last_messages=except_last_messages,
            fallback_message_count=fallback_message_count,
            metadata_filter=metadata_filter,
            include_invalid_results=include_invalid_results,
            token_budget=token_budget,
            soft_token_budget=soft_token_budget,
            format_config=format_config,
        )
        await self._parts.ready()
        return await self._parts.cards.build(
            self._owner,
            request,
            strategy=self._parts.strategy,
            limiter=anyio.CapacityLimiter(self._concurrency),
        )

    @property
    def _scope(self) -> ScopeFilter:
        user_id: IdOrNone = self.user_id
        return exact_scope(user_id, self.agent_id, self.thread_id)

    @property
    def _memory_scope(self) -> ScopeFilter:
        return exact_scope(self.user_id, self.agent_id)

    @property
    def _owner(self) -> CardOwner:
        return CardOwner(thread_id=self.thread_id, user_id=self.user_id, agent_id=self.agent_id)
