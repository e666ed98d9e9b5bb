"""A process that adds messages and draws memories out of them until it is done or killed.

    python crashing.py DATABASE SEED

Each model call writes a line, one call in five fails, and each answer is unlike any other, so that
a memory that is written twice is seen.
"""

from __future__ import annotations

import asyncio
import random
import re
import sys
import uuid
from datetime import timedelta

from agentmemory import AsyncAgentMemory, MemoryExtractionConfig
from agentmemory.errors import ConflictError, ModelUnavailableError
from agentmemory.extraction import worker
from agentmemory.testing import HashEmbedder, ScriptedLlm

BATCHES = 60
BATCH_SIZE = 5
THREADS = 4


def batch_of(thread: int, number: int) -> list[dict[str, str]]:
    return [
        {
            "id": f"t{thread}-b{number}-m{place}",
            "role": "user",
            "content": f"batch t{thread}b{number} message {place}",
        }
        for place in range(BATCH_SIZE)
    ]


async def main(path: str, seed: int) -> None:
    worker.LEASE = timedelta(seconds=1.5)
    worker.POLL_S = 0.1
    worker.RETRY_BASE_S = 0.01
    chance = random.Random(seed)

    async def respond(call):
        names = sorted(set(re.findall(r"batch (t\d+b\d+) message", call.text)))
        print("call", *names, flush=True)
        await asyncio.sleep(chance.uniform(0, 0.02))
        if chance.random() < 0.2:
            raise ModelUnavailableError("scripted")
        token = uuid.uuid4().hex
        return {
            "memories": [
                {
                    "number": place,
                    "type": "fact",
                    "text": f"{names[0]} {place} {token}",
                    "messages": [place],
                }
                for place in (1, 2)
            ]
        }

    async with AsyncAgentMemory(
        path,
        embedder=HashEmbedder(),
        llm=ScriptedLlm(default=respond),
        memory_extraction_config=MemoryExtractionConfig(enable_context_summary=False),
    ) as memory:
        threads = []
        for number in range(THREADS):
            try:
                threads.append(await memory.create_thread(thread_id=f"t{number}", user_id="u"))
            except ConflictError:
                threads.append(await memory.get_thread(f"t{number}"))
        for number in range(BATCHES // THREADS):
            for thread in range(THREADS):
                try:
                    await threads[thread].add_messages(batch_of(thread, number))
                except ConflictError:
                    continue
                print("added", thread, number, flush=True)
        await memory.wait_for_memory_extraction()
    print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
