"""The blocking API on a real store: what a script, a notebook and a thread pool do with it."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio.to_thread
import pytest

from agentmemory import (
    AgentMemory,
    ClosedError,
    ConfigurationError,
    ConflictError,
    NotFoundError,
    ScopeError,
    Store,
    Thread,
    UsageError,
    ValidationError,
)
from agentmemory.testing import HashEmbedder

PATIENCE_S = 20.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


def lexical(path: Path | str = ":memory:") -> AgentMemory:
    return AgentMemory(path, embedder=None)


def thread_of(memory: AgentMemory) -> threading.Thread:
    portal = memory._bridge._portal
    assert portal is not None
    return portal._thread


def test_a_conversation_is_stored_searched_and_shown(path: Path) -> None:
    with lexical(path) as memory:
        thread = memory.create_thread(thread_id="t1", user_id="u1", agent_id="a1")
        assert isinstance(thread, Thread)
        assert repr(thread) == "Thread(thread_id='t1', user_id='u1', agent_id='a1')"
        ids = thread.add_messages([{"role": "user", "content": "I am vegetarian."}])
        memory_id = thread.add_memory("Prefers quiet restaurants.", memory_type="preference")
        assert [hit.id for hit in memory.search("quiet restaurants", user_id="u1")] == [memory_id]
        assert "vegetarian" in thread.get_context_card(query="vegetarian").content
        assert isinstance(memory.store, Store)
        assert memory.store.get(ids[0]).content == "I am vegetarian."
        assert [
            hit.id for hit in memory.store.search("vegetarian", record_types=["message"])
        ] == ids
        assert thread.search("vegetarian", tiers=["archived"]) == []
        assert ids[0] in [hit.id for hit in thread.search("vegetarian", tiers=["hot"])]
    with lexical(path) as memory:
        again = memory.get_thread("t1", user_id="u1")
        assert [message.content for message in again.get_messages().items] == ["I am vegetarian."]
        assert memory.stats().threads == 1


def test_errors_are_those_of_the_async_side() -> None:
    with lexical() as memory:
        memory.create_thread(thread_id="t1")
        with pytest.raises(NotFoundError, match="'t2'"):
            memory.get_thread("t2")
        with pytest.raises(ConflictError):
            memory.create_thread(thread_id="t1")
        with pytest.raises(ScopeError, match="`user_id`"):
            memory.search("tea")
        with pytest.raises(ValidationError, match="`max_results`"):
            memory.search("tea", user_id="u1", max_results=0)
        with pytest.raises(TypeError, match="no_such_argument"):
            memory.search("tea", user_id="u1", no_such_argument=1)  # type: ignore[call-arg]


def test_bad_options_are_refused_when_the_memory_is_made() -> None:
    with pytest.raises(ConfigurationError, match="`connection`"):
        AgentMemory()


def test_after_close_everything_that_calls_is_refused_and_closing_again_is_not(path: Path) -> None:
    memory = lexical(path)
    thread = memory.create_thread(thread_id="t1")
    store = memory.store
    memory.close()
    memory.close()
    for call in (memory.stats, thread.get_messages, lambda: store.get("r1"), memory.__enter__):
        with pytest.raises(ClosedError):
            call()
    assert thread.thread_id == "t1"
    assert not thread_of(memory).is_alive()


def test_an_error_inside_the_block_passes_and_closes_the_memory(path: Path) -> None:
    error = LookupError("mine")
    with pytest.raises(LookupError) as caught, lexical(path) as memory:
        memory.stats()
        raise error
    assert caught.value is error
    with pytest.raises(ClosedError):
        memory.stats()
    assert not Path(f"{path}-wal").exists()


async def test_it_works_where_a_loop_is_running_as_in_a_notebook() -> None:
    with lexical() as memory:
        thread = memory.create_thread(user_id="u1")
        await asyncio.sleep(0)
        thread.add_memory("Prefers green tea.")
        assert len(memory.search("tea", user_id="u1")) == 1
        found = await anyio.to_thread.run_sync(lambda: memory.search("green", user_id="u1"))
        assert [hit.content for hit in found] == ["Prefers green tea."]


def test_eight_threads_share_one_memory(path: Path) -> None:
    count, each = 8, 10
    start = threading.Barrier(count)
    with lexical(path) as memory:

        def work(number: int) -> list[str]:
            start.wait(PATIENCE_S)
            thread = memory.create_thread(user_id=f"u{number}")
            for turn in range(each):
                thread.add_messages([{"role": "user", "content": f"Tea number {turn}."}])
            found = memory.search("tea", user_id=f"u{number}", max_results=100)
            return sorted(hit.content for hit in found)

        with ThreadPoolExecutor(count) as threads:
            results = list(threads.map(work, range(count)))
        assert results == [sorted(f"Tea number {turn}." for turn in range(each))] * count
        assert memory.stats().threads == count


def test_a_callable_runs_in_the_loop_and_may_not_use_the_blocking_api() -> None:
    with AgentMemory(":memory:", embedder=HashEmbedder()) as memory:
        memory.add_memory("Prefers green tea.", user_id="u1")
        seen: list[tuple[int, str]] = []
        memory.reembed(progress=lambda done: seen.append((done, threading.current_thread().name)))
        assert seen[-1] == (1, "agentmemory-portal")
        with pytest.raises(UsageError, match="use the async API inside callbacks"):
            memory.reembed(progress=lambda done: memory.close())
        assert memory.stats().vectors == 1


def test_a_memory_that_nobody_closes_is_closed_when_it_is_collected(path: Path) -> None:
    memory = lexical(path)
    memory.add_memory("Prefers green tea.", user_id="u1")
    thread = thread_of(memory)
    assert Path(f"{path}-wal").exists()
    del memory
    gc.collect()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert not Path(f"{path}-wal").exists()


def test_a_handle_keeps_the_memory_it_came_from_alive(path: Path) -> None:
    thread = lexical(path).create_thread(user_id="u1")
    gc.collect()
    assert thread.add_messages([{"role": "user", "content": "Still here."}])


def test_a_memory_that_cannot_be_opened_says_so_and_leaves_no_thread(tmp_path: Path) -> None:
    path = tmp_path / "no such directory" / "memory.db"
    before = threading.active_count()
    for _ in range(3):
        with pytest.raises(Exception, match="no such directory"), lexical(path):
            pass
    gc.collect()
    for thread in threading.enumerate():
        if thread.name == "agentmemory-portal":
            thread.join(PATIENCE_S)
    assert threading.active_count() <= before
