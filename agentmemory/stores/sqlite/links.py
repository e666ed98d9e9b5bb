"""Links between records of a SQLite store, and what they do to the records they touch.

A record is invalid exactly as long as a lifecycle link (`supersedes`, `refines`, `duplicates`)
ends at it; so chains keep all but their head invalid, and in a cycle every record is. When a
record dies, by deletion or by becoming invalid, every record that depends on it, directly or
through others, is marked for review. Both ends of a link belong to one user, so that nobody's
memories change or show the id of another's. May import records, requests, query, rows and where.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import orjson

from agentmemory.errors import ConflictError, NotFoundError, ScopeError
from agentmemory.records import LIFECYCLE_LINK_TYPES, MEMORY_TYPES, RecordRelation
from agentmemory.requests import LinkChanges, LinkQuery, Page, RecordFilter
from agentmemory.scope import NOT_SET_MARKER
from agentmemory.stores.cursors import read_cursor, write_cursor
from agentmemory.stores.sqlite.query import fetch_all, fetch_one, fetch_value
from agentmemory.stores.sqlite.rows import dump_json, from_micros, to_micros
from agentmemory.stores.sqlite.where import Where, record_where

if TYPE_CHECKING:
    import apsw

    from agentmemory.stores.sqlite.schema import Tables

_LIFECYCLE: Final = dump_json(sorted(LIFECYCLE_LINK_TYPES))
_REASONS: Final = {
    "supersedes": "superseded by",
    "refines": "refined by",
    "duplicates": "duplicate of",
}
_DEPENDENCY: Final = "depends_on"
_DELETED: Final = "which was deleted"


def insert_link(
    connection: apsw.Connection,
    t: Tables,
    link: RecordRelation,
    record_filter: RecordFilter,
    now: datetime,
) -> RecordRelation:
    """Store a link between two records that the filter lets through."""
    source = _endpoint(connection, t, link.source_record_id, record_filter)
    target = _endpoint(connection, t, link.target_record_id, record_filter)
    if source[0] == target[0]:
        msg = f"record {link.source_record_id!r} cannot be linked to itself"
        raise ConflictError(msg)
    if source[2] != target[2]:
        msg = (
            f"records {link.source_record_id!r} and {link.target_record_id!r} belong to different "
            "users and cannot be linked"
        )
        raise ScopeError(msg, argument="target_record_id")
    for clash, binds in (
        ("id = ?", (link.id,)),
        (
            "source_seq = ? AND target_seq = ? AND relation_type = ?",
            (source[0], target[0], link.relation_type),
        ),
    ):
        taken = fetch_value(connection, f"SELECT id FROM {t.link} WHERE {clash}", binds)
        if taken is not None:
            msg = f"link {taken!r} exists already with this id or these ends and type"
            raise ConflictError(msg)
    connection.execute(
        f"INSERT INTO {t.link} (id, source_seq, target_seq, relation_type, "
        f"opposite_relation_type, timestamp, metadata, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            link.id,
            source[0],
            target[0],
            link.relation_type,
            link.opposite_relation_type,
            to_micros(link.timestamp),
            dump_json(link.metadata),
            to_micros(link.created_at),
        ),
    )
    settle(connection, t, (target[0],), now)
    if link.relation_type == _DEPENDENCY:
        _inherit_mark(connection, t, source[0], target[0])
    return replace(link, source_record_type=source[1], target_record_type=target[1])


def _endpoint(
    connection: apsw.Connection, t: Tables, record_id: str, record_filter: RecordFilter
) -> tuple[Any, ...]:
    where = record_where(replace(record_filter, ids=(record_id,), record_types=MEMORY_TYPES))
    row = fetch_one(
        connection,
        f"SELECT r.seq, r.record_type, r.user_id FROM {t.record} r WHERE {where.sql}",
        where.binds,
    )
    if row is None:
        msg = f"there is no memory {record_id!r} in this scope to be linked"
        raise NotFoundError(msg)
    return row


_LINK_COLUMNS: Final = (
    "l.id, s.id, s.record_type, e.id, e.record_type, l.relation_type, l.opposite_relation_type, "
    "l.timestamp, l.metadata, l.created_at"
)


def _link_from(t: Tables) -> str:
    return (
        f"{t.link} l JOIN {t.record} s ON s.seq = l.source_seq "
        f"JOIN {t.record} e ON e.seq = l.target_seq"
    )


def _link_from_row(row: Sequence[Any]) -> RecordRelation:
    created_at = from_micros(row[9])
    assert created_at is not None  # noqa: S101 - the column is NOT NULL
    return RecordRelation(
        id=row[0],
        source_record_id=row[1],
        source_record_type=row[2],
        target_record_id=row[3],
        target_record_type=row[4],
        relation_type=row[5],
        opposite_relation_type=row[6],
        timestamp=from_micros(row[7]),
        metadata={} if row[8] == "{}" else orjson.loads(row[8]),
        created_at=created_at,
    )


def page_of_links(connection: apsw.Connection, t: Tables, query: LinkQuery) -> Page[RecordRelation]:
    """Return one page of links in the order they were made."""
    where = _link_where(query)
    if query.after is not None:
        _, seq = read_cursor(query.after, "link")
        where.add("l.seq > ?", seq)
    rows = fetch_all(
        connection,
        f"SELECT {_LINK_COLUMNS}, l.seq FROM {_link_from(t)} WHERE {where.sql} "
        f"ORDER BY l.seq LIMIT ?",
        (*where.binds, query.limit + 1),
    )
    more = len(rows) > query.limit
    rows = rows[: query.limit]
    return Page(
        items=tuple(_link_from_row(row) for row in rows),
        next_cursor=write_cursor("link", 0, rows[-1][-1]) if more else None,
    )


def _link_where(query: LinkQuery) -> Where:
    where = Where()
    both_ends = replace(query.filter, ids=None, record_types=None, include_invalid=True)
    for alias in ("s", "e"):
        end = record_where(both_ends, alias)
        where.add(end.sql, *end.binds)
    if query.record_id is not None:
        where.add("(s.id = ? OR e.id = ?)", query.record_id, query.record_id)
    if query.relation_types is not None:
        where.add(
            "l.relation_type IN (SELECT value FROM json_each(?))", dump_json(query.relation_types)
        )
    if query.ids is not None:
        where.add("l.id IN (SELECT value FROM json_each(?))", dump_json(query.ids))
    return where


def _found_link(
    connection: apsw.Connection, t: Tables, link_id: str, record_filter: RecordFilter
) -> tuple[Any, ...]:
    where = _link_where(LinkQuery(filter=record_filter, ids=(link_id,)))
    row = fetch_one(
        connection,
        f"SELECT l.seq, l.source_seq, l.target_seq FROM {_link_from(t)} WHERE {where.sql}",
        where.binds,
    )
    if row is None:
        msg = f"there is no link {link_id!r} in this scope"
        raise NotFoundError(msg)
    return row


def change_link(
    connection: apsw.Connection,
    t: Tables,
    link_id: str,
    changes: LinkChanges,
    record_filter: RecordFilter,
    now: datetime,
) -> RecordRelation:
    """Change what is named of a link, and settle the record it ends at."""
    seq, source, target = _found_link(connection, t, link_id, record_filter)
    assignments = []
    binds: list[Any] = []
    for name in LinkChanges.__slots__:
        value = getattr(changes, name)
        if value is NOT_SET_MARKER:
            continue
        assignments.append(f"{name} = ?")
        if name == "timestamp":
            value = to_micros(value)
        elif name == "metadata":
            value = dump_json(value)
        binds.append(value)
    if assignments:
        clash = fetch_value(
            connection,
            f"SELECT o.id FROM {t.link} o JOIN {t.link} l ON o.source_seq = l.source_seq "
            f"AND o.target_seq = l.target_seq AND o.seq <> l.seq "
            f"WHERE l.seq = ? AND o.relation_type = ?",
            (seq, changes.relation_type if changes.relation_type is not NOT_SET_MARKER else None),
        )
        if clash is not None:
            msg = f"link {clash!r} has these ends and this type already"
            raise ConflictError(msg)
        connection.execute(
            f"UPDATE {t.link} SET {', '.join(assignments)} WHERE seq = ?", (*binds, seq)
        )
        settle(connection, t, (target,), now)
        _unmark_from(connection, t, source)
        if changes.relation_type == _DEPENDENCY:
            _inherit_mark(connection, t, source, target)
    row = fetch_one(
        connection, f"SELECT {_LINK_COLUMNS} FROM {_link_from(t)} WHERE l.seq = ?", (seq,)
    )
    assert row is not None  # noqa: S101 - found above, in the same transaction
    return _link_from_row(row)


def remove_link(
    connection: apsw.Connection,
    t: Tables,
    link_id: str,
    record_filter: RecordFilter,
    now: datetime,
) -> None:
    """Delete a link, and restore the record it ends at if it was the last that stood there."""
    seq, source, target = _found_link(connection, t, link_id, record_filter)
    connection.execute(f"DELETE FROM {t.link} WHERE seq = ?", (seq,))
    settle(connection, t, (target,), now)
    _unmark_from(connection, t, source)


def _unmark_from(connection: apsw.Connection, t: Tables, seq: int) -> None:
    """Look anew at a record that may depend on less now, and at what depends on it."""
    _unmark(connection, t, (seq, *dependants(connection, t, (seq,))), "depends on ")


def _inherit_mark(connection: apsw.Connection, t: Tables, source: int, target: int) -> None:
    """Mark a record, and what depends on it, if what it now depends on is dead or marked."""
    mark = _reason_of(connection, t, target) or fetch_value(
        connection, f"SELECT review_reason FROM {t.record} WHERE seq = ?", (target,)
    )
    if mark is not None:
        connection.execute(
            f"UPDATE {t.record} SET review_reason = ? "
            f"WHERE seq IN (SELECT value FROM json_each(?)) AND review_reason IS NULL",
            (mark, dump_json([source, *dependants(connection, t, (source,))])),
        )


def settle(connection: apsw.Connection, t: Tables, seqs: Iterable[int], now: datetime) -> None:
    """Bring the status of records in step with the lifecycle links that end at them.

    What was made invalid by hand, with a reason of its own, stays as it is.
    """
    for seq in seqs:
        before = fetch_one(
            connection,
            f"SELECT id, status, invalidation_reason FROM {t.record} WHERE seq = ?",
            (seq,),
        )
        if before is None or (before[1] == "invalid" and not _is_of_link(before[2])):
            continue
        link = fetch_one(
            connection,
            f"SELECT l.relation_type, s.id FROM {t.link} l JOIN {t.record} s "
            f"ON s.seq = l.source_seq WHERE l.target_seq = ? "
            f"AND l.relation_type IN (SELECT value FROM json_each(?)) ORDER BY l.seq DESC LIMIT 1",
            (seq, _LIFECYCLE),
        )
        status = "valid" if link is None else "invalid"
        reason = None if link is None else f"{_REASONS[link[0]]} {link[1]}"
        if (status, reason) == before[1:]:
            continue
        at = to_micros(now)
        connection.execute(
            f"UPDATE {t.record} SET status = ?, invalidation_reason = ?, updated_at = ?, "
            f"invalidated_at = CASE WHEN ? IS NULL THEN NULL ELSE coalesce(invalidated_at, ?) END, "
            f"revision = revision + 1 WHERE seq = ?",
            (status, reason, at, reason, at, seq),
        )
        tell_dependants(connection, t, seq)


def _is_of_link(reason: str | None) -> bool:
    return reason is not None and reason.startswith(tuple(f"{text} " for text in _REASONS.values()))


def dependants(connection: apsw.Connection, t: Tables, seqs: Iterable[int]) -> list[int]:
    """Return the records that depend on the given ones, directly or through others."""
    return [
        row[0]
        for row in fetch_all(
            connection,
            f"WITH RECURSIVE d (seq) AS ("
            f"SELECT source_seq FROM {t.link} WHERE relation_type = 'depends_on' "
            f"AND target_seq IN (SELECT value FROM json_each(?)) "
            f"UNION SELECT l.source_seq FROM d JOIN {t.link} l ON l.target_seq = d.seq "
            f"AND l.relation_type = 'depends_on') SELECT seq FROM d ORDER BY seq",
            (dump_json(list(seqs)),),
        )
    ]


def tell_dependants(connection: apsw.Connection, t: Tables, seq: int) -> None:
    """Bring the marks for review of what depends on a record in step with its status.

    Its death marks those that carry no other mark; a mark goes when what it names lives again,
    unless another dependency is dead. One that names what was deleted stays until the record
    gets a new content.
    """
    reason = _reason_of(connection, t, seq)
    places = dependants(connection, t, (seq,))
    name = fetch_value(connection, f"SELECT id FROM {t.record} WHERE seq = ?", (seq,))
    about = f"depends on {name}, which is "
    if reason is None:
        _unmark(connection, t, places, about)
        return
    connection.execute(
        f"UPDATE {t.record} SET review_reason = ? WHERE seq IN (SELECT value FROM json_each(?)) "
        f"AND seq <> ? AND (review_reason IS NULL OR substr(review_reason, 1, ?) = ?)",
        (reason, dump_json(places), seq, len(about), about),
    )


def _reason_of(connection: apsw.Connection, t: Tables, seq: int) -> str | None:
    """Return the mark that the death of a record leaves; None while it lives."""
    row = fetch_one(
        connection,
        f"SELECT id, invalidation_reason FROM {t.record} WHERE seq = ? AND status = 'invalid'",
        (seq,),
    )
    return None if row is None else _mark(*row)


def _mark(name: str, reason: str | None) -> str:
    return f"depends on {name}, which is {reason or 'no longer valid'}"


def _unmark(connection: apsw.Connection, t: Tables, seqs: Sequence[int], about: str) -> None:
    """Take away marks that begin with `about`, or give the next reason where there is one."""
    marked = fetch_all(
        connection,
        f"SELECT seq, review_reason FROM {t.record} "
        f"WHERE seq IN (SELECT value FROM json_each(?)) AND substr(review_reason, 1, ?) = ? "
        f"AND substr(review_reason, ?) <> ? ORDER BY seq",
        (dump_json(list(seqs)), len(about), about, -len(_DELETED), _DELETED),
    )
    if not marked:
        return
    if not _dead_dependencies(connection, t, [seq for seq, _ in marked], limit=1):
        connection.execute(
            f"UPDATE {t.record} SET review_reason = NULL "
            f"WHERE seq IN (SELECT value FROM json_each(?))",
            (dump_json([seq for seq, _ in marked]),),
        )
        return
    for seq, mark in marked:
        reasons = _dead_dependencies(connection, t, (seq,))
        if mark not in reasons:
            connection.execute(
                f"UPDATE {t.record} SET review_reason = ? WHERE seq = ?",
                (reasons[0] if reasons else None, seq),
            )


def mark_orphans(connection: apsw.Connection, t: Tables) -> int:
    """Mark the survivors that depend on records of `temp.gone`, which are about to be deleted.

    Returns:
        How many records were marked.
    """
    direct = fetch_all(
        connection,
        f"SELECT l.source_seq, min(r.id) FROM temp.gone g CROSS JOIN {t.link} l "
        f"ON l.target_seq = g.seq AND l.relation_type = 'depends_on' "
        f"JOIN {t.record} r ON r.seq = g.seq "
        f"WHERE l.source_seq NOT IN (SELECT seq FROM temp.gone) GROUP BY l.source_seq",
    )
    seen: set[int] = set()
    marked = 0
    for seq, cause in direct:
        for place in (seq, *dependants(connection, t, (seq,))):
            if place in seen:
                continue
            seen.add(place)
            connection.execute(
                f"UPDATE {t.record} SET review_reason = ? "
                f"WHERE seq = ? AND seq NOT IN (SELECT seq FROM temp.gone)",
                (f"depends on {cause}, {_DELETED}", place),
            )
            marked += connection.changes()
    return marked


def _dead_dependencies(
    connection: apsw.Connection, t: Tables, seqs: Sequence[int], *, limit: int = -1
) -> list[str]:
    """Return the marks for the dead records that some records depend on, the oldest first."""
    rows = fetch_all(
        connection,
        f"WITH RECURSIVE d (seq) AS (SELECT target_seq FROM {t.link} "
        f"WHERE relation_type = 'depends_on' AND source_seq IN (SELECT value FROM json_each(?)) "
        f"UNION SELECT l.target_seq FROM d JOIN {t.link} l ON l.source_seq = d.seq "
        f"AND l.relation_type = 'depends_on') "
        f"SELECT r.id, r.invalidation_reason FROM d JOIN {t.record} r ON r.seq = d.seq "
        f"WHERE r.status = 'invalid' ORDER BY r.seq LIMIT ?",
        (dump_json(list(seqs)), limit),
    )
    return [_mark(name, reason) for name, reason in rows]
