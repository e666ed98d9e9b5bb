"""Deletes of many records on SQLite: as thorough as of one, and in sets."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from agentmemory import AsyncAgentMemory
from agentmemory.stores.sqlite import indexing
from agentmemory.testing import HashEmbedder


@pytest.mark.parametrize("many", [1, 10_000], ids=["merged", "row by row"])
async def test_both_ways_to_delete_from_the_text_index_leave_it_sound_and_without_the_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    monkeypatch.setattr(indexing, "_MANY_CHUNKS", many)
    path = tmp_path / "memory.db"
    async with AsyncAgentMemory(path, embedder=HashEmbedder()) as memory:
        for user in ("u1", "u2"):
            thread = await memory.create_thread(user_id=user)
            await thread.add_messages(
                [{"role": "user", "content": f"zyxwort{user} number {n}"} for n in range(60)]
            )
        await memory.delete_user("u1")
        assert len(await memory.search("zyxwortu2", user_id="u2", max_results=100)) == 60
        await memory.add_memory("zyxwortu3", user_id="u3")
        await memory.delete_user("u3")
    with apsw.Connection(str(path)) as connection:
        connection.execute("INSERT INTO DEFAULT_fts (DEFAULT_fts) VALUES ('integrity-check')")
        terms = {row[0] for row in connection.execute("SELECT term FROM DEFAULT_vocabulary")}
        assert {term for term in terms if str(term).startswith("zyx")} == {"zyxwortu2"}
        secure = "SELECT v FROM DEFAULT_fts_config WHERE k = 'secure-delete'"
        assert connection.execute(secure).fetchall() == [(1,)]


async def test_the_vector_caches_of_other_handles_follow_a_large_delete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentmemory.stores.sqlite.vector_rows._CHANGES_KEPT", 16)
    path = tmp_path / "memory.db"
    async with (
        AsyncAgentMemory(path, embedder=HashEmbedder(), search_strategy="vector") as memory,
        AsyncAgentMemory(path, embedder=HashEmbedder(), search_strategy="vector") as other,
    ):
        for user in ("u1", "u2"):
            thread = await memory.create_thread(user_id=user)
            await thread.add_messages([{"role": "user", "content": f"kite {n}"} for n in range(30)])
        assert len(await other.search("kite", user_id="u1", max_results=100)) == 30
        await memory.delete_user("u1")
        assert await other.search("kite", user_id="u1", max_results=100) == []
        assert len(await other.search("kite", user_id="u2", max_results=100)) == 30


async def test_a_run_of_messages_in_the_middle_leaves_its_two_neighbours_reindexed() -> None:
    async with AsyncAgentMemory(":memory:", embedder=None) as memory:
        thread = await memory.create_thread(user_id="u1")
        words = ["first", "alpha", "beta", "gamma", "last"]
        await thread.add_messages(
            [{"role": "user", "content": word, "id": word} for word in words[:1]]
        )
        await thread.add_messages(
            [{"role": "user", "content": word, "id": word} for word in words[1:4]], ttl_days=0
        )
        await thread.add_messages([{"role": "user", "content": "last", "id": "last"}])
        deletion = await memory.purge_expired()
        assert (deletion.counts["message"], deletion.counts["reindexed"]) == (3, 2)
        assert [hit.id for hit in await memory.search("first", user_id="u1")] == ["first", "last"]
        for word in words[1:4]:
            assert await memory.search(word, user_id="u1") == []
