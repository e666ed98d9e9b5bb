"""Measures graph expansion: how long linked memories take to hang below the results of a search.

The memories of one user are linked at random, with every built-in type that leaves its target
valid. Measured are the expansion alone, from as many roots as a search returns, and whole searches
with and without it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from agentmemory import AsyncAgentMemory
from agentmemory.records import RecordRelation, ScopedRecord
from agentmemory.requests import Expansion, RecordFilter
from agentmemory.scope import DimensionMatch, ScopeFilter
from agentmemory.stores.sqlite.store import SqliteStore
from benchmarks.corpus import Corpus
from benchmarks.environment import versions
from benchmarks.evaluation import Latency, latency_summary
from benchmarks.report import print_table

USER: Final = "user-1"
ROOTS: Final = 10
HOPS: Final = 3
LIMIT: Final = 100
SEED: Final = 7

_TYPES: Final = ("supports", "contradicts", "depends_on")
_BATCH: Final = 2000
_WARM_UP: Final = 10


async def measure_graph(
    links: int,
    *,
    directory: Path,
    queries: int,
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """Measure expansion among a number of links and return the report, ready for JSON.

    Args:
        links: How many links; there is one memory for every five.
        directory: Where to put the database.
        queries: How many expansions and searches to time.
        progress: Called with a line now and then.
    """
    store = SqliteStore(str(directory / "graph.db"))
    chance = random.Random(SEED)
    corpus = Corpus(SEED)
    async with AsyncAgentMemory(store=store, embedder=None) as memory:
        texts = await _fill(store, corpus, chance, links, progress)
        now = datetime.now(UTC)
        scope = ScopeFilter(user=DimensionMatch(exact=True, value=USER))
        expansions: list[Latency] = []
        plain: list[Latency] = []
        linked: list[Latency] = []
        reached = 0
        questions = [corpus.question(text) for text in corpus.choose(texts, _WARM_UP + queries)]
        for number, question in enumerate(questions):
            roots = tuple(f"m{chance.randrange(len(texts))}" for _ in range(ROOTS))
            started = time.perf_counter()
            trees = await store.expand(
                Expansion(
                    filter=RecordFilter(scope=scope, now=now), roots=roots, hops=HOPS, limit=LIMIT
                )
            )
            expansion = time.perf_counter() - started
            without, _ = await _timed_search(memory, question, hops=0)
            with_links, found = await _timed_search(memory, question, hops=HOPS)
            assert found, f"nothing was linked to the results of {question!r}"
            if number >= _WARM_UP:
                reached += sum(map(len, trees.values()))
                expansions.append(Latency(seconds=expansion, embedding=0.0))
                plain.append(Latency(seconds=without, embedding=0.0))
                linked.append(Latency(seconds=with_links, embedding=0.0))
        stats = await memory.stats()
    return {
        "benchmark": "graph",
        "memories": stats.records["memory"],
        "links": stats.links,
        "roots": ROOTS,
        "hops": HOPS,
        "max_linked_results": LIMIT,
        "queries": queries,
        "seed": SEED,
        "reached_per_expansion": round(reached / queries, 1),
        "expansion": latency_summary(expansions),
        "search_without_links": latency_summary(plain),
        "search_with_links": latency_summary(linked),
        "database_bytes": stats.size_bytes,
        "versions": versions(),
    }


async def _timed_search(memory: AsyncAgentMemory, question: str, *, hops: int) -> tuple[float, int]:
    started = time.perf_counter()
    hits = await memory.search(question, user_id=USER, max_results=ROOTS, num_hops=hops)
    spent = time.perf_counter() - started
    assert hits, f"the search found nothing: {question!r}"
    return spent, sum(len(hit.linked_results) for hit in hits)


async def _fill(
    store: SqliteStore,
    corpus: Corpus,
    chance: random.Random,
    links: int,
    progress: Callable[[str], None],
) -> list[str]:
    now = datetime.now(UTC)
    count = max(links // 5, 2 * ROOTS)
    source = corpus.records()
    texts = [next(source)[1] for _ in range(count)]
    for start in range(0, count, _BATCH):
        await store.add_records(
            [
                ScopedRecord(
                    id=f"m{start + place}",
                    record_type="memory",
                    content=text,
                    user_id=USER,
                    created_at=now,
                    updated_at=now,
                )
                for place, text in enumerate(texts[start : start + _BATCH])
            ]
        )
        progress(f"{min(start + _BATCH, count)} of {count} memories stored")
    made: set[tuple[int, int, str]] = set()
    while len(made) < links:
        one, other = chance.sample(range(count), 2)
        made.add((one, other, chance.choice(_TYPES)))
    ordered = sorted(made)
    for start in range(0, links, _BATCH):
        await store.add_records(
            [],
            links=[
                RecordRelation(
                    id=f"l{start + place}",
                    source_record_id=f"m{one}",
                    source_record_type="memory",
                    target_record_id=f"m{other}",
                    target_record_type="memory",
                    relation_type=name,
                    opposite_relation_type=name,
                    created_at=now,
                )
                for place, (one, other, name) in enumerate(ordered[start : start + _BATCH])
            ],
        )
        progress(f"{min(start + _BATCH, links)} of {links} links stored")
    return texts


def print_graph(report: dict[str, Any]) -> None:
    """Print the report of `measure_graph`."""
    print_table(
        f"{report['links']} links between {report['memories']} memories, {report['roots']} roots, "
        f"{report['hops']} hops, {report['reached_per_expansion']} memories reached",
        ("", "p50 ms", "p95 ms"),
        [
            (name.replace("_", " "), f"{report[name]['p50_ms']}", f"{report[name]['p95_ms']}")
            for name in ("expansion", "search_without_links", "search_with_links")
        ],
    )
