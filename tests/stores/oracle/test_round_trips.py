"""How often an operation of the client waits for an Oracle database.

The bars count what is asked for: a statement of its own or a pipeline, whatever number of
statements travels in it. Beside them, python-oracledb makes trips of its own, which are bounded
here too: one more for each query whose columns hold CLOB, JSON or VECTOR, because it has to define
those before it fetches them (the store reads short values as VARCHAR2 to avoid that), and one when
a used connection returns to its pool.
"""

from __future__ import annotations

import pytest

from agentmemory import AsyncAgentMemory
from agentmemory.records import MemoryType
from agentmemory.stores.oracle.store import OracleStore
from agentmemory.testing import HashEmbedder
from tests.support.oracle.store import WITH_STORE, make_store_template, new_pool, oracle_server

ASKED = ("execute", "pipeline", "commit")
TYPES: tuple[MemoryType, ...] = ("fact", "preference", "guideline", "memory")


@pytest.fixture
async def server():
    await make_store_template()
    with oracle_server(WITH_STORE) as server:
        yield server


@pytest.fixture
async def memory(server):
    pool = new_pool()
    async with AsyncAgentMemory(store=OracleStore(pool), embedder=HashEmbedder(16)) as memory:
        for name in TYPES:
            for number in range(8):
                await memory.add_memory(
                    f"{name} number {number} is about kites", user_id="ann", memory_type=name
                )
        yield memory
    await pool.close(force=True)
    await server.settle()
    server.check_clean()


@pytest.fixture
async def thread(memory):
    thread = await memory.create_thread(user_id="ann")
    await thread.add_messages(_turns("Before"))
    return thread


def _turns(word):
    return [
        {
            "role": "assistant" if number % 2 else "user",
            "name": "Bot" if number % 2 else "Zoe",
            "content": f"{word}: message {number} is about kites in the wind",
        }
        for number in range(10)
    ]


async def trips(server, work):
    """Run something and return its result, what was asked and all trips of open connections."""
    server.forget()
    result = await work
    return result, server.count(*ASKED), server.count() - server.count("connect")


async def test_a_search_takes_two(server, memory, thread):
    for asking in (memory.search("kites in the wind", user_id="ann"), thread.search("kites")):
        found, asked, made = await trips(server, asking)
        assert len(found) >= 5
        assert asked <= 2
        assert made <= 3


async def test_a_search_of_a_cold_process_takes_two(server, thread):
    async with AsyncAgentMemory(
        store=OracleStore(pool := new_pool()), embedder=HashEmbedder(16)
    ) as memory:
        # It opens and claims its embedder on the first call.
        await memory.search("warm", user_id="somebody else")
        found, asked, _ = await trips(server, memory.search("kites", user_id="ann"))
        assert found
        assert asked <= 2
    await pool.close(force=True)


async def test_a_query_that_names_a_new_speaker_is_read_again(server, thread):
    async with AsyncAgentMemory(
        store=OracleStore(pool := new_pool()), embedder=HashEmbedder(16)
    ) as memory:
        await memory.search("warm", user_id="somebody else")

        def search():
            return memory.search("Zoe wind", user_id="ann", record_types=["message"])

        first, asked, _ = await trips(server, search())
        again, remembered, _ = await trips(server, search())
        assert (asked, remembered) == (4, 2)
        assert [hit.id for hit in first] == [hit.id for hit in again]
        assert {hit.record.actor for hit in first[:5]} == {"Zoe"}
    await pool.close(force=True)


async def test_ten_messages_take_four(server, thread):
    for word in ("First", "Second"):
        made_ids, asked, made = await trips(server, thread.add_messages(_turns(word)))
        assert len(made_ids) == 10
        assert asked <= 4
        assert made <= 5


async def test_a_card_of_five_types_takes_eight(server, thread):
    types = dict.fromkeys((*TYPES, "message"), 2)
    for _ in range(2):
        card, asked, made = await trips(
            server,
            thread.get_context_card(
                query="kites", max_relevant_results=12, min_relevant_results_by_type=types
            ),
        )
        assert card.content.count("is about kites") >= 12
        assert asked <= 8
        assert made <= 7


async def test_the_rest_is_bounded_too(server, memory, thread):
    name = await memory.add_memory("Kites need wind", user_id="ann")
    for most, work in (
        (1, lambda: memory.list_memories(user_id="ann")),
        (1, lambda: memory.get_memory(name, user_id="ann")),
        (3, lambda: memory.add_memory("Wind is needed for kites", user_id="ann")),
        (6, lambda: memory.update_memory(name, content="They need strong wind", user_id="ann")),
        (6, lambda: memory.delete_memory(name, user_id="ann")),
    ):
        _, asked, _ = await trips(server, work())
        assert asked <= most
