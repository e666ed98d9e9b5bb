"""The public handle of a store: the third layer, below users and threads.

May import parts, memories and below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from agentmemory.config import MemorySearchConfig, SearchPreset
from agentmemory.memories import exact_scope, get_record
from agentmemory.parts import Parts
from agentmemory.records import RECORD_TYPES, Record, RecordType, Tier
from agentmemory.results import SearchResult
from agentmemory.retrieval.request import (
    DEFAULT_MAX_LINKED_RESULTS,
    SearchRequest,
)
from agentmemory.scope import (
    NOT_SET_MARKER,
    NotSet,
    OptionalFlag,
    OptionalId,
    Scope,
    merge_search_scope,
    resolve_store_scope,
)


class AsyncStore:
    """A store without a scope of its own: what is omitted does not filter.

    Meant for administration and for code that brings its own scoping; made by a client.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def __repr__(self) -> str:
        return f"{type(self).__name__}(store_id={self.store_id!r})"

    @property
    def store_id(self) -> str:
        """The id that tells apart several stores in one database."""
        return self._parts.store.store_id

    async def get(
        self,
        record_id: str,
        *,
        user_id: OptionalId = NOT_SET_MARKER,
        agent_id: OptionalId = NOT_SET_MARKER,
        thread_id: OptionalId = NOT_SET_MARKER,
    ) -> Record:
        """Return a record of any type.

        Raises:
            NotFoundError: No such record in that scope.
        """
        return await get_record(
            self._parts,
            record_id,
            argument="record_id",
            scope=exact_scope(user_id, agent_id, thread_id),
            record_types=RECORD_TYPES,
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
        """Search every record of the store, or those of a scope.

        Args:
            query: What to look for.
            user_id: Only records of this user, or None for those without one; default all.
            agent_id: Likewise for the agent.
            thread_id: Likewise for the thread.
            exact_user_match: False: a given user ranks instead of filtering.
            exact_agent_match: Likewise for the agent.
            exact_thread_match: Likewise for the thread.
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

        Raises:
            ValidationError: An argument is not as described.
        """
        request = SearchRequest(
            query=query,
            scope=resolve_store_scope(
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
