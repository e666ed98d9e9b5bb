"""How the public API is used, as far as types go; checked by mypy and pyright, never run.

Both sides take and give the same types; what is wrong on purpose carries the error it has to give.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, assert_type

import oracledb

from agentmemory import (
    NOT_SET_MARKER,
    AgentMemory,
    AsyncAgentMemory,
    AsyncStore,
    AsyncThread,
    ContextCard,
    Deletion,
    IEmbedder,
    Message,
    Page,
    Record,
    ScopedRecord,
    SearchIndexSyncMode,
    SearchResult,
    SearchScope,
    Store,
    StoreStats,
    Summary,
    Thread,
    ThreadRecord,
)
from agentmemory.testing import FrozenClock, HashEmbedder


async def the_async_side(path: Path) -> None:
    embedder: IEmbedder = HashEmbedder()
    async with AsyncAgentMemory(path, embedder=embedder, clock=FrozenClock()) as memory:
        assert_type(memory, AsyncAgentMemory)
        thread = await memory.create_thread(user_id="u1", metadata={"topic": "travel"})
        assert_type(thread, AsyncThread)
        assert_type(await memory.get_thread("t1", user_id=None), AsyncThread)
        assert_type(await memory.update_thread("t1", metadata=None), AsyncThread)
        assert_type(await memory.delete_thread("t1"), Deletion)
        assert_type(await memory.list_threads(user_id="u1"), Page[ThreadRecord])

        assert_type(thread.thread_id, str)
        assert_type(thread.user_id, str | None)
        assert_type(thread.metadata, Mapping[str, Any])
        assert_type(
            await thread.add_messages(
                [{"role": "user", "content": "Hello."}, Message(role="user", content="Hello.")]
            ),
            list[str],
        )
        assert_type(await thread.get_messages(limit=10), Page[ScopedRecord])
        assert_type(await thread.get_message("m1"), Record)
        assert_type(await thread.update_message("m1", timestamp=datetime.now(UTC)), Record)
        assert_type(await thread.get_summary(), Summary)
        assert_type(await thread.get_context_card(max_relevant_results=3), ContextCard)

        assert_type(await memory.add_memory("Text.", user_id="u1", memory_type="fact"), str)
        assert_type(await memory.search("tea", user_id="u1"), list[SearchResult])
        assert_type(await memory.search("tea", scope=SearchScope(user_id="u1")), list[SearchResult])
        assert_type(await memory.list_memories(user_id=NOT_SET_MARKER), Page[ScopedRecord])
        assert_type(await memory.reembed(progress=lambda done: None), int)
        assert_type(await memory.stats(), StoreStats)
        assert_type(memory.store, AsyncStore)
        assert_type(await memory.store.search("tea"), list[SearchResult])

        await memory.add_memory("Text.", memory_type="message")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        await memory.search("tea", "u1")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        await memory.search("tea", user="u1")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    with AsyncAgentMemory(path):  # type: ignore[attr-defined]  # pyright: ignore[reportGeneralTypeIssues, reportAttributeAccessIssue]
        pass


def the_blocking_side(path: Path) -> None:
    embedder: IEmbedder = HashEmbedder()
    with AgentMemory(path, embedder=embedder, clock=FrozenClock()) as memory:
        assert_type(memory, AgentMemory)
        thread = memory.create_thread(user_id="u1", metadata={"topic": "travel"})
        assert_type(thread, Thread)
        assert_type(memory.get_thread("t1", user_id=None), Thread)
        assert_type(memory.update_thread("t1", metadata=None), Thread)
        assert_type(memory.delete_thread("t1"), Deletion)
        assert_type(memory.list_threads(user_id="u1"), Page[ThreadRecord])

        assert_type(thread.thread_id, str)
        assert_type(thread.user_id, str | None)
        assert_type(thread.metadata, Mapping[str, Any])
        assert_type(
            thread.add_messages(
                [{"role": "user", "content": "Hello."}, Message(role="user", content="Hello.")]
            ),
            list[str],
        )
        assert_type(thread.get_messages(limit=10), Page[ScopedRecord])
        assert_type(thread.get_message("m1"), Record)
        assert_type(thread.update_message("m1", timestamp=datetime.now(UTC)), Record)
        assert_type(thread.get_summary(), Summary)
        assert_type(thread.get_context_card(max_relevant_results=3), ContextCard)

        assert_type(memory.add_memory("Text.", user_id="u1", memory_type="fact"), str)
        assert_type(memory.search("tea", user_id="u1"), list[SearchResult])
        assert_type(memory.search("tea", scope=SearchScope(user_id="u1")), list[SearchResult])
        assert_type(memory.list_memories(user_id=NOT_SET_MARKER), Page[ScopedRecord])
        assert_type(memory.reembed(progress=lambda done: None), int)
        assert_type(memory.stats(), StoreStats)
        assert_type(memory.store, Store)
        assert_type(memory.store.search("tea"), list[SearchResult])

        memory.add_memory("Text.", memory_type="message")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        memory.search("tea", "u1")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        memory.search("tea", user="u1")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def mixed_up(path: Path) -> None:
    async with AgentMemory(path):  # type: ignore[attr-defined]  # pyright: ignore[reportGeneralTypeIssues, reportAttributeAccessIssue]
        pass
    await AgentMemory(path).stats()  # type: ignore[misc]  # pyright: ignore[reportGeneralTypeIssues]


def connections_of_oracle(
    pool: oracledb.AsyncConnectionPool,
    connection: oracledb.AsyncConnection,
    blocking_pool: oracledb.ConnectionPool,
    blocking_connection: oracledb.Connection,
) -> None:
    for given in (pool, connection, blocking_pool, blocking_connection):
        AsyncAgentMemory(given, schema_owner="KEEPER", search_index_sync="manual")
    AgentMemory(blocking_pool, search_index_sync=SearchIndexSyncMode.AUTO)
    AgentMemory("oracle://maya:secret@db.example.com/memory", schema_owner=None)
    AgentMemory(7)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
