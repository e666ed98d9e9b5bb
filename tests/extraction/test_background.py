"""Which work is done in the background."""

from __future__ import annotations

import pytest

from agentmemory import MemoryExtractionConfig
from agentmemory.outbox import IN_BACKGROUND
from agentmemory.testing import ScriptedLlm
from tests.extraction.conftest import answer, memory_with, user


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
