"""Layered retrieval on a SQLite store: matches by layer, hits, confidence, eviction.

The first sieve is the text index: a token for the layer of a scope narrows it, the rarest keywords
choose, and what they bring is scored by the tokens it stores. May import layering, lexical, rows,
where and the engine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import orjson

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
from agentmemory.stores.sqlite.lexical import LexicalQuery, needle, weigh
from agentmemory.stores.sqlite.query import fetch_all, fetch_value
from agentmemory.stores.sqlite.rows import (
    dump_json,
    record_from_row,
    record_select,
    to_micros,
)
from agentmemory.stores.sqlite.schema import FTS_COLUMNS, Tables
from agentmemory.stores.sqlite.search import fetch_records
from agentmemory.stores.sqlite.term_counts import Counts, TermCounts
from agentmemory.stores.sqlite.vectors import vectors_of
from agentmemory.stores.sqlite.where import Where, add_dimension, record_where
from agentmemory.stores.sqlite.writes import missing
from agentmemory.text.analyzer import analyze
from agentmemory.text.fts5 import fts5_match

if TYPE_CHECKING:
    import apsw

    from agentmemory.requests import FloatVector

CONTENT_SHARE: Final = 0.8
"""What a keyword is worth that stands in the content but not in the tags."""

PART_SHARE: Final = 0.9
"""What a keyword is worth that is part of a tag, as in CREATE_ORDER."""

STRANGE_TAGS: Final = 0.2
"""What a memory loses whose tags are all of other things than the keywords."""

_COLUMNS: Final = ("content", "tags")
_LOOK_PER_PLACE: Final = 3
"""How many chunks are looked at for each place in the pool."""

_MOST_WHOLE: Final = 100
"""When more chunks than this hold every keyword, the index has to rank them."""

_CHOICE_PER_PLACE: Final = 10
"""How many chunks the choosing words should hold for each place in the pool."""

_RANK_SQL: Final = "1.0, 0, 0, 0, 0, 0, 2.0"
_RESTORED_FROM: Final = 0.3
"""With less confidence a memory stays put away even if it is raised; as eviction's default."""

Row = tuple[int, int, float, str, str]
"""What scoring reads of a chunk: seq, hits and confidence of its record, its tags, its content."""

_MICROSECOND: Final = timedelta(microseconds=1)
_DAY: Final = 86_400_000_000


class SqliteLayers:
    """The part of a SQLite store that serves layered retrieval."""

    _engine: SqliteEngine
    _t: Tables
    _counts: TermCounts

    async def match_layers(self, query: LayerQuery) -> LayerMatches:
        """Return all CRITICAL memories, and of other layers those that hold keywords."""
        return await self._engine.read(
            lambda c: match_layers(c, self._t, self._counts.at(c), query)
        )

    async def count_hits(self, record_filter: RecordFilter, *, now: datetime) -> int:
        """Count one hit for each record the filter lets through."""
        return await self._engine.write(lambda c: count_hits(c, self._t, record_filter, now))

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


def match_layers(
    connection: apsw.Connection, t: Tables, counts: Counts, query: LayerQuery
) -> LayerMatches:
    """Return what a layered retrieval finds, in one snapshot."""
    where = record_where(query.filter)
    active = _count_active(connection, t, query)
    # Unary plus: the order of rows must not make the planner walk the whole table.
    rows = connection.execute(
        f"SELECT {record_select(t)} FROM {t.record} r "
        f"WHERE r.layer = ? AND {where.sql} ORDER BY +r.seq",
        (Layer.CRITICAL.value, *where.binds),
    )
    critical = tuple(record_from_row(row) for row in rows)
    terms = list(
        dict.fromkeys(term for word in query.words for form in word.forms for term in form)
    )
    weighed = weigh(counts, terms)
    words = _weighed_words(query.words, weighed)
    pools: dict[Layer, int] = {
        layer: pool for layer, pool in query.pools.items() if layer is not Layer.CRITICAL
    }
    scored = _scored_layers(connection, t, query.filter, pools, where, weighed, words)
    seqs = [item.seq for found in scored.values() for item in found]
    records = {record.seq: record for record in fetch_records(connection, t, seqs)}
    vectors: dict[int, FloatVector] = {}
    if query.vectors_from is not None and active >= query.vectors_from:
        vectors = vectors_of(connection, t, seqs)
    matches = {
        layer: tuple(
            LayerMatch(
                record=records[item.seq],
                match=item.match,
                words=item.words,
                vector=vectors.get(item.seq),
            )
            for item in found
        )
        for layer, found in scored.items()
    }
    return LayerMatches(critical=critical, matches=matches, active=int(active))


