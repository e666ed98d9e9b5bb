"""The async client: opens a memory and hands out threads; thin, the rooms below do the work.

May import thread, store, memories, parts and below.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Literal, Self

from agentmemory.checks import check_bool, check_id, check_int, check_optional_id
from agentmemory.config import (
    MemoryRetentionConfig,
    SchemaPolicy,
    SearchStrategy,
    TimeToLiveAnchor,
)
from agentmemory.errors import NotFoundError, ScopeError
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
from agentmemory.parts import Parts, checked_metadata, open_store
from agentmemory.protocols import Clock, IEmbedder, MemoryStore, TokenCounter
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
from agentmemory.requests import (
    MAX_LIST_LIMIT,
    Deletion,
    Page,
    StoreStats,
    ThreadChanges,
    ThreadQuery,
)
from agentmemory.results import SearchResult
from agentmemory.retrieval.request import (
    DEFAULT_MAX_LINKED_RESULTS,
    DEFAULT_MAX_RESULTS,
    SearchRequest,
    check_strategy,
)
from agentmemory.scope import (
    NOT_SET_MARKER,
    NotSet,
    OptionalFlag,
    OptionalId,
    Scope,
    merge_search_scope,
    resolve_client_scope,
)
from agentmemory.store import AsyncStore
from agentmemory.stores.filters import parse_filter
from agentmemory.thread import DEFAULT_TYPE_SEARCH_CONCURRENCY, AsyncThread

_MESSAGE: tuple[RecordType, ...] = ("message",)


class AsyncAgentMemory:
    """Memory for agents: threads of messages, durable memories, search and context cards.

    Works as an async context manager and without; the database is opened on first need.

    Args:
        connection: Where the memory lives: a path, `sqlite:///path` or `":memory:"`.
        store: Any `MemoryStore` instead of `connection`.
        embedder: An `IEmbedder`, a model name such as "local", or None for lexical search.
            Omitted: the local embedder if its extra is installed, else lexical search.
        search_strategy: Which arms searches use: HYBRID (default), KEYWORD or VECTOR.
        schema_policy: What opening may do to the database; default CREATE_IF_NECESSARY.
        memory_store_id: Tells apart several stores in one database: a letter, then letters,
            digits or underscores, at most 16.
        memory_retention_config: How long messages and memories live by default and at most;
            default for ever.
        token_counter: Measures texts for budgets; default tiktoken if its encoding is at hand,
            else an estimate.
        clock: Tells the time; default the machine's.

    Raises:
        ConfigurationError: Options that cannot work together or at all.
        ValidationError: An option that is malformed.
    """

    def __init__(
        self,
        connection: str | os.PathLike[str] | None = None,
        *,
        store: MemoryStore | None = None,
        embedder: IEmbedder | str | NotSet | None = NOT_SET_MARKER,
        search_strategy: SearchStrategy | Literal["hybrid", "keyword", "vector"] = (
            SearchStrategy.HYBRID
        ),
        schema_policy: SchemaPolicy | NotSet = NOT_SET_MARKER,
        memory_store_id: str | NotSet = NOT_SET_MARKER,
        memory_retention_config: MemoryRetentionConfig | None = None,
        token_counter: TokenCounter | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._parts = Parts(
            open_store(
                connection, store, schema_policy=schema_policy, memory_store_id=memory_store_id
            ),
            embedder=embedder,
            strategy=check_strategy(search_strategy),
            token_counter=token_counter,
            clock=clock,
            retention=memory_retention_config,
        )
        self._store = AsyncStore(self._parts)

    async def __aenter__(self) -> Self:
        """Open the database."""
        await self._parts.ready()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the database."""
        await self.close()

    async def close(self) -> None:
        """Close the database; every later call raises `ClosedError`. May be called twice."""
        await self._parts.close()

    @property
    def store(self) -> AsyncStore:
        """The store itself, below users and threads: what is omitted does not filter."""
        return self._store

    async def create_thread(
        self,
        *,
        thread_id: str | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        context_card_type_search_concurrency: int = DEFAULT_TYPE_SEARCH_CONCURRENCY,
    ) -> AsyncThread:
        """Start a conversation.

        Args:
            thread_id: The caller's id; default a new UUIDv7.
            user_id: The user it belongs to; default none.
            agent_id: The agent it belongs to; default none.
            metadata: JSON-like values of the caller's own.
            context_card_type_search_concurrency: How many searches of a context card run at
                once, 1 or more. Belongs to the handle and is not stored.

        Raises:
            ValidationError: An argument is not as described.
            ConflictError: The id is taken.
        """
        now = self._parts.clock.now()
        record = ThreadRecord(
            id=new_id() if thread_id is None else check_id(thread_id, argument="thread_id"),
            user_id=check_optional_id(user_id, argument="user_id"),
            agent_id=check_optional_id(agent_id, argument="agent_id"),
            metadata=checked_metadata(metadata),
            created_at=now,
            updated_at=now,
        )
        thread = AsyncThread(
            self._parts,
            record,
            context_card_type_search_concurrency=context_card_type_search_concurrency,
        )
        await self._parts.ready()
        await self._parts.store.add_thread(record)
        return thread

    async def get_thread(
        self,
        thread_id: str,
        *,
        user_id: OptionalId = NOT_SET_MARKER,
        agent_id: OptionalId = NOT_SET_MARKER,
        context_card_type_search_concurrency: int = DEFAULT_TYPE_SEARCH_CONCURRENCY,
    ) -> AsyncThread:
        """Open a conversation.

        Args:
            thread_id: Its id.
            user_id: The user it has to belong to (None: to none); omitted: not checked.
            agent_id: Likewise for the agent.
            context_card_type_search_concurrency: How many searches of a context card run at
                once, 1 or more. Belongs to the handle and is not stored.

        Raises:
            NotFoundError: No such thread in that scope.
            ValidationError: An argument is not as described.
        """
        record = await self._thread_record(thread_id, user_id, agent_id)
        return AsyncThread(
            self._parts,
            record,
            context_card_type_search_concurrency=context_card_type_search_concurrency,
        )

    async def update_thread(
        self,
        thread_id: str,
        *,
        metadata: Mapping[str, Any] | None,
        user_id: OptionalId = NOT_SET_MARKER,
        agent_id: OptionalId = NOT_SET_MARKER,
    ) -> AsyncThread:
        """Replace the metadata of a conversation; None clears it.

        Raises:
            NotFoundError: No such thread in that scope.
            ValidationError: An argument is not as described.
        """
        checked = checked_metadata(metadata)
        await self._thread_record(thread_id, user_id, agent_id)
        record = await self._parts.store.update_thread(
            thread_id, ThreadChanges(metadata=checked), now=self._parts.clock.now()
        )
        return AsyncThread(
            self._parts,
            record,
            context_card_type_search_concurrency=DEFAULT_TYPE_SEARCH_CONCURRENCY,
        )

    async def delete_thread(
        self,
        thread_id: str,
        *,
        user_id: OptionalId = NOT_SET_MARKER,
        agent_id: OptionalId = NOT_SET_MARKER,
    ) -> Deletion:
        """Delete a conversation with its messages and the memories that carry its thread id.

        Returns:
            How much of each kind was removed.

        Raises:
            NotFoundError: No such thread in that scope.
        """
        await self._thread_record(thread_id, user_id, agent_id)
        return await self._parts.store.delete_thread(thread_id, now=self._parts.clock.now())

    async def list_threads(
        self,
        *,
        user_id: OptionalId = NOT_SET_MARKER,
        agent_id: OptionalId = NOT_SET_MARKER,
        metadata_filter: Mapping[str, Any] | None = None,
        limit: int = 100,
        cursor: str | None = None,
        descending: bool = False,
    ) -> Page[ThreadRecord]:
        """Return one page of a user's conversations in the order they were made.

        Args:
            user_id: The user, or None for conversations without one; always needed.
            agent_id: Only those with this agent, or None for those without one; default all.
            metadata_filter: A metadata filter.
            limit: Most threads on the page, 1 to 1000.
            cursor: `next_cursor` of the page before; None for the first.
            descending: Newest first.

        Raises:
            ScopeError: No `user_id`.
            ValidationError: An argument is not as described.
        """
        Scope(user_id=_explicit_user(user_id), agent_id=agent_id)
        parse_filter(metadata_filter)
        query = ThreadQuery(
            user_id=user_id,
            agent_id=agent_id,
            metadata=metadata_filter,
            limit=check_int(limit, argument="limit", minimum=1, maximum=MAX_LIST_LIMIT),
            descending=check_bool(descending, argument="descending"),
            after=cursor,
        )
        await self._parts.ready()
        return await self._parts.store.list_threads(query)

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
            user_id=check_optional_id(_explicit_user(user_id), argument="user_id"),
            agent_id=check_optional_id(agent_id, argument="agent_id"),
            thread_id=check_optional_id(thread_id, argument="thread_id"),
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
        user_id: OptionalId = NOT_SET_MARKER,
        agent_id: OptionalId = NOT_SET_MARKER,
        thread_id: OptionalId = NOT_SET_MARKER,
    ) -> Record:
        """Change what is given of a memory; the scope arguments only say where it has to be.

        What is not given stays as it is; `ttl_days` counts anew from now or from the timestamp.

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
            scope=exact_scope(_explicit_user(user_id), agent_id, thread_id),
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
            scope=exact_scope(_explicit_user(user_id), agent_id, thread_id),
            record_types=_MESSAGE,
            default_types=_MESSAGE,
            metadata_filter=metadata_filter,
            include_invalid_results=True,
            limit=limit,
            cursor=cursor,
            order=order,
            descending=descending,
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
            scope=exact_scope(_explicit_user(user_id), agent_id, thread_id),
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
        """Search a user's records.

        Args:
            query: What to look for.
            user_id: The user, or None for records without one; always needed.
            agent_id: Only records of this agent, or None for those without one; default all.
            thread_id: Likewise for the thread.
            exact_user_match: True or omitted; a client search is always exact on the user.
            exact_agent_match: False: the agent ranks instead of filtering.
            exact_thread_match: False: the thread ranks instead of filtering.
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

        Returns:
            Results, best first.

        Raises:
            ScopeError: No `user_id`, `exact_user_match=False`, or `scope` with other fields.
            ValidationError: An argument is not as described.
        """
        request = SearchRequest(
            query=query,
            scope=resolve_client_scope(
                merge_search_scope(
                    scope,
                    user_id=user_id,
                    agent_id=agent_id,
                    thread_id=thread_id,
                    exact_user_match=exact_user_match,
                    exact_agent_match=exact_agent_match,
                    exact_thread_match=exact_thread_match,
                )
            ),
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

    async def reembed(self, *, progress: Callable[[int], None] | None = None) -> int:
        """Make every vector anew with this client's embedder, replacing another embedder's.

        Searches stay possible meanwhile; records without a vector yet are found by words.

        Args:
            progress: Called with the number of records done so far.

        Returns:
            How many records have a new vector.

        Raises:
            ConfigurationError: There is no embedder.
        """
        await self._parts.ready()
        return await self._parts.recorder.reembed(progress)

    async def purge_expired(self) -> Deletion:
        """Delete every record whose time to live is over; reads leave them out in any case.

        Returns:
            How much of each kind was removed.
        """
        await self._parts.ready()
        return await self._parts.recorder.purge_expired()

    async def stats(self) -> StoreStats:
        """Count what is stored."""
        await self._parts.ready()
        return await self._parts.store.stats(self._parts.clock.now())

    async def _thread_record(
        self, thread_id: str, user_id: OptionalId, agent_id: OptionalId
    ) -> ThreadRecord:
        check_id(thread_id, argument="thread_id")
        Scope(user_id=user_id, agent_id=agent_id)
        await self._parts.ready()
        record = await self._parts.store.get_thread(thread_id)
        for wanted, actual in ((user_id, record.user_id), (agent_id, record.agent_id)):
            if wanted is not NOT_SET_MARKER and wanted != actual:
                msg = f"there is no thread {thread_id!r} in this scope"
                raise NotFoundError(msg)
        return record


def _explicit_user(user_id: OptionalId) -> str | None:
    if user_id is NOT_SET_MARKER:
        msg = "`user_id` is missing: give a user's id, or None for what belongs to no user"
        raise ScopeError(msg, argument="user_id")
    return None if user_id is None else check_id(user_id, argument="user_id")
