"""What each stage of the pipeline is worth, on LoCoMo and on BEAM, in one table.

Every data set is stored once and asked once for each variant, through the public API. Stages that
need a model are measured only if one is named. For decay, each conversation is asked at the time of
its last turn.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from agentmemory import (
    AsyncAgentMemory,
    DecayConfig,
    DiversityConfig,
    Llm,
    MemorySearchConfig,
    Priors,
    PruningMemorySearchConfig,
    ReciprocalRankFusion,
    Reranker,
    ScoreFusion,
    SearchStrategy,
    TopKMemorySearchConfig,
)
from agentmemory.stores.sqlite.store import SqliteStore
from agentmemory.testing import FrozenClock
from benchmarks.datasets import Conversation, Dataset, load_beam, load_locomo
from benchmarks.embedders import TimedEmbedder
from benchmarks.environment import fingerprint_of, versions
from benchmarks.errors import BenchmarkError
from benchmarks.evaluation import Ingest, Stopwatch, ask, index_conversation
from benchmarks.metrics import Judged, mean_values
from benchmarks.report import describe_embedder, print_table

SHOWN: Final = {
    "recall_at_5": "r@5",
    "recall_at_10": "r@10",
    "recall_at_20": "r@20",
    "ndcg_at_10": "nDCG",
}
NOT_MEASURED: Final = "not measured here"
BARE: Final = Priors(actor=0.0, role=0.0, scope=0.0)
DEFAULT: Final = "the default: + role prior"

_START: Final = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to search.

    Args:
        name: What it is called in the table.
        against: The variant it is compared with; None: none.
        config: What searches run with; None: it needs a model that was not named.
        names_stay: Whether speakers' names stay in the query and are not matched apart.
    """

    name: str
    against: str | None = DEFAULT
    config: MemorySearchConfig | None = field(default_factory=MemorySearchConfig)
    names_stay: bool = False


def variants(*, reranker: Reranker | None, llm: Llm | None) -> list[Variant]:
    """Return every variant, those without their model too."""
    words, vectors, both = "words alone", "vectors alone", "both arms, score fusion"
    actor = "+ actor bonus"

    def fused(**options: Any) -> MemorySearchConfig:
        return MemorySearchConfig(fusion=ScoreFusion(**options))

    rows = [
        Variant(
            name=words,
            against=None,
            config=MemorySearchConfig(
                strategy=SearchStrategy.KEYWORD, fusion=ScoreFusion(priors=BARE)
            ),
        ),
        Variant(
            name=vectors,
            against=None,
            config=MemorySearchConfig(
                strategy=SearchStrategy.VECTOR, fusion=ScoreFusion(priors=BARE)
            ),
        ),
        Variant(
            name="both arms, reciprocal ranks",
            against=words,
            config=MemorySearchConfig(fusion=ReciprocalRankFusion(priors=BARE)),
        ),
        Variant(name=both, against=words, config=fused(priors=BARE)),
        Variant(name=actor, against=both, config=fused(priors=Priors(role=0.0))),
        Variant(name=DEFAULT, against=actor),
        Variant(
            name="reciprocal ranks instead, with the priors",
            config=MemorySearchConfig(fusion=ReciprocalRankFusion(priors=Priors())),
        ),
        Variant(name="names stay in the query", names_stay=True),
        Variant(name="candidate_pool='exact'", config=MemorySearchConfig(candidate_pool="exact")),
    ]
    for name, decay in (
        ("decay, 7 days, weight 0.3", DecayConfig()),
        ("decay, 90 days, weight 0.1", DecayConfig(half_life_days=90, recency_weight=0.1)),
        ("decay, 365 days, multiplied", DecayConfig(half_life_days=365, combine="multiply")),
    ):
        rows.append(Variant(name=name, config=MemorySearchConfig(decay=decay)))
    collapsed = DiversityConfig(balance=None)
    rows.append(
        Variant(name="near duplicates collapsed", config=MemorySearchConfig(diversity=collapsed))
    )
    for balance in (0.9, 0.7, 0.5, 0.3):
        spread = DiversityConfig(balance=balance, duplicate_threshold=None)
        rows.append(Variant(name=f"MMR, λ {balance}", config=MemorySearchConfig(diversity=spread)))
    strict: dict[str, Any] = {"strict": True}
    rows += [
        Variant(
            name="reranker",
            config=None
            if reranker is None
            else TopKMemorySearchConfig(reranker=reranker, **strict),
        ),
        Variant(
            name="hypothetical answer (HyDE)",
            config=None if llm is None else MemorySearchConfig(rewriter=llm, **strict),
        ),
        Variant(
            name="pruning, FAST",
            config=None if llm is None else PruningMemorySearchConfig(pruner=llm, **strict),
        ),
    ]
    return rows


