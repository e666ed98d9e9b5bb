from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import main


def test_a_standing_instruction_is_shown_whatever_the_question(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    texts = [
        ("user", "Always name the herb when I ask about tea."),
        ("assistant", "Always glad to help."),
        ("user", "Which one is best?"),
    ]
    recs = [
        {"id": place, "role": role, "text": text, "sess": 1, "time": None}
        for place, (role, text) in enumerate(texts)
    ]
    qa = [
        {"question": "What about something warm?", "type": "instruction_following", "ev": [0]},
        {"question": "Which?", "type": "instruction_following", "ev": [2]},
        {"question": "Which?", "type": "preference_following", "ev": [2]},
    ]
    path = tmp_path / "chats.json"
    path.write_text(json.dumps([{"id": "c1", "recs": recs, "qa": qa}]))
    assert main(["standing", "--data", str(path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["served"], report["questions"], report["served_by_search_alone"]) == (1, 2, 0)
    assert main(["standing", "--data", str(path)]) == 0
    assert "1/2" in capsys.readouterr().out
