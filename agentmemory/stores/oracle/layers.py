"""Layered retrieval on an Oracle store: matches by layer, hits, confidence, eviction.

A retrieval takes two round trips: the first one brings all CRITICAL memories, what the keywords
choose in each layer, and how rare the keywords are; the second one reads the memories that score
best. May import layer_scores, absence, layering, reading, lexical, records and below.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from agentmemory.errors import NotFoundError
from agentmemory.layering import (
    EvictionPolicy,
    EvictionReport,
    LayerMatch,
    LayerMatches,
    LayerQuery,
    LayerWord,
    TierChange,
)
from agentmemory.records import Layer, ScopedRecord, Tier
from agentmemory.requests import RecordFilter
from agentmemory.stores.absence import missing
from agentmemory.stores.index_fields import layer_token
from agentmemory.stores.layer_scores import (
    RESTORED_FROM,
    LayerChunk,
    Scored,
    best,
    eviction_reason,
    terms_of,
    weigh_words,
)
from agentmemory.stores.oracle import lexical
from agentmemory.stores.oracle.reading import OracleReading
from agentmemory.stores.oracle.records import (
    RecordRows,
    records_at,
    records_where,
    select_records,
)
from agentmemory.stores.oracle.rows import from_json_text, json_text, record_from_row
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.search import SearchTools, Statistics
from agentmemory.stores.oracle.statement import BindType, Statement, StatementKind, Transaction
from agentmemory.stores.oracle.text_tokens import encode_scope_token
from agentmemory.stores.oracle.trips import Rows, Trip
from agentmemory.stores.oracle.where import (
    Where,
    add_dimension,
    add_list,
    batches,
    chunk_where,
    record_where,
)

PLAN_NOTES: Final[Mapping[str, str]] = {
    "layers.critical": "record_layer (user_id, layer, tier): the rules of one user",
    "layers.active": "record_layer (user_id, layer, tier) alone; left as soon as enough are "
    "counted",
    "layers.matches": "text index chunk_text, narrowed by the word of the user's layer; then "
    "primary key of record and unique key of chunk for the some dozen that are scored",
    "layers.matches_scan": "chunk_owner (user_id, record_type): the chunks of one user are looked "
    "through, for there is no text index",
    "layers.long_matches": "primary key of chunk, one probe for each that has a long text",
    "layers.records": "primary key of record, one probe for each match",
    "layers.count_hits": "unique key of record (id), one probe for each listed id",
    "layers.hits_counted": "unique key of record (id), one probe for each listed id",
    "layers.adjustable": "unique key of record (id), one probe for each listed id",
    "layers.adjust": "primary key of record",
    "layers.restore": "primary key of record, one probe for each listed seq",
    "layers.adjusted": "primary key of record, one probe for each listed seq",
    "layers.settled": "unique key of record (id), one probe for each listed id",
    "layers.evictable": "record_layer (user_id, layer, tier) for one user; without one, a full "
    "scan of record, by whoever runs eviction for all",
    "layers.move": "primary key of record",
    "layers.move_chunks": "unique key of chunk (record_seq, position)",
    "layers.moved": "primary key of record",
}
"""The index each statement is meant to use, and why, for 1 million chunks and 10,000 users."""

LOOK_PER_PLACE: Final = 3
"""How many records are looked at for each place in the pool."""

_MICROSECOND: Final = timedelta(microseconds=1)


def critical(t: Tables, record_filter: RecordFilter) -> Statement:
    """Read all CRITICAL memories that a filter lets through, in the order of writing.

    Plan: the index on user, layer and tier.
    """
    where = record_where(record_filter)
    where.add("r.layer = 'critical'")
    return select_records(
        t,
        "layers.critical",
        f"SELECT r.seq FROM {t.record} r WHERE {where.sql}",
        where.binds,
        short=True,
    )


def active(t: Tables, query: LayerQuery) -> Statement:
    """Count the memories of any layer in scope that are not put away, as far as asked.

    Plan: the index on user, layer and tier alone.
    """
    where = Where()
    scope = query.filter.scope
    add_dimension(where, "r.user_id", "user", scope.user)
    add_dimension(where, "r.agent_id", "agent", scope.agent)
    add_dimension(where, "r.thread_id", "thread", scope.thread)
    where.add("r.layer IS NOT NULL AND r.tier NOT IN ('archived', 'deprecated')")
    return Statement(
        name="layers.active",
        text=f"SELECT COUNT(*) FROM (SELECT r.seq FROM {t.record} r WHERE {where.sql} "
        f"ORDER BY r.layer, r.tier FETCH FIRST {where.bind('most', query.count_to)} ROWS ONLY) x",
        kind=StatementKind.QUERY,
        binds=where.binds,
    )


def matches(t: Tables, query: LayerQuery, layer: Layer, *, text_index: bool) -> Statement:
    """Read what scoring needs of the memories of a layer that hold most of the keywords.

    Tags and content come as VARCHAR2, for the driver fetches JSON in a round trip of its own.

    Plan: the text index, narrowed by the word of the user's layer.
    """
    where = chunk_where(t, query.filter)
    where.add(f"c.layer = {where.bind('of_layer', layer.value)}")
    most = query.pools[layer] * LOOK_PER_PLACE
    if text_index:
        patterns = [item for word in query.words for item in word_patterns(word)]
        picked = lexical.ranked(t, where, patterns, _scope(query.filter, layer), most)
    else:
        needles = [lexical.needle(term) for term in terms_of(query.words)]
        picked = lexical.ranked_by_scan(t, where, needles, most)
    return Statement(
        name="layers.matches" if text_index else "layers.matches_scan",
        text=f"SELECT r.seq, r.hit_count, r.confidence, {json_text('r.tags')}, "
        f"{lexical.field_text('c.fields', 0)}, c.id FROM ({picked}) p "
        f"JOIN {t.record} r ON r.seq = p.record_seq "
        f"JOIN {t.chunk} c ON c.record_seq = r.seq ORDER BY r.seq, c.position",
        kind=StatementKind.QUERY,
        binds=where.binds,
    )


def long_matches(t: Tables, chunks: Sequence[int]) -> Statement:
    """Read what scoring needs of memories whose tags or content are too long for VARCHAR2.

    Plan: the primary key of chunk, then that of record.
    """
    where = Where("")
    add_list(where, "c.id", "id", chunks)
    return Statement(
        name="layers.long_matches",
        text=f"SELECT r.seq, r.hit_count, r.confidence, r.tags, c.fields FROM {t.chunk} c "
        f"JOIN {t.record} r ON r.seq = c.record_seq WHERE {where.sql} ORDER BY r.seq, c.position",
        kind=StatementKind.QUERY,
        binds=where.binds,
    )


def word_patterns(word: LayerWord) -> list[str]:
    """Return how an expression of Oracle Text names a keyword: one pattern, if a bind holds it.

    One of its forms has to be there, and of a form every word.
    """
    forms = [_form(form_patterns) for form_patterns in _forms(word)]
    whole = " OR ".join(forms)
    if len(whole) <= lexical.MAX_QUERY_BYTES // 2:
        return [f"({whole})"] if forms else []
    return forms


def _forms(word: LayerWord) -> list[list[str]]:
    return [[lexical.pattern(term) for term in form] for form in word.forms if form]


def _form(patterns: Sequence[str]) -> str:
    """Join the words of a form by AND; of one too long for a bind, as many as it holds."""
    kept: list[str] = []
    for item in patterns:
        if kept and len(" AND ".join((*kept, item))) > lexical.MAX_QUERY_BYTES // 2:
            break
        kept.append(item)
    return f"({' AND '.join(kept)})"


def _scope(record_filter: RecordFilter, layer: Layer) -> list[str]:
    user = record_filter.scope.user
    return [encode_scope_token(layer_token(user.value, layer))] if user.exact else []


def count_hits(t: Tables, record_filter: RecordFilter, now: datetime) -> tuple[Statement, ...]:
    """Count one hit for each record the filter lets through, then count these.

    The first statement locks what it changes, so that the second one finds just that.

    Plan: the unique key on the id.
    """
    where = record_where(record_filter)
    at = where.bind("hit_at", now)
    types = {"f_hit_at": BindType.TIMESTAMP}
    return (
        Statement(
            name="layers.count_hits",
            text=f"UPDATE {t.record} r SET hit_count = r.hit_count + 1, last_hit_at = {at} "
            f"WHERE {where.sql}",
            kind=StatementKind.DML,
            binds=where.binds,
            types=types,
        ),
        Statement(
            name="layers.hits_counted",
            text=f"SELECT COUNT(*) FROM {t.record} r WHERE {where.sql} AND r.last_hit_at = {at}",
            kind=StatementKind.QUERY,
            binds=where.binds,
            types=types,
        ),
    )


def adjustable(t: Tables, record_filter: RecordFilter) -> Statement:
    """Read and lock the confidence of the records the filter lets through.

    Plan: the unique key on the id.
    """
    where = record_where(record_filter)
    return Statement(
        name="layers.adjustable",
        text=f"SELECT r.id, r.seq, r.confidence FROM {t.record} r WHERE {where.sql} "
        f"ORDER BY r.seq FOR UPDATE",
        kind=StatementKind.QUERY,
        binds=where.binds,
    )


def adjust(t: Tables, confidences: Mapping[int, float], now: datetime) -> Statement:
    """Set the confidence of records by seq.

    Plan: the primary key.
    """
    return Statement(
        name="layers.adjust",
        text=f"UPDATE {t.record} SET confidence = :confidence, updated_at = :changed_at, "
        f"revision = revision + 1 WHERE seq = :seq",
        kind=StatementKind.MANY,
        rows=tuple(
            {"confidence": value, "changed_at": now, "seq": seq}
            for seq, value in confidences.items()
        ),
        types={"confidence": BindType.DOUBLE, "changed_at": BindType.TIMESTAMP},
    )


def restore(t: Tables, seqs: Sequence[int], now: datetime) -> tuple[Statement, ...]:
    """Bring records back that were put away, and end their review.

    Plan: the primary key, and the unique key of chunk.
    """
    where = Where("")
    add_list(where, "seq", "seq", seqs)
    return (
        Statement(
            name="layers.restore",
            text=f"UPDATE {t.record} SET last_hit_at = {where.bind('hit_at', now)}, "
            f"tier = 'hot', review_reason = NULL WHERE {where.sql}",
            kind=StatementKind.DML,
            binds=where.binds,
            types={"hit_at": BindType.TIMESTAMP},
        ),
        move_chunks(t, dict.fromkeys(seqs, Tier.HOT)),
    )


def evictable(
    t: Tables, record_filter: RecordFilter, policy: EvictionPolicy, now: datetime, *, lock: bool
) -> Statement:
    """Read the memories that idle time, hits and confidence give another tier.

    A memory with enough hits may be idle for twice as long.

    Plan: the index on user, layer and tier; for all users a scan of the records.
    """
    where = record_where(record_filter)
    where.add("r.layer IS NOT NULL AND r.layer <> 'critical'")
    used = "GREATEST(r.created_at, COALESCE(r.last_hit_at, r.created_at))"
    kept = where.bind("kept_hits", policy.kept_hits)
    before = {}
    for name, patience in zip(("warm", "cold", "archived"), policy.patience, strict=True):
        long = where.bind(f"{name}_kept", now - 2 * patience - _MICROSECOND)
        short = where.bind(name, now - patience)
        before[name] = f"{used} < CASE WHEN r.hit_count >= {kept} THEN {long} ELSE {short} END"
    low = where.bind("low", policy.deprecate_below)
    target = (
        f"CASE WHEN r.confidence < {low} OR r.review_reason IS NOT NULL THEN 'deprecated' "
        f"WHEN r.record_type <> 'guideline' AND {before['archived']} THEN 'archived' "
        f"WHEN {before['cold']} THEN 'cold' WHEN {before['warm']} THEN 'warm' ELSE 'hot' END"
    )
    return Statement(
        name="layers.evictable",
        text=f"SELECT r.seq, r.id, r.tier, {target} AS target, r.confidence, r.review_reason, "
        f"{used} AS used_at FROM {t.record} r WHERE {where.sql} AND {target} <> r.tier "
        f"ORDER BY r.seq{' FOR UPDATE' if lock else ''}",
        kind=StatementKind.QUERY,
        binds=where.binds,
    )


def move(t: Tables, tiers: Mapping[int, Tier], now: datetime) -> tuple[Statement, ...]:
    """Set the tier of records by seq, and of their chunks.

    Plan: the primary key of record, and the unique key of chunk.
    """
    return (
        Statement(
            name="layers.move",
            text=f"UPDATE {t.record} SET tier = :tier, updated_at = :changed_at, "
            f"revision = revision + 1 WHERE seq = :seq",
            kind=StatementKind.MANY,
            rows=tuple(
                {"tier": tier.value, "changed_at": now, "seq": seq} for seq, tier in tiers.items()
            ),
            types={"changed_at": BindType.TIMESTAMP},
        ),
        move_chunks(t, tiers),
    )


def move_chunks(t: Tables, tiers: Mapping[int, Tier]) -> Statement:
    """Set the tier that chunks repeat of their records.

    Plan: the unique key of chunk.
    """
    return Statement(
        name="layers.move_chunks",
        text=f"UPDATE {t.chunk} SET tier = :tier WHERE record_seq = :seq",
        kind=StatementKind.MANY,
        rows=tuple({"tier": tier.value, "seq": seq} for seq, tier in tiers.items()),
    )


def moved(t: Tables, seq: int, now: datetime) -> Statement:
    """Tell whether a record changed at a time.

    Plan: the primary key.
    """
    return Statement(
        name="layers.moved",
        text=f"SELECT r.tier FROM {t.record} r WHERE r.seq = :seq AND r.updated_at = :changed_at",
        kind=StatementKind.QUERY,
        binds={"seq": seq, "changed_at": now},
        types={"changed_at": BindType.TIMESTAMP},
    )


class OracleLayers(OracleReading):
    """The part of an Oracle store that serves layered retrieval."""

    async def match_layers(self, query: LayerQuery) -> LayerMatches:
        """Return all CRITICAL memories, and of other layers those that hold keywords."""
        tools = self._search_tools()
        return await self._engine.read(
            lambda transaction: match_layers(transaction, self._t, tools, query)
        )

    async def count_hits(self, record_filter: RecordFilter, *, now: datetime) -> int:
        """Count one hit for each record the filter lets through."""
        statements = count_hits(self._t, record_filter, now)

        async def work(transaction: Transaction) -> int:
            _, rows = await transaction.finish(*statements)
            return int(rows[0][0])

        async def settled(transaction: Transaction) -> int | None:
            # Who else counted at this very moment counted the same records.
            (rows,) = await transaction.run(statements[1])
            return int(rows[0][0]) or None

        return await self._engine.write(work, settled=settled)

    async def adjust_confidence(
        self, record_filter: RecordFilter, delta: float, *, now: datetime
    ) -> tuple[ScopedRecord, ...]:
        """Add to the confidence of records, within 0.0 and 1.0."""
        wanted = record_filter.ids or ()

        def in_order(rows: Rows) -> tuple[ScopedRecord, ...]:
            records = {record.id: record for record in map(record_from_row, rows)}
            return tuple(records[record_id] for record_id in wanted if record_id in records)

        async def work(transaction: Transaction) -> tuple[ScopedRecord, ...]:
            (rows,) = await transaction.run(adjustable(self._t, record_filter))
            seqs = {record_id: seq for record_id, seq, _ in rows}
            for record_id in wanted:
                if record_id not in seqs:
                    raise NotFoundError(missing(replace(record_filter, ids=(record_id,))))
            if not rows:
                return ()
            # Rounded, so that five times 0.2 from 1.0 is exactly nothing.
            confidences = {
                seq: round(min(1.0, max(0.0, confidence + delta)), 6) for _, seq, confidence in rows
            }
            raised = [seq for seq, value in confidences.items() if value >= RESTORED_FROM]
            *_, found = await transaction.finish(
                adjust(self._t, confidences, now),
                *(restore(self._t, raised, now) if delta > 0 and raised else ()),
                records_at(self._t, "layers.adjusted", list(seqs.values())),
            )
            return in_order(found)

        async def settled(transaction: Transaction) -> tuple[ScopedRecord, ...] | None:
            (rows,) = await transaction.run(
                records_where(self._t, "layers.settled", replace(record_filter, tiers=tuple(Tier)))
            )
            found = in_order(rows)
            done = bool(found) and all(record.updated_at == now for record in found)
            return found if done else None

        return await self._engine.write(work, settled=settled)

    async def evict(
        self, record_filter: RecordFilter, policy: EvictionPolicy, *, now: datetime, dry_run: bool
    ) -> EvictionReport:
        """Move memories of layers to the tier that idle time, hits and confidence give them."""
        attempted: list[tuple[EvictionReport, int]] = []

        async def plan(transaction: Transaction) -> tuple[EvictionReport, dict[int, Tier]]:
            (rows,) = await transaction.run(
                evictable(self._t, record_filter, policy, now, lock=not dry_run)
            )
            changes = tuple(_change(row, policy, now) for row in rows)
            tiers = {row[0]: change.after for row, change in zip(rows, changes, strict=True)}
            return EvictionReport(changes=changes, dry_run=dry_run), tiers

        async def look(transaction: Transaction) -> EvictionReport:
            return (await plan(transaction))[0]

        async def work(transaction: Transaction) -> EvictionReport:
            report, tiers = await plan(transaction)
            if tiers:
                attempted[:] = [(report, next(iter(tiers)))]
                await transaction.finish(*move(self._t, tiers, now))
            return report

        async def settled(transaction: Transaction) -> EvictionReport | None:
            for report, seq in attempted:
                (rows,) = await transaction.run(moved(self._t, seq, now))
                if rows and rows[0][0] == report.changes[0].after.value:
                    return report
            return None

        if dry_run:
            return await self._engine.read(look)
        return await self._engine.write(work, settled=settled)


async def match_layers(
    transaction: Transaction, t: Tables, tools: SearchTools, query: LayerQuery
) -> LayerMatches:
    """Return what a layered retrieval finds, in two round trips; one more for long texts."""
    trip = Trip()
    always = RecordRows(t, trip.add(critical(t, query.filter)))
    counted = trip.add(active(t, query)) if query.count_to else []
    terms = terms_of(query.words)
    statistics = Statistics(t, tools, terms)
    statistics.ask(trip)
    found: dict[Layer, _Chunks] = {}
    for layer in query.pools:
        if layer is not Layer.CRITICAL:
            rows = trip.add(matches(t, query, layer, text_index=tools.text_index)) if terms else []
            found[layer] = _Chunks(rows)
    await trip.run(transaction)
    always.ask_long(trip)
    for chunks in found.values():
        chunks.ask_long(t, trip)
    await trip.run(transaction)

    corpus, frequencies = statistics.answer()
    words = weigh_words(query.words, corpus.chunks, frequencies)
    scored = {
        layer: best(chunks.read(), words, query.pools[layer]) for layer, chunks in found.items()
    }
    records = await _records(transaction, t, [item for items in scored.values() for item in items])
    return LayerMatches(
        critical=tuple(always.records()),
        matches={
            layer: tuple(
                LayerMatch(record=records[item.seq], match=item.match, words=item.words)
                for item in items
                if item.seq in records
            )
            for layer, items in scored.items()
        },
        active=int(counted[0][0]) if counted else 0,
    )


class _Chunks:
    """Chunks of a layer on their way: those with long tags or a long content need a second trip.

    Args:
        rows: Where the rows of `matches` arrive.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._long: Rows = []

    def ask_long(self, t: Tables, trip: Trip) -> None:
        """Let the trip after theirs fetch what did not come whole; nobody knows of an empty one."""
        ids = [row[-1] for row in self._rows if not _is_whole(row)]
        self._long = trip.add(*(long_matches(t, part) for part in batches(ids)))

    def read(self) -> Iterator[LayerChunk]:
        """Return the chunks."""
        for seq, hits, confidence, tags, content, _ in filter(_is_whole, self._rows):
            yield LayerChunk(seq, hits, confidence, tuple(from_json_text(tags)), content)
        for seq, hits, confidence, tags, fields in self._long:
            yield LayerChunk(seq, hits, confidence, tuple(tags), fields[0])


def _is_whole(row: Sequence[Any]) -> bool:
    *_, tags, content, _ = row
    return tags is not None and bool(content)


async def _records(
    transaction: Transaction, t: Tables, scored: Sequence[Scored]
) -> dict[int, ScopedRecord]:
    if not scored:
        return {}
    trip = Trip()
    seqs = [item.seq for item in scored]
    parts = (records_at(t, "layers.records", part, short=True) for part in batches(seqs))
    records = RecordRows(t, trip.add(*parts))
    await trip.run(transaction)
    records.ask_long(trip)
    await trip.run(transaction)
    return {record.seq: record for record in records.records()}


def _change(row: Sequence[Any], policy: EvictionPolicy, now: datetime) -> TierChange:
    _, record_id, before, target, confidence, review_reason, used_at = row
    after = Tier(target)
    reason = eviction_reason(
        after,
        policy,
        confidence=confidence,
        review_reason=review_reason,
        idle=now - used_at,
    )
    return TierChange(id=record_id, before=Tier(before), after=after, reason=reason)
