"""Measures latency against size: search, context card and, for comparison, a plain FTS5 query.

All records lie in one scope. The operations take turns within a run, so that whatever else the
machine does meets all of them alike; ratios between them carry over to other machines, times
do not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agentmemory import AsyncAgentMemory
from agentmemory.config import SearchStrategy
from agentmemory.thread import AsyncThread
from benchmarks.corpus import TYPES, Corpus
from benchmarks.embedders import TimedEmbedder
from benchmarks.environment import fingerprint_of, versions
from benchmarks.evaluation import Ingest, Latency, Stopwatch, latency_summary

if TYPE_CHECKING:
    import apsw

USER: Final = "user-1"
AGENT: Final = "agent-1"
THREAD: Final = "thread-1"
QUERIES: Final = 200
WARM_UP: Final = 10
MAX_RESULTS: Final = 10
SEED: Final = 7

_BATCH: Final = 500
_REPORT_EVERY: Final = 2000
_WORD = re.compile(r"\w+")


async def measure_scale(
    sizes: Sequence[int],
    *,
    directory: Path,
    embedder: TimedEmbedder | None,
    strategy: SearchStrategy,
    queries: int = QUERIES,
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """Measure each size in a database of its own and return the report, ready for JSON.

    Args:
        sizes: Numbers of records.
        directory: Where to put the databases.
        embedder: The embedder, timed; None for lexical search only.
        strategy: Which arms are used.
        queries: How many searches and cards to time for each size.
        progress: Called with a line now and then.
    """
    entries = [
        await _measure_size(
            size,
            directory=directory,
            embedder=embedder,
            strategy=strategy,
            queries=queries,
            progress=progress,
        )
        for size in sizes
    ]
    return {
        "benchmark": "scale",
        "strategy": str(strategy.value),
        "embedder": await fingerprint_of(embedder),
        "record_types": list(TYPES),
        "max_results": MAX_RESULTS,
        "queries": queries,
        "seed": SEED,
        "sizes": entries,
        "versions": versions(),
    }


async def _measure_size(
    size: int,
    *,
    directory: Path,
    embedder: TimedEmbedder | None,
    strategy: SearchStrategy,
    queries: int,
    progress: Callable[[str], None],
) -> dict[str, Any]:
    corpus = Corpus(SEED)
    database = directory / f"scale-{size}.db"
    async with AsyncAgentMemory(database, embedder=embedder, search_strategy=strategy) as memory:
        thread = await memory.create_thread(thread_id=THREAD, user_id=USER, agent_id=AGENT)
        ingest = Ingest()
        stopwatch = Stopwatch(embedder)
        texts = await _fill(thread, corpus, size, stopwatch, ingest, progress)
        plain = _plain_index(directory / f"plain-{size}.db", texts)
        questions = [corpus.question(text) for text in corpus.choose(texts, WARM_UP + queries)]
        searches: list[Latency] = []
        cards: list[Latency] = []
        plain_times: list[Latency] = []
        try:
            for number, question in enumerate(questions):
                search = await _timed_search(memory, question, stopwatch)
                card = await _timed_card(thread, question, stopwatch)
                plain_time = _timed_plain_query(plain, question, stopwatch)
                if number >= WARM_UP:
                    searches.append(search)
                    cards.append(card)
                    plain_times.append(plain_time)
        finally:
            plain.close()
        stats = await memory.stats()
    progress(f"{size} records: {queries} searches and {queries} cards timed")
    search_summary = latency_summary(searches)
    card_summary = latency_summary(cards)
    plain_summary = latency_summary(plain_times)
    return {
        "records": size,
        "search": search_summary,
        "card": card_summary,
        "plain_fts5": {
            name: plain_summary[name]
            for name in ("queries", "p50_ms", "p95_ms", "p50_processor_ms")
        },
        "card_to_search_p50": round(
            card_summary["p50_ms_without_embedding"] / search_summary["p50_ms_without_embedding"],
            3,
        ),
        "card_to_search_processor_p50": round(
            card_summary["p50_processor_ms"] / search_summary["p50_processor_ms"], 3
        ),
        "search_to_plain_fts5_p50": round(
            search_summary["p50_ms_without_embedding"] / plain_summary["p50_ms"], 3
        ),
        "ingest": ingest.summary(),
        "database_bytes": stats.size_bytes,
    }


async def _fill(
    thread: AsyncThread,
    corpus: Corpus,
    size: int,
    stopwatch: Stopwatch,
    ingest: Ingest,
    progress: Callable[[str], None],
) -> list[str]:
    """Store `size` records, the five types in turn; messages in batches, memories one by one."""
    texts = []
    waiting: list[dict[str, Any]] = []

    async def store_messages() -> None:
        stopwatch.start()
        await thread.add_messages(waiting)
        ingest.latencies.append(stopwatch.stop())
        ingest.records += len(waiting)
        waiting.clear()

    source = corpus.records()
    for number in range(1, size + 1):
        record_type, text = next(source)
        texts.append(text)
        if record_type == "message":
            waiting.append({"role": "user", "content": text})
            if len(waiting) == _BATCH:
                await store_messages()
        elif record_type in ("memory", "fact", "guideline", "preference"):
            stopwatch.start()
            await thread.add_memory(text, memory_type=record_type)
            ingest.latencies.append(stopwatch.stop())
            ingest.records += 1
        if number % _REPORT_EVERY == 0:
            progress(f"{size} records: {number} stored")
    if waiting:
        await store_messages()
    return texts


async def _timed_search(memory: AsyncAgentMemory, question: str, stopwatch: Stopwatch) -> Latency:
    stopwatch.start()
    hits = await memory.search(
        question, user_id=USER, record_types=list(TYPES), max_results=MAX_RESULTS
    )
    spent = stopwatch.stop()
    assert hits, f"the search found nothing: {question!r}"
    return spent


async def _timed_card(thread: AsyncThread, question: str, stopwatch: Stopwatch) -> Latency:
    stopwatch.start()
    card = await thread.get_context_card(
        query=question,
        max_relevant_results=MAX_RESULTS,
        min_relevant_results_by_type=dict.fromkeys(TYPES, 1),
    )
    spent = stopwatch.stop()
    assert card.content, f"the card is empty: {question!r}"
    return spent


def _plain_index(path: Path, texts: Sequence[str]) -> apsw.Connection:
    """Build what one would write by hand: a table, its FTS5 index, nothing else."""
    import apsw

    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, content TEXT NOT NULL)")
    connection.execute(
        "CREATE VIRTUAL TABLE note_text USING fts5("
        "content, content='note', content_rowid='id', tokenize='porter unicode61')"
    )
    with connection:
        connection.executemany("INSERT INTO note (content) VALUES (?)", [(text,) for text in texts])
        connection.execute("INSERT INTO note_text (note_text) VALUES ('rebuild')")
    return connection


def _timed_plain_query(connection: apsw.Connection, question: str, stopwatch: Stopwatch) -> Latency:
    expression = " OR ".join(f'"{word}"' for word in _WORD.findall(question))
    stopwatch.start()
    rows = connection.execute(
        "SELECT n.id, n.content FROM note_text t JOIN note n ON n.id = t.rowid "
        "WHERE note_text MATCH ? ORDER BY bm25(note_text) LIMIT ?",
        (expression, MAX_RESULTS),
    ).fetchall()
    spent = stopwatch.stop()
    assert rows, f"the plain query found nothing: {question!r}"
    return spent
