"""Each cell of the scope table, on both sides of the API."""

from __future__ import annotations

from typing import Any

import pytest

from agentmemory import AgentMemory, AsyncAgentMemory, ScopeError
from agentmemory.testing.conformance.scopes import (
    SCOPE_TABLE,
    ScopeCell,
    arguments_of,
    check_found,
    expected_in,
    fill_scopes,
)

CELLS = pytest.mark.parametrize("cell", SCOPE_TABLE, ids=str)


def test_the_table_holds_every_combination_once() -> None:
    keys = {
        (cell.layer, cell.dimension, repr(cell.value), repr(cell.exact)) for cell in SCOPE_TABLE
    }
    assert len(keys) == len(SCOPE_TABLE) == 3 * 3 * 3 * 3


def test_the_outcomes_of_the_table_differ() -> None:
    found = {cell.outcome: expected_in(cell) for cell in SCOPE_TABLE if cell.outcome != "refused"}
    assert len({frozenset(names) for names in found.values()}) == len(found) == 4


@CELLS
async def test_a_cell_of_the_scope_table(cell: ScopeCell) -> None:
    async with AsyncAgentMemory(":memory:", embedder=None) as memory:
        thread = await fill_scopes(memory)
        search: Any = {
            "thread": thread.search,
            "client": memory.search,
            "store": memory.store.search,
        }[cell.layer]
        if cell.outcome == "refused":
            with pytest.raises(ScopeError) as caught:
                await search("kite", **arguments_of(cell))
            assert caught.value.argument in {
                cell.dimension,
                f"exact_{cell.dimension.removesuffix('_id')}_match",
            }
            return
        check_found(cell, [hit.id for hit in await search("kite", **arguments_of(cell))])


@pytest.fixture(scope="module")
def blocking() -> Any:
    with AgentMemory(":memory:", embedder=None) as memory:
        own = memory.create_thread(thread_id="t-u1", user_id="u1", agent_id="a1")
        for user in ("u1", "u2", None):
            if user != "u1":
                memory.create_thread(thread_id=f"t-{user}", user_id=user)
            memory.create_thread(thread_id=f"t-{user}-other", user_id=user)
            for agent in ("a1", "a2", None):
                for thread in (f"t-{user}", f"t-{user}-other", None):
                    memory.add_memory(
                        "kite",
                        memory_id=f"{user}/{agent}/{thread}",
                        user_id=user,
                        agent_id=agent,
                        thread_id=thread,
                    )
        yield {"thread": own.search, "client": memory.search, "store": memory.store.search}


@CELLS
def test_a_cell_of_the_scope_table_without_async(cell: ScopeCell, blocking: Any) -> None:
    search = blocking[cell.layer]
    if cell.outcome == "refused":
        with pytest.raises(ScopeError):
            search("kite", **arguments_of(cell))
        return
    check_found(cell, [hit.id for hit in search("kite", **arguments_of(cell))])
