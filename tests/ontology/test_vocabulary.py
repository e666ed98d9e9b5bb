from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmemory.errors import ValidationError
from agentmemory.ontology.matching import key_of, units
from agentmemory.ontology.vocabulary import Ontology, OntologyRule, Term, TermKind, Vocabulary
from tests.ontology.supplier import SUPPLIER


class Status(enum.Enum):
    ACTIVE = "active"
    BLOCKED = "blocked"


@dataclass
class Contract:
    end_date: str
    kind: Literal["framework", "single"]


@dataclass
class Supplier:
    credit_limit: int = field(metadata={"synonyms": ["信用额度", "Kreditrahmen"]})
    status: Status = Status.ACTIVE
    contracts: list[Contract] = field(default_factory=list)


def kinds(vocabulary: Vocabulary) -> dict[str, TermKind]:
    return {term.name: term.kind for term in vocabulary.terms}


def test_dataclasses_give_entities_fields_values_and_synonyms_of_nested_types_too():
    found = kinds(Vocabulary.from_types(Supplier))
    assert found["Supplier"] is found["Contract"] is found["Status"] is TermKind.ENTITY
    assert found["credit_limit"] is found["end_date"] is TermKind.FIELD
    assert found["active"] is found["framework"] is TermKind.VALUE
    assert Vocabulary.from_types(Supplier).holds("信用额度")


def test_pydantic_models_give_what_their_schema_says():
    pydantic = pytest.importorskip("pydantic")
    address = pydantic.create_model("Address", city=(str, ...))
    model = pydantic.create_model(
        "Vendor", vendor_id=(str, ...), level=(Literal["gold", "basic"], "basic"), at=(address, ...)
    )
    found = kinds(Vocabulary.from_types(model))
    assert found["Vendor"] is found["Address"] is TermKind.ENTITY
    assert found["vendor_id"] is found["city"] is TermKind.FIELD
    assert found["gold"] is TermKind.VALUE


def test_a_json_schema_gives_properties_enums_definitions_rules_and_operations():
    schema: dict[str, Any] = {
        "title": "supplier",
        "x-synonyms": ["供应商"],
        "type": "object",
        "properties": {
            "certification": {"type": "string", "x-synonyms": ["认证"]},
            "status": {"enum": ["active", "blocked", None, True]},
            "address": {"type": "object", "properties": {"city": {"const": "Lyon"}}},
            "items": {"type": "array", "items": {"anyOf": [{"enum": ["steel"]}]}},
        },
        "$defs": {"order": {"properties": {"order_amount": {"type": "number"}}}},
        "x-rules": {"certification_validity": ["认证有效期检查"]},
        "x-operations": ["CREATE_ORDER"],
    }
    vocabulary = Vocabulary.from_json_schema(schema)
    assert kinds(vocabulary) == {
        "supplier": TermKind.ENTITY,
        "order": TermKind.ENTITY,
        "order_amount": TermKind.FIELD,
        "certification_validity": TermKind.RULE,
        "CREATE_ORDER": TermKind.OPERATION,
        "certification": TermKind.FIELD,
        "status": TermKind.FIELD,
        "active": TermKind.VALUE,
        "blocked": TermKind.VALUE,
        "address": TermKind.FIELD,
        "city": TermKind.FIELD,
        "Lyon": TermKind.VALUE,
        "items": TermKind.FIELD,
        "steel": TermKind.VALUE,
    }
    assert vocabulary.holds("认证有效期检查")


def test_the_columns_of_a_table_are_fields_of_an_entity():
    found = Vocabulary.from_columns(
        "supplier", {"credit_limit": ["信用额度"], "name": []}, synonyms=["vendor"]
    )
    assert kinds(found) == {
        "supplier": TermKind.ENTITY,
        "credit_limit": TermKind.FIELD,
        "name": TermKind.FIELD,
    }
    assert found.holds("vendor")


