"""What the commands do, without a word to the user: open, ask, close. May import the client."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, cast

import anyio

from agentmemory import __version__
from agentmemory.checks import check_int, check_optional_id
from agentmemory.cli.database import DatabaseOptions, Opened, open_memory, open_unchecked
from agentmemory.cli.screen import Progress
from agentmemory.errors import (
    ConfigurationError,
    NotFoundError,
    SchemaMismatchError,
    ScopeError,
    StoreError,
)
from agentmemory.protocols import IEmbedder
from agentmemory.records import MemoryType, Record, ScopedRecord, ThreadRecord
from agentmemory.requests import MAX_LIST_LIMIT, Capability, Page, StoreStats, ThreadQuery
from agentmemory.results import ContextCard, SearchResult
from agentmemory.retrieval.fan_out import fan_out
from agentmemory.retrieval.request import check_record_types
from agentmemory.scope import NOT_SET_MARKER, OptionalId

_READS_AT_ONCE = 2
_WARM_UP = "warm up"


async def warm_up(embedder: IEmbedder | None, progress: Progress) -> None:
    """Load the model now, so that the user sees what takes the time."""
    if embedder is not None:
        progress.stage("Loading the local embedding model")
        await embedder.embed([_WARM_UP])


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchWish:
    """What `search` is asked for.

    Args:
        query: What to look for.
        user_id: The user, None for records without one, omitted for everybody's.
        agent_id: Only this agent's records; omitted for all.
        thread_id: Only this thread's records; omitted for all.
        record_types: Only these types; None for all.
        include_invalid: Whether replaced records are found.
        max_results: Most results.
        trace: Whether the results tell how long each stage took.
    """

    query: str
    user_id: OptionalId
    agent_id: OptionalId = NOT_SET_MARKER
    thread_id: OptionalId = NOT_SET_MARKER
    record_types: Sequence[str] | None = None
    include_invalid: bool = True
    max_results: int = 10
    trace: bool = False


async def search(
    options: DatabaseOptions, embedder: IEmbedder | None, wish: SearchWish, progress: Progress
) -> list[SearchResult]:
    """Search one user's records, or everybody's."""
    async with open_memory(options, embedder) as opened:
        await warm_up(embedder, progress)
        progress.stage("Searching")
        # Everybody's records are the store's business: a client always names a user.
        layer = opened.memory.store if wish.user_id is NOT_SET_MARKER else opened.memory
        return await layer.search(
            wish.query,
            user_id=wish.user_id,
            agent_id=wish.agent_id,
            thread_id=wish.thread_id,
            record_types=check_record_types(wish.record_types),
            include_invalid_results=wish.include_invalid,
            max_results=wish.max_results,
            trace=wish.trace,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryWish:
    """What `add` is asked to store; a thread brings its user and agent along."""

    content: str
    memory_type: str
    user_id: str | None = None
    agent_id: str | None = None
    thread_id: str | None = None
    memory_id: str | None = None
    timestamp: datetime | None = None
    metadata: Mapping[str, Any] | None = None


async def add(
    options: DatabaseOptions, embedder: IEmbedder | None, wish: MemoryWish, progress: Progress
) -> Record:
    """Store one memory and return it as it was stored."""
    if wish.user_id is None and wish.thread_id is None:
        msg = "`--user` is missing: say whose memory it is, or give `--thread`"
        raise ScopeError(msg, argument="user_id")
    async with open_memory(options, embedder, create=wish.thread_id is None) as opened:
        memory = opened.memory
        await warm_up(embedder, progress)
        progress.stage("Storing")
        kind = cast("MemoryType", wish.memory_type)  # checked there
        if wish.thread_id is None:
            memory_id = await memory.add_memory(
                wish.content,
                user_id=wish.user_id,
                agent_id=wish.agent_id,
                memory_type=kind,
                memory_id=wish.memory_id,
                timestamp=wish.timestamp,
                metadata=wish.metadata,
            )
        else:
            thread = await memory.get_thread(
                wish.thread_id, user_id=_given(wish.user_id), agent_id=_given(wish.agent_id)
            )
            memory_id = await thread.add_memory(
                wish.content,
                memory_type=kind,
                memory_id=wish.memory_id,
                timestamp=wish.timestamp,
                metadata=wish.metadata,
            )
        return await memory.get_memory(memory_id)


def _given(value: str | None) -> OptionalId:
    return NOT_SET_MARKER if value is None else value


@dataclass(frozen=True, slots=True, kw_only=True)
class CardWish:
    """What `card` is asked for; None means the library's default."""

    thread_id: str
    query: str | None = None
    max_relevant_results: int | None = None
    minima: Mapping[str, int] | None = None
    max_recent_messages: int = 0
    token_budget: int | None = None


