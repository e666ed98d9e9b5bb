"""Uses an installed agentmemory as a newcomer does; run by `nox -s wheel` outside the checkout."""

from __future__ import annotations

import asyncio
import importlib.util
import tempfile
from importlib.metadata import version
from pathlib import Path

import agentmemory
from agentmemory import AgentMemory, AsyncAgentMemory

CHECKOUT_ONLY = ("tests", "benchmarks", "noxfile")


async def remember(path: Path) -> str:
    async with AsyncAgentMemory(path) as memory:
        thread = await memory.create_thread(user_id="u1", agent_id="a1")
        await thread.add_messages([{"role": "user", "content": "I am vegetarian."}])
        await thread.add_memory("User prefers quiet restaurants.", memory_type="preference")
        hits = await memory.search("quiet restaurants", user_id="u1", max_results=5)
        assert any("quiet" in hit.content for hit in hits), hits
        card = await thread.get_context_card()
        assert "vegetarian" in card.content, card.content
        return thread.thread_id


def recall(path: Path, thread_id: str) -> None:
    with AgentMemory(path) as memory:
        thread = memory.get_thread(thread_id)
        assert "vegetarian" in thread.get_context_card().content
        assert memory.search("restaurants", user_id="u1")
        assert not memory.search("restaurants", user_id="somebody else")


def main() -> None:
    assert (Path(agentmemory.__file__).parent / "py.typed").exists()
    for name in CHECKOUT_ONLY:
        assert importlib.util.find_spec(name) is None, f"the wheel installs {name!r}"
    for name in agentmemory.__all__:
        getattr(agentmemory, name)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "memory.db"
        recall(path, asyncio.run(remember(path)))
    print(f"agentmemory {version('agentmemory')} works from {Path(agentmemory.__file__).parent}")


if __name__ == "__main__":
    main()
