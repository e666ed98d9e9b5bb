"""Times, near duplicates, shortening and the reading of answers, each by itself."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from agentmemory.extraction.duplicates import is_near_duplicate, support
from agentmemory.extraction.prompts import MAX_MEMORIES
from agentmemory.extraction.reading import inherited_metadata, read_answer
from agentmemory.extraction.shortening import OMISSION, beginning, pieces, shortened
from agentmemory.extraction.times import resolve_time
from agentmemory.records import ScopedRecord
from agentmemory.text.tokens import EstimatingTokenCounter

# A Wednesday.
SAID = datetime(2026, 3, 4, 15, 30, tzinfo=UTC)
COUNTER = EstimatingTokenCounter()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-01", "2026-03-01T00:00:00+00:00"),
        ("2026-03", "2026-03-01T00:00:00+00:00"),
        ("2026", "2026-01-01T00:00:00+00:00"),
        ("2026/3/1", "2026-03-01T00:00:00+00:00"),
        ("2026年3月1日", "2026-03-01T00:00:00+00:00"),
        ("2026-03-01T10:00:00+02:00", "2026-03-01T08:00:00+00:00"),
        ("2026-03-01T10:00:00Z", "2026-03-01T10:00:00+00:00"),
        ("2026-03-01 10:00", "2026-03-01T10:00:00+00:00"),
        ("now", "2026-03-04T15:30:00+00:00"),
        ("Yesterday.", "2026-03-03T00:00:00+00:00"),
        ("tomorrow", "2026-03-05T00:00:00+00:00"),
        ("3 days ago", "2026-03-01T00:00:00+00:00"),
        ("a week ago", "2026-02-25T00:00:00+00:00"),
        ("two days ago", "2026-03-02T00:00:00+00:00"),
        ("in 2 hours", "2026-03-04T17:30:00+00:00"),
        ("last Friday", "2026-02-27T00:00:00+00:00"),
        ("Monday", "2026-03-02T00:00:00+00:00"),
        ("on Wednesday", "2026-02-25T00:00:00+00:00"),
        ("next Friday", "2026-03-06T00:00:00+00:00"),
        ("next Wednesday", "2026-03-11T00:00:00+00:00"),
        ("昨天", "2026-03-03T00:00:00+00:00"),
        ("3天前", "2026-03-01T00:00:00+00:00"),
        ("2周后", "2026-03-18T00:00:00+00:00"),
        ("2026-02-30", None),
        ("2026-13", None),
        ("some day", None),
        ("", None),
        (None, None),
        (5, None),
        ("99999999999 years ago", None),
        ("5000 years ago", None),
        ("0001-01-01T00:00:00+10:00", None),
    ],
)
def test_a_time_is_resolved_against_when_it_was_said(text, expected):
    found = resolve_time(text, SAID)
    assert (None if found is None else found.isoformat()) == expected


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("Ana has two cats.", "ana has TWO cats", True),
        ("The user prefers window seats.", "User prefers window seats", True),
        ("Ana has two cats.", "Ana has two dogs.", False),
        ("Ana has 2 cats and a dog in her house", "Ana has 3 cats and a dog in her house", False),
        ("Ana likes tea a lot these days", "Ana does not like tea a lot these days", False),
        ("我喜欢靠窗的座位", "我喜欢靠窗的座位。", True),
        ("我喜欢靠窗的座位", "我不喜欢靠窗的座位", False),
        ("", "the", False),
    ],
)
def test_near_duplicates_say_the_same_and_no_number_or_negation_differs(first, second, same):
    assert is_near_duplicate(first, second) is same
    assert is_near_duplicate(second, first) is same


def test_support_is_the_share_of_words_that_a_text_holds():
    assert support("Ana feeds cats", "the cats that Ana feeds") == 1.0
    assert support("Ana feeds cats", "cats") == pytest.approx(1 / 3)
    assert support("the of", "the of") == 0.0


def test_pieces_fit_the_limit_and_hold_everything():
    text = " ".join(f"Sentence {number} has some words." for number in range(50)) + " " + "x" * 500
    parts = pieces(text, 30, COUNTER)
    assert all(COUNTER.count(part) <= 30 for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert pieces(text, 0, COUNTER) == pieces(text, 10_000, COUNTER) == [text]


def test_a_shortened_text_has_its_beginning_and_its_end_and_fits():
    text = "START " + "word " * 1000 + "END"
    short = shortened(text, 40, COUNTER)
    assert short.startswith("START")
    assert short.endswith("END")
    assert OMISSION in short
    assert COUNTER.count(short) <= 40
    assert shortened("short", 40, COUNTER) == shortened("short", 0, COUNTER) == "short"
    assert shortened(text, 1, COUNTER) == OMISSION.strip()


def test_the_beginning_of_a_text_ends_with_a_sentence():
    text = "First sentence here. Second sentence here. Third sentence here."
    assert beginning(text, 10, COUNTER) == "First sentence here.\nSecond sentence here."
    assert beginning(text, 0, COUNTER) == text


def message(name, text="text", role="user", seq=0, **more):
    return ScopedRecord(
        id=name,
        record_type="message",
        content=text,
        role=role,
        seq=seq,
        created_at=SAID,
        updated_at=SAID,
        **more,
    )


def memory(number, text, messages, **more):
    return {"number": number, "type": "fact", "text": text, "messages": messages, **more}


def test_an_answer_is_held_to_a_number_of_memories():
    # Far from one another, so that none is a near duplicate.
    items = [memory(n, f"word{n} thing{n} item{n}", [1]) for n in range(MAX_MEMORIES + 5)]
    reading = read_answer({"memories": items}, [message("m1")], stored_count=0)
    assert len(reading.drafts) == MAX_MEMORIES
    assert len(reading.rejected) == 5


def test_sources_are_known_messages_in_their_order_and_each_once():
    messages = [message("m1", seq=1), message("m2", seq=2)]
    value = {"memories": [memory(1, "Both say it.", [2, 1, 2, 7])]}
    (draft,) = read_answer(value, messages, stored_count=0).drafts
    assert [source.id for source in draft.sources] == ["m1", "m2"]


def test_an_end_before_the_beginning_is_no_end():
    value = {
        "memories": [memory(1, "It is so.", [1], event_time="2026-03-02", valid_to="2026-03-01")]
    }
    (draft,) = read_answer(value, [message("m1")], stored_count=0).drafts
    assert draft.valid_to is None


def test_metadata_is_inherited_only_where_every_source_has_the_same():
    one = message("m1", metadata={"a": 1, "b": 2})
    two = message("m2", metadata={"a": 1, "b": 3})
    bare = message("m3")
    assert inherited_metadata([one, two], rule=True) == {"a": 1}
    assert inherited_metadata([one, bare], rule=True) == {}
    assert inherited_metadata([one], rule=["b", "c"]) == {"b": 2}
    assert inherited_metadata([one], rule=False) == {}
    assert inherited_metadata([], rule=True) == {}
