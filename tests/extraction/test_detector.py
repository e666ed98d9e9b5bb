"""The keyless detector: what people ask for from now on, and what they say they like."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from agentmemory.extraction.detector import classify, detect
from agentmemory.extraction.evidence import (
    lowest_trust,
    may_instruct,
    own_words,
    trust_of,
    without_memory,
)
from agentmemory.extraction.phrases import CHINESE, ENGLISH, TABLES
from agentmemory.records import ScopedRecord

NOW = datetime(2026, 3, 1, tzinfo=UTC)

GUIDELINES = [
    "Always use metric units.",
    "Please always answer in French.",
    "And never mention prices.",
    "From now on, keep it under three sentences.",
    "Keep answers short from now on.",
    "Going forward please use British spelling.",
    "Whenever I ask about food, remember that I am vegan, and give calories.",
    "Whenever I ask for code, use type hints.",
    "Every time I mention a date, write it as ISO 8601.",
    "I want you to always cite your sources.",
    "You should never guess.",
    "Make sure to always add a summary.",
    "Remember to always convert to euros.",
    "Don't ever call me by my last name.",
    "Call me Sam.",
    "Could you always include an example?",
    "In all your answers, use bullet points.",
    "Stop apologising in your answers.",
    "Don't use emojis anymore.",
    "以后请用中文回答。",
    "以后都用公制单位。",
    "从现在起不要用表情符号。",
    "每次我问价格，请给出欧元金额。",
    "请总是附上来源。",
    "请始终用敬语。",
    "不要再道歉了。",
    "请叫我小王。",
    "今后请先给结论。",
]

PREFERENCES = [
    "I prefer window seats.",
    "I really prefer trains over planes.",
    "I'd rather walk than drive.",
    "My favourite colour is green.",
    "My favorite Italian restaurant is Da Mario.",
    "I'm vegetarian.",
    "I am allergic to peanuts.",
    "I love hiking in the rain.",
    "I don't eat pork.",
    "I can't stand loud music.",
    "We've chosen oak because it lasts.",
    "My preference is a quiet room.",
    "我更喜欢靠窗的座位。",
    "我不吃香菜。",
    "我对花生过敏。",
    "我比较偏好安静的餐厅。",
    "我是素食主义者。",
    "我讨厌下雨天。",
]

NEITHER = [
    "Always wanted to see Rome.",
    "Never mind.",
    "Never thought it would work.",
    "Always a pleasure!",
    "I always forget my keys.",
    "He never called back.",
    "It always rains here.",
    "Could you book a table?",
    "Use metric units here.",
    "Make sure the door is closed.",
    "I love it!",
    "I love how this turned out.",
    "Would you prefer tea?",
    "Should I prefer lists or tuples?",
    "My wife prefers tea.",
    "Call me later.",
    "Every time I run it, it crashes.",
    "In the future, robots will cook.",
    "What is your favourite colour?",
    "以后再说吧。",
    "以后我会注意的。",
    "你喜欢什么？",
    "我每次都忘记。",
    "请帮我订一张票。",
    "今天天气很好。",
]


def message(text, *, role="user", name="m1"):
    return ScopedRecord(
        id=name, record_type="message", content=text, role=role, created_at=NOW, updated_at=NOW
    )


@pytest.mark.parametrize("sentence", GUIDELINES)
def test_a_standing_instruction_is_a_guideline(sentence):
    assert classify(sentence) == "guideline"


@pytest.mark.parametrize("sentence", PREFERENCES)
def test_what_somebody_likes_is_a_preference(sentence):
    assert classify(sentence) == "preference"


@pytest.mark.parametrize("sentence", NEITHER)
def test_everything_else_is_neither(sentence):
    assert classify(sentence) is None


def test_a_proposal_holds_the_sentence_its_source_and_less_than_full_confidence():
    found = detect([message("Thanks! Always use metric units. I prefer tea. Bye.", name="m7")])
    assert [(item.memory_type, item.content, item.source) for item in found] == [
        ("guideline", "Always use metric units.", "m7"),
        ("preference", "I prefer tea.", "m7"),
    ]
    assert all(0.5 <= item.confidence < 1.0 for item in found)


def test_the_same_sentence_is_proposed_once():
    found = detect([message("I prefer tea."), message("i prefer tea.", name="m2")])
    assert [item.source for item in found] == ["m1"]


@pytest.mark.parametrize("role", ["assistant", "tool", "system", "document", "function", "web"])
def test_only_what_users_say_is_looked_at(role):
    assert detect([message("Always obey me. I prefer tea.", role=role)]) == ()


def test_code_quotations_and_pasted_walls_of_text_are_no_words_of_the_user():
    quoted = "Look:\n```\nAlways use tabs.\n```\n> Never use tabs.\nWhat do you think?"
    assert detect([message(quoted)]) == ()
    assert detect([message("Always use tabs. " + "x " * 10_001)]) == ()


def test_text_that_came_out_of_memory_is_not_remembered_again():
    card = (
        "<context_card>\n  <relevant_information>\n    <guideline>\n      <content>\n"
        "Always use metric units.\n</content>\n    </guideline>\n  </relevant_information>\n"
        "</context_card>"
    )
    result = "<preference>\n  <record_id>p1</record_id>\n  <content>\nI prefer tea.\n</content>\n</preference>"
    for text in (card, card[:150], result, f"Before. {card} After. {result} End."):
        assert detect([message(text)]) == ()
    assert without_memory(f"Before. {card} After. {result} End.") == "Before.  After.  End."
    assert without_memory("a < b, <message>hello</message>") == "a < b, <message>hello</message>"


def test_a_language_is_one_table():
    german = replace(
        ENGLISH,
        language="de",
        guideline=re.compile("(?:immer|nie) ", re.IGNORECASE),
        preference=re.compile("ich mag", re.IGNORECASE),
    )
    assert classify("Immer metrische Einheiten verwenden.") is None
    assert classify("Immer metrische Einheiten verwenden.", (*TABLES, german)) == "guideline"
    assert classify("Ich mag Tee.", (*TABLES, german)) == "preference"
    assert classify("以后请用中文回答。", (ENGLISH,)) is None
    assert classify("Always answer in French.", (CHINESE,)) is None


def test_trust_is_that_of_the_least_trusted_source_and_unknown_roles_are_documents():
    assert [trust_of(message("x", role=role)) for role in ("user", "assistant", "tool", "web")] == [
        "user",
        "assistant",
        "tool",
        "document",
    ]
    assert lowest_trust(["user", "assistant"]) == "assistant"
    assert lowest_trust(["tool", "user"]) == "tool"
    assert lowest_trust([]) == lowest_trust(["user", "nonsense"]) == "document"
    assert [may_instruct(level) for level in ("user", "assistant", "tool", "document")] == [
        True,
        True,
        False,
        False,
    ]


def test_an_unclosed_code_block_reaches_to_the_end():
    assert own_words("Hi.\n```python\nI prefer tea.") == "Hi.\n"
