"""What a text is cut into, independent of any store."""

from __future__ import annotations

import unicodedata
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmemory.errors import ValidationError
from agentmemory.requests import QueryTerm
from agentmemory.text.analyzer import (
    MAX_QUERY_TERMS,
    MAX_TOKEN_CHARS,
    Analyzer,
    analyze,
    analyze_query,
)
from agentmemory.text.stop_words import ENGLISH_STOP_WORDS

INTERESTING = "aZéß9_-.:'\"()*+#@/,=& \n\tがカ茶素한ㅋไก่Ж\u0301\u3099\u200b\u200d\ufe0f\u20e3🙂１ｶﾞ"
texts = st.text(
    st.one_of(st.sampled_from(INTERESTING), st.characters(exclude_categories=["Cs"])), max_size=60
)
thorough = settings(deadline=None, max_examples=300)


def terms(query: str) -> list[str]:
    return [term.text + ("*" if term.prefix else "") for term in analyze_query(query)]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", []),
        ("  \t\n", []),
        ("Restaurants, RESTAURANT!", ["restaur", "restaur"]),
        ("绿茶", ["绿茶", "茶"]),
        ("茶", ["茶"]),
        ("食べた", ["食べ", "べた", "た"]),
        ("ジョン・スミス", ["ジョ", "ョン", "ン", "スミ", "ミス", "ス"]),
        ("版本v2.3发布", ["版本", "本", "v2.3", "2.3", "v2", "3", "发布", "布"]),
        ("30日", ["30", "日"]),
        ("C++", ["c++", "c"]),
        ("C++.", ["c++", "c"]),
        ("C++11", ["c++11", "c++", "c", "11"]),
        ("C#", ["c#", "c"]),
        (".NET", [".net", "net"]),
        ("E-4021", ["e-4021", "e", "4021"]),
        ("user:alice", ["user:alice", "user", "alic"]),
        ("alice@example.com", ["alice@example.com", "example.com", "alic", "exampl", "com"]),
        ("snake_case", ["snake_case", "snake", "case"]),
        ("__init__", ["init"]),
        ("std::vector", ["std::vector", "std", "vector"]),
        ("wi-fi wifi", ["wifi", "wi", "fi", "wifi"]),
        ("1,234.50 and 1,2", ["1234.50", "1234", "50", "and", "1", "2"]),
        ("1,234-5,678 2020,300", ["1234-5678", "1234", "5678", "2020", "300"]),
        ("don't Alice's we're O'Brien", ["dont", "alic", "we", "obrien", "o", "brien"]),
        ("don’t", ["dont"]),
        ("end.Next", ["end.next", "end", "next"]),
        ("user1 user10", ["user1", "user10"]),
        ("Žižek na Łódź", ["zizek", "na", "lodz"]),
        ("Æsir Straße smørrebrød", ["aesir", "strass", "smorrebrod"]),
        ("ΆΝΘΡΩΠΟΣ άνθρωπος", ["ανθρωποσ", "ανθρωποσ"]),
        ("Ёлка Йод", ["елка", "иод"]),
        ("İstanbul ISTANBUL", ["istanbul", "istanbul"]),
        ("हिन्दी ५", ["हिन्दी", "5"]),
        ("ไทย", ["ไท", "ทย", "ย"]),
        ("soft\u00adhyphen zero\u200bwidth", ["softhyphen", "zero", "width"]),
        ("🙂 👨‍👩‍👧 ❤️ 🇩🇪 1️⃣ 👍🏽 ™ ℹ️ 🈁", []),
        ("?!… — «» ()", []),
        ("\x00\x01\x7f", []),
        ("a\x00b", ["a", "b"]),
        ("x\u0301", ["x"]),
    ],
)  # fmt: skip
def test_text_becomes_tokens_in_order(text: str, tokens: list[str]) -> None:
    assert analyze(text) == tokens


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", []),
        ("茶", ["茶*"]),
        ("绿茶", ["绿茶"]),
        ("素食餐厅", ["素食", "食餐", "餐厅"]),
        ("30日", ["30", "日*"]),
        ("ไก่", ["ไก่"]),
        ("where is the restaurant", ["restaur"]),
        ("what did when", ["what", "did", "when"]),
        ("AND", ["and"]),
        ("tea tea TEA", ["tea"]),
        ("C++", ["c++"]),
        ("C", ["c"]),
        ("v2.3.1", ["v2.3.1", "2.3.1", "v2"]),
        ("AT&T", ["at&t"]),
        ("E-4021", ["e-4021", "4021"]),
        ("user:alice", ["user:alice", "user", "alic"]),
        ("vitamin d", ["vitamin", "d"]),
        ("*", []),
        ("🙂", []),
    ],
)
def test_query_asks_for_what_tells_texts_apart(query: str, expected: list[str]) -> None:
    assert terms(query) == expected


def test_single_character_of_a_script_without_spaces_is_a_prefix() -> None:
    assert analyze_query("茶") == (QueryTerm("茶", prefix=True),)


