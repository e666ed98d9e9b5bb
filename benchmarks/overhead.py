"""How long the pipeline takes on a pool of 60 candidates, without models and without the arms.

Timed is everything behind the candidates that a store brings: fusion, decay, diversity (its vectors
come from the store), the cut, the results, and the budgets with their token counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, Final

from agentmemory.config import DecayConfig, DiversityConfig, MemorySearchConfig, SearchStrategy
from agentmemory.parts import SystemClock
from agentmemory.records import ScopedRecord
from agentmemory.retrieval.recorder import Recorder
from agentmemory.retrieval.request import SearchRequest
from agentmemory.retrieval.search import Searcher
from agentmemory.retrieval.settings import resolve_settings
from agentmemory.retrieval.vectorizer import Vectorizer
from agentmemory.scope import ScopeFilter
from agentmemory.stores.sqlite.store import SqliteStore
from agentmemory.testing import HashEmbedder
from agentmemory.text.tokens import default_token_counter
from benchmarks.corpus import Corpus
from benchmarks.environment import versions
from benchmarks.metrics import percentile
from benchmarks.report import print_table

POOL: Final = 60
RECORDS: Final = 500
RESULTS: Final = 10
DIMENSION: Final = 256
WARM_UP: Final = 10
SEED: Final = 3

PIPELINES: Final = {
    "the default": MemorySearchConfig(),
    "decay, diversity and budgets": MemorySearchConfig(
        decay=DecayConfig(),
        diversity=DiversityConfig(),
        token_budget=30_000,
        soft_token_budget=10_000,
    ),
}


async def measure_overhead(*, rounds: int) -> dict[str, Any]:
    """Time both pipelines in turn and return the report, ready for JSON."""
    clock = SystemClock()
    store = SqliteStore(":memory:")
    await store.open()
    try:
        vectorizer = Vectorizer(HashEmbedder(DIMENSION), store)
        counter = default_token_counter()
        searcher = Searcher(store, vectorizer, token_counter=counter, clock=clock)
        corpus = Corpus(SEED)
        texts = [corpus.sentence() for _ in range(RECORDS)]
        now = clock.now()
        await Recorder(store, vectorizer, clock).add_memories(
            [
                ScopedRecord(
                    id=f"r{number}",
                    record_type="memory",
                    content=text,
                    user_id="user-1",
                    created_at=now,
                    updated_at=now,
                )
                for number, text in enumerate(texts)
            ]
        )
        seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in PIPELINES}
        pools: list[int] = []
        for number, text in enumerate(corpus.choose(texts, rounds + WARM_UP)):
            for name, config in PIPELINES.items():
                request = SearchRequest(
                    query=corpus.question(text),
                    scope=ScopeFilter(),
                    max_results=RESULTS,
                    settings=resolve_settings(config, (), strategy=SearchStrategy.HYBRID),
                )
                prepared = await searcher.prepare(request)
                pool = (await searcher.candidates(request, prepared))[:POOL]
                started, worked = time.perf_counter(), time.process_time()
                refined = await searcher.refine(request, searcher.fuse(pool, request.settings))
                searcher.within_budget(searcher.results(refined, prepared), request)
                spent = time.perf_counter() - started, time.process_time() - worked
                if number >= WARM_UP:
                    seconds[name].append(spent)
                    pools.append(len(pool))
    finally:
        await store.close()
    return {
        "benchmark": "overhead",
        "rounds": rounds,
        "pool": {"least": min(pools), "most": max(pools)},
        "results": RESULTS,
        "pipelines": {
            name: {
                f"p{share * 100:.0f}_ms{suffix}": round(
                    percentile([pair[place] for pair in values], share) * 1000, 3
                )
                for place, suffix in enumerate(("", "_processor"))
                for share in (0.5, 0.95)
            }
            for name, values in seconds.items()
        },
        "versions": versions(),
    }


def add_command(commands: Any, positive: Callable[[str], int]) -> None:
    """Describe the command line."""
    text = f"time of the pipeline behind a pool of {POOL}, without models"
    parser: argparse.ArgumentParser = commands.add_parser("overhead", help=text, description=text)
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument(
        "--rounds", type=positive, default=200, metavar="N", help="searches to time (default: 200)"
    )
    parser.set_defaults(keep=None)


def print_overhead(report: dict[str, Any]) -> None:
    """Print the report as a table."""
    pool = report["pool"]
    print_table(
        f"{report['rounds']} searches, pools of {pool['least']} to {pool['most']}, "
        f"{report['results']} results; milliseconds",
        ["pipeline", "p50", "p95", "p50 processor", "p95 processor"],
        [
            [name, *(f"{value:.2f}" for value in values.values())]
            for name, values in report["pipelines"].items()
        ],
    )
