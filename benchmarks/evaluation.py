"""Measures retrieval: every turn goes in and every question is asked through the public API."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from agentmemory import AsyncAgentMemory
from agentmemory.config import MemorySearchConfig, SearchStrategy
from benchmarks.datasets import Conversation, Dataset, Session
from benchmarks.embedders import TimedEmbedder
from benchmarks.environment import fingerprint_of, versions
from benchmarks.errors import BenchmarkError
from benchmarks.metrics import (
    METRICS,
    Judged,
    bootstrap_interval,
    by_category,
    judge,
    mean_values,
    percentile,
)

MAX_RESULTS: Final = 20
CONFIDENCE: Final = 0.95
RESAMPLES: Final = 2000
SEED: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """How long one operation took.

    Args:
        seconds: From the call to its result.
        embedding: Of these, spent waiting for the embedder.
        processor: Processor time of the whole process meanwhile, all threads together; the
            embedder's is part of it.
    """

    seconds: float
    embedding: float = 0.0
    processor: float = 0.0

    @property
    def without_embedding(self) -> float:
        return self.seconds - self.embedding


class Stopwatch:
    """Times one operation at a time, the embedder's share apart.

    Args:
        embedder: The embedder the operation uses, if any.
    """

    def __init__(self, embedder: TimedEmbedder | None) -> None:
        self._embedder = embedder
        self._started = 0.0
        self._processor = 0.0

    def start(self) -> None:
        if self._embedder is not None:
            self._embedder.lap()
        self._processor = time.process_time()
        self._started = time.perf_counter()

    def stop(self) -> Latency:
        """Return what was spent since `start`."""
        seconds = time.perf_counter() - self._started
        return Latency(
            seconds=seconds,
            embedding=self._embedder.lap() if self._embedder is not None else 0.0,
            processor=time.process_time() - self._processor,
        )


@dataclass(slots=True, kw_only=True)
class Ingest:
    """What storing took."""

    records: int = 0
    skipped: int = 0
    latencies: list[Latency] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        seconds = sum(latency.seconds for latency in self.latencies)
        embedding = sum(latency.embedding for latency in self.latencies)
        return {
            "records": self.records,
            "skipped_without_text": self.skipped,
            "seconds": round(seconds, 4),
            "embedding_seconds": round(embedding, 4),
            "records_per_second": round(self.records / seconds, 1),
            "records_per_second_without_embedding": round(self.records / (seconds - embedding), 1),
        }


def latency_summary(latencies: list[Latency]) -> dict[str, Any]:
    """Return count, p50 and p95 in milliseconds, with and without embedding time.

    Processor time hardly depends on what else the machine does; the other two do.
    """
    processor = [latency.processor * 1000 for latency in latencies]
    whole = [latency.seconds * 1000 for latency in latencies]
    rest = [latency.without_embedding * 1000 for latency in latencies]
    return {
        "queries": len(latencies),
        "p50_ms": round(percentile(whole, 0.5), 3),
        "p95_ms": round(percentile(whole, 0.95), 3),
        "p50_ms_without_embedding": round(percentile(rest, 0.5), 3),
        "p95_ms_without_embedding": round(percentile(rest, 0.95), 3),
        "p50_processor_ms": round(percentile(processor, 0.5), 3),
    }


async def index_conversation(
    memory: AsyncAgentMemory,
    conversation: Conversation,
    stopwatch: Stopwatch,
    ingest: Ingest,
) -> None:
    """Store a conversation: its user is the conversation, each session is a thread.

    Turns of different sessions are never neighbours that way. Turns without any text cannot be
    stored; they stay part of the evidence and count as not found.
    """
    for session in conversation.sessions:
        thread = await memory.create_thread(
            thread_id=f"{conversation.id}/{session.id}", user_id=conversation.id
        )
        messages = _messages(conversation.id, session)
        ingest.skipped += len(session.turns) - len(messages)
        if not messages:
            continue
        stopwatch.start()
        await thread.add_messages(messages)
        ingest.latencies.append(stopwatch.stop())
        ingest.records += len(messages)


def _messages(conversation_id: str, session: Session) -> list[dict[str, Any]]:
    messages = []
    for turn in session.turns:
        if not turn.text.strip():
            continue
        message: dict[str, Any] = {
            "id": f"{conversation_id}/{turn.id}",
            "role": turn.role,
            "content": turn.text,
        }
        if turn.speaker is not None:
            message["name"] = turn.speaker
        if turn.time is not None:
            message["timestamp"] = turn.time
        if turn.metadata:
            message["metadata"] = dict(turn.metadata)
        messages.append(message)
    return messages


async def ask(
    memory: AsyncAgentMemory,
    conversation: Conversation,
    stopwatch: Stopwatch,
    *,
    limit: int | None,
    search_config: MemorySearchConfig | None = None,
) -> tuple[list[Judged], list[Latency]]:
    """Ask a conversation's questions, each within its own user, and judge the rankings."""
    judged = []
    latencies = []
    prefix = f"{conversation.id}/"
    for question in conversation.questions[:limit]:
        stopwatch.start()
        hits = await memory.search(
            question.text,
            user_id=conversation.id,
            record_types=["message"],
            max_results=MAX_RESULTS,
            search_config=search_config,
        )
        latencies.append(stopwatch.stop())
        judged.append(
            judge(
                [hit.id.removeprefix(prefix) for hit in hits],
                question.evidence,
                category=question.category,
                conversation=conversation.id,
            )
        )
    return judged, latencies