def test_stop_words_are_few_and_include_question_words() -> None:
    assert 100 <= len(ENGLISH_STOP_WORDS) <= 150
    assert {"what", "did", "when", "the"} <= ENGLISH_STOP_WORDS


def test_every_stop_word_leaves_a_query_as_people_type_it() -> None:
    for word in ENGLISH_STOP_WORDS:
        assert terms(f"{word} zebra") == ["zebra"]


def test_stop_words_stay_in_the_index() -> None:
    assert analyze("to be or not to be") == ["to", "be", "or", "not", "to", "be"]


def test_long_word_is_found_by_its_start() -> None:
    digest = "f" * 5000
    assert analyze(digest) == ["f" * MAX_TOKEN_CHARS]
    assert terms(digest) == ["f" * MAX_TOKEN_CHARS]


def test_encoded_data_becomes_one_token_and_ordinary_paths_keep_their_parts() -> None:
    blob = ("Qk1iZ" * 12 + "/") * 200
    assert len(analyze(blob)) == 1
    path = "/".join(f"folder{i}" for i in range(60))
    assert "folder59" in analyze(path)


def test_query_is_bounded() -> None:
    pasted = " ".join(f"w{i}" for i in range(5 * MAX_QUERY_TERMS))
    assert len(analyze_query(pasted)) == MAX_QUERY_TERMS
    assert len(analyze_query("一二三四五六七八九十" * 1000)) == 10


@pytest.mark.parametrize(
    ("language", "text", "tokens"),
    [
        (None, "running résumés", ["running", "resumes"]),
        ("german", "Häuser häuser Hauses", ["haus", "haus", "haus"]),
        ("russian", "красный красная", ["красн", "красн"]),
        ("french", "marché marchés", ["march", "march"]),
    ],
)
def test_other_languages_stem_before_they_fold(
    language: str | None, text: str, tokens: list[str]
) -> None:
    assert Analyzer(language).analyze(text) == tokens


def test_stop_words_belong_to_their_language() -> None:
    assert len(Analyzer("german").analyze_query("the house")) == 2
    assert len(Analyzer("german", stop_words=["das"]).analyze_query("das Haus")) == 1


def test_unknown_language_is_refused_by_name() -> None:
    with pytest.raises(ValidationError, match=r"`language` is 'klingon'.*english") as caught:
        Analyzer("klingon")
    assert caught.value.argument == "language"


def test_fingerprint_tells_languages_apart() -> None:
    fingerprints = {Analyzer(language).fingerprint for language in (None, "english", "german")}
    assert len(fingerprints) == 3


def test_threads_share_an_analyzer() -> None:
    analyzer = Analyzer()
    words = [f"{stem}{end}" for stem, end in product(map(_word, range(400)), ("s", "ing", "ed"))]
    expected = [Analyzer().analyze(word) for word in words]
    with ThreadPoolExecutor(8) as pool:
        for got in pool.map(lambda _: [analyzer.analyze(word) for word in words], range(16)):
            assert got == expected


def _word(number: int) -> str:
    return "walk" + "".join(chr(97 + int(digit)) for digit in str(number))


def test_many_distinct_words_do_not_grow_the_cache_without_bound() -> None:
    analyzer = Analyzer(None)
    for block in range(0, 80_000, 1000):
        analyzer.analyze(" ".join(f"w{number}" for number in range(block, block + 1000)))
    assert len(analyzer._tokens) <= 1 << 15


@thorough
@given(texts)
def test_tokens_hold_no_space_no_control_and_are_short(text: str) -> None:
    for token in analyze(text):
        assert 0 < len(token) <= MAX_TOKEN_CHARS
        assert len(token.encode()) <= 255
        assert any(char.isalnum() for char in token)
        for char in token:
            assert not char.isspace()
            assert unicodedata.category(char)[0] != "C"


@thorough
@given(texts)
def test_normal_forms_of_a_text_have_the_same_tokens(text: str) -> None:
    expected = analyze(text)
    for form in ("NFC", "NFD"):
        assert analyze(unicodedata.normalize(form, text)) == expected


@thorough
@given(st.text(st.characters(max_codepoint=127), max_size=60))
def test_ascii_takes_the_same_way_as_any_script(text: str) -> None:
    assert analyze(text + "\n。") == analyze(text)
    assert analyze_query(text + "\n。") == analyze_query(text)


@thorough
@given(texts, texts)
def test_lines_are_analysed_each_for_itself(first: str, second: str) -> None:
    assert analyze(first + "\n" + second) == analyze(first) + analyze(second)


@thorough
@given(texts)
def test_query_asks_only_for_what_the_same_text_would_be_indexed_by(text: str) -> None:
    tokens = analyze(text)
    query = analyze_query(text)
    assert bool(query) == bool(tokens)
    for term in query:
        if term.prefix:
            assert any(token.startswith(term.text) for token in tokens)
        else:
            assert term.text in tokens


@thorough
@given(texts)
def test_query_terms_are_distinct(text: str) -> None:
    query = analyze_query(text)
    assert len(set(query)) == len(query)