def _count_active(connection: apsw.Connection, t: Tables, query: LayerQuery) -> int:
    """Count the memories of any layer in scope that are not put away; reads the index alone."""
    if not query.count_to:
        return 0
    where = Where()
    scope = query.filter.scope
    for column, match in (
        ("user_id", scope.user),
        ("agent_id", scope.agent),
        ("thread_id", scope.thread),
    ):
        add_dimension(where, column, match)
    where.add("layer IS NOT NULL AND tier NOT IN ('archived', 'deprecated')")
    sql = f"SELECT count(*) FROM (SELECT 1 FROM {t.record} WHERE {where.sql} LIMIT ?)"
    return int(fetch_value(connection, sql, (*where.binds, query.count_to)))


@dataclass(frozen=True, slots=True)
class _Weighed:
    """A keyword: what to look for between spaces for each form that occurs, and its worth."""

    text: str
    forms: tuple[tuple[QueryTerm, ...], ...]
    needles: tuple[tuple[str, ...], ...]
    whole: frozenset[str]
    weight: float
    worth: float


def _weighed_words(words: Sequence[LayerWord], weighed: LexicalQuery) -> list[_Weighed]:
    """Return the keywords that occur; one is as rare as all of its forms together."""
    held = {item.term: item.frequency for item in weighed.terms}
    found = []
    for word in words:
        forms = tuple(form for form in word.forms if form and all(term in held for term in form))
        if forms:
            chunks = weighed.counts.chunks
            frequency = min(chunks, sum(min(held[term] for term in form) for form in forms))
            idf = math.log1p((chunks - frequency + 0.5) / (frequency + 0.5))
            needles = tuple(tuple(map(needle, form)) for form in forms)
            found.append(
                _Weighed(word.text, forms, needles, word.whole, word.weight, word.weight * idf)
            )
    return found


@dataclass(frozen=True, slots=True)
class _Scored:
    """A memory by seq, how well it matches, and the keywords it holds."""

    seq: int
    match: float
    words: tuple[str, ...]


def _scored_layers(
    connection: apsw.Connection,
    t: Tables,
    record_filter: RecordFilter,
    pools: Mapping[Layer, int],
    where: Where,
    weighed: LexicalQuery,
    words: Sequence[_Weighed],
) -> dict[Layer, list[_Scored]]:
    """Return the best matches of each layer, best first.

    What holds every name stands before whatever does not, and looking for it costs little: only
    a layer where too few do has the index rank what holds some of the words.
    """
    if not words:
        return {layer: [] for layer in pools}
    user = record_filter.scope.user
    tokens = {layer: layer_token(user.value, layer) for layer in pools} if user.exact else {}
    whole = _holding_every_name(connection, t, pools, tokens, where, words)
    scored = {}
    for layer, pool in pools.items():
        rows = whole.get(layer, [])
        if len({row[0] for row in rows}) * 3 < pool:
            rows = _ranked_rows(connection, t, layer, pool, tokens.get(layer), where, weighed)
        scored[layer] = _scored(rows, words, pool)
    return scored


