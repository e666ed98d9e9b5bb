"""The text index after any run of changes is the one that would be made anew."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from agentmemory import AsyncAgentMemory
from agentmemory.errors import ConflictError
from agentmemory.records import Layer, ScopedRecord
from agentmemory.requests import RecordChanges, RecordFilter
from agentmemory.scope import ScopeFilter
from agentmemory.stores.index_fields import TokenMemo
from agentmemory.stores.sqlite import analysis, indexing
from agentmemory.stores.sqlite.schema import FTS_COLUMNS, Tables
from agentmemory.stores.sqlite.store import SqliteStore
from agentmemory.testing import HashEmbedder

T = Tables("DEFAULT")


def index_of(connection: apsw.Connection) -> dict[int, list[tuple[Any, ...]]]:
    """Return the index rows of each record in the order of their chunks."""
    rows: dict[int, list[tuple[Any, ...]]] = {}
    for seq, *values in connection.execute(
        f"SELECT c.record_seq, {', '.join(f'f.{name}' for name in FTS_COLUMNS)} "
        f"FROM {T.chunk} c LEFT JOIN {T.fts} f ON f.rowid = c.id ORDER BY c.id"
    ):
        rows.setdefault(seq, []).append(tuple(values))
    return rows


async def check_index(path: Path) -> int:
    """Compare the index with one made anew, and return how many chunks it has."""
    return await asyncio.to_thread(_check_index, path)


def _check_index(path: Path) -> int:
    connection = apsw.Connection(str(path))
    connection.execute(f"INSERT INTO {T.fts} ({T.fts}) VALUES ('integrity-check')")
    kept = index_of(connection)
    rows = connection.execute(f"SELECT count(*) FROM {T.fts}").fetchall()
    connection.execute("BEGIN")
    indexing.reindex(
        connection, T, [row[0] for row in connection.execute(f"SELECT seq FROM {T.record}")]
    )
    fresh = index_of(connection)
    connection.execute("ROLLBACK")
    connection.close()
    assert kept == fresh
    assert rows == [(sum(map(len, kept.values())),)]
    return sum(map(len, kept.values()))


def text(chance: random.Random) -> str:
    words = ["kite", "river", "amber", "tokyo", "咖啡", "monday", "seven", "harbour"]
    count = chance.choice((3, 12, 40, 400))
    return " ".join(f"{chance.choice(words)}{chance.randrange(30)}" for _ in range(count)) + "."


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("embedder", [None, HashEmbedder()], ids=["words", "vectors"])
async def test_index_rows_stay_what_they_would_be_made_anew(tmp_path, monkeypatch, seed, embedder):
    if seed == 0:
        # All edits are those of many rows.
        monkeypatch.setattr(indexing, "_MANY_CHUNKS", 1)
    chance = random.Random(seed)
    path = tmp_path / "m.db"
    async with AsyncAgentMemory(path, embedder=embedder) as memory:
        threads = [await memory.create_thread(user_id="u") for _ in range(2)]
        messages: dict[str, Any] = {}
        memories: list[str] = []
        for _ in range(40):
            thread = chance.choice(threads)
            step = chance.randrange(8)
            if step <= 2:
                ttl = chance.choice((None, 0))
                added = await thread.add_messages(
                    [
                        {
                            "role": "user",
                            "content": text(chance),
                            "metadata": {"place": text(chance)},
                            "timestamp": "2026-03-01T10:00:00Z",
                        }
                        for _ in range(chance.randint(1, 4))
                    ],
                    ttl_days=ttl,
                )
                if ttl is None:
                    messages.update(dict.fromkeys(added, thread))
            elif step == 3:
                memories.append(
                    await memory.add_memory(
                        text(chance), user_id="u", layer="rule", tags=["CREATE_ORDER", "billing"]
                    )
                )
            elif step == 4 and messages:
                name = chance.choice(sorted(messages))
                if chance.random() < 0.5:
                    await messages.pop(name).delete_message(name)
                else:
                    await messages[name].update_message(name, content=text(chance))
            elif step == 5 and messages:
                name = chance.choice(sorted(messages))
                await messages[name].update_message(
                    name, metadata={"where": text(chance)}, timestamp="2026-05-04T00:00:00Z"
                )
            elif step == 6 and memories:
                name = chance.choice(memories)
                await memory.update_memory(
                    name,
                    content=text(chance),
                    metadata={"n": text(chance)},
                    layer=chance.choice(("rule", "context", None)),
                    tags=[f"TAG_{chance.randrange(9)}"],
                    user_id="u",
                )
            elif step == 7 and chance.random() < 0.3:
                await memory.purge_expired()
        stats = await memory.stats()
    assert stats.records["message"] > 10
    assert await check_index(path) > stats.records["message"]


async def test_writers_do_not_wait_while_a_long_text_is_analysed(tmp_path, monkeypatch):
    """The transaction begins when all of the text is analysed, and holds no lock before."""
    entered = asyncio.Event()
    loop = asyncio.get_running_loop()
    go_on = asyncio.Event()

    def slow(records: list[ScopedRecord]) -> Any:
        loop.call_soon_threadsafe(entered.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(20)
        return indexing.draft_rows(records)

    async with AsyncAgentMemory(tmp_path / "m.db", embedder=None) as memory:
        thread = await memory.create_thread(user_id="u")
        await thread.add_messages([{"role": "user", "content": "kite before"}])
        monkeypatch.setattr(analysis, "draft_rows", slow)
        long = "the harbour is far away. " * 400
        async with asyncio.TaskGroup() as group:
            adding = group.create_task(thread.add_messages([{"role": "user", "content": long}]))
            await entered.wait()
            monkeypatch.setattr(analysis, "draft_rows", indexing.draft_rows)
            # Another process's handle would wait for the lock; this one for the thread, too.
            async with AsyncAgentMemory(tmp_path / "m.db", embedder=None) as other:
                await (await other.get_thread(thread.thread_id)).add_messages(
                    [{"role": "user", "content": "kite between"}]
                )
            await memory.add_memory("kite memory", user_id="u")
            assert not adding.done()
            go_on.set()
        hits = await memory.search("harbour", user_id="u", record_types=["message"])
        # What came between is indexed with the beginning of the text that came after it.
        assert {hit.content for hit in hits} == {long, "kite between"}
    await check_index(tmp_path / "m.db")


async def test_a_long_text_is_analysed_away_from_the_loop_and_a_cancel_stores_nothing(
    tmp_path, monkeypatch
):
    entered = asyncio.Event()
    loop = asyncio.get_running_loop()
    go_on = asyncio.Event()

    def slow(records: list[ScopedRecord]) -> Any:
        loop.call_soon_threadsafe(entered.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(20)
        return indexing.draft_rows(records)

    async with AsyncAgentMemory(tmp_path / "m.db", embedder=None) as memory:
        monkeypatch.setattr(analysis, "draft_rows", slow)
        async with asyncio.TaskGroup() as group:
            adding = group.create_task(memory.add_memory("river " * 2000, user_id="u"))
            await entered.wait()
            adding.cancel()
        assert adding.cancelled()
        go_on.set()
        assert not (await memory.list_memories(user_id="u")).items


async def test_a_neighbour_keeps_its_rows_but_for_the_field_that_changed(tmp_path, monkeypatch):
    """However long it is: neither its own text nor its other chunks are touched."""
    path = tmp_path / "m.db"
    async with AsyncAgentMemory(path, embedder=None) as memory:
        thread = await memory.create_thread(user_id="u")
        long = "the harbour is far away. " * 200
        for name, content in (("a", long), ("b", "kite"), ("c", long)):
            await thread.add_messages([{"role": "user", "content": content, "id": name}])
        with apsw.Connection(str(path)) as connection:
            before = [row[0] for row in connection.execute(f"SELECT id FROM {T.chunk}")]
        seen: list[str] = []

        def analysed(self: TokenMemo, key: str) -> str:
            seen.append(key)
            return missing(self, key)

        missing = TokenMemo.__missing__
        monkeypatch.setattr(TokenMemo, "__missing__", analysed)
        await thread.update_message("b", content="river")
        await thread.add_messages([{"role": "user", "content": "amber", "id": "d"}])
        await thread.delete_message("b")
        monkeypatch.undo()
        assert max(map(len, seen)) <= 200
        with apsw.Connection(str(path)) as connection:
            after = {
                row[0]
                for row in connection.execute(
                    f"SELECT c.id FROM {T.chunk} c JOIN {T.record} r ON r.seq = c.record_seq "
                    f"WHERE r.id IN ('a', 'c')"
                )
            }
        assert len(after) > 10
        assert after <= set(before)
    await check_index(path)


@pytest.mark.parametrize("many", [1, 500], ids=["merged", "row by row"])
async def test_what_a_change_takes_out_is_nowhere_in_the_index(tmp_path, monkeypatch, many):
    monkeypatch.setattr(indexing, "_MANY_CHUNKS", many)
    path = tmp_path / "m.db"
    async with AsyncAgentMemory(path, embedder=None) as memory:
        thread = await memory.create_thread(user_id="u")
        await thread.add_messages(
            [
                {
                    "role": "user",
                    "content": f"zyxwort{name} {'far away. ' * 200}",
                    "id": name,
                    "metadata": {"k": f"zyxmark{name}"},
                }
                for name in ("a", "b")
            ]
        )
        await thread.update_message("a", content="short")
        await thread.update_message("b", metadata={"k": "other"})

    def terms() -> set[str]:
        connection = apsw.Connection(str(path))
        found = {
            str(row[0])
            for row in connection.execute(f"SELECT term FROM {T.vocabulary} WHERE term GLOB 'zyx*'")
        }
        secure = f"SELECT v FROM {T.fts}_config WHERE k = 'secure-delete'"
        assert connection.execute(secure).fetchall() == [(1,)]
        connection.close()
        return found

    assert await asyncio.to_thread(terms) == {"zyxwortb", "zyxmarka"}
    await check_index(path)


async def test_a_text_that_was_blank_gets_its_first_chunk(tmp_path):
    path = tmp_path / "m.db"
    store = SqliteStore(str(path))
    now = datetime.now(UTC)
    async with AsyncAgentMemory(store=store, embedder=None) as memory:
        blank = ScopedRecord(
            id="i",
            record_type="image",
            content="",
            metadata={"where": "harbour"},
            user_id="u",
            created_at=now,
            updated_at=now,
        )
        await store.add_records([blank])
        wanted = RecordFilter(scope=ScopeFilter(), now=now, ids=("i",))
        await store.update_record(wanted, RecordChanges(tags=("red",)), now=now)
        await store.update_record(
            wanted, RecordChanges(content="a kite", layer=Layer.RULE), now=now
        )
        assert [hit.id for hit in await memory.search("harbour kite", user_id="u")] == ["i"]
    await check_index(path)


async def test_an_update_in_place_gives_a_number_away(tmp_path):
    """Whoever remembers counts of the index sees by the last number given that it changed."""
    path = tmp_path / "m.db"

    def last_number() -> Any:
        with apsw.Connection(str(path)) as connection:
            return connection.execute(
                "SELECT seq FROM sqlite_sequence WHERE name = ?", (T.chunk,)
            ).fetchall()

    async with AsyncAgentMemory(path, embedder=None) as memory:
        thread = await memory.create_thread(user_id="u")
        await thread.add_messages(
            [{"role": "user", "content": name, "id": name} for name in ("one", "two", "three")]
        )
        numbers = [last_number()]
        await thread.update_message("one", metadata={"k": "v"})
        numbers.append(last_number())
        await thread.delete_message("two")
        numbers.append(last_number())
        with pytest.raises(ConflictError):
            await thread.add_messages([{"role": "user", "content": "x", "id": "one"}])
        await thread.add_messages([{"role": "user", "content": "four"}])
        numbers.append(last_number())
    assert sorted({tuple(number) for number in numbers}) == [tuple(number) for number in numbers]
    await check_index(path)
