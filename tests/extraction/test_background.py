"""Which work is done in the background."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import anyio
import pytest

from agentmemory import MemoryExtractionConfig
from agentmemory.errors import ModelUnavailableError
from agentmemory.extraction import worker
from agentmemory.outbox import IN_BACKGROUND
from agentmemory.stores.sqlite.store import SqliteStore
from agentmemory.testing import ScriptedLlm
from tests.extraction.conftest import answer, item, memory_with, user


@pytest.mark.parametrize("mode", ["background", "inline"])
async def test_only_work_that_nobody_waits_for_is_in_the_background(mode):
    seen = []

    def respond(_):
        seen.append(IN_BACKGROUND.get())
        return answer()

    config = MemoryExtractionConfig(extraction_mode=mode, enable_context_summary=False)
    async with memory_with(ScriptedLlm(default=respond)) as memory:
        thread = await memory.create_thread(user_id="u", memory_extraction_config=config)
        await thread.add_messages([user("I live in Porto.")])
        await thread.wait_for_memory_extraction(timeout=20)
        assert not IN_BACKGROUND.get()
    assert seen == [mode == "background"]


@pytest.mark.parametrize("failure", [ModelUnavailableError("down"), "no JSON at all"])
async def test_workers_that_died_do_not_use_up_what_a_job_may_fail(tmp_path, monkeypatch, failure):
    """However often a process was stopped on the way, a first failure is not the last."""
    monkeypatch.setattr(worker, "RETRY_BASE_S", 0.0)
    monkeypatch.setattr(worker, "DRAIN_S", 0.05)
    path = tmp_path / "m.db"

    async def never(_):
        await anyio.sleep_forever()

    async with memory_with(ScriptedLlm(default=never), path) as memory:
        thread = await memory.create_thread(thread_id="t", user_id="u")
        await thread.add_messages([user("I live in Porto.")])
    store = SqliteStore(str(path))
    await store.open()
    long_ago = datetime.now(UTC) - timedelta(days=1)
    taken = [
        await store.claim_jobs(
            owner=f"w{death}",
            limit=1,
            lease_until=long_ago,
            now=datetime.now(UTC) + timedelta(seconds=1),
        )
        for death in range(worker.MAX_ATTEMPTS + 2)
    ]
    assert taken[-1][0].attempts > worker.MAX_ATTEMPTS
    await store.close()
    llm = ScriptedLlm(failure, failure, answer(item(1, "Lives in Porto.")))
    if isinstance(failure, Exception):
        llm = ScriptedLlm(failure, answer(item(1, "Lives in Porto.")))
    config = MemoryExtractionConfig(enable_context_summary=False)
    async with memory_with(llm, path, memory_extraction_config=config) as memory:
        await memory.wait_for_memory_extraction(20)
        assert (await memory.stats()).jobs == {}
        thread = await memory.get_thread("t")
        assert [found.content for found in await thread.list_memories()] == ["Lives in Porto."]
