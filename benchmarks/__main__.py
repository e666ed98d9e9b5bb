"""Command line of the benchmarks: `python -m benchmarks COMMAND …` from the checkout.

locomo and beam measure how well questions find the turns that answer them; scale measures how
long search and context cards take; detector measures what is remembered without a language model.
Reports go to standard output, progress to standard error. Bad arguments and unusable data are one
line on standard error and exit code 2.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from agentmemory.config import SearchStrategy
from agentmemory.errors import AgentMemoryError
from benchmarks.ablation import add_command as add_ablation
from benchmarks.ablation import print_ablation, run_ablation
from benchmarks.datasets import load_beam, load_locomo
from benchmarks.detector import measure_detector, print_detector
from benchmarks.embedders import make_embedder
from benchmarks.errors import BenchmarkError
from benchmarks.evaluation import evaluate
from benchmarks.graph import measure_graph, print_graph
from benchmarks.layers import add_command as add_layers
from benchmarks.layers import measure_layers, print_layers
from benchmarks.overhead import add_command as add_overhead
from benchmarks.overhead import measure_overhead, print_overhead
from benchmarks.report import print_quality, print_scale, say_progress
from benchmarks.scale import measure_scale
from benchmarks.standing import add_command as add_standing
from benchmarks.standing import measure_standing, print_standing
from benchmarks.writes import add_command as add_writes
from benchmarks.writes import measure_writes, print_writes

DEFAULT_SIZES: Final = (1_000, 10_000)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without repeating the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return number


def make_parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = _Parser(prog="python -m benchmarks", description=__doc__, formatter_class=_formatter)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in (
        ("locomo", "retrieval on LoCoMo, turn level, categories 1 to 4"),
        ("beam", "retrieval on BEAM, message level, by ability"),
    ):
        quality = commands.add_parser(name, help=text, description=text)
        quality.add_argument(
            "--data", type=Path, required=True, metavar="PATH", help="the data, in its format"
        )
        _add_common(quality, default_embedder="local")
        quality.add_argument(
            "--conversations", type=_positive, metavar="N", help="only the first N conversations"
        )
        quality.add_argument(
            "--limit", type=_positive, metavar="N", help="at most N questions of each conversation"
        )
    text = "latency of search and context card against the number of records in one scope"
    scale = commands.add_parser("scale", help=text, description=text)
    _add_common(scale, default_embedder="hash")
    scale.add_argument(
        "--sizes",
        type=_positive,
        nargs="+",
        default=list(DEFAULT_SIZES),
        metavar="N",
        help="numbers of records (default: 1000 10000)",
    )
    scale.add_argument(
        "--queries",
        type=_positive,
        default=200,
        metavar="N",
        help="searches and cards to time for each size (default: 200)",
    )
    add_ablation(commands, _positive)
    add_overhead(commands, _positive)
    add_writes(commands, _positive)
    add_layers(commands, _positive)
    add_standing(commands)
    text = "standing instructions and preferences found without a language model, on BEAM"
    detector = commands.add_parser("detector", help=text, description=text)
    detector.add_argument(
        "--data", type=Path, required=True, metavar="PATH", help="the data, in its format"
    )
    detector.add_argument("--json", action="store_true", help="print the report as JSON")
    text = "latency of graph expansion among many links"
    graph = commands.add_parser("graph", help=text, description=text)
    _add_common(graph, default_embedder="none")
    graph.add_argument("--links", type=_positive, default=100_000, metavar="N")
    graph.add_argument("--queries", type=_positive, default=200, metavar="N")
    return parser


def _formatter(prog: str) -> argparse.HelpFormatter:
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=32)


def _add_common(parser: argparse.ArgumentParser, *, default_embedder: str) -> None:
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument(
        "--embedder",
        default=default_embedder,
        metavar="NAME",
        help=f"local, none, hash or minilm:PATH (default: {default_embedder})",
    )
    parser.add_argument(
        "--strategy",
        choices=[strategy.value for strategy in SearchStrategy],
        help="which arms searches use (default: hybrid, without an embedder keyword)",
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="DIRECTORY",
        help="leave the databases in this directory, which must be empty or new",
    )


async def run(arguments: argparse.Namespace, directory: Path) -> dict[str, Any]:
    """Run the benchmark that was asked for and return its report.

    Raises:
        BenchmarkError: The data, the embedder or the combination cannot be used.
    """
    if arguments.command == "writes":
        return await measure_writes(directory, rounds=arguments.rounds)
    if arguments.command == "overhead":
        return await measure_overhead(rounds=arguments.rounds)
    if arguments.command == "standing":
        return await measure_standing(arguments.data, directory, say_progress)
    if arguments.command == "layers":
        return await measure_layers(
            directory,
            memories=arguments.memories,
            latency_memories=arguments.latency_memories,
            progress=say_progress,
        )
    embedder = make_embedder(arguments.embedder)
    if arguments.command == "ablation":
        return await run_ablation(
            arguments, directory=directory, embedder=embedder, progress=say_progress
        )
    if arguments.strategy is None:
        strategy = SearchStrategy.HYBRID if embedder else SearchStrategy.KEYWORD
    else:
        strategy = SearchStrategy(arguments.strategy)
    if embedder is None and strategy is not SearchStrategy.KEYWORD:
        raise BenchmarkError(
            f"--strategy {strategy.value} needs an embedder, --embedder none gives none"
        )
    if arguments.command == "graph":
        return await measure_graph(
            arguments.links,
            directory=directory,
            queries=arguments.queries,
            progress=say_progress,
        )
    if arguments.command == "scale":
        return await measure_scale(
            arguments.sizes,
            directory=directory,
            embedder=embedder,
            strategy=strategy,
            queries=arguments.queries,
            progress=say_progress,
        )
    load = load_locomo if arguments.command == "locomo" else load_beam
    return await evaluate(
        load(arguments.data),
        database=directory / f"{arguments.command}.db",
        embedder=embedder,
        strategy=strategy,
        conversations=arguments.conversations,
        limit=arguments.limit,
        progress=say_progress,
    )


def _run_in_directory(arguments: argparse.Namespace) -> dict[str, Any]:
    if arguments.keep is None:
        with tempfile.TemporaryDirectory(prefix="agentmemory-benchmark-") as temporary:
            return asyncio.run(run(arguments, Path(temporary)))
    directory: Path = arguments.keep
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise BenchmarkError(f"--keep {directory} is not empty")
    except OSError as error:
        raise BenchmarkError(f"--keep {directory}: {error.strerror or error}") from error
    return asyncio.run(run(arguments, directory))


def main(argv: Sequence[str] | None = None) -> int:
    """Run a benchmark from the command line and return the exit code."""
    arguments = make_parser().parse_args(argv)
    try:
        if arguments.command == "detector":
            report = measure_detector(arguments.data)
        else:
            report = _run_in_directory(arguments)
    except (BenchmarkError, AgentMemoryError) as error:
        print(f"python -m benchmarks: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("python -m benchmarks: interrupted", file=sys.stderr)
        return 130
    if arguments.json:
        print(json.dumps(report, indent=2, ensure_ascii=False))
    elif arguments.command == "detector":
        print_detector(report)
    elif arguments.command == "ablation":
        print_ablation(report)
    elif arguments.command == "writes":
        print_writes(report)
    elif arguments.command == "overhead":
        print_overhead(report)
    elif arguments.command == "scale":
        print_scale(report)
    elif arguments.command == "standing":
        print_standing(report)
    elif arguments.command == "layers":
        print_layers(report)
    elif arguments.command == "graph":
        print_graph(report)
    else:
        print_quality(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
