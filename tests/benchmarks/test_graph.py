"""The graph benchmark measures what it says it measures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.graph import print_graph


def test_the_graph_benchmark_reports_its_size_and_three_latencies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(
        ["graph", "--links", "400", "--queries", "3", "--json", "--keep", str(tmp_path / "kept")]
    )
    assert code == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["links"], report["memories"], report["queries"]) == (400, 80, 3)
    # Ten roots in a graph of 80 memories with ten links each reach most of the others.
    assert report["reached_per_expansion"] > 500
    for name in ("expansion", "search_without_links", "search_with_links"):
        assert 0 < report[name]["p50_ms"] <= report[name]["p95_ms"]
        assert report[name]["queries"] == 3
    print_graph(report)
    assert "400 links between 80 memories" in capsys.readouterr().out