class _Nameless:
    """A store that knows no speaker's name."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def actors(self, _: Any) -> tuple[str, ...]:
        return ()


async def measure_ablation(
    datasets: Sequence[Dataset],
    *,
    directory: Path,
    embedder: TimedEmbedder,
    reranker: Reranker | None = None,
    llm: Llm | None = None,
    conversations: int | None = None,
    limit: int | None = None,
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """Ask every question once for each variant and return the report, ready for JSON.

    Args:
        datasets: What to run on.
        directory: Where to put the databases.
        embedder: The embedder, timed.
        reranker: Measures the variant that needs one; None: left out.
        llm: Measures the variants that need one; None: left out.
        conversations: Only the first so many of each data set; None for all.
        limit: At most so many questions of each conversation; None for all.
        progress: Called with a line for each conversation.

    Raises:
        BenchmarkError: No question is left to ask.
    """
    rows = variants(reranker=reranker, llm=llm)
    values: dict[str, dict[str, dict[str, float]]] = {row.name: {} for row in rows}
    questions = {}
    for dataset in datasets:
        judged = await _ask_all(
            dataset,
            [row for row in rows if row.config is not None],
            database=directory / f"{dataset.name}.db",
            embedder=embedder,
            conversations=conversations,
            limit=limit,
            progress=progress,
        )
        for name, answers in judged.items():
            means = mean_values(answers)
            values[name][dataset.name] = {metric: round(means[metric], 4) for metric in SHOWN}
            questions[dataset.name] = len(answers)
    return {
        "benchmark": "ablation",
        "datasets": {dataset.name: dataset.file for dataset in datasets},
        "questions": questions,
        "embedder": await fingerprint_of(embedder),
        "variants": [
            {"name": row.name, "against": row.against, "values": values[row.name] or None}
            for row in rows
        ],
        "versions": versions(),
    }


async def _ask_all(
    dataset: Dataset,
    rows: Sequence[Variant],
    *,
    database: Path,
    embedder: TimedEmbedder,
    conversations: int | None,
    limit: int | None,
    progress: Callable[[str], None],
) -> dict[str, list[Judged]]:
    chosen = dataset.conversations[:conversations]
    if not any(conversation.questions for conversation in chosen):
        raise BenchmarkError(f"{dataset.file} has no question with evidence to ask")
    judged: dict[str, list[Judged]] = {row.name: [] for row in rows}
    clock = FrozenClock(max(map(_end, chosen)))
    stopwatch = Stopwatch(embedder)
    async with (
        AsyncAgentMemory(database, embedder=embedder, clock=clock) as memory,
        AsyncAgentMemory(
            store=_Nameless(SqliteStore(str(database))),
            embedder=embedder,
            clock=clock,
        ) as nameless,
    ):
        for conversation in chosen:
            await index_conversation(memory, conversation, stopwatch, Ingest())
            progress(f"{dataset.name}: indexed {conversation.id}")
        for number, conversation in enumerate(chosen, start=1):
            clock.set(_end(conversation))
            for row in rows:
                answers, _ = await ask(
                    nameless if row.names_stay else memory,
                    conversation,
                    stopwatch,
                    limit=limit,
                    search_config=row.config,
                )
                judged[row.name] += answers
            progress(f"{dataset.name}: asked {conversation.id} ({number}/{len(chosen)})")
    return judged


def _end(conversation: Conversation) -> datetime:
    """Return the time of the last turn; a minute later, so that nothing lies in the future."""
    times = [turn.time for turn in conversation.turns if turn.time is not None]
    return max(times, default=_START) + timedelta(minutes=1)


def add_command(commands: Any, positive: Callable[[str], int]) -> None:
    """Describe the command line."""
    text = "what each stage is worth, on LoCoMo and on BEAM"
    parser: argparse.ArgumentParser = commands.add_parser("ablation", help=text, description=text)
    for name in ("locomo", "beam"):
        parser.add_argument(f"--{name}", type=Path, metavar="PATH", help=f"{name}'s data")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--embedder", default="local", metavar="NAME", help="as for locomo")
    parser.set_defaults(keep=None)
    parser.add_argument("--reranker", metavar="PROVIDER/MODEL", help="measures reranking")
    parser.add_argument("--llm", metavar="PROVIDER/MODEL", help="measures HyDE and pruning")
    parser.add_argument(
        "--conversations", type=positive, metavar="N", help="only the first N conversations of each"
    )
    parser.add_argument(
        "--limit", type=positive, metavar="N", help="at most N questions of each conversation"
    )


async def run_ablation(
    arguments: argparse.Namespace,
    *,
    directory: Path,
    embedder: TimedEmbedder | None,
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """Run what the command line asks for.

    Raises:
        BenchmarkError: There is no data or no embedder.
    """
    loaders = (("locomo", load_locomo), ("beam", load_beam))
    datasets = [
        load(path) for name, load in loaders if (path := getattr(arguments, name)) is not None
    ]
    if not datasets:
        raise BenchmarkError("give --locomo PATH, --beam PATH, or both")
    if embedder is None:
        raise BenchmarkError("the ablation needs an embedder, --embedder none gives none")
    reranker = None if arguments.reranker is None else Reranker(arguments.reranker)
    llm = None if arguments.llm is None else Llm(arguments.llm)
    try:
        return await measure_ablation(
            datasets,
            directory=directory,
            embedder=embedder,
            reranker=reranker,
            llm=llm,
            conversations=arguments.conversations,
            limit=arguments.limit,
            progress=progress,
        )
    finally:
        for model in (reranker, llm):
            if model is not None:
                await model.aclose()


def print_ablation(report: dict[str, Any]) -> None:
    """Print the report as a table; differences are in recall at 10."""
    names = list(report["datasets"])
    by_name = {row["name"]: row["values"] for row in report["variants"]}
    rows = []
    for row in report["variants"]:
        values = row["values"]
        if values is None:
            rows.append([row["name"], NOT_MEASURED, *[""] * (len(names) * 5 - 1)])
            continue
        cells = [row["name"]]
        for name in names:
            cells += [f"{values[name][metric]:.3f}" for metric in SHOWN]
            base = by_name.get(row["against"])
            gain = (
                None if base is None else values[name]["recall_at_10"] - base[name]["recall_at_10"]
            )
            cells.append("" if gain is None else f"{gain:+.3f}")
        rows.append(cells)
    columns = ["variant"]
    for name in names:
        columns += [
            f"{name} {label}" if not index else label for index, label in enumerate(SHOWN.values())
        ]
        columns.append("gain")
    questions = ", ".join(f"{name} {count}" for name, count in report["questions"].items())
    print_table(
        f"questions: {questions}; embedder {describe_embedder(report['embedder'])}; gain in r@10",
        columns,
        rows,
    )
