from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from agentmemory.testing import FakeServer
from benchmarks.__main__ import main, make_parser, run
from benchmarks.ablation import DEFAULT, print_ablation, variants
from tests.benchmarks.samples import write_beam, write_locomo

MODEL_STAGES = ["reranker", "hypothetical answer (HyDE)", "pruning, FAST"]


def run_json(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    assert main([*argv, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert isinstance(report, dict)
    return report


def test_every_variant_is_measured_on_both_data_sets_but_those_that_need_a_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    report = run_json(
        capsys,
        "ablation",
        "--locomo",
        str(write_locomo(tmp_path)),
        "--beam",
        str(write_beam(tmp_path)),
        "--embedder",
        "hash",
    )
    assert report["datasets"].keys() == {"locomo", "beam"}
    assert report["questions"]["locomo"] == 4
    by_name = {row["name"]: row for row in report["variants"]}
    assert [name for name, row in by_name.items() if row["values"] is None] == MODEL_STAGES
    for name, row in by_name.items():
        if name not in MODEL_STAGES:
            assert row["values"].keys() == {"locomo", "beam"}
            for values in row["values"].values():
                assert all(0.0 <= value <= 1.0 for value in values.values())
        assert row["against"] is None or row["against"] in by_name
    assert {f"MMR, λ {balance}" for balance in (0.3, 0.5, 0.7, 0.9)} <= by_name.keys()


def test_the_default_variant_gives_what_the_benchmark_of_the_data_set_gives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = str(write_locomo(tmp_path))
    whole = run_json(capsys, "locomo", "--data", path, "--embedder", "hash")
    report = run_json(capsys, "ablation", "--locomo", path, "--embedder", "hash")
    (row,) = (row for row in report["variants"] if row["name"] == DEFAULT)
    for metric, value in row["values"]["locomo"].items():
        assert value == whole[metric]


def test_the_table_marks_what_was_not_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = str(write_locomo(tmp_path))
    assert main(["ablation", "--locomo", path, "--embedder", "hash", "--limit", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("not measured here" in line for line in lines) == len(MODEL_STAGES)
    assert "locomo r@5" in lines[1]


async def test_stages_with_a_model_are_measured_when_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    async with FakeServer(answer='{"decisions": [{"document": 1, "decision": "keep"}]}') as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "key-1")
        arguments: argparse.Namespace = make_parser().parse_args(
            [
                "ablation",
                "--locomo",
                str(write_locomo(tmp_path)),
                "--embedder",
                "hash",
                "--reranker",
                "openai/reranker",
                "--llm",
                "openai/llm",
                "--conversations",
                "1",
            ]
        )
        report = await run(arguments, tmp_path)
    measured = {row["name"] for row in report["variants"] if row["values"] is not None}
    assert set(MODEL_STAGES) <= measured
    print_ablation(report)
    assert "not measured here" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["ablation"], "--locomo PATH"),
        (["ablation", "--locomo", "missing.json"], "missing.json"),
        (["ablation", "--locomo", "x.json", "--limit", "0"], "'0'"),
    ],
)
def test_bad_arguments_are_one_line(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
):
    try:
        code = main(argv)
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    assert code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_the_ablation_needs_an_embedder(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = str(write_locomo(tmp_path))
    assert main(["ablation", "--locomo", path, "--embedder", "none"]) == 2
    assert "needs an embedder" in capsys.readouterr().err


def test_variants_have_names_of_their_own():
    names = [variant.name for variant in variants(reranker=None, llm=None)]
    assert len(names) == len(set(names))


def test_overhead_reports_wall_and_processor_time(capsys: pytest.CaptureFixture[str]):
    report = run_json(capsys, "overhead", "--rounds", "3")
    assert report["pool"] == {"least": 60, "most": 60}
    for values in report["pipelines"].values():
        assert 0 < values["p50_ms"] <= values["p95_ms"]
        assert 0 < values["p50_ms_processor"] <= values["p95_ms_processor"]
    assert main(["overhead", "--rounds", "2"]) == 0
    assert "decay, diversity and budgets" in capsys.readouterr().out
