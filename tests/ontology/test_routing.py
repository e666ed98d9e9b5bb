from __future__ import annotations

from typing import Any

import pytest

from agentmemory.errors import ValidationError
from agentmemory.ontology.intent import read_intent
from agentmemory.ontology.routing import Route, route
from agentmemory.records import Layer
from tests.ontology.supplier import SUPPLIER

CRITICAL, RULE, CONTEXT, BACKGROUND = Layer


@pytest.mark.parametrize(
    ("text", "layers"),
    [
        ("哪些操作必须遵守的硬约束", (CRITICAL,)),
        ("讨论认证规则调整", (RULE, CRITICAL)),
        ("上次讨论的结论是什么", (CONTEXT, RULE)),
        ("供应商 ACME 的历史表现", (BACKGROUND, CONTEXT)),
        ("Which operations are mandatory?", (CRITICAL,)),
        ("Discuss the certification rule", (RULE, CRITICAL)),
        ("What did we agree on? It was said last time", (CONTEXT, RULE)),
        ("The history of this supplier", (BACKGROUND, CONTEXT)),
        ("你好，帮我下单", (RULE, CONTEXT)),
        ("Please place it", (RULE, CONTEXT)),
    ],
)
def test_the_table_routes_the_intents_of_the_document(text: str, layers: tuple[Layer, ...]):
    assert route(read_intent(text)).layers == layers


def test_looking_for_affected_suppliers_asks_for_rule_then_context_beside_critical():
    found = route(read_intent("我想看看认证快到期的供应商，下个月的采购可能受影响", SUPPLIER))
    assert [layer for layer in found.layers if layer is not CRITICAL] == [RULE, CONTEXT]


def test_several_cues_are_a_union_in_the_order_of_the_table():
    found = route(read_intent("背景：上次说必须调整"))
    assert found.layers == (CRITICAL, CONTEXT, RULE, BACKGROUND)
    assert found.cues == ("必须", "上次", "背景")
    assert found.reason == "'必须': CRITICAL; '上次': CONTEXT, RULE; '背景': BACKGROUND, CONTEXT"


def test_the_name_of_a_rule_is_a_cue():
    assert route(read_intent("why supplier status?", SUPPLIER)).layers == (RULE, CRITICAL)
    assert route(read_intent("why supplier status?")).reason == "no cue: RULE, CONTEXT"


def test_english_cues_are_whole_words_in_any_case():
    assert route(read_intent("mustard and credits")).cues == ()
    assert route(read_intent("You MUST  NOT order")).cues == ("must", "must not")


def test_the_table_is_replaceable():
    table = (Route((Layer.BACKGROUND,), cues=("Wetter",)),)
    assert route(read_intent("das wetter"), table).layers == (BACKGROUND,)
    assert route(read_intent("必须"), table).layers == (RULE, CONTEXT)


@pytest.mark.parametrize(
    ("layers", "cues", "named"),
    [
        ((), ("a",), "layers"),
        (("top",), ("a",), "layers"),
        (("rule",), ("",), "cues"),
        (("rule",), "ab", "cues"),
    ],
)
def test_bad_rows_are_refused_by_name(layers: Any, cues: Any, named: str):
    with pytest.raises(ValidationError, match=f"`{named}`"):
        Route(layers, cues=cues)
