from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmemory.errors import ValidationError
from agentmemory.ontology.intent import read_intent, with_words
from agentmemory.ontology.vocabulary import Term, TermKind, Vocabulary
from tests.ontology.supplier import SUPPLIER

ADJUST = "我想讨论一下认证规则是否需要调整，现在的 30 天阈值可能太严格了。"
EXPIRING = "我想看看认证快到期的供应商，下个月的采购可能受影响"


@pytest.mark.parametrize("text", [ADJUST, ADJUST.replace("，", "").replace("。", "")])
def test_the_vocabulary_gives_the_first_list_of_the_document(text: str):
    found = read_intent(text, SUPPLIER)
    assert found.from_vocabulary == ("认证", "certification", "规则", "rule", "阈值", "30天")
    assert found.words[6:] == ("讨论", "调整", "严格")


@pytest.mark.parametrize("text", [EXPIRING, EXPIRING.replace("，", "")])
def test_the_words_of_the_intent_are_the_second_list_of_the_document(text: str):
    found = read_intent(text, SUPPLIER)
    assert found.said == ("认证", "到期", "供应商", "采购", "影响")
    assert set(found.said) <= set(found.words)


def test_english_words_are_found_by_stem_and_stop_words_fall_away():
    found = read_intent("Which of the suppliers have expiring certifications?", SUPPLIER)
    assert found.from_vocabulary == ("supplier", "certification")
    assert found.words[2:] == ("expiring",)


def test_synonyms_bring_the_name_and_names_come_before_values():
    found = read_intent("S-ACME: vendor on ISO", SUPPLIER)
    assert found.words == ("vendor", "supplier", "ISO", "certification", "S-ACME")
    assert [item.spoken for item in found.keywords] == [True, False, True, False, True]


def test_the_longest_name_wins_and_a_rule_is_noted():
    found = read_intent("why did certification validity reject CREATE_ORDER", SUPPLIER)
    assert found.from_vocabulary == ("certification_validity", "rejected", "CREATE_ORDER")
    assert found.rules == ("certification_validity",)


def test_a_word_of_a_longer_name_is_known_without_standing_for_it():
    found = read_intent("validity of the papers", SUPPLIER)
    assert found.from_vocabulary == ("validity",)
    assert found.rules == ()


def test_a_word_that_many_names_share_brings_none_of_them():
    vocabulary = Vocabulary(
        Term(f"field_{n}", kind=TermKind.FIELD, synonyms=("值域",)) for n in range(9)
    )
    assert read_intent("值域 调整", vocabulary).words == ("值域", "调整")


def test_a_name_is_not_read_across_punctuation():
    assert "30天" not in read_intent("超过30。天气好", SUPPLIER).words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("目的地清关的有效期问题", ("目的地清关", "有效期")),
        ("快到期的合同和付款方式", ("到期", "合同", "付款方式")),
        ("太严格了", ("严格",)),
        ("45天的宽限期", ("45天", "宽限期")),
        ("認証規則を調整したい", ("認証規則", "調整")),
        ("공급업체 인증 만료", ("공급업체", "인증", "만료")),
        ("Prüfung der Lieferanten", ("Prüfung", "der", "Lieferanten")),
        ("ERP的接口", ("ERP", "接口")),
        ("我的 的 了 吗", ()),
        ("?!", ()),
    ],
)
def test_words_are_cut_without_a_vocabulary(text: str, words: tuple[str, ...]):
    found = read_intent(text)
    assert found.words == words
    assert found.is_ambiguous


def test_keywords_are_capped_with_the_vocabulary_first():
    text = "alpha beta gamma delta 认证"
    assert read_intent(text, SUPPLIER, max_keywords=3).words == ("认证", "certification", "alpha")
    full = with_words(read_intent(text, SUPPLIER, max_keywords=3), ("x1",), max_keywords=3)
    assert full.words == ("认证", "certification", "alpha")


def test_bad_intents_are_refused_by_name():
    with pytest.raises(ValidationError, match="`intent`"):
        read_intent("  ")
    with pytest.raises(ValidationError, match="`max_keywords`"):
        read_intent("a", max_keywords=0)


@given(st.text(alphabet="认证规则的了快到期供 ab,。30天\n-_'", min_size=1).filter(str.strip))
def test_keywords_are_distinct_and_come_from_the_intent_or_the_vocabulary(text: str):
    found = read_intent(text, SUPPLIER)
    folded = [word.casefold() for word in found.words]
    assert len(folded) == len(set(folded))
    assert all(len(word) >= 2 for word in found.words)
    known = {form for term in SUPPLIER.terms for form in term.forms}
    squeezed = "".join(char for char in text if char.isalnum())
    for item in found.keywords:
        assert item.text in known or "".join(filter(str.isalnum, item.text)) in squeezed
