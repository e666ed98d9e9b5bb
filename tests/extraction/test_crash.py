"""Whatever dies, each batch of messages brings its memories exactly once."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from agentmemory import AsyncAgentMemory
from tests.extraction.crashing import BATCH_SIZE, BATCHES, THREADS

CHILD = Path(__file__).with_name("crashing.py")
KILLS = 10


def start(path: Path, seed: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(CHILD), str(path), str(seed)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=CHILD.parents[2],
    )


def read_until(child: subprocess.Popen[str], count: int) -> list[str]:
    """Read lines until a number of model calls began or the output ends."""
    lines: list[str] = []
    calls = 0
    assert child.stdout is not None
    for line in child.stdout:
        lines.append(line.strip())
        calls += line.startswith("call")
        if calls >= count:
            break
    return lines


@pytest.mark.timeout(300)
async def test_three_hundred_messages_survive_ten_kills_and_a_model_that_fails_one_call_in_five(
    tmp_path,
):
    path = tmp_path / "m.db"
    chance = random.Random(7)
    killed = 0
    for seed in range(KILLS):
        child = start(path, seed)
        lines = read_until(child, chance.randint(1, 5))
        child.kill()
        child.wait()
        assert lines
        assert lines[-1].startswith("call"), lines
        killed += child.returncode == -9
        assert child.stdout is not None
        child.stdout.close()
    assert killed == KILLS
    # Two processes at once do what is left.
    survivors = [start(path, seed) for seed in (100, 101)]
    outputs = [child.communicate(timeout=240)[0] for child in survivors]
    assert [child.returncode for child in survivors] == [0, 0], outputs
    async with AsyncAgentMemory(path, embedder=None) as memory:
        stats = await memory.stats()
        assert stats.jobs == {}
        assert stats.records == {"message": BATCHES * BATCH_SIZE, "fact": 2 * BATCHES}
        assert stats.threads == THREADS
        found: Counter[str] = Counter()
        tokens: dict[str, set[str]] = {}
        for number in range(THREADS):
            thread = await memory.get_thread(f"t{number}")
            for record in await thread.list_memories(limit=1000):
                name, place, token = record.content.split()
                batch = re.sub(r"(t\d+)(b\d+)", r"\1-\2", name)
                assert record.sources == (f"{batch}-m{int(place) - 1}",)
                found[f"{name} {place}"] += 1
                tokens.setdefault(name, set()).add(token)
    assert set(found.values()) == {1}
    assert len(found) == 2 * BATCHES
    # Both memories of a batch come from one answer.
    assert all(len(answers) == 1 for answers in tokens.values())