def _holding_every_name(
    connection: apsw.Connection,
    t: Tables,
    layers: Iterable[Layer],
    tokens: Mapping[Layer, str],
    where: Where,
    words: Sequence[_Weighed],
) -> dict[Layer, list[Row]]:
    """Return what holds every name, by layer; a layer where that is much is left out.

    One look serves all layers as long as few memories of anybody hold every name. Narrowing it by
    user and layer costs more than the look itself.
    """
    expression = _holding_all([word for word in words if word.weight >= 1.0])
    if expression is None:
        return {}
    chunks = _find(connection, t, expression, None, _MOST_WHOLE)
    if len(chunks) < _MOST_WHOLE:
        return _passing(connection, t, chunks, list(layers), where)
    found: dict[Layer, list[Row]] = {}
    for layer, token in tokens.items():
        chunks = _find(connection, t, expression, token, _MOST_WHOLE)
        if len(chunks) < _MOST_WHOLE:
            found |= _passing(connection, t, chunks, [layer], where)
    return found


def _ranked_rows(
    connection: apsw.Connection,
    t: Tables,
    layer: Layer,
    pool: int,
    token: str | None,
    where: Where,
    weighed: LexicalQuery,
) -> list[Row]:
    """Return what the index ranks best in a layer: by the rarest words, else by all of them."""
    chunks = weighed.counts.chunks
    share = weighed.counts.of_tokens([token]) / chunks if token and chunks else 1.0
    choosing = _choosing(weighed, share, pool)
    terms = [item.term for item in weighed.terms]
    rows: list[Row] = []
    for chosen in (terms[:choosing], terms):
        wanted = pool * _LOOK_PER_PLACE
        expression = fts5_match(chosen, columns=_COLUMNS) or ""
        while True:
            ranked = _find(connection, t, expression, token, wanted, ranked=True)
            rows = _passing(connection, t, ranked, [layer], where).get(layer, [])
            if len({row[0] for row in rows}) >= pool or len(ranked) < wanted:
                break
            wanted *= 8
        if len({row[0] for row in rows}) >= pool or choosing == len(terms):
            break
    return rows


def _holding_all(words: Sequence[_Weighed]) -> str | None:
    """Return the expression for chunks that hold all of several keywords; None for fewer."""
    if len(words) < 2:
        return None
    return " AND ".join(
        "("
        + " OR ".join(
            "(" + " AND ".join(fts5_match((term,), columns=_COLUMNS) or "" for term in form) + ")"
            for form in word.forms
        )
        + ")"
        for word in words
    )


def _choosing(weighed: LexicalQuery, share: float, pool: int) -> int:
    """Return how many of the rarest terms are expected to fill the pool many times over."""
    expected = 0.0
    for index, item in enumerate(weighed.terms, start=1):
        expected += item.frequency * share
        if expected >= pool * _CHOICE_PER_PLACE:
            return index
    return len(weighed.terms)


def _find(
    connection: apsw.Connection,
    t: Tables,
    expression: str,
    token: str | None,
    wanted: int,
    *,
    ranked: bool = False,
) -> list[int]:
    """Return chunks that an expression finds within a layer, the best first if ranked."""
    if token is not None:
        expression = f'({expression}) AND {{scope}} : "{token}"'
    order = f"ORDER BY bm25({t.fts}, 0, {_RANK_SQL}), rowid" if ranked else ""
    rows = fetch_all(
        connection,
        f"SELECT rowid FROM {t.fts} WHERE {t.fts} MATCH ? {order} LIMIT ?",
        (expression, wanted),
    )
    return [row[0] for row in rows]