async def card(
    options: DatabaseOptions, embedder: IEmbedder | None, wish: CardWish, progress: Progress
) -> ContextCard:
    """Build the context card of a thread."""
    async with open_memory(options, embedder) as opened:
        thread = await opened.memory.get_thread(wish.thread_id)
        await warm_up(embedder, progress)
        progress.stage("Building the card")
        most = wish.max_relevant_results
        return await thread.get_context_card(
            query=wish.query,
            max_relevant_results=NOT_SET_MARKER if most is None else most,
            min_relevant_results_by_type=wish.minima,
            max_recent_messages=wish.max_recent_messages,
            token_budget=wish.token_budget,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedThread:
    """A thread and its first message, if it has one."""

    thread: ThreadRecord
    first: Record | None


async def threads(
    options: DatabaseOptions, *, user_id: str | None, limit: int, cursor: str | None
) -> Page[ListedThread]:
    """List the newest threads of a user, or of everybody."""
    check_optional_id(user_id, argument="user_id")
    check_int(limit, argument="limit", minimum=1, maximum=MAX_LIST_LIMIT)
    async with open_memory(options, None) as opened:
        page = await opened.store.list_threads(
            ThreadQuery(user_id=_given(user_id), limit=limit, descending=True, after=cursor)
        )
        firsts = await fan_out(
            lambda thread: _first_message(opened, thread),
            page.items,
            limiter=anyio.CapacityLimiter(_READS_AT_ONCE),
        )
        return Page(
            items=tuple(
                ListedThread(thread=thread, first=first)
                for thread, first in zip(page.items, firsts, strict=True)
            ),
            next_cursor=page.next_cursor,
        )


async def _first_message(opened: Opened, thread: ThreadRecord) -> Record | None:
    try:
        handle = await opened.memory.get_thread(thread.id)
    except NotFoundError:  # deleted since it was listed
        return None
    page = await handle.get_messages(limit=1)
    return page.items[0] if page.items else None


async def messages(
    options: DatabaseOptions, *, thread_id: str, limit: int, cursor: str | None
) -> Page[ScopedRecord]:
    """Return the last messages of a thread, oldest first; the cursor leads further back."""
    async with open_memory(options, None) as opened:
        thread = await opened.memory.get_thread(thread_id)
        page = await thread.get_messages(limit=limit, cursor=cursor, descending=True)
        return Page(items=page.items[::-1], next_cursor=page.next_cursor)


async def stats(options: DatabaseOptions) -> StoreStats:
    """Count what is stored."""
    async with open_memory(options, None) as opened:
        return await opened.memory.stats()


NEEDED = ("database", "store")
"""Findings of `examine` without which nothing works."""


async def examine(options: DatabaseOptions) -> tuple[Capability, ...]:
    """Find out what this installation and the database can do; a store is not needed for it."""
    findings = [_installed()]
    model, _ = options.load_embedder()
    findings.append(
        Capability(
            name="embedder",
            available=model is not None,
            detail="none: searched by words"
            if model is None
            else f"{(await model.fingerprint()).model}, on this machine",
        )
    )
    try:
        await anyio.to_thread.run_sync(options.require_file)
        findings += await _of_database(options)
    except (StoreError, ConfigurationError) as error:
        findings.append(Capability(name="database", available=False, detail=str(error)))
    return tuple(findings)


def _installed() -> Capability:
    python = ".".join(map(str, sys.version_info[:3]))
    return Capability(
        name="agentmemory", available=True, detail=f"{__version__} on Python {python}"
    )


async def _of_database(options: DatabaseOptions) -> list[Capability]:
    try:
        async with open_memory(options, None) as opened:
            counted = await opened.memory.stats()
    except SchemaMismatchError as error:
        async with open_unchecked(options) as store:
            able = tuple(getattr(store, "capabilities", ()))
        why = str(error).partition(", and `schema_policy`")[0]
        return [*(able or _OPEN), Capability(name="store", available=False, detail=why)]
    failed = counted.jobs.get("failed", 0)
    return [
        *(counted.capabilities or _OPEN),
        Capability(
            name="store",
            available=True,
            detail=f"schema version {counted.schema_version}, "
            f"{sum(counted.records.values())} records, {counted.vectors} vectors",
        ),
        Capability(
            name="jobs",
            available=not failed,
            detail=f"{failed} failed; `memory.retry_failed()` runs them again"
            if failed
            else "none failed",
        ),
    ]


_OPEN: Final = (Capability(name="database", available=True, detail="open"),)


async def reembed(options: DatabaseOptions, embedder: IEmbedder | None, progress: Progress) -> int:
    """Make every vector anew."""
    async with open_memory(options, embedder) as opened:
        await warm_up(embedder, progress)
        progress.stage("Making vectors")
        return await opened.memory.reembed(
            progress=lambda done: progress.stage(f"Making vectors: {done} records done")
        )
