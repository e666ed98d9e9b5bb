"""Several clients and several stores on one file: what one does, the others must not get wrong."""

from __future__ import annotations

import gc
import threading
from pathlib import Path
from typing import Any

import anyio
import apsw
import pytest
from anyio import to_thread

from agentmemory import (
    AsyncAgentMemory,
    EmbedderMismatchError,
    SchemaPolicy,
    ValidationError,
)
from agentmemory.errors import ClosedError, StoreBusyError, StoreFullError
from agentmemory.stores.sqlite.schema import Tables, _create_v1
from agentmemory.stores.sqlite.store import SqliteStore
from agentmemory.stores.sqlite.vectors import VectorIndex
from agentmemory.telemetry import Event, subscribe
from agentmemory.testing import HashEmbedder


def memory_at(path: Path, model: str = "testing/hash", **options: Any) -> AsyncAgentMemory:
    return AsyncAgentMemory(path, embedder=HashEmbedder(model=model), **options)


async def cosines(memory: AsyncAgentMemory, query: str) -> dict[str, float | None]:
    return {hit.content: hit.explain.cosine for hit in await memory.search(query, user_id="u1")}


# Embedders


async def test_a_client_whose_embedder_was_replaced_by_another_is_refused_and_writes_nothing(
    tmp_path: Path,
) -> None:
    path = tmp_path / "memory.db"
    async with memory_at(path, "old") as old, memory_at(path, "new") as new:
        thread = await old.create_thread(user_id="u1")
        await thread.add_messages([{"role": "user", "content": "A heron.", "id": "m1"}])
        await new.reembed()
        for write in (
            lambda: thread.add_messages([{"role": "user", "content": "An owl."}]),
            lambda: thread.update_message("m1", content="An owl."),
            lambda: old.add_memory("An owl.", user_id="u1"),
        ):
            with pytest.raises(EmbedderMismatchError, match="stored 'new', given 'old'"):
                await write()
        with pytest.raises(EmbedderMismatchError):
            await old.search("heron", user_id="u1")
        assert (await new.stats()).records == {"message": 1}
        assert await cosines(new, "A heron.") == {"A heron.": pytest.approx(1.0)}


async def test_a_client_whose_embedder_was_replaced_can_take_the_store_back(
    tmp_path: Path,
) -> None:
    path = tmp_path / "memory.db"
    async with memory_at(path, "old") as old, memory_at(path, "new") as new:
        await old.add_memory("A heron.", user_id="u1")
        await new.reembed()
        assert await old.reembed() == 1
        await old.add_memory("An owl.", user_id="u1")
        assert (await cosines(old, "An owl."))["An owl."] == pytest.approx(1.0)


class RefusingStore(SqliteStore):
    """A store that has no space for the mark of the embedder."""

    async def claim_embedder(self, fingerprint: object) -> None:
        raise StoreFullError("no space is left")


async def test_a_store_that_fails_is_not_reported_as_an_embedder_that_does() -> None:
    events: list[Event] = []
    store = RefusingStore(":memory:")
    async with AsyncAgentMemory(store=store, embedder=HashEmbedder()) as memory:
        with subscribe(events.append):
            with pytest.raises(StoreFullError):
                await memory.add_memory("A heron.", user_id="u1")
            with pytest.raises(StoreFullError):
                await memory.search("heron", user_id="u1")
        assert (await memory.stats()).records == {}
    assert [event.name for event in events if event.level != "debug"] == []


# Making a store anew


async def test_a_store_made_anew_leaves_no_old_vectors_in_the_caches_of_other_clients(
    tmp_path: Path,
) -> None:
    path = tmp_path / "memory.db"
    async with memory_at(path) as warm:
        await warm.add_memory("A heron.", user_id="u1")
        assert await cosines(warm, "heron") != {}
        async with memory_at(path, schema_policy=SchemaPolicy.RECREATE) as anew:
            assert await cosines(warm, "heron") == {}
            await anew.add_memory("An owl.", user_id="u1")
            assert await cosines(warm, "An owl.") == {"An owl.": pytest.approx(1.0)}
            await warm.add_memory("A lynx.", user_id="u1")
            assert await cosines(anew, "A lynx.") == await cosines(warm, "A lynx.")