def quality_summary(judged: list[Judged]) -> dict[str, Any]:
    """Return the overall metrics, their confidence intervals, and the metrics by category."""
    overall: dict[str, Any] = {name: round(value, 4) for name, value in mean_values(judged).items()}
    interval: dict[str, Any] = {
        "method": "percentile bootstrap over questions",
        "level": CONFIDENCE,
        "resamples": RESAMPLES,
        "seed": SEED,
    }
    for name in METRICS:
        low, high = bootstrap_interval(
            [row.values[name] for row in judged], level=CONFIDENCE, resamples=RESAMPLES, seed=SEED
        )
        interval[name] = [round(low, 4), round(high, 4)]
    categories = {
        name: {
            "questions": len(rows),
            **{metric: round(value, 4) for metric, value in mean_values(rows).items()},
        }
        for name, rows in sorted(by_category(judged).items())
    }
    return {**overall, "confidence_interval": interval, "by_category": categories}


async def evaluate(
    dataset: Dataset,
    *,
    database: Path,
    embedder: TimedEmbedder | None,
    strategy: SearchStrategy,
    conversations: int | None = None,
    limit: int | None = None,
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """Index a dataset, ask its questions and return the report, ready for JSON.

    Args:
        dataset: What to run on.
        database: Where to put the database; the file must not exist.
        embedder: The embedder, timed; None for lexical search only.
        strategy: Which arms are used.
        conversations: Only the first so many; None for all.
        limit: At most so many questions of each conversation; None for all.
        progress: Called with a line for each conversation indexed and asked.

    Raises:
        BenchmarkError: No question is left to ask.
    """
    chosen = dataset.conversations[:conversations]
    if not any(conversation.questions for conversation in chosen):
        raise BenchmarkError(f"{dataset.file} has no question with evidence to ask")
    ingest = Ingest()
    stopwatch = Stopwatch(embedder)
    judged: list[Judged] = []
    latencies: list[Latency] = []
    async with AsyncAgentMemory(database, embedder=embedder, search_strategy=strategy) as memory:
        for number, conversation in enumerate(chosen, start=1):
            before = ingest.records
            await index_conversation(memory, conversation, stopwatch, ingest)
            progress(
                f"indexed {conversation.id} ({number}/{len(chosen)}): "
                f"{ingest.records - before} {dataset.level}s"
            )
        for number, conversation in enumerate(chosen, start=1):
            rows, times = await ask(memory, conversation, stopwatch, limit=limit)
            judged += rows
            latencies += times
            progress(f"asked {conversation.id} ({number}/{len(chosen)}): {len(rows)} questions")
        stats = await memory.stats()
    return {
        "benchmark": dataset.name,
        "dataset": dataset.file,
        "level": dataset.level,
        "conversations": len(chosen),
        "records": ingest.records,
        "questions": len(judged),
        "questions_without_evidence": dataset.unanswerable,
        "strategy": str(strategy.value),
        "embedder": await fingerprint_of(embedder),
        "max_results": MAX_RESULTS,
        **quality_summary(judged),
        "ingest": ingest.summary(),
        "search": latency_summary(latencies),
        "database_bytes": stats.size_bytes,
        "versions": versions(),
    }
