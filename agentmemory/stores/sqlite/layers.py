"""Layered retrieval on a SQLite store: matches by layer, hits, confidence, eviction.

The first sieve is the text index: a token for the layer of a scope narrows it, the rarest keywords
choose, and what they bring is scored by the tokens it stores. May import layering, lexical, rows,
where and the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

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
from agentmemory.requests import QueryTerm, RecordFilter
from agentmemory.stores.index_fields import layer_token
from agentmemory.stores.sqlite.engine import SqliteEngine
from agentmemory.stores.sqlite.lexical import LexicalQuery, weigh
from agentmemory.stores.sqlite.query import fetch_all, fetch_value
from agentmemory.stores.sqlite.rows import (
    dump_json,
    record_from_row,
    record_select,
    to_micros,
)
from agentmemory.stores.sqlite.schema import Tables
from agentmemory.stores.sqlite.search import fetch_records
from agentmemory.stores.sqlite.where import Where, record_where
from agentmemory.stores.sqlite.writes import missing
from agentmemory.text.fts5 import fts5_match

if TYPE_CHECKING:
    import apsw

CONTENT_SHARE: Final = 0.8
"""What a keyword is worth that stands in the content but not in the tags."""

_COLUMNS: Final = ("content", "tags")
_LOOK_PER_PLACE: Final = 3
"""How many chunks are looked at for each place in the pool."""

_CHOICE_PER_PLACE: Final = 10
"""How many chunks the choosing words should hold for each place in the pool."""

_RANK_SQL: Final = "1.0, 0, 0, 0, 0, 0, 2.0"
_RESTORED_FROM: Final = 0.3
"""With less confidence a memory stays put away even if it is raised; as eviction's default."""

_MICROSECOND: Final = timedelta(microseconds=1)
_DAY: Final = 86_400_000_000


class SqliteLayers:
    """The part of a SQLite store that serves layered retrieval."""

    _engine: SqliteEngine
    _t: Tables

    async def match_layers(self, query: LayerQuery) -> LayerMatches:
        """Return all CRITICAL memories, and of other layers those that hold keywords."""
        return await self._engine.read(lambda c: match_layers(c, self._t, query))

    async def count_hits(self, record_filter: RecordFilter, *, now: datetime) -> int:
        """Count one hit for each record the filter lets through."""
        where = record_where(record_filter)

        def work(connection: apsw.Connection) -> int:
            connection.execute(
                f"UPDATE {self._t.record} AS r SET hit_count = hit_count + 1, last_hit_at = ? "
                f"WHERE {where.sql}",
                (to_micros(now), *where.binds),
            )
            return connection.changes()

        return await self._engine.write(work)

    async def adjust_confidence(
        self, record_filter: RecordFilter, delta: float, *, now: datetime
    ) -> tuple[ScopedRecord, ...]:
        """Add to the confidence of records, within 0.0 and 1.0."""
        return await self._engine.write(
            lambda c: adjust_confidence(c, self._t, record_filter, delta, now)
        )

    async def evict(
        self, record_filter: RecordFilter, policy: EvictionPolicy, *, now: datetime, dry_run: bool
    ) -> EvictionReport:
        """Move memories of layers to the tier that idle time, hits and confidence give them."""

        def work(connection: apsw.Connection) -> EvictionReport:
            return evict(connection, self._t, record_filter, policy, now, dry_run=dry_run)

        return await (self._engine.read(work) if dry_run else self._engine.write(work))


def match_layers(connection: apsw.Connection, t: Tables, query: LayerQuery) -> LayerMatches:
    """Return what a layered retrieval finds, in one snapshot."""
    where = record_where(query.filter)
    active = fetch_value(
        connection,
        f"SELECT count(*) FROM {t.record} r WHERE r.layer IS NOT NULL AND {where.sql}",
        where.binds,
    )
    critical: tuple[ScopedRecord, ...] = ()
    if query.with_critical:
        rows = connection.execute(
            f"SELECT {record_select(t)} FROM {t.record} r "
            f"WHERE r.layer = ? AND {where.sql} ORDER BY r.seq",
            (Layer.CRITICAL.value, *where.binds),
        )
        critical = tuple(record_from_row(row) for row in rows)
    terms = list(dict.fromkeys(term for word in query.words for term in word.terms))
    weighed = weigh(connection, t, terms)
    words = _weighed_words(query.words, weighed)
    matches: dict[Layer, tuple[LayerMatch, ...]] = {}
    for layer in query.layers:
        if layer is not Layer.CRITICAL:
            found = _matches_of(connection, t, query, layer, where, weighed, words)
            matches[layer] = found
    return LayerMatches(critical=critical, matches=matches, active=int(active))