# Names of stores


def test_no_index_of_a_store_has_the_name_of_a_table_of_another() -> None:
    connection = apsw.Connection(":memory:")
    for statement in _create_v1(Tables("A")):
        connection.execute(statement)
    names = {
        str(name).removeprefix("A_"): str(kind)
        for name, kind in connection.execute(
            "SELECT name, type FROM sqlite_schema WHERE name LIKE 'A\\_%' ESCAPE '\\'"
        )
    }
    tables = {name for name, kind in names.items() if kind == "table"}
    for name in names:
        for table in tables:
            if name != table:
                assert not name.lower().endswith(f"_{table.lower()}"), (name, table)


@pytest.mark.parametrize("other", ["A_RECORD", "A_JOB", "A_CHUNK", "A_FTS", "A_VECTOR"])
async def test_stores_whose_ids_begin_alike_share_a_file(tmp_path: Path, other: str) -> None:
    for store_id in ("A", other):
        async with memory_at(tmp_path / "memory.db", memory_store_id=store_id) as memory:
            await memory.add_memory(f"Of {store_id}.", user_id="u1")
    for store_id in ("A", other):
        async with memory_at(tmp_path / "memory.db", memory_store_id=store_id) as memory:
            assert [hit.content for hit in await memory.search("of", user_id="u1")] == [
                f"Of {store_id}."
            ]


@pytest.mark.parametrize("store_id", ["sqlite", "SQLite_x"])
def test_an_id_that_sqlite_keeps_for_itself_is_refused(store_id: str) -> None:
    with pytest.raises(ValidationError, match="`memory_store_id`"):
        SqliteStore(":memory:", memory_store_id=store_id)


# Opening and letting go


async def test_a_store_that_could_not_be_opened_is_opened_by_the_next_call(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    async with memory_at(path) as memory:
        await memory.add_memory("A heron.", user_id="u1")
    locker = apsw.Connection(str(path))
    locker.execute("BEGIN IMMEDIATE")
    store = SqliteStore(str(path), memory_store_id="second", busy_timeout_s=0.1)
    async with AsyncAgentMemory(path, embedder=None):
        second = AsyncAgentMemory(store=store, embedder=None)
        with pytest.raises(StoreBusyError):
            await second.add_memory("An owl.", user_id="u1")
        locker.execute("ROLLBACK")
        locker.close()
        await second.add_memory("An owl.", user_id="u1")
        await second.close()
        with pytest.raises(ClosedError):
            await store.thread_tail("t1")


async def test_a_memory_that_nobody_closed_gives_its_threads_back(tmp_path: Path) -> None:
    before = threading.active_count()
    memory = memory_at(tmp_path / "memory.db")
    await memory.add_memory("A heron.", user_id="u1")
    assert threading.active_count() > before
    del memory
    gc.collect()
    with anyio.fail_after(10):
        while threading.active_count() > before:
            await anyio.sleep(0.01)


# The cache of vectors


async def test_a_cache_that_was_interrupted_while_it_filled_is_filled_anew(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    index = VectorIndex(Tables("DEFAULT"))
    (vector,) = await HashEmbedder().embed(["kite 7"])

    def found() -> int:
        connection = apsw.Connection(str(path))
        try:
            return len(index.best(connection, vector, user=("u1",), limit=50)[0])
        finally:
            connection.close()

    async with memory_at(path) as memory:
        for number in range(40):
            await memory.add_memory(f"kite {number}", user_id="u1")
        assert await to_thread.run_sync(found) == 40
        await memory.add_memory("kite 40", user_id="u1")
    index._budget = 0  # so that it has to be loaded again, in the other form
    append = index._append

    def interrupted(rows: Any) -> None:
        append(rows[:3])
        raise apsw.InterruptError

    index._append = interrupted  # type: ignore[method-assign]
    with pytest.raises(apsw.InterruptError):
        await to_thread.run_sync(found)
    index._append = append  # type: ignore[method-assign]
    assert await to_thread.run_sync(found) == 41
