"""Verbs on layered memory that the client and its threads share.

Each takes a resolved scope. May import parts, memories, the ontology room and below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentmemory.checks import check_id, check_list, check_number
from agentmemory.errors import ConflictError, ValidationError
from agentmemory.layering import EvictionPolicy, EvictionReport, OutcomeWrite
from agentmemory.ontology.compression import LayerBudgets, check_budgets
from agentmemory.ontology.lifecycle import (
    DEFAULT_DELTA,
    OntologyReceipt,
    OutcomeReceipt,
    changed_fields,
    check_outcome,
    depends_on,
    rule_id,
    rule_record,
)
from agentmemory.ontology.result import RetrievalResult
from agentmemory.ontology.retrieve import RetrievalRequest
from agentmemory.ontology.routing import DEFAULT_ROUTES, check_layers
from agentmemory.ontology.vocabulary import Ontology
from agentmemory.outbox import renewals
from agentmemory.parts import Parts
from agentmemory.protocols import ILlm
from agentmemory.records import MEMORY_TYPES, Layer, ScopedRecord, Tier
from agentmemory.requests import RecordChanges, RecordFilter
from agentmemory.retrieval.request import check_tiers
from agentmemory.scope import DimensionMatch, ScopeFilter


async def retrieve(
    parts: Parts,
    intent: Any,
    *,
    scope: ScopeFilter,
    layers: Any,
    rule_limit: int,
    context_limit: int,
    background_limit: int,
    token_budget: Any,
    budgets: LayerBudgets | None,
    vectors: bool | None,
    count_hits: bool,
    tiers: Any,
    metadata_filter: Mapping[str, Any] | None,
    max_keywords: int,
    routes: Any,
    llm: ILlm | None,
) -> RetrievalResult:
    """Retrieve by layer."""
    table = DEFAULT_ROUTES if routes is None else check_list(routes, argument="routes", of="Route")
    request = RetrievalRequest(
        intent=intent,
        scope=scope,
        layers=None if layers is None else check_layers(layers),
        rule_limit=rule_limit,
        context_limit=context_limit,
        background_limit=background_limit,
        budgets=check_budgets(budgets, token_budget),
        vectors=vectors,
        count_hits=count_hits,
        tiers=check_tiers(tiers),
        metadata_filter=metadata_filter,
        max_keywords=max_keywords,
        routes=table,
        vocabulary=parts.vocabulary,
        llm=llm,
    )
    await parts.ready()
    return await parts.layers.retrieve(request)


async def load_ontology(
    parts: Parts, ontology: Any, *, user_id: str | None, agent_id: str | None
) -> OntologyReceipt:
    """Write the rules of an ontology once, and know its vocabulary from now on."""
    if not isinstance(ontology, Ontology):
        msg = f"`ontology` is {ontology!r}; accepted: Ontology"
        raise ValidationError(msg, argument="ontology")
    owner = (user_id, agent_id)
    now = parts.clock.now()
    wanted = {
        record.id: record
        for record in (rule_record(rule, owner=owner, now=now) for rule in ontology.rules)
    }
    await parts.ready()
    added: tuple[str, ...] = ()
    stored = await _stored_rules(parts, wanted, owner)
    missing = [record for record_id, record in wanted.items() if record_id not in stored]
    if missing:
        try:
            await parts.recorder.add_memories(missing)
            added = tuple(record.id for record in missing)
        except ConflictError:
            # Another process was first; what is missing now is somebody else's id.
            stored = await _stored_rules(parts, wanted, owner)
            if any(record.id not in stored for record in missing):
                raise
    changed = []
    for record_id, record in stored.items():
        names = changed_fields(record, wanted[record_id])
        if names:
            values: dict[str, Any] = {name: getattr(wanted[record_id], name) for name in names}
            if "content" in values:
                values["review_reason"] = None
            await parts.recorder.update(_owned(parts, owner, (record_id,)), RecordChanges(**values))
            changed.append(record_id)
    parts.vocabulary = ontology.vocabulary
    return OntologyReceipt(
        added=added,
        changed=tuple(changed),
        unchanged=tuple(name for name in stored if name not in changed),
    )


async def _stored_rules(
    parts: Parts, wanted: Mapping[str, ScopedRecord], owner: tuple[str | None, str | None]
) -> dict[str, ScopedRecord]:
    found = await parts.store.get_records(_owned(parts, owner, tuple(wanted)))
    return {record.id: record for record in found}


def _owned(
    parts: Parts, owner: tuple[str | None, str | None], ids: tuple[str, ...] | None = None
) -> RecordFilter:
    """Return the filter for memories of a user and agent, whatever their tier."""
    return RecordFilter(
        scope=ScopeFilter(
            user=DimensionMatch(exact=True, value=owner[0]),
            agent=DimensionMatch(exact=True, value=owner[1]),
        ),
        now=parts.clock.now(),
        record_types=MEMORY_TYPES,
        tiers=tuple(Tier),
        ids=ids,
    )


async def record_outcome(
    parts: Parts,
    operation: Any,
    *,
    rules: Any,
    success: Any,
    used: Any,
    content: Any,
    owner: tuple[str | None, str | None],
    thread_id: str | None,
    scope: ScopeFilter,
) -> OutcomeReceipt:
    """Remember how an operation went, and trust what a refused one rested on less."""
    outcome = check_outcome(
        operation, rules=rules, success=success, content=content, vocabulary=parts.vocabulary
    )
    ids = _check_ids(used)
    now = parts.clock.now()
    record = outcome.record(owner=owner, thread_id=thread_id, now=now)
    await parts.ready()
    known = _any_tier(parts, (record.id,), scope)
    bases = await parts.store.get_records(
        _owned(parts, owner, tuple(rule_id(owner, name) for name in outcome.rules))
    )
    is_known = bool(await parts.store.get_records(known))
    write = OutcomeWrite(
        record=record,
        known=known,
        vectors=None if is_known else await parts.recorder.vectors_of((record,)),
        # Should it be deleted before it is written, it is new and gets its vector later.
        jobs=renewals((record.id,)) if is_known and parts.vectorizer.is_available else (),
        links=tuple(depends_on(record, base, now) for base in bases),
        link_filter=_owned(parts, owner),
        used=_any_tier(parts, ids, scope) if ids else None,
        delta=0.0 if outcome.success else -DEFAULT_DELTA,
    )
    try:
        written = await parts.store.write_outcome(write, now=now)
    except ConflictError:
        # Somebody recorded the same outcome at the same time; it counts as a hit now.
        written = await parts.store.write_outcome(write, now=now)
    return OutcomeReceipt(
        memory_id=record.id,
        is_new=written.is_new,
        confidence={item.id: item.confidence for item in written.adjusted},
    )


async def change_confidence(
    parts: Parts, memory_id: Any, delta: Any, *, sign: int, scope: ScopeFilter
) -> float:
    """Lower or raise the confidence of a memory and return what it is then."""
    amount = check_number(delta, argument="delta", minimum=0, maximum=1)
    check_id(memory_id, argument="memory_id")
    await parts.ready()
    changed = await _adjust(parts, (memory_id,), sign * amount, scope=scope)
    return changed[memory_id]


async def run_eviction(
    parts: Parts, *, scope: ScopeFilter, policy: Any, dry_run: bool
) -> EvictionReport:
    """Move memories to the tier they belong to by now."""
    if policy is not None and not isinstance(policy, EvictionPolicy):
        msg = f"`policy` is {policy!r}; accepted: EvictionPolicy or None"
        raise ValidationError(msg, argument="policy")
    now = parts.clock.now()
    await parts.ready()
    return await parts.store.evict(
        RecordFilter(
            scope=scope,
            now=now,
            record_types=MEMORY_TYPES,
            tiers=tuple(Tier),
            layers=(Layer.RULE, Layer.CONTEXT, Layer.BACKGROUND),
        ),
        policy or EvictionPolicy(),
        now=now,
        dry_run=dry_run,
    )


async def _adjust(
    parts: Parts, ids: Sequence[str], delta: float, *, scope: ScopeFilter
) -> dict[str, float]:
    found = _any_tier(parts, ids, scope)
    records = await parts.store.adjust_confidence(found, delta, now=found.now)
    return {record.id: record.confidence for record in records}


def _any_tier(parts: Parts, ids: Sequence[str], scope: ScopeFilter) -> RecordFilter:
    return RecordFilter(
        scope=scope,
        now=parts.clock.now(),
        record_types=MEMORY_TYPES,
        tiers=tuple(Tier),
        ids=tuple(ids),
    )


def _check_ids(used: Any) -> tuple[str, ...]:
    items = check_list(used, argument="used", of="ids of memories")
    return tuple(dict.fromkeys(check_id(item, argument="used") for item in items))