def _weighed_words(
    words: Sequence[LayerWord], weighed: LexicalQuery
) -> list[tuple[LayerWord, float]]:
    """Return the words all of whose terms occur, with what each is worth."""
    idf = {item.term: item.idf for item in weighed.terms}
    return [
        (word, word.weight * max(idf[term] for term in word.terms))
        for word in words
        if word.terms and all(term in idf for term in word.terms)
    ]


def _matches_of(
    connection: apsw.Connection,
    t: Tables,
    query: LayerQuery,
    layer: Layer,
    where: Where,
    weighed: LexicalQuery,
    words: Sequence[tuple[LayerWord, float]],
) -> tuple[LayerMatch, ...]:
    if not words:
        return ()
    token, share = _layer_scope(connection, t, query.filter, layer, weighed.chunks)
    choosing = _choosing(weighed, share, query.pool)
    terms = [item.term for item in weighed.terms]
    rows: list[tuple[Any, ...]] = []
    for chosen in (terms[:choosing], terms):
        wanted = query.pool * _LOOK_PER_PLACE
        while True:
            rows, seen = _look(connection, t, chosen, token, layer, where, wanted)
            if len({row[0] for row in rows}) >= query.pool or seen < wanted:
                break
            wanted *= 8
        if len({row[0] for row in rows}) >= query.pool or choosing == len(terms):
            break
    return _scored(connection, t, rows, words, query.pool)


def _layer_scope(
    connection: apsw.Connection, t: Tables, record_filter: RecordFilter, layer: Layer, chunks: int
) -> tuple[str | None, float]:
    user = record_filter.scope.user
    if not user.exact:
        return None, 1.0
    token = layer_token(user.value, layer)
    held = fetch_value(connection, f"SELECT doc FROM {t.vocabulary} WHERE term = ?", (token,)) or 0
    return token, (held / chunks if chunks else 0.0)


def _choosing(weighed: LexicalQuery, share: float, pool: int) -> int:
    """Return how many of the rarest terms are expected to fill the pool many times over."""
    expected = 0.0
    for index, item in enumerate(weighed.terms, start=1):
        expected += item.frequency * share
        if expected >= pool * _CHOICE_PER_PLACE:
            return index
    return len(weighed.terms)


def _look(
    connection: apsw.Connection,
    t: Tables,
    terms: Sequence[QueryTerm],
    token: str | None,
    layer: Layer,
    where: Where,
    wanted: int,
) -> tuple[list[tuple[Any, ...]], int]:
    """Return what the filter lets through of the best chunks, and how many these were."""
    expression = fts5_match(terms, columns=_COLUMNS)
    if token is not None:
        expression = f'({expression}) AND {{scope}} : "{token}"'
    chunks = fetch_all(
        connection,
        f"SELECT rowid FROM {t.fts} WHERE {t.fts} MATCH ? "
        f"ORDER BY bm25({t.fts}, 0, {_RANK_SQL}), rowid LIMIT ?",
        (expression, wanted),
    )
    rows = fetch_all(
        connection,
        # CROSS JOIN keeps the planner from walking the whole scope instead of the list.
        f"SELECT r.seq, r.hit_count, r.confidence, f.content, f.tags FROM json_each(?) j "
        f"CROSS JOIN {t.chunk} c ON c.id = j.value "
        f"CROSS JOIN {t.record} r ON r.seq = c.record_seq "
        f"CROSS JOIN {t.fts} f ON f.rowid = c.id "
        f"WHERE r.layer = ? AND {where.sql}",
        (dump_json([row[0] for row in chunks]), layer.value, *where.binds),
    )
    return rows, len(chunks)


def _scored(
    connection: apsw.Connection,
    t: Tables,
    rows: Sequence[tuple[Any, ...]],
    words: Sequence[tuple[LayerWord, float]],
    pool: int,
) -> tuple[LayerMatch, ...]:
    """Score records by the keywords that stand in their tags and content; the best first."""
    whole = sum(worth for _, worth in words) or 1.0
    held: dict[int, dict[str, float]] = {}
    use: dict[int, float] = {}
    for seq, hits, confidence, content, tags in rows:
        in_content, in_tags = content.split(" "), tags.split(" ")
        text, tagged = frozenset(in_content), frozenset(in_tags)
        scores = held.setdefault(seq, {})
        use[seq] = (hits + 1) * confidence
        for word, worth in words:
            if all(_has(term, tagged) for term in word.terms):
                scores[word.text] = worth
            elif all(_has(term, text) or _has(term, tagged) for term in word.terms):
                scores[word.text] = max(scores.get(word.text, 0.0), worth * CONTENT_SHARE)
    order = sorted(
        held, key=lambda seq: (-round(sum(held[seq].values()) / whole, 9), -use[seq], -seq)
    )[:pool]
    records = {record.seq: record for record in fetch_records(connection, t, order)}
    return tuple(
        LayerMatch(
            record=records[seq],
            match=min(1.0, sum(held[seq].values()) / whole),
            words=tuple(held[seq]),
        )
        for seq in order
        if held[seq]
    )


