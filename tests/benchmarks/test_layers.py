from __future__ import annotations

import json

import pytest

from agentmemory.testing import HashEmbedder
from benchmarks.__main__ import main
from benchmarks.layers import make_intents, make_memories, make_ontology, measure_quality


@pytest.mark.parametrize("with_vectors", [False, True], ids=["words", "words and vectors"])
async def test_every_critical_memory_and_the_right_rule_are_found(with_vectors: bool):
    report = await measure_quality(":memory:", embedder=HashEmbedder() if with_vectors else None)
    assert (report["rules"], report["memories"], report["intents"]) == (200, 2000, 500)
    assert report["critical_recall"] == 1.0
    assert report["rule_recall_at_5"] >= 0.95
    assert min(report["rule_recall_at_5_en"], report["rule_recall_at_5_zh"]) >= 0.95


def test_the_domain_is_the_same_every_time_and_speaks_two_languages():
    assert make_memories(50) == make_memories(50)
    assert make_intents(10) == make_intents(10)
    assert [asked.text.isascii() for asked in make_intents(4)] == [True, False, True, False]
    ontology = make_ontology()
    assert sum(rule.layer == "rule" for rule in ontology.rules) == 200
    assert len({asked.rule for asked in make_intents()}) > 150


def test_the_command_reports_quality_and_times(capsys: pytest.CaptureFixture[str]):
    assert main(["layers", "--memories", "230", "--latency-memories", "230", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    for row in report["arms"].values():
        assert row["quality"]["critical_recall"] == 1.0
        assert 0 < row["latency"]["p50_ms"] <= row["latency"]["p95_ms"]
    assert main(["layers", "--memories", "9"]) == 2
    assert "220" in capsys.readouterr().err
