"""Reports for people: plain text, or tables by rich where it is installed."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from typing import Any, Final

_COLUMNS: Final = {
    "recall_at_5": "r@5",
    "recall_at_10": "r@10",
    "recall_at_20": "r@20",
    "recall_all_at_10": "all@10",
    "hit_at_10": "hit@10",
    "mrr_at_10": "MRR@10",
    "ndcg_at_10": "nDCG@10",
}


def say_progress(line: str) -> None:
    """Tell on standard error how far a slow run is."""
    print(line, file=sys.stderr, flush=True)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; the first column is text, the others are numbers."""
    if importlib.util.find_spec("rich") is not None and sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        table = Table(title=title, title_justify="left")
        for index, name in enumerate(columns):
            table.add_column(name, justify="right" if index else "left")
        for row in rows:
            table.add_row(*row)
        Console().print(table)
        return
    print(title)
    print(format_table(columns, rows))


def format_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in plain text, its columns aligned."""
    widths = [max(len(row[index]) for row in (columns, *rows)) for index in range(len(columns))]
    lines = []
    for row in (columns, ["-" * width for width in widths], *rows):
        cells = [
            cell.rjust(width) if index else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def describe_embedder(embedder: dict[str, Any] | None) -> str:
    """Return an embedder's name and size in words."""
    return f"{embedder['model']} ({embedder['dimension']}-d)" if embedder else "none"


def print_quality(report: dict[str, Any]) -> None:
    """Print the report of a retrieval benchmark."""
    rows = [
        [name, str(values["questions"]), *(f"{values[metric]:.3f}" for metric in _COLUMNS)]
        for name, values in report["by_category"].items()
    ]
    rows.append(
        ["overall", str(report["questions"]), *(f"{report[metric]:.3f}" for metric in _COLUMNS)]
    )
    intervals = report["confidence_interval"]
    for place, bound in enumerate(("95 % from", "95 % to")):
        rows.append([bound, "", *(f"{intervals[metric][place]:.3f}" for metric in _COLUMNS)])
    print_table(
        f"{report['benchmark']} ({report['dataset']}), {report['level']} level, "
        f"{report['strategy']}, embedder {describe_embedder(report['embedder'])}",
        ["category", "questions", *_COLUMNS.values()],
        rows,
    )
    ingest = report["ingest"]
    search = report["search"]
    size = report["database_bytes"]
    print(
        f"\ningest    {ingest['records']} {report['level']}s, "
        f"{ingest['records_per_second']:.0f}/s "
        f"({ingest['records_per_second_without_embedding']:.0f}/s without embedding)\n"
        f"search    p50 {search['p50_ms']:.2f} ms, p95 {search['p95_ms']:.2f} ms "
        f"(without embedding p50 {search['p50_ms_without_embedding']:.2f} ms, "
        f"p95 {search['p95_ms_without_embedding']:.2f} ms)\n"
        f"database  {'unknown' if size is None else f'{size / 1e6:.1f} MB'}"
    )


def print_scale(report: dict[str, Any]) -> None:
    """Print the report of the scale benchmark."""
    rows = []
    for entry in report["sizes"]:
        search, card, plain = entry["search"], entry["card"], entry["plain_fts5"]
        rows.append(
            [
                f"{entry['records']:,}",
                f"{search['p50_ms_without_embedding']:.2f}",
                f"{search['p95_ms_without_embedding']:.2f}",
                f"{card['p50_ms_without_embedding']:.2f}",
                f"{card['p95_ms_without_embedding']:.2f}",
                f"{plain['p50_ms']:.2f}",
                f"{entry['card_to_search_p50']:.2f}",
                f"{search['p50_processor_ms']:.2f}",
                f"{card['p50_processor_ms']:.2f}",
                f"{entry['search_to_plain_fts5_p50']:.2f}",
                f"{entry['ingest']['records_per_second_without_embedding']:.0f}",
                f"{entry['database_bytes'] / 1e6:.1f}",
            ]
        )
    print_table(
        f"records of five types in one scope, {report['strategy']}, embedder "
        f"{describe_embedder(report['embedder'])}; milliseconds without embedding, CPU with",
        [
            "records",
            "search p50",
            "p95",
            "card p50",
            "p95",
            "plain FTS5 p50",
            "card/search",
            "search CPU",
            "card CPU",
            "search/FTS5",
            "ingest/s",
            "MB",
        ],
        rows,
    )
