from __future__ import annotations

import json

import pytest

from benchmarks.__main__ import main


def test_each_way_of_extraction_is_timed(capsys: pytest.CaptureFixture[str]):
    assert main(["writes", "--rounds", "3", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["messages_per_call"], report["rounds"]) == (10, 3)
    assert list(report["ways"]) == [
        "with a language model",
        "with one that answers at once",
        "without one",
        "no extraction",
    ]
    assert all(way["p50_ms"] <= way["p95_ms"] for way in report["ways"].values())


def test_the_table_has_a_row_for_each_way(capsys: pytest.CaptureFixture[str]):
    assert main(["writes", "--rounds", "2"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in ("with a language model", "without one", "p95"))