def test_names_are_known_however_they_are_joined_cased_and_inflected():
    vocabulary = Vocabulary(
        [Term("credit_limit", kind=TermKind.FIELD), Term("30天", kind=TermKind.VALUE)]
    )
    for word in ("creditLimit", "Credit Limits", "credit-limit", "CREDIT_LIMIT", "30 天", "３０天"):
        assert vocabulary.holds(word), word
    assert not vocabulary.holds("credit")
    assert not vocabulary.holds("30")


def test_vocabularies_add_up_and_take_more_synonyms():
    both = Vocabulary([Term("a1", kind=TermKind.FIELD)], strict=True) + Vocabulary(
        [Term("a1", kind=TermKind.FIELD, synonyms=("first",))]
    )
    assert both.strict
    assert both.terms == (Term("a1", kind=TermKind.FIELD, synonyms=("first",)),)
    assert both.with_synonyms({"a1": ["erste"]}).holds("erste")
    with pytest.raises(ValidationError, match="'b'"):
        both.with_synonyms({"b": ["x"]})


def test_strict_vocabularies_refuse_strange_tags_and_know_outcomes():
    strict = Vocabulary(SUPPLIER.terms, strict=True)
    tags = ["CREATE_ORDER", "certification_validity", "成功", "认证", "30天"]
    assert strict.check_tags(tags) == tuple(tags)
    with pytest.raises(ValidationError, match="`tags` holds '天气'"):
        strict.check_tags(["认证", "天气"])
    assert SUPPLIER.check_tags(["天气"]) == ("天气",)


@pytest.mark.parametrize(
    "tags", ["认证", [""], ["…"], [1], ["x" * 201], [f"t{i}" for i in range(65)], None]
)
def test_malformed_tags_are_refused_by_name(tags: Any):
    with pytest.raises(ValidationError, match="`tags`"):
        SUPPLIER.check_tags(tags)


@pytest.mark.parametrize(
    ("build", "named"),
    [
        (lambda: Vocabulary.from_mapping({"things": ["a"]}), "names"),
        (lambda: Vocabulary.from_mapping({"fields": "abc"}), "names"),
        (lambda: Vocabulary.from_mapping(["a"]), "names"),  # type: ignore[arg-type]
        (lambda: Vocabulary.from_mapping({"fields": {"a": "b"}}), "synonyms of 'a'"),
        (lambda: Vocabulary([Term("...", kind=TermKind.FIELD)]), "terms"),
        (lambda: Vocabulary.from_json_schema({}), "schema"),
        (lambda: Vocabulary.from_json_schema([]), "schema"),  # type: ignore[arg-type]
        (lambda: Vocabulary.from_json_schema({"properties": 3}), "schema"),
        (Vocabulary.from_types, "classes"),
        (lambda: Vocabulary.from_types(3), "classes"),  # type: ignore[arg-type]
        (lambda: Vocabulary.from_types(object), "classes"),
        (lambda: OntologyRule(name="r", content="c", layer="context"), "layer"),
        (lambda: Ontology(rules=(OntologyRule(name="r", content="c"),) * 2), "rules"),
    ],
)
def test_what_describes_no_domain_is_refused_by_name(build: Any, named: str):
    with pytest.raises(ValidationError, match=f"`{named}"):
        build()


def test_an_ontology_completes_its_vocabulary_with_the_names_of_its_rules():
    rule = OntologyRule(name="credit_check", content="…", fields=("credit",))
    ontology = Ontology(vocabulary=SUPPLIER, rules=(rule,))
    assert ontology.vocabulary.holds("credit_check")
    assert rule.tags == ("credit_check", "credit")
    with pytest.raises(ValidationError, match="'weather'"):
        Ontology(
            vocabulary=Vocabulary(SUPPLIER.terms, strict=True),
            rules=(OntologyRule(name="r1", content="…", fields=("weather",)),),
        )


@given(st.text(max_size=60))
def test_any_text_is_cut_into_units_that_hold_a_letter_or_a_digit(text: str):
    assert all(any(char.isalnum() for char in unit.text) for unit in units(text))
    assert len(key_of(text)) == len(units(text))