def _has(term: QueryTerm, tokens: frozenset[str]) -> bool:
    if term.prefix:
        return any(token.startswith(term.text) for token in tokens)
    return term.text in tokens


def adjust_confidence(
    connection: apsw.Connection,
    t: Tables,
    record_filter: RecordFilter,
    delta: float,
    now: datetime,
) -> tuple[ScopedRecord, ...]:
    """Add to the confidence of records, all or none."""
    where = record_where(record_filter)
    wanted = record_filter.ids or ()
    found = fetch_all(
        connection, f"SELECT r.id, r.seq FROM {t.record} r WHERE {where.sql}", where.binds
    )
    seqs = dict(found)
    for record_id in wanted:
        if record_id not in seqs:
            raise NotFoundError(
                missing(
                    RecordFilter(
                        scope=record_filter.scope,
                        now=now,
                        record_types=record_filter.record_types,
                        ids=(record_id,),
                    )
                )
            )
    # Rounded, so that five times 0.2 from 1.0 is exactly nothing.
    connection.execute(
        f"UPDATE {t.record} SET confidence = round(min(1.0, max(0.0, confidence + ?)), 6), "
        f"updated_at = ?, revision = revision + 1 WHERE seq IN (SELECT value FROM json_each(?))",
        (delta, to_micros(now), dump_json(list(seqs.values()))),
    )
    if delta > 0:
        connection.execute(
            f"UPDATE {t.record} SET last_hit_at = ?, tier = ?, review_reason = NULL "
            f"WHERE seq IN (SELECT value FROM json_each(?)) AND confidence >= ?",
            (to_micros(now), Tier.HOT.value, dump_json(list(seqs.values())), _RESTORED_FROM),
        )
    records = {record.id: record for record in fetch_records(connection, t, list(seqs.values()))}
    return tuple(records[record_id] for record_id in wanted)


def evict(
    connection: apsw.Connection,
    t: Tables,
    record_filter: RecordFilter,
    policy: EvictionPolicy,
    now: datetime,
    *,
    dry_run: bool,
) -> EvictionReport:
    """Move memories to the tier that idle time, hits and confidence give them.

    The tier is a function of what is stored, so that a second run moves nothing, and a memory
    whose confidence rises or that is hit comes back.
    """
    where = record_where(record_filter)
    warm, cold, archive = (at // _MICROSECOND for at in policy.patience)
    idle = "(? - max(r.created_at, coalesce(r.last_hit_at, r.created_at)))"
    patience = f"{idle} / (CASE WHEN r.hit_count >= ? THEN 2 ELSE 1 END)"
    rows = fetch_all(
        connection,
        f"SELECT seq, id, tier, target, confidence, review_reason, idle FROM ("
        f"SELECT r.seq, r.id, r.tier, r.confidence, r.review_reason, {idle} AS idle, CASE "
        f"WHEN r.confidence < ? OR r.review_reason IS NOT NULL THEN 'deprecated' "
        f"WHEN r.record_type <> 'guideline' AND {patience} > ? THEN 'archived' "
        f"WHEN {patience} > ? THEN 'cold' "
        f"WHEN {patience} > ? THEN 'warm' ELSE 'hot' END AS target "
        f"FROM {t.record} r WHERE r.layer IS NOT NULL AND r.layer <> 'critical' AND {where.sql}"
        f") WHERE target <> tier ORDER BY seq",
        (
            to_micros(now),
            policy.deprecate_below,
            *(
                part
                for bound in (archive, cold, warm)
                for part in (to_micros(now), policy.kept_hits, bound)
            ),
            *where.binds,
        ),
    )
    changes = tuple(
        TierChange(id=row[1], before=Tier(row[2]), after=Tier(row[3]), reason=_reason(row, policy))
        for row in rows
    )
    if not dry_run:
        for tier in {row[3] for row in rows}:
            connection.execute(
                f"UPDATE {t.record} SET tier = ?, updated_at = ?, revision = revision + 1 "
                f"WHERE seq IN (SELECT value FROM json_each(?))",
                (tier, to_micros(now), dump_json([row[0] for row in rows if row[3] == tier])),
            )
    return EvictionReport(changes=changes, dry_run=dry_run)


def _reason(row: Sequence[Any], policy: EvictionPolicy) -> str:
    _, _, _, target, confidence, review_reason, idle = row
    if target == Tier.DEPRECATED.value:
        if confidence < policy.deprecate_below:
            return f"confidence {confidence:g} is below {policy.deprecate_below:g}"
        return str(review_reason)
    return f"idle for {idle // _DAY} days"
