"""A conversation and its verbs; thin: the rooms below do the work.

May import parts, memories, context and below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

import anyio

from agentmemory.checks import check_int, check_number
from agentmemory.config import MemorySearchConfig, SearchPreset, TimeToLiveAnchor
from agentmemory.context.card import (
    CARD_LIMIT_KEY,
    DEFAULT_CARD_TOKENS,
    DEFAULT_FALLBACK_MESSAGES,
    CardOwner,
    CardRequest,
)
from agentmemory.context.summary import DEFAULT_SUMMARY_TOKENS
from agentmemory.extraction_config import MemoryExtractionConfig, check_extraction_config
from agentmemory.handles.thread_images import ThreadImages
from agentmemory.handles.thread_layers import ThreadLayers
from agentmemory.handles.thread_links import ThreadLinks
from agentmemory.handles.thread_memories import ThreadMemories
from agentmemory.memories import (
    delete_record,
    get_record,
    list_records,
    update_record,
)
from agentmemory.messages import Message, to_messages
from agentmemory.ontology.routing import check_layers
from agentmemory.parts import Parts, checked_metadata
from agentmemory.records import (
    Layer,
    Record,
    RecordType,
    ScopedRecord,
    ThreadRecord,
    Tier,
    new_id,
)
from agentmemory.requests import Deletion, Page
from agentmemory.results import ContextCard, SearchResult, SearchResultFormatConfig, Summary
from agentmemory.retrieval.request import (
    DEFAULT_MAX_LINKED_RESULTS,
    SearchRequest,
)
from agentmemory.retrieval.settings import from_stored
from agentmemory.scope import (
    NOT_SET_MARKER,
    NotSet,
    OptionalFlag,
    OptionalId,
    Scope,
    merge_search_scope,
    resolve_thread_scope,
)

DEFAULT_TYPE_SEARCH_CONCURRENCY = 5

_MESSAGE: tuple[RecordType, ...] = ("message",)


class AsyncThread(ThreadMemories, ThreadLayers, ThreadLinks, ThreadImages):
    """A conversation of a user with an agent; made by a client, not by hand.

    Messages live in the thread. Memories added here carry its thread id and belong to its user
    and agent, whose other threads find them too.
    """

    def __init__(
        self,
        parts: Parts,
        record: ThreadRecord,
        *,
        search_config: MemorySearchConfig | None,
        context_card_type_search_concurrency: int,
    ) -> None:
        self._parts = parts
        self._record = record
        self._search_configs = (search_config, from_stored(record.config.get("search")))
        parts.warn_without_pruner(record.id, *self._search_configs)
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

    async def add_messages(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        *,
        ttl_days: float | timedelta | None | NotSet = NOT_SET_MARKER,
        ttl_anchor: TimeToLiveAnchor | Literal["created_at", "timestamp"] = (
            TimeToLiveAnchor.CREATED_AT
        ),
        memory_extraction_config: MemoryExtractionConfig | None = None,
    ) -> list[str]:
        """Append messages, and have memories drawn out of them.

        Args:
            messages: OpenAI-style dicts (`role`, `content`, optional `name`, `timestamp`,
                `metadata`, `id`) or `Message` objects, oldest first. All are stored, or none.
            ttl_days: Days, or a `timedelta`, until they disappear; None: as long as allowed;
                default as the client's retention says.
            ttl_anchor: From when `ttl_days` counts: "created_at" or "timestamp".
            memory_extraction_config: How memories are drawn out of these messages, over what
                the thread says.

        Returns:
            The messages' ids in order.

        Raises:
            ValidationError: A message is malformed, or an id stands twice.
            ConflictError: An id is taken.
            NotFoundError: The thread was deleted.
            WaitTimeoutError: Too much work is waiting, and the configuration makes that an
                error; nothing was stored.
            ModelError: Inline extraction failed; the messages are stored, and it is tried again
                in the background.
        """
        call = check_extraction_config(memory_extraction_config)
        checked = to_messages(messages)
        now = self._parts.clock.now()
        records = [
            ScopedRecord(
                id=message.id or new_id(),
                record_type="message",
                content=self._parts.redacted(message.content),
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
        extraction = self._parts.extraction
        plan = extraction.plan(self._record, records, call)
        await extraction.make_room(plan)
        stored = await self._parts.recorder.add_messages(self.thread_id, records, jobs=plan.jobs)
        await extraction.go_on(plan)
        return [record.id for record in stored]

    async def get_messages(
        self,
        *,
        limit: int = 100,
        cursor: str | None = None,
        descending: bool = False,
        metadata_filter: Mapping[str, Any] | None = None,
        event_after: datetime | str | None = None,
        event_before: datetime | str | None = None,
    ) -> Page[ScopedRecord]:
        """Return one page of the thread's messages in the order they were added.

        Args:
            limit: Most messages on the page, 1 to 1000.
            cursor: `next_cursor` of the page before; None for the first.
            descending: Newest first.
            metadata_filter: A metadata filter.
            event_after: Only what was said (else was stored) at or after this time.
            event_before: Only what was said (else was stored) before this time.

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
            times={"event_after": event_after, "event_before": event_before},
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

        A new text has its memories drawn out anew: those that came from the message alone go,
        and summaries of it are written again.

        Args:
            message_id: The message.
            content: New text.
            metadata: New metadata as a whole; None for none.
            timestamp: New time; None for unknown.

        Raises:
            NotFoundError: There is none with this id in this thread.
            ValidationError: Nothing to change, or an argument is not as described.
        """
        plan = None
        if content is not NOT_SET_MARKER:
            plan = self._parts.extraction.plan_edit(self._record, message_id)
        record = await update_record(
            self._parts,
            message_id,
            argument="message_id",
            scope=self._scope,
            record_types=_MESSAGE,
            content=content,
            metadata=metadata,
            timestamp=timestamp,
            jobs=() if plan is None else plan.jobs,
        )
        if plan is not None:
            await self._parts.extraction.go_on(plan)
        return record

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
            search_config: What is done with what was found, over the thread's and the client's.
            trace: Whether the results tell how long each stage took.

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
            settings=self._parts.settings(search_config, *self._search_configs),
            trace=trace,
        )
        await self._parts.ready()
        return await self._parts.searcher.search(request)

    async def wait_for_memory_extraction(self, timeout: float | None = None) -> None:
        """Wait until every message of this thread has been worked on, or was given up.

        Args:
            timeout: Most seconds to wait; None: no limit.

        Raises:
            WaitTimeoutError: Work is left after `timeout`; it goes on in the background.
            ValidationError: `timeout` is no number of seconds.
        """
        if timeout is not None:
            check_number(timeout, argument="timeout", minimum=0)
        await self._parts.ready()
        await self._parts.extraction.worker.wait(thread_id=self.thread_id, timeout=timeout)

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
        search_config: MemorySearchConfig | SearchPreset | None = None,
        context_card_token_limit: int | NotSet = NOT_SET_MARKER,
        stable: bool = False,
        include_profiles: bool = False,
        include_guidelines: bool = False,
        layers: Sequence[Layer | Literal["critical", "rule", "context", "background"]] = (
            Layer.CRITICAL,
        ),
        always_on_token_budget: int | None = None,
        num_hops: int = 0,
        max_linked_results: int = DEFAULT_MAX_LINKED_RESULTS,
    ) -> ContextCard:
        """Build compact context for the next answer.

        Critical memories stand in it whatever is asked. With a language model it starts with the
        stored summary; only the first one is waited for.

        Args:
            query: What to search for, together with summary and topics if there are; default the
                latest user message.
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
            search_config: What is done with what was found, for each set of results by itself,
                over the thread's and the client's.
            context_card_token_limit: Most tokens of the whole card; not positive: no limit;
                default the thread's.
            stable: Put what rarely changes first, byte for byte the same between turns, so that
                prompt caches of model providers hit.
            include_profiles: Show the profiles of the user and the agent.
            include_guidelines: Show every valid guideline of the user and agent, at most 50,
                whatever is asked.
            layers: Layers that are shown whatever is asked, at most 50 memories besides CRITICAL,
                which is in any case.
            always_on_token_budget: What CRITICAL, guidelines and these layers may cost together;
                the newest go first, CRITICAL never. Default no limit of their own.
            num_hops: How far to follow links from each relevant memory, 0 to 5.
            max_linked_results: Most linked memories of one relevant memory.

        Raises:
            ValidationError: An argument is not as described.
        """
        extraction = self._parts.extraction.settings(self._record)
        if context_card_token_limit is NOT_SET_MARKER:
            stored = self._record.config.get(CARD_LIMIT_KEY, DEFAULT_CARD_TOKENS)
            context_card_token_limit = int(stored)
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
            settings=self._parts.settings(search_config, *self._search_configs),
            token_limit=context_card_token_limit,
            stable=stable,
            include_profiles=include_profiles,
            include_guidelines=include_guidelines,
            layers=check_layers(layers),
            always_on_token_budget=always_on_token_budget,
            num_hops=num_hops,
            max_linked_results=max_linked_results,
            with_summary=extraction.enable_context_summary,
            summary_due=extraction.context_summary_update_frequency,
        )
        await self._parts.ready()
        return await self._parts.cards.build(
            self._owner,
            request,
            limiter=anyio.CapacityLimiter(self._concurrency),
        )

    @property
    def _owner(self) -> CardOwner:
        return CardOwner(thread_id=self.thread_id, user_id=self.user_id, agent_id=self.agent_id)
