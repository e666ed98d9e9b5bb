"""The async client: opens a memory and hands out threads; thin, the rooms below do the work.

May import thread, store, memories, parts and below.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, Self

from agentmemory.checks import check_bool, check_id, check_int, check_optional_id
from agentmemory.config import (
    ImageInputLimitConfig,
    MemoryRetentionConfig,
    MemorySearchConfig,
    SchemaPolicy,
    SearchIndexSyncMode,
    SearchPreset,
    SearchStrategy,
)
from agentmemory.context.card import CARD_LIMIT_KEY, DEFAULT_CARD_TOKENS
from agentmemory.errors import NotFoundError, ValidationError
from agentmemory.extraction.service import THREAD_KEY, stored_extraction
from agentmemory.extraction_config import MemoryExtractionConfig, check_extraction_config
from agentmemory.forgetting import forget
from agentmemory.handles.base import explicit_user
from agentmemory.handles.client_images import ClientImages
from agentmemory.handles.client_layers import ClientLayers
from agentmemory.handles.client_links import ClientLinks
from agentmemory.handles.client_memories import ClientMemories
from agentmemory.handles.client_profiles import ClientProfiles
from agentmemory.handles.client_work import ClientWork
from agentmemory.parts import Parts, checked_metadata, open_store
from agentmemory.protocols import (
    Clock,
    IEmbedder,
    ILlm,
    MemoryStore,
    OracleConnection,
    TokenCounter,
)
from agentmemory.records import (
    RecordType,
    ThreadRecord,
    Tier,
    new_id,
)
from agentmemory.requests import (
    MAX_LIST_LIMIT,
    Deletion,
    ForgetReceipt,
    Page,
    StoreStats,
    ThreadChanges,
    ThreadQuery,
)
from agentmemory.results import SearchResult
from agentmemory.retrieval.request import (
    DEFAULT_MAX_LINKED_RESULTS,
    SearchRequest,
    check_strategy,
)
from agentmemory.retrieval.settings import check_search_config, client_config, to_stored
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


class AsyncAgentMemory(
    ClientMemories, ClientLayers, ClientLinks, ClientProfiles, ClientImages, ClientWork
):
    """Memory for agents: threads of messages, durable memories, search and context cards.

    Works as an async context manager and without; the database is opened on first need.

    Args:
        connection: Where the memory lives: a path, `sqlite:///path` or `":memory:"`; or for an
            Oracle AI Database `oracle://user:password@host:port/service`, or a pool or connection
            of python-oracledb, which stays its user's and is never closed.
        store: Any `MemoryStore` instead of `connection`.
        embedder: An `IEmbedder`, a model name such as "local", or None for lexical search.
            Omitted: the local embedder if its extra is installed, else lexical search.
        search_strategy: Which arms searches use: HYBRID (default), KEYWORD or VECTOR.
        schema_policy: What opening may do to the database; default CREATE_IF_NECESSARY, on an
            Oracle database REQUIRE_EXISTING.
        memory_store_id: Tells apart several stores in one database: a letter, then letters,
            digits or underscores, at most 16.
        schema_owner: On an Oracle database: the user whose schema holds the store; default that
            of the connection.
        search_index_sync: On an Oracle database: when the text index is brought up to date;
            default as the store has it, ON_COMMIT for a new one.
        memory_retention_config: How long messages and memories live by default and at most;
            default for ever.
        search_config: What searches and cards do with what they found; new threads store it.
        pruner_llm: A language model that removes results of no use; short for a
            `PruningMemorySearchConfig` in FAST mode, and not together with `search_config`.
        llm: An `ILlm` or a model name such as "openai/gpt-5-mini" that draws memories out of
            messages and writes summaries. None: standing instructions and preferences of users
            are found by their phrases, and transcripts stand in for summaries.
        memory_extraction_config: How memories are drawn out of messages; default
            `MemoryExtractionConfig()`.
        redactor: Applied to the text of every message and memory before it is stored, such as
            `agentmemory.redact_secrets`; default none. Extracted memories are always cleared of
            keys, tokens and payment cards.
        image_input_limit_config: How large images may be; default 10 MiB and 100 megapixels.
        token_counter: Measures texts for budgets; default tiktoken if its encoding is at hand,
            else an estimate.
        clock: Tells the time; default the machine's.

    Raises:
        ConfigurationError: Options that cannot work together or at all.
        ValidationError: An option that is malformed.
    """

    def __init__(
        self,
        connection: str | os.PathLike[str] | OracleConnection | None = None,
        *,
        store: MemoryStore | None = None,
        embedder: IEmbedder | str | NotSet | None = NOT_SET_MARKER,
        search_strategy: SearchStrategy | Literal["hybrid", "keyword", "vector"] = (
            SearchStrategy.HYBRID
        ),
        schema_policy: SchemaPolicy | NotSet = NOT_SET_MARKER,
        memory_store_id: str | NotSet = NOT_SET_MARKER,
        schema_owner: str | None = None,
        search_index_sync: SearchIndexSyncMode
        | Literal["on_commit", "manual", "auto"]
        | None = None,
        memory_retention_config: MemoryRetentionConfig | None = None,
        image_input_limit_config: ImageInputLimitConfig | None = None,
        search_config: MemorySearchConfig | SearchPreset | None = None,
        pruner_llm: ILlm | None = None,
        llm: ILlm | str | None = None,
        memory_extraction_config: MemoryExtractionConfig | None = None,
        redactor: Callable[[str], str] | None = None,
        token_counter: TokenCounter | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._parts = Parts(
            open_store(
                connection,
                store,
                schema_policy=schema_policy,
                memory_store_id=memory_store_id,
                schema_owner=schema_owner,
                search_index_sync=search_index_sync,
            ),
            embedder=embedder,
            strategy=check_strategy(search_strategy),
            token_counter=token_counter,
            clock=clock,
            retention=memory_retention_config,
            image_limits=image_input_limit_config,
            search_config=client_config(search_config, pruner_llm),
            llm=llm,
            extraction_config=memory_extraction_config,
            redactor=redactor,
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
        memory_extraction_config: MemoryExtractionConfig | None = None,
        search_config: MemorySearchConfig | SearchPreset | None = None,
        context_card_token_limit: int = DEFAULT_CARD_TOKENS,
        context_card_type_search_concurrency: int = DEFAULT_TYPE_SEARCH_CONCURRENCY,
    ) -> AsyncThread:
        """Start a conversation.

        Args:
            thread_id: The caller's id; default a new UUIDv7.
            user_id: The user it belongs to; default none.
            agent_id: The agent it belongs to; default none.
            metadata: JSON-like values of the caller's own.
            memory_extraction_config: How memories are drawn out of its messages, over what the
                client says; stored with the thread.
            search_config: What its searches and cards do with what they found; stored with the
                thread but for live objects. Default the client's.
            context_card_token_limit: Most tokens of each of its cards, default 100000; not
                positive: no limit. Stored with the thread.
            context_card_type_search_concurrency: How many searches of a context card run at
                once, 1 or more. Belongs to the handle and is not stored.

        Raises:
            ValidationError: An argument is not as described.
            ConflictError: The id is taken.
        """
        now = self._parts.clock.now()
        given = check_search_config(search_config)
        record = ThreadRecord(
            id=new_id() if thread_id is None else check_id(thread_id, argument="thread_id"),
            user_id=check_optional_id(user_id, argument="user_id"),
            agent_id=check_optional_id(agent_id, argument="agent_id"),
            metadata=checked_metadata(metadata),
            config={
                **_stored_config(given or self._parts.search_config),
                **stored_extraction(check_extraction_config(memory_extraction_config)),
                **_stored_limit(context_card_token_limit),
            },
            created_at=now,
            updated_at=now,
        )
        thread = AsyncThread(
            self._parts,
            record,
            search_config=given,
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
        search_config: MemorySearchConfig | SearchPreset | None = None,
        context_card_type_search_concurrency: int = DEFAULT_TYPE_SEARCH_CONCURRENCY,
    ) -> AsyncThread:
        """Open a conversation.

        Args:
            thread_id: Its id.
            user_id: The user it has to belong to (None: to none); omitted: not checked.
            agent_id: Likewise for the agent.
            search_config: What this handle's searches and cards do with what they found, over
                what the thread stores; not stored.
            context_card_type_search_concurrency: How many searches of a context card run at
                once, 1 or more. Belongs to the handle and is not stored.

        Raises:
            NotFoundError: No such thread in that scope.
            ValidationError: An argument is not as described.
        """
        given = check_search_config(search_config)
        record = await self._thread_record(thread_id, user_id, agent_id)
        return AsyncThread(
            self._parts,
            record,
            search_config=given,
            context_card_type_search_concurrency=context_card_type_search_concurrency,
        )

    async def update_thread(
        self,
        thread_id: str,
        *,
        metadata: Mapping[str, Any] | None | NotSet = NOT_SET_MARKER,
        search_config: MemorySearchConfig | SearchPreset | None | NotSet = NOT_SET_MARKER,
        memory_extraction_config: MemoryExtractionConfig | None | NotSet = NOT_SET_MARKER,
        user_id: OptionalId = NOT_SET_MARKER,
        agent_id: OptionalId = NOT_SET_MARKER,
    ) -> AsyncThread:
        """Replace what is given of a conversation.

        Args:
            thread_id: Its id.
            metadata: New metadata as a whole; None clears it.
            search_config: What its searches and cards do with what they found; None: the
                client's, whatever that is by then.
            memory_extraction_config: How memories are drawn out of its messages, as a whole;
                None: as the client says.
            user_id: The user it has to belong to (None: to none); omitted: not checked.
            agent_id: Likewise for the agent.

        Raises:
            NotFoundError: No such thread in that scope.
            ValidationError: Nothing to change, or an argument is not as described.
        """
        given_values = (metadata, search_config, memory_extraction_config)
        if all(value is NOT_SET_MARKER for value in given_values):
            msg = (
                "nothing to change: give `metadata`, `search_config` or `memory_extraction_config`"
            )
            raise ValidationError(msg, argument="metadata")
        given = None if search_config is NOT_SET_MARKER else check_search_config(search_config)
        extraction = (
            NOT_SET_MARKER
            if memory_extraction_config is NOT_SET_MARKER
            else check_extraction_config(memory_extraction_config)
        )
        present = await self._thread_record(thread_id, user_id, agent_id)
        config = dict(present.config)
        if search_config is not NOT_SET_MARKER:
            config["search"] = to_stored(given)
        if extraction is not NOT_SET_MARKER:
            config.pop(THREAD_KEY, None)
            config.update(stored_extraction(extraction))
        changes = ThreadChanges(
            metadata=NOT_SET_MARKER if metadata is NOT_SET_MARKER else checked_metadata(metadata),
            config=NOT_SET_MARKER if config == present.config else config,
        )
        record = await self._parts.store.update_thread(
            thread_id, changes, now=self._parts.clock.now()
        )
        return AsyncThread(
            self._parts,
            record,
            search_config=given,
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
        Scope(user_id=explicit_user(user_id), agent_id=agent_id)
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
        max_results: int | NotSet = NOT_SET_MARKER,
        record_types: Sequence[RecordType] | None = None,
        metadata_filter: Mapping[str, Any] | None = None,
        include_invalid_results: bool = True,
        tiers: Sequence[Tier | Literal["hot", "warm", "cold", "archived", "deprecated"]]
        | None = None,
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
        search_config: MemorySearchConfig | SearchPreset | None = None,
        trace: bool = False,
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
            max_results: Most results, 1 to 1000; default as configured, else 10.
            record_types: Only these types; default all.
            metadata_filter: A metadata filter.
            include_invalid_results: Whether invalid records are found; they never stand before
                the valid one that replaced them.
            tiers: Only these tiers; default all but "archived" and "deprecated".
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
            search_config: What is done with what was found, over the client's.
            trace: Whether the results tell how long each stage took.

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
            tiers=tiers,  # type: ignore[arg-type]
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
            settings=self._parts.settings(search_config),
            trace=trace,
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

    async def forget(
        self,
        *,
        user_id: OptionalId = NOT_SET_MARKER,
        agent_id: OptionalId = NOT_SET_MARKER,
        thread_id: OptionalId = NOT_SET_MARKER,
        dry_run: bool = False,
    ) -> ForgetReceipt:
        """Erase all that belongs to a user, an agent or a thread, and show that no trace is left.

        Records go whatever their status, tier or expiry, with threads, links, summaries, jobs,
        images and every memory that came from a message that goes. The database file is then
        built anew and searched for samples of what was in it, which takes time in proportion to
        its size. After an interruption the same call finishes the work.

        Args:
            user_id: The user, or None for what belongs to no user.
            agent_id: The agent; with a user, only what belongs to both.
            thread_id: The thread; likewise.
            dry_run: Count what would go, and change nothing.

        Raises:
            ScopeError: Neither a user nor the id of an agent or a thread was given.
        """
        return await forget(
            self._parts, user_id=user_id, agent_id=agent_id, thread_id=thread_id, dry_run=dry_run
        )

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


def _stored_config(search_config: MemorySearchConfig | None) -> dict[str, Any]:
    stored = to_stored(search_config)
    return {} if stored is None else {"search": stored}


def _stored_limit(limit: int) -> dict[str, int]:
    """Return what a thread stores of the limit of its cards."""
    check_int(limit, argument="context_card_token_limit")
    return {} if limit == DEFAULT_CARD_TOKENS else {CARD_LIMIT_KEY: limit}
