from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.datasets import (
    clean_evidence,
    load_beam,
    load_locomo,
    parse_beam_time,
    parse_locomo_time,
)
from benchmarks.errors import BenchmarkError
from tests.benchmarks.samples import BEAM, LOCOMO, locomo_copy, write_beam, write_locomo


def test_locomo_turns_keep_order_speaker_time_and_caption(tmp_path: Path):
    dataset = load_locomo(write_locomo(tmp_path))
    first = dataset.conversations[0]
    assert (dataset.name, dataset.level, dataset.file) == ("locomo", "turn", "locomo.json")
    assert [turn.id for turn in first.turns] == ["D1:1", "D1:2", "D1:3", "D2:1", "D2:2"]
    picture = first.turns[2]
    assert picture.speaker == "Nora"
    assert picture.role == "user"
    assert picture.text == "Only one word so far. Look at this!"
    assert picture.time == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert picture.metadata == {"blip_caption": "a photo of a green bird on a bookshelf"}
    assert first.turns[0].metadata == {}
    assert dataset.turn_count == 8


def test_locomo_sessions_without_turns_are_left_out_and_the_rest_are_in_numeric_order(
    tmp_path: Path,
):
    dataset = load_locomo(write_locomo(tmp_path))
    assert [session.id for session in dataset.conversations[0].sessions] == [
        "session-1",
        "session-2",
    ]
    assert [session.id for session in dataset.conversations[1].sessions] == [
        "session-2",
        "session-10",
    ]


def test_locomo_questions_have_named_categories_and_cleaned_evidence(tmp_path: Path):
    dataset = load_locomo(write_locomo(tmp_path))
    questions = dataset.conversations[0].questions
    assert [(question.category, question.evidence) for question in questions] == [
        ("single-hop", ("D1:1",)),
        ("temporal", ("D1:2", "D2:1")),
        ("multi-hop", ("D1:3", "D2:1")),
    ]
    assert dataset.question_count == 4


def test_locomo_questions_without_usable_evidence_are_counted_but_adversarial_ones_are_not(
    tmp_path: Path,
):
    assert load_locomo(write_locomo(tmp_path)).unanswerable == 1


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (["D11:26"], ("D11:26",)),
        (["D:11:26"], ("D11:26",)),
        (["D30:05"], ("D30:5",)),
        (["D30:05", "D30:5"], ("D30:5",)),
        (["D11:26; D8:6", "D30:5"], ("D8:6", "D11:26", "D30:5")),
        (["D8:6 D11:26"], ("D8:6", "D11:26")),
        (["D8:6,D99:1"], ("D8:6",)),
        (["D", "", "see above"], ()),
        ([], ()),
    ],
)
def test_evidence_is_cleaned_as_the_data_needs(raw: list[str], expected: tuple[str, ...]):
    assert clean_evidence(raw, {"D8:6": 0, "D11:26": 1, "D30:5": 2}) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1:56 pm on 8 May, 2023", datetime(2023, 5, 8, 13, 56, tzinfo=UTC)),
        ("12:05 am on 21 June, 2023", datetime(2023, 6, 21, 0, 5, tzinfo=UTC)),
        ("12:00 pm on 29 February, 2024", datetime(2024, 2, 29, 12, 0, tzinfo=UTC)),
    ],
)
def test_locomo_times_are_utc(text: str, expected: datetime):
    assert parse_locomo_time(text) == expected
    assert parse_locomo_time(text).tzinfo is UTC


def test_beam_times_are_midnight_utc():
    assert parse_beam_time("March-05-2024") == datetime(2024, 3, 5, tzinfo=UTC)


def test_beam_messages_keep_role_and_only_dated_messages_have_a_time(tmp_path: Path):
    dataset = load_beam(write_beam(tmp_path))
    chat = dataset.conversations[0]
    assert (dataset.name, dataset.level) == ("beam", "message")
    assert [(session.id, len(session.turns)) for session in chat.sessions] == [("1", 2), ("2", 2)]
    assert [turn.role for turn in chat.turns] == ["user", "assistant"] * 2
    assert [turn.time for turn in chat.turns] == [
        datetime(2024, 3, 15, tzinfo=UTC),
        None,
        datetime(2024, 4, 5, tzinfo=UTC),
        None,
    ]
    assert {turn.speaker for turn in chat.turns} == {None}


def test_beam_questions_without_evidence_are_counted_and_unknown_ids_dropped(tmp_path: Path):
    dataset = load_beam(write_beam(tmp_path))
    assert [(q.category, q.evidence) for q in dataset.conversations[0].questions] == [
        ("knowledge_update", ("0", "2")),
        ("information_extraction", ("1",)),
    ]
    assert dataset.unanswerable == 1


def test_beam_may_be_unzipped(tmp_path: Path):
    path = tmp_path / "beam.json"
    path.write_text(json.dumps(BEAM), encoding="utf-8")
    assert load_beam(path).conversations == load_beam(write_beam(tmp_path)).conversations


def test_a_missing_file_is_one_line(tmp_path: Path):
    with pytest.raises(
        BenchmarkError, match=r"^cannot read .*nowhere\.json: No such file"
    ) as caught:
        load_locomo(tmp_path / "nowhere.json")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"not json", b"\xff\xfe", b"\x1f\x8bbroken"])
def test_a_file_that_is_not_json_says_so(tmp_path: Path, content: bytes):
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    for load in (load_locomo, load_beam):
        with pytest.raises(BenchmarkError, match=r"(is not JSON|cannot read)"):
            load(path)


@pytest.mark.parametrize("content", ["{}", "[]", "3", '["text"]', '[{"id": 1}]', "[[1]]"])
def test_json_of_another_shape_is_refused(tmp_path: Path, content: str):
    path = tmp_path / "bad.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(BenchmarkError, match="is not of the LoCoMo format"):
        load_locomo(path)
    with pytest.raises(BenchmarkError, match="is not of the BEAM format"):
        load_beam(path)


def test_a_session_with_an_unreadable_date_is_refused(tmp_path: Path):
    data = locomo_copy()
    data[0]["conversation"]["session_1_date_time"] = "yesterday"
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(BenchmarkError, match="yesterday"):
        load_locomo(path)


def test_ids_that_stand_twice_are_refused(tmp_path: Path):
    path = tmp_path / "bad.json"
    path.write_text(json.dumps([*LOCOMO, LOCOMO[0]]), encoding="utf-8")
    with pytest.raises(BenchmarkError, match="'conv-a' stands twice"):
        load_locomo(path)
    data = locomo_copy()
    data[0]["conversation"]["session_1"][1]["dia_id"] = "D1:1"
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(BenchmarkError, match="'D1:1' stands twice"):
        load_locomo(path)
