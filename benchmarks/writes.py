"""How long `add_messages` takes while memories are drawn out of messages in the background.

The database is a file. The language models are scripted: one takes its time, so that work piles up
as it does with a real one; one answers at once, so that there is always work that competes with the
calls. Words only: embedding is not what is measured.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import anyio

from agentmemory import AsyncAgentMemory, MemoryExtractionConfig
from agentmemory.testing import ScriptedLlm
from benchmarks.corpus import Corpus
from benchmarks.environment import versions
from benchmarks.metrics import percentile
from benchmarks.report import print_table

MESSAGES: Final = 10
WARM_UP: Final = 10
THREADS: Final = 4
SEED: Final = 5
THINKING_S: Final = 0.05


async def measure_writes(directory: Path, *, rounds: int) -> dict[str, Any]:
    """Time calls that add messages, with two models, without one, and without extraction."""

    async def respond(_: object) -> dict[str, Any]:
        await anyio.sleep(THINKING_S)
        return {"memories": []}

    background = MemoryExtractionConfig(
        enable_context_summary=False, background_extraction_queue_full_behavior="drop"
    )
    off = MemoryExtractionConfig(extract_memories=False)
    ways: dict[str, tuple[ScriptedLlm | None, MemoryExtractionConfig]] = {
        "with a language model": (ScriptedLlm(default=respond), background),
        "with one that answers at once": (ScriptedLlm(default={"memories": []}), background),
        "without one": (None, background),
        "no extraction": (None, off),
    }
    report: dict[str, Any] = {}
    for number, (name, (llm, config)) in enumerate(ways.items()):
        seconds = await _timed(directory / f"writes-{number}.db", llm, config, rounds)
        report[name] = {
            f"p{share * 100:.0f}_ms": round(percentile(seconds, share) * 1000, 2)
            for share in (0.5, 0.95, 0.99)
        }
    return {
        "benchmark": "writes",
        "messages_per_call": MESSAGES,
        "rounds": rounds,
        "ways": report,
        "versions": versions(),
    }


async def _timed(
    path: Path, llm: ScriptedLlm | None, config: MemoryExtractionConfig, rounds: int
) -> list[float]:
    corpus = Corpus(SEED)
    seconds: list[float] = []
    async with AsyncAgentMemory(
        path, embedder=None, llm=llm, memory_extraction_config=config
    ) as memory:
        threads = [await memory.create_thread(user_id="user") for _ in range(THREADS)]
        for number in range(WARM_UP + rounds):
            messages = [
                {"role": ("user", "assistant")[place % 2], "content": corpus.sentence()}
                for place in range(MESSAGES)
            ]
            started = time.perf_counter()
            await threads[number % THREADS].add_messages(messages)
            spent = time.perf_counter() - started
            if number >= WARM_UP:
                seconds.append(spent)
        await memory.wait_for_memory_extraction()
        stats = await memory.stats()
        assert stats.records["message"] == (WARM_UP + rounds) * MESSAGES
        assert not stats.jobs, f"work is left: {stats.jobs}"
    return seconds


def add_command(commands: Any, positive: Callable[[str], int]) -> None:
    """Describe the command line."""
    text = f"time of add_messages with {MESSAGES} messages, extraction in the background"
    parser: argparse.ArgumentParser = commands.add_parser("writes", help=text, description=text)
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument(
        "--rounds", type=positive, default=200, metavar="N", help="calls to time (default: 200)"
    )
    parser.set_defaults(keep=None)


def print_writes(report: dict[str, Any]) -> None:
    """Print the report as a table."""
    print_table(
        f"{report['rounds']} calls of add_messages with {report['messages_per_call']} messages; "
        "milliseconds",
        ["extraction", "p50", "p95", "p99"],
        [
            [name, *(f"{value:.2f}" for value in values.values())]
            for name, values in report["ways"].items()
        ],
    )
