"""What operations teach: the memories of outcomes, and which layer a memory belongs to by its type.

Pure; may import this room's vocabulary and records.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from agentmemory.checks import check_bool, check_list, check_text
from agentmemory.ontology.vocabulary import REJECTED, SUCCESS, OntologyRule, Vocabulary
from agentmemory.records import (
    LINK_TYPES,
    Layer,
    MemoryType,
    RecordRelation,
    ScopedRecord,
    new_id,
)

DEFAULT_DELTA: Final = 0.2
"""How much confidence a rejection costs: five of them take all of it."""

OUTCOME_KEY: Final = "outcome"
RULE_KEY: Final = "ontology_rule"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeReceipt:
    """What `record_outcome` wrote.

    Args:
        memory_id: The memory of the outcome.
        is_new: Whether it was written now; an outcome that was known already counts as a hit.
        confidence: What is left to each memory that was used, by its id; empty on success.
    """

    memory_id: str
    is_new: bool
    confidence: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OntologyReceipt:
    """What `load_ontology` wrote: ids of memories by what happened to them."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A checked outcome of an operation.

    Args:
        operation: The operation's name.
        rules: Names of the rules that let it through or refused it.
        success: Whether it went through.
        content: What to remember; None: the names in a sentence.
    """

    operation: str
    rules: tuple[str, ...]
    success: bool
    content: str | None = None

    @property
    def layer(self) -> Layer:
        """RULE for what worked, CONTEXT for what was refused."""
        return Layer.RULE if self.success else Layer.CONTEXT

    @property
    def tags(self) -> tuple[str, ...]:
        """The operation, the rules and the outcome."""
        word = SUCCESS if self.success else REJECTED
        return tuple(dict.fromkeys((self.operation, *self.rules, word)))

    @property
    def text(self) -> str:
        """What is remembered."""
        if self.content is not None:
            return self.content
        under = f" by {', '.join(self.rules)}" if self.rules else ""
        if self.success:
            passed = f"; passed: {', '.join(self.rules)}" if self.rules else ""
            return f"{self.operation} succeeded{passed}"
        return f"{self.operation} was rejected{under}"

    def record(
        self, *, owner: tuple[str | None, str | None], thread_id: str | None, now: datetime
    ) -> ScopedRecord:
        """Return the memory to store; the same outcome has the same id."""
        user_id, agent_id = owner
        kind = SUCCESS if self.success else REJECTED
        return ScopedRecord(
            id=stable_id(kind, *owner, self.operation, *self.rules, self.text),
            record_type="memory",
            content=self.text,
            metadata={OUTCOME_KEY: kind},
            layer=self.layer,
            tags=self.tags,
            created_at=now,
            updated_at=now,
            user_id=user_id,
            agent_id=agent_id,
            thread_id=thread_id,
        )


def check_outcome(
    operation: Any, *, rules: Any, success: Any, content: Any, vocabulary: Vocabulary
) -> Outcome:
    """Accept the description of an outcome.

    Raises:
        ValidationError: A name that is no tag, or none of a strict vocabulary's.
    """
    check_text(operation, argument="operation")
    names = tuple(
        check_text(name, argument="rules")
        for name in check_list(rules, argument="rules", of="names of rules")
    )
    if content is not None:
        check_text(content, argument="content")
    outcome = Outcome(
        operation=operation,
        rules=tuple(dict.fromkeys(names)),
        success=check_bool(success, argument="success"),
        content=content,
    )
    vocabulary.check_tags(outcome.tags)
    return outcome


def rule_id(owner: tuple[str | None, str | None], name: str) -> str:
    """Return the id of the memory that holds a rule of an ontology in a scope."""
    return stable_id("rule", *owner, name)


def rule_record(
    rule: OntologyRule, *, owner: tuple[str | None, str | None], now: datetime
) -> ScopedRecord:
    """Return the memory that holds a rule."""
    user_id, agent_id = owner
    return ScopedRecord(
        id=rule_id(owner, rule.name),
        record_type="guideline",
        content=rule.content,
        compressed=rule.compressed,
        metadata={RULE_KEY: rule.name},
        layer=Layer(rule.layer),
        tags=rule.tags,
        created_at=now,
        updated_at=now,
        user_id=user_id,
        agent_id=agent_id,
    )


def depends_on(source: ScopedRecord, target: ScopedRecord, now: datetime) -> RecordRelation:
    """Return the link of an outcome to a rule it rests on."""
    return RecordRelation(
        id=new_id(),
        source_record_id=source.id,
        source_record_type="memory",
        target_record_id=target.id,
        target_record_type="guideline",
        relation_type="depends_on",
        opposite_relation_type=LINK_TYPES["depends_on"],
        created_at=now,
    )


def layer_of(memory_type: MemoryType) -> Layer | None:
    """Return the layer of a memory that was drawn out of messages; CRITICAL is never one."""
    return Layer.RULE if memory_type == "guideline" else None


def stable_id(kind: str, *parts: str | None) -> str:
    """Return an id that the same parts always have."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        # Lengths keep ("ab", "c") apart from ("a", "bc"), and None from "".
        text = b"-" if part is None else f"{len(part)}:{part}".encode()
        digest.update(text)
    return f"{kind}-{digest.hexdigest()}"


def changed_fields(stored: ScopedRecord, wanted: ScopedRecord) -> Sequence[str]:
    """Return which fields of a stored rule are not as the ontology has them."""
    names = ("content", "compressed", "layer", "tags")
    return [name for name in names if getattr(stored, name) != getattr(wanted, name)]
