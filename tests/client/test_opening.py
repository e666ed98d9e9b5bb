"""Opening files that other releases, policies or processes left behind."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from agentmemory import AsyncAgentMemory, SchemaPolicy, StoreError, models
from agentmemory.testing import HashEmbedder
from tests.client.conftest import lexical


async def test_an_index_of_another_analyzer_is_made_anew(path: Path) -> None:
    async with lexical(path) as memory:
        await memory.add_memory("The heron waits by the canal.", user_id="u1")
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE DEFAULT_meta SET value = '0:none:1:1' WHERE key = 'index'")
    connection.execute("DELETE FROM DEFAULT_fts")
    connection.close()
    async with lexical(path) as memory:
        hits = await memory.search("heron", user_id="u1")
        assert [hit.content for hit in hits] == ["The heron waits by the canal."]
        assert (await memory.stats()).chunks == 1


async def test_migrations_run_once_and_opening_again_changes_nothing(path: Path) -> None:
    for _ in range(3):
        async with lexical(path) as memory:
            await memory.create_thread(user_id="u1")
    async with lexical(path) as memory:
        assert (await memory.stats()).threads == 3


async def test_each_policy_does_what_it_says(path: Path) -> None:
    with pytest.raises(StoreError, match="REQUIRE_EXISTING"):
        async with lexical(path, schema_policy=SchemaPolicy.REQUIRE_EXISTING):
            pass
    assert not path.exists()
    async with lexical(path, schema_policy=SchemaPolicy.CREATE_IF_EMPTY) as memory:
        await memory.add_memory("kept", user_id="u1")
    for policy in (
        SchemaPolicy.REQUIRE_EXISTING,
        SchemaPolicy.CREATE_IF_EMPTY,
        SchemaPolicy.CREATE_IF_NECESSARY,
        SchemaPolicy.NO_CHECK,
    ):
        async with lexical(path, schema_policy=policy) as memory:
            assert (await memory.stats()).records == {"memory": 1}
    async with lexical(path, memory_store_id="other") as memory:
        await memory.add_memory("elsewhere", user_id="u1")
    async with lexical(path, schema_policy=SchemaPolicy.RECREATE) as memory:
        assert (await memory.stats()).records == {}
    async with lexical(path, memory_store_id="other") as memory:
        assert (await memory.stats()).records == {"memory": 1}


async def test_an_embedder_made_from_a_name_is_closed_with_the_client_and_a_given_one_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Closable(HashEmbedder):
        closed = 0

        async def aclose(self) -> None:
            """Count."""
            self.closed += 1

    own, given = Closable(), Closable()
    monkeypatch.setattr(
        models, "resolve_embedder", lambda value: own if value == "some/model" else value
    )
    for embedder in ("some/model", given):
        async with AsyncAgentMemory(":memory:", embedder=embedder) as memory:
            await memory.add_memory("Plum jam.", user_id="u1")
    assert (own.closed, given.closed) == (1, 0)


async def test_a_file_of_ours_without_a_registry_is_completed(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(f"PRAGMA application_id = {0x616D656D}")
    connection.close()
    async with lexical(path) as memory:
        await memory.add_memory("kept", user_id="u1")
    async with lexical(path) as memory:
        assert (await memory.stats()).records == {"memory": 1}
