"""Sentences and chunks."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmemory.errors import ValidationError
from agentmemory.text.sentences import chunk_text, split_sentences

texts = st.text(
    st.one_of(st.sampled_from("ab .!?\"')\n\r。！」が\u0301\u3099\u200d🙂🇩👍\U0001f3fdᄒ\u1161\u11ab"), st.characters(exclude_categories=["Cs"])),
    max_size=300,
)  # fmt: skip
thorough = settings(deadline=None, max_examples=200)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", []),
        (" \n ", []),
        ("One. Two! Three? Four… Five", ["One.", "Two!", "Three?", "Four…", "Five"]),
        ("Dr. Smith paid $3.50 to J. Doe. He left.", ["Dr. Smith paid $3.50 to J. Doe.", "He left."]),
        ("Use e.g. tea, i.e. leaves. Done.", ["Use e.g. tea, i.e. leaves.", "Done."]),
        ("The U.S. Senate met at 5 p.m. today.", ["The U.S. Senate met at 5 p.m. today."]),
        ('"Really?" she asked. "Yes." He nodded.', ['"Really?" she asked.', '"Yes."', "He nodded."]),
        ("i slept. then i ate", ["i slept.", "then i ate"]),
        ("I said no. Then left. See no. 5, fig. 3.", ["I said no.", "Then left.", "See no. 5, fig. 3."]),
        ("Wait... what? Hm... No.", ["Wait... what?", "Hm...", "No."]),
        ("1. First item\n2. Second item", ["1. First item", "2. Second item"]),
        ("line one\nline two\r\nline three", ["line one", "line two", "line three"]),
        ("今天好。我们去公园吧！「是吗？」他说", ["今天好。", "我们去公园吧！", "「是吗？」", "他说"]),
        ("版本２．３です。終", ["版本２．３です。", "終"]),
        ("यह है। वह है।", ["यह है।", "वह है।"]),
        ("안녕하세요. 반갑습니다.", ["안녕하세요.", "반갑습니다."]),
        ("see example.com/a.b for v2.3.1 now", ["see example.com/a.b for v2.3.1 now"]),
    ],
)  # fmt: skip
def test_text_is_split_into_sentences(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


@thorough
@given(texts)
def test_sentences_hold_all_text_but_the_space_between(text: str) -> None:
    position = 0
    for sentence in split_sentences(text):
        assert sentence == sentence.strip() != ""
        start = text.index(sentence, position)
        assert not text[position:start].strip()
        position = start + len(sentence)
    assert not text[position:].strip()


@pytest.mark.parametrize("length", [1, 350, 525])
def test_text_up_to_one_and_a_half_targets_stays_whole(length: int) -> None:
    text = ("Short one. " * 60)[:length]
    assert chunk_text(text) == [text]


@pytest.mark.parametrize("text", ["", "  \n", "\n" * 5000])
def test_blank_text_has_no_chunks(text: str) -> None:
    assert chunk_text(text) == []


def test_chunks_are_whole_sentences_and_repeat_the_last_one() -> None:
    sentences = [f"Sentence number {number} says something." for number in range(40)]
    chunks = chunk_text(" ".join(sentences))
    assert len(chunks) > 3
    for before, after in pairwise(chunks):
        overlap = split_sentences(before)[-1]
        assert after.startswith(overlap)
        assert 200 < len(before) <= 350
    assert split_sentences(" ".join(chunks))[-1] == sentences[-1]
    assert set(split_sentences(" ".join(chunks))) == set(sentences)


def test_without_overlap_each_sentence_comes_once() -> None:
    sentences = [f"Sentence number {number} says something." for number in range(40)]
    chunks = chunk_text(" ".join(sentences), overlap_sentences=0)
    assert " ".join(chunks) == " ".join(sentences)


def test_more_sentences_may_overlap_up_to_half_of_the_target() -> None:
    sentences = [f"Sentence {number} is here." for number in range(100)]
    first, second, *_ = chunk_text(" ".join(sentences), overlap_sentences=3)
    assert split_sentences(second)[:3] == split_sentences(first)[-3:]
    first, second, *_ = chunk_text(" ".join(sentences), overlap_sentences=50)
    shared = set(split_sentences(first)) & set(split_sentences(second))
    assert 3 < len(shared) < len(split_sentences(first))


def test_no_short_rest_is_left_over() -> None:
    text = "A sentence of about fifty characters stands here. " * 7 + "End."
    assert len(chunk_text(text * 3)[-1]) > 50


def test_long_sentence_is_cut_at_spaces() -> None:
    words = [f"word{number}" for number in range(400)]
    chunks = chunk_text(" ".join(words), overlap_sentences=0)
    assert " ".join(chunks).split() == words
    assert all(len(chunk) <= 525 for chunk in chunks)


def test_long_chinese_sentence_is_cut_after_a_clause() -> None:
    text = "我们去了公园看花，" * 200
    chunks = chunk_text(text, overlap_sentences=0)
    assert "".join(chunks) == text
    assert all(chunk.endswith("，") for chunk in chunks)


@pytest.mark.parametrize(
    "unit",
    [
        "e\u0301",
        "👍\U0001f3fd",
        "👩\u200d💻",
        "🇩🇪",
        "が\u3099",
        "\u1112\u1161\u11ab",
        "\r\n",
        "❤\ufe0f",
        "ก่",
        "न\u093f",
    ],
)
def test_what_is_seen_as_one_character_is_not_cut(unit: str) -> None:
    for offset in ("", "x"):
        text = offset + unit * 700
        chunks = chunk_text(text, target_chars=35, overlap_sentences=0)
        if unit == "\r\n":
            assert chunks in ([], ["x"])
            continue
        assert "".join(chunks) == text
        for chunk in chunks:
            rest = chunk.removeprefix(offset).replace(unit, "")
            assert not rest


def test_endless_combining_sequence_stays_one() -> None:
    chunks = chunk_text("e" + "\u0301" * 5000 + "rest of it")
    assert chunks[0].startswith("e\u0301")
    assert "".join(chunks) == "e" + "\u0301" * 5000 + "rest of it"
    assert all(unicodedata.category(chunk[0])[0] != "M" for chunk in chunks)


separators = st.text(st.sampled_from(" .!?\n。，\u0301)\r\u3000"), max_size=3)


@thorough
@given(st.lists(separators, max_size=120), st.integers(1, 40), st.integers(0, 3))
def test_chunks_cover_the_text_in_order(between: list[str], target: int, overlap: int) -> None:
    # Each letter occurs once, so that its place in the text is known.
    letters = [chr(0x4E00 + number) for number in range(len(between))]
    text = "".join(letter + separator for letter, separator in zip(letters, between, strict=True))
    chunks = chunk_text(text, target_chars=target, overlap_sentences=overlap)
    assert all(chunk in text for chunk in chunks)
    assert [chunk for chunk in chunks if not chunk.strip()] == []
    seen = dict.fromkeys(char for chunk in chunks for char in chunk if char in letters)
    assert list(seen) == letters
    for mark in set(text) - set(letters):
        if not mark.isspace():
            assert sum(chunk.count(mark) for chunk in chunks) >= text.count(mark)


@thorough
@given(st.text(st.sampled_from("ab .!?\n"), max_size=400), st.integers(1, 60), st.integers(0, 3))
def test_no_chunk_is_longer_than_one_and_a_half_targets(
    text: str, target: int, overlap: int
) -> None:
    for chunk in chunk_text(text, target_chars=target, overlap_sentences=overlap):
        assert len(chunk) <= target + target // 2


@pytest.mark.parametrize(
    ("arguments", "name"),
    [({"target_chars": 0}, "target_chars"), ({"overlap_sentences": -1}, "overlap_sentences")],
)
def test_bad_argument_is_named(arguments: dict[str, int], name: str) -> None:
    with pytest.raises(ValidationError, match=f"`{name}`") as caught:
        chunk_text("text", **arguments)
    assert caught.value.argument == name
