from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.detector import wilson


def write_chats(directory: Path) -> Path:
    texts = [
        ("user", "Always name the herb when I ask about tea."),
        ("assistant", "Always glad to help."),
        ("user", "I prefer mint, what do you think?"),
        ("user", "Which tea do I like best?"),
    ]
    recs = [
        {"id": place, "role": role, "text": text, "sess": 1, "time": None}
        for place, (role, text) in enumerate(texts)
    ]
    qa = [
        {"question": "Tea?", "type": "instruction_following", "ev": [0]},
        {"question": "Tea!", "type": "instruction_following", "ev": [3]},
        {"question": "Which?", "type": "preference_following", "ev": [2]},
    ]
    path = directory / "chats.json"
    path.write_text(json.dumps([{"id": "c1", "recs": recs, "qa": qa}]))
    return path


def test_a_question_is_covered_by_a_record_of_its_kind_from_its_evidence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["detector", "--data", str(write_chats(tmp_path)), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    instructions = report["abilities"]["instruction_following"]
    assert (instructions["covered"], instructions["questions"]) == (1, 2)
    assert instructions["records_per_conversation"] == 1
    preferences = report["abilities"]["preference_following"]
    assert (preferences["share"], preferences["most_records"]) == (1.0, 1)


def test_the_table_names_the_size_of_the_sample_and_its_interval(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["detector", "--data", str(write_chats(tmp_path))]) == 0
    printed = capsys.readouterr().out
    assert "1/2 = 50.0%" in printed
    assert "(95 %: 9% to 91%)" in printed


def test_unusable_data_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["detector", "--data", str(tmp_path / "none.json")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_interval_is_that_of_wilson():
    # Reference: 0.7 of 10 is 39.7 % to 89.2 % (Newcombe 1998, method 3, by hand).
    low, high = wilson(7, 10) or (0.0, 0.0)
    assert low == pytest.approx(0.39678, abs=1e-4)
    assert high == pytest.approx(0.89221, abs=1e-4)
    assert wilson(0, 0) is None