def _passing(
    connection: apsw.Connection,
    t: Tables,
    chunks: Sequence[int],
    layers: Sequence[Layer],
    where: Where,
) -> dict[Layer, list[Row]]:
    """Return what scoring reads of the records behind chunks that the filter lets through."""
    found: dict[Layer, list[Row]] = {}
    rows = connection.execute(
        # CROSS JOIN keeps the planner from walking the whole scope instead of the list.
        f"SELECT r.seq, r.hit_count, r.confidence, r.tags, f.c{FTS_COLUMNS.index('content')}, "
        f"r.layer FROM json_each(?) j CROSS JOIN {t.chunk} c ON c.id = j.value "
        f"CROSS JOIN {t.record} r ON r.seq = c.record_seq "
        f"CROSS JOIN {t.fts}_content f ON f.id = c.id "
        f"WHERE r.layer IN ({', '.join('?' * len(layers))}) AND {where.sql}",
        (dump_json(list(chunks)), *layers, *where.binds),
    )
    for *row, layer in rows:
        found.setdefault(Layer(layer), []).append(tuple(row))
    return found


def _scored(rows: Sequence[Row], words: Sequence[_Weighed], pool: int) -> list[_Scored]:
    """Score records by the keywords that stand in their tags and content; the best first."""
    whole = sum(word.worth for word in words) or 1.0
    held: dict[int, dict[str, float]] = {}
    match: dict[int, float] = {}
    use: dict[int, float] = {}
    # Many memories carry the same tags.
    read: dict[str, tuple[list[float], float]] = {}
    for seq, hits, confidence, raw_tags, content in rows:
        if raw_tags not in read:
            read[raw_tags] = _in_tags(raw_tags, words)
        shares, spoken_of = read[raw_tags]
        text = f" {content} "
        scores = held.setdefault(seq, {})
        for word, in_tags in zip(words, shares, strict=True):
            share = in_tags or (CONTENT_SHARE if _in_text(word, text) else 0.0)
            if share:
                scores[word.text] = max(scores.get(word.text, 0.0), word.worth * share)
        use[seq] = (hits + 1) * confidence
        covered = sum(scores.values()) / whole
        match[seq] = min(1.0, covered * (1 - STRANGE_TAGS + STRANGE_TAGS * spoken_of))
    order = sorted(held, key=lambda seq: (-round(match[seq], 9), -use[seq], -seq))[:pool]
    return [_Scored(seq, match[seq], tuple(held[seq])) for seq in order if held[seq]]


def _in_tags(raw_tags: str, words: Sequence[_Weighed]) -> tuple[list[float], float]:
    """Return how far tags hold each keyword, and how much of them the keywords speak of."""
    if raw_tags == "[]":
        return [0.0] * len(words), 0.0
    tags = _analysed(raw_tags)
    about = [0.0] * len(tags)
    shares = []
    for word in words:
        share = 0.0
        for place, (whole_tag, text) in enumerate(tags):
            if whole_tag in word.whole:
                share, about[place] = 1.0, 1.0
            elif _in_text(word, text):
                share, about[place] = max(share, PART_SHARE), max(about[place], 0.5)
        shares.append(share)
    return shares, sum(about) / len(tags)


@lru_cache(maxsize=16_384)
def _analysed(raw_tags: str) -> tuple[tuple[str, str], ...]:
    """Return the tags of a record as the analyzer reads them: each as it is, and to look in."""
    analysed = [" ".join(analyze(tag)) for tag in orjson.loads(raw_tags)]
    return tuple((tokens, f" {tokens} ") for tokens in analysed)


def _in_text(word: _Weighed, text: str) -> bool:
    """Tell whether tokens, with a space on either side of each, hold all words of one form."""
    for needles in word.needles:
        for sought in needles:
            if sought not in text:
                break
        else:
            return True
    return False


def count_hits(
    connection: apsw.Connection, t: Tables, record_filter: RecordFilter, now: datetime
) -> int:
    """Count one hit for each record, and return how many these are."""
    where = record_where(record_filter)
    connection.execute(
        f"UPDATE {t.record} AS r SET hit_count = hit_count + 1, last_hit_at = ? WHERE {where.sql}",
        (to_micros(now), *where.binds),
    )
    return connection.changes()


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
