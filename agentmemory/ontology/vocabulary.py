"""The closed vocabulary of a domain, built from what describes its data.

An ontology names its things: entities, fields, rules, operations and the values a field may have.
Those names, with synonyms in any language, are what intents are matched against and what tags are
made of. Pure; may import checks, errors and the matching of this room.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final

from agentmemory.checks import check_bool, check_list, check_text
from agentmemory.errors import ValidationError
from agentmemory.ontology.matching import Trie, key_of, units

MAX_TAGS: Final = 64
"""Most tags of one memory."""

MAX_TAG_CHARS: Final = 200


class TermKind(enum.StrEnum):
    """What a name of the vocabulary names."""

    ENTITY = "entity"
    FIELD = "field"
    RULE = "rule"
    OPERATION = "operation"
    OUTCOME = "outcome"
    VALUE = "value"


KINDS: Final = {
    "entities": TermKind.ENTITY,
    "fields": TermKind.FIELD,
    "rules": TermKind.RULE,
    "operations": TermKind.OPERATION,
    "values": TermKind.VALUE,
}
"""The keys of a plain mapping and what they list."""

SUCCESS: Final = "success"
REJECTED: Final = "rejected"

_OUTCOMES: Final = {SUCCESS: ("成功", "succeeded"), REJECTED: ("拒绝", "被拒绝", "rejection")}


@dataclass(frozen=True, slots=True)
class Term:
    """A name with the words it is known by.

    Args:
        name: As the schema has it.
        kind: What it names.
        synonyms: Other words for it, in any language.
    """

    name: str
    _: KW_ONLY
    kind: TermKind
    synonyms: tuple[str, ...] = ()

    @property
    def forms(self) -> tuple[str, ...]:
        """The name and its synonyms."""
        return (self.name, *self.synonyms)


@dataclass(frozen=True, slots=True)
class Form:
    """A written form of a term: its name, a synonym, or one word of a longer name."""

    text: str
    term: Term
    partial: bool = False


class Vocabulary:
    """The names of a domain and their synonyms.

    Args:
        terms: The names; several with one name and kind are put together.
        strict: Whether tags that are none of its words are refused.

    Raises:
        ValidationError: A name or synonym is empty.
    """

    def __init__(self, terms: Iterable[Term] = (), *, strict: bool = False) -> None:
        merged: dict[tuple[str, TermKind], Term] = {}
        for term in terms:
            key = (term.name, term.kind)
            known = merged.get(key, Term(term.name, kind=term.kind))
            synonyms = tuple(dict.fromkeys((*known.synonyms, *term.synonyms)))
            merged[key] = Term(
                term.name,
                kind=term.kind,
                synonyms=tuple(word for word in synonyms if word != term.name),
            )
        self._terms = tuple(merged.values())
        self.strict = check_bool(strict, argument="strict")
        self._forms: Trie[Form] = Trie()
        outcomes = [
            Term(name, kind=TermKind.OUTCOME, synonyms=words) for name, words in _OUTCOMES.items()
        ]
        for term in (*self._terms, *outcomes):
            for text in term.forms:
                check_text(text, argument="terms")
                if not self._forms.add(text, Form(text, term)):
                    msg = f"`terms` holds {text!r}; accepted: words with a letter or a digit"
                    raise ValidationError(msg, argument="terms")
        for term in self._terms:
            if term.kind is not TermKind.VALUE:
                self._add_parts(term)

    def _add_parts(self, term: Term) -> None:
        """Let each word of a longer name be known too, if it is no name of its own."""
        from agentmemory.ontology.words import ENGLISH_INTENT_WORDS

        parts = units(term.name)
        if len(parts) < 2:
            return
        for part in parts:
            word = part.text.casefold()
            if part.unspaced or len(word) < 3 or word in ENGLISH_INTENT_WORDS:
                continue
            if not any(not form.partial for form in self._forms.get(word)):
                self._forms.add(word, Form(word, term, partial=True))

    @property
    def terms(self) -> tuple[Term, ...]:
        """Every name, in the order it was given."""
        return self._terms

    @property
    def forms(self) -> Trie[Form]:
        """Every written form, to be found in text."""
        return self._forms

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self._terms)

    def __repr__(self) -> str:
        """Show how many names there are; all of them would not fit."""
        return f"Vocabulary({len(self._terms)} terms, strict={self.strict})"

    def __add__(self, other: Vocabulary) -> Vocabulary:
        """Return the names of both; strict if either is."""
        return Vocabulary((*self._terms, *other.terms), strict=self.strict or other.strict)

    def with_synonyms(self, synonyms: Mapping[str, Sequence[str]]) -> Vocabulary:
        """Return a vocabulary whose names are known by more words.

        Args:
            synonyms: Words for each name, in any language.

        Raises:
            ValidationError: A name is not in the vocabulary.
        """
        names = {term.name for term in self._terms}
        unknown = [name for name in synonyms if name not in names]
        if unknown:
            msg = f"`synonyms` names {unknown[0]!r}, which is not in the vocabulary"
            raise ValidationError(msg, argument="synonyms")
        return Vocabulary(
            (
                Term(
                    term.name,
                    kind=term.kind,
                    synonyms=(*term.synonyms, *_words(synonyms, term.name)),
                )
                for term in self._terms
            ),
            strict=self.strict,
        )

    def holds(self, word: str) -> bool:
        """Tell whether a word is a name or a synonym, however it is cased or joined."""
        return any(not form.partial for form in self._forms.get(word))

    def check_tags(self, tags: Any) -> tuple[str, ...]:
        """Accept tags; all have to be words of the vocabulary if it is strict.

        Raises:
            ValidationError: A bare string, an empty or overlong tag, too many, or a strange one.
        """
        checked = check_tags(tags)
        if self.strict:
            for tag in checked:
                if not self.holds(tag):
                    msg = (
                        f"`tags` holds {tag!r}, which is no name and no synonym of the vocabulary "
                        f"({len(self)} names); add it there, or load one that is not strict"
                    )
                    raise ValidationError(msg, argument="tags")
        return checked

    @classmethod
    def from_mapping(
        cls,
        names: Mapping[str, Mapping[str, Sequence[str]] | Sequence[str]],
        *,
        strict: bool = False,
    ) -> Vocabulary:
        """Build a vocabulary from a plain mapping.

        Args:
            names: Under "entities", "fields", "rules", "operations" and "values": a list of names,
                or a mapping of names to their synonyms.
            strict: Whether tags that are none of its words are refused.

        Raises:
            ValidationError: Another key, or names that are no text.
        """
        if not isinstance(names, Mapping):
            msg = f"`names` must be a mapping, not {type(names).__name__}: {names!r}"
            raise ValidationError(msg, argument="names")
        terms: list[Term] = []
        for key, listed in names.items():
            if key not in KINDS:
                msg = f"`names` has the key {key!r}; accepted: {', '.join(KINDS)}"
                raise ValidationError(msg, argument="names")
            if isinstance(listed, Mapping):
                terms.extend(
                    Term(name, kind=KINDS[key], synonyms=_words(listed, name)) for name in listed
                )
            else:
                items = check_list(listed, argument=f"names[{key!r}]", of="names")
                terms.extend(
                    Term(check_text(name, argument="names"), kind=KINDS[key]) for name in items
                )
        return cls(terms, strict=strict)

    @classmethod
    def from_json_schema(cls, schema: Mapping[str, Any], *, strict: bool = False) -> Vocabulary:
        """Build a vocabulary from a JSON Schema.

        The schema's `title` and its definitions are entities, properties are fields, `enum` and
        `const` values are values. `x-synonyms` on any of them lists other words for it;
        `x-rules` and `x-operations` are lists or mappings to synonyms.

        Raises:
            ValidationError: It is no JSON Schema of objects.
        """
        if not isinstance(schema, Mapping):
            msg = f"`schema` must be a mapping, not {type(schema).__name__}: {schema!r}"
            raise ValidationError(msg, argument="schema")
        terms: list[Term] = []
        _read_schema(schema, None, terms)
        if not terms:
            msg = (
                "`schema` names nothing; accepted: a JSON Schema with `title`, `properties` or "
                "`$defs`"
            )
            raise ValidationError(msg, argument="schema")
        return cls(terms, strict=strict)

    @classmethod
    def from_types(cls, *classes: type, strict: bool = False) -> Vocabulary:
        """Build a vocabulary from dataclasses, pydantic models, enums and typed classes.

        Class names are entities, annotated fields are fields, members of enums and literals are
        values. A dataclass field may list synonyms under `metadata={"synonyms": [...]}`.

        Raises:
            ValidationError: No class at all, or something else.
        """
        terms: list[Term] = []
        seen: set[type] = set()
        if not classes:
            msg = "`classes` is empty; accepted: dataclasses, pydantic models, typed classes"
            raise ValidationError(msg, argument="classes")
        for item in classes:
            if not isinstance(item, type):
                msg = f"`classes` holds {item!r}; accepted: classes"
                raise ValidationError(msg, argument="classes")
            _read_class(item, terms, seen)
        return cls(terms, strict=strict)

    @classmethod
    def from_columns(
        cls,
        table: str,
        columns: Sequence[str] | Mapping[str, Sequence[str]],
        *,
        synonyms: Sequence[str] = (),
        strict: bool = False,
    ) -> Vocabulary:
        """Build a vocabulary from a table: its name is the entity, its columns are fields.

        Args:
            table: The table's name.
            columns: Names of columns, or names with their synonyms.
            synonyms: Other words for the table.
            strict: Whether tags that are none of its words are refused.
        """
        check_text(table, argument="table")
        named = {"entities": {table: tuple(synonyms)}, "fields": columns}
        return cls.from_mapping(named, strict=strict)


def check_tags(tags: Any) -> tuple[str, ...]:
    """Accept a list of tags, each once.

    Raises:
        ValidationError: A bare string, an empty or overlong tag, or more than `MAX_TAGS`.
    """
    checked = []
    for tag in check_list(tags, argument="tags", of="tags"):
        check_text(tag, argument="tags")
        if len(tag) > MAX_TAG_CHARS:
            msg = f"`tags` holds a tag of {len(tag)} characters; at most {MAX_TAG_CHARS}"
            raise ValidationError(msg, argument="tags")
        if not key_of(tag):
            msg = f"`tags` holds {tag!r}; accepted: words with a letter or a digit"
            raise ValidationError(msg, argument="tags")
        checked.append(tag.strip())
    if len(checked) > MAX_TAGS:
        msg = f"`tags` has {len(checked)} entries; at most {MAX_TAGS} are accepted"
        raise ValidationError(msg, argument="tags")
    return tuple(dict.fromkeys(checked))


def _words(source: Mapping[str, Any], name: str) -> tuple[str, ...]:
    listed = source.get(name, ())
    items = check_list(listed, argument=f"synonyms of {name!r}", of="words")
    return tuple(check_text(word, argument=f"synonyms of {name!r}") for word in items)


def _read_schema(schema: Mapping[str, Any], name: str | None, terms: list[Term]) -> None:
    title = schema.get("title")
    entity = name or (title if isinstance(title, str) else None)
    described = "properties" in schema or schema.get("type") == "object"
    if entity and (described or name is not None):
        terms.append(Term(entity, kind=TermKind.ENTITY, synonyms=_words(schema, "x-synonyms")))
    for key in ("$defs", "definitions"):
        for inner, definition in _mapping(schema, key).items():
            if isinstance(definition, Mapping):
                _read_schema(definition, str(inner), terms)
    for key, kind in (("x-rules", TermKind.RULE), ("x-operations", TermKind.OPERATION)):
        listed = schema.get(key, ())
        if isinstance(listed, Mapping):
            terms.extend(Term(item, kind=kind, synonyms=_words(listed, item)) for item in listed)
        else:
            terms.extend(
                Term(item, kind=kind) for item in check_list(listed, argument=key, of="names")
            )
    for inner, definition in _mapping(schema, "properties").items():
        synonyms: tuple[str, ...] = ()
        if isinstance(definition, Mapping):
            synonyms = _words(definition, "x-synonyms")
            _read_property(definition, terms)
        terms.append(Term(str(inner), kind=TermKind.FIELD, synonyms=synonyms))
    _read_values(schema, terms)


def _read_property(definition: Mapping[str, Any], terms: list[Term]) -> None:
    _read_values(definition, terms)
    items = definition.get("items")
    parts = [items] if isinstance(items, Mapping) else []
    for key in ("anyOf", "oneOf", "allOf"):
        parts.extend(part for part in definition.get(key, ()) if isinstance(part, Mapping))
    for part in parts:
        _read_property(part, terms)
    if "properties" in definition:
        nested = {key: value for key, value in definition.items() if key != "title"}
        _read_schema(nested, None, terms)


def _read_values(definition: Mapping[str, Any], terms: list[Term]) -> None:
    values = [*definition.get("enum", ())]
    if "const" in definition:
        values.append(definition["const"])
    terms.extend(_value_terms(values))


def _value_terms(values: Iterable[Any]) -> Iterable[Term]:
    return [
        Term(str(value), kind=TermKind.VALUE)
        for value in values
        if isinstance(value, str | int | float)
        and not isinstance(value, bool)
        and key_of(str(value))
    ]


def _mapping(schema: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = schema.get(key, {})
    if not isinstance(value, Mapping):
        msg = f"`schema` has {value!r} under {key!r}; accepted: a mapping"
        raise ValidationError(msg, argument="schema")
    return value


def _read_class(item: type, terms: list[Term], seen: set[type]) -> None:
    if item in seen:
        return
    seen.add(item)
    if issubclass(item, enum.Enum):
        terms.append(Term(item.__name__, kind=TermKind.ENTITY))
        terms.extend(_value_terms(member.value for member in item))
        return
    schema_of: Callable[[], Mapping[str, Any]] | None = getattr(item, "model_json_schema", None)
    if schema_of is not None:
        # A pydantic model describes itself.
        _read_schema(schema_of(), item.__name__, terms)
        return
    synonyms: dict[str, tuple[str, ...]] = {}
    if dataclasses.is_dataclass(item):
        synonyms = {
            part.name: _words(part.metadata, "synonyms") for part in dataclasses.fields(item)
        }
    hints = typing.get_type_hints(item)
    if not hints:
        msg = f"`classes` holds {item!r}, which has no annotated fields"
        raise ValidationError(msg, argument="classes")
    terms.append(Term(item.__name__, kind=TermKind.ENTITY))
    for name, hint in hints.items():
        terms.append(Term(name, kind=TermKind.FIELD, synonyms=synonyms.get(name, ())))
        _read_hint(hint, terms, seen)


def _read_hint(hint: Any, terms: list[Term], seen: set[type]) -> None:
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        terms.extend(_value_terms(typing.get_args(hint)))
        return
    for part in typing.get_args(hint):
        _read_hint(part, terms, seen)
    if isinstance(hint, type) and not isinstance(hint, types.GenericAlias):
        described = dataclasses.is_dataclass(hint) or hasattr(hint, "model_json_schema")
        if described or issubclass(hint, enum.Enum):
            _read_class(hint, terms, seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class OntologyRule:
    """A rule of the domain, to be kept in memory.

    Args:
        name: As the vocabulary has it.
        content: What it says, in full.
        layer: "critical" for what must never be missed, "rule" for a definition.
        fields: The names it is about; they become its tags, next to its own name.
        compressed: A shorter wording, used when a token budget asks for it.
    """

    name: str
    content: str
    layer: str = "critical"
    fields: tuple[str, ...] = ()
    compressed: str | None = None

    def __post_init__(self) -> None:
        check_text(self.name, argument="name")
        check_text(self.content, argument="content")
        if self.layer not in ("critical", "rule"):
            msg = f"`layer` of rule {self.name!r} is {self.layer!r}; accepted: critical, rule"
            raise ValidationError(msg, argument="layer")
        if self.compressed is not None:
            check_text(self.compressed, argument="compressed")
        object.__setattr__(self, "fields", check_tags(self.fields) if self.fields else ())

    @property
    def tags(self) -> tuple[str, ...]:
        """Its name and the names it is about."""
        return tuple(dict.fromkeys((self.name, *self.fields)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ontology:
    """A domain: its vocabulary and the rules that memory has to hold.

    Args:
        vocabulary: The names; those of the rules are added if they are missing.
        rules: What is written to memory by `load_ontology`.

    Raises:
        ValidationError: Two rules of one name, or a tag that a strict vocabulary does not hold.
    """

    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    rules: tuple[OntologyRule, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "rules", tuple(self.rules))
        names = [rule.name for rule in self.rules]
        doubled = {name for name in names if names.count(name) > 1}
        if doubled:
            msg = f"`rules` holds {min(doubled)!r} twice; accepted: each name once"
            raise ValidationError(msg, argument="rules")
        missing = [
            Term(name, kind=TermKind.RULE) for name in names if not self.vocabulary.holds(name)
        ]
        if missing:
            completed = Vocabulary(
                (*self.vocabulary.terms, *missing), strict=self.vocabulary.strict
            )
            object.__setattr__(self, "vocabulary", completed)
        for rule in self.rules:
            self.vocabulary.check_tags(rule.tags)
