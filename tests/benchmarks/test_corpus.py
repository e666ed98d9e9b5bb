from __future__ import annotations

import collections
import itertools

from benchmarks.corpus import TYPES, Corpus
from benchmarks.report import format_table


def take(seed: int, count: int) -> list[tuple[str, str]]:
    return list(itertools.islice(Corpus(seed).records(), count))


def test_the_same_seed_gives_the_same_text():
    assert take(1, 20) == take(1, 20)
    assert take(1, 20) != take(2, 20)


def test_the_five_types_take_turns():
    assert [record_type for record_type, _ in take(1, 10)] == list(TYPES) * 2


def test_words_are_as_uneven_as_in_real_text():
    words = [word for _, text in take(1, 2000) for word in text.rstrip(".").lower().split()]
    counts = collections.Counter(words)
    ten_commonest = sum(count for _, count in counts.most_common(10))
    assert 0.15 < ten_commonest / len(words) < 0.35
    assert counts.most_common(1)[0][0] == "the"
    assert sum(count == 1 for count in counts.values()) > len(counts) / 10


def test_a_question_asks_with_words_of_the_text():
    corpus = Corpus(1)
    text = corpus.sentence()
    question = corpus.question(text)
    assert question.startswith("What was it about the ")
    asked = question.removeprefix("What was it about the ").rstrip("?").split()
    assert 1 <= len(asked) <= 6
    assert set(asked) <= set(text.rstrip(".").lower().split())


def test_tables_are_aligned():
    assert format_table(["name", "count"], [["a", "1"], ["longer", "1000"]]).splitlines() == [
        "name    count",
        "------  -----",
        "a           1",
        "longer   1000",
    ]
