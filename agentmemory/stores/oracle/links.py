"""Links between records on an Oracle store: the statements, and the transactions they make up.

Whoever touches a link locks both of its ends first, by seq. Both ends belong to one user, so that
nobody's memories change or show the id of another's. What a link does to the records it joins is
worked out by `LinkGraph`. May import records, requests, cursors, lifecycle, settling and below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from agentmemory.errors import ConflictError, NotFoundError, ScopeError
from agentmemory.records import MEMORY_TYPES, RecordRelation
from agentmemory.requests import LinkChanges, LinkQuery, Page, RecordFilter
from agentmemory.scope import NOT_SET_MARKER
from agentmemory.stores.cursors import read_cursor, write_cursor
from agentmemory.stores.lifecycle import DEPENDENCY, LinkGraph, Node
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.settling import (
    NODE_COLUMNS,
    changes,
    heads,
    heads_of,
    load_dependants,
    load_dependencies,
)
from agentmemory.stores.oracle.statement import BindType, Statement, StatementKind, Transaction
from agentmemory.stores.oracle.trips import Rows, Trip
from agentmemory.stores.oracle.where import Where, add_list, record_where

PLAN_NOTES: Final[Mapping[str, str]] = {
    "link.lock_ends": "unique key of record (id), one probe for each of two ids",
    "link.lock_ends_of": "unique key of link (id), then the primary key of record",
    "link.clashes": "unique key of link (id); unique key of record (id) for the ends, then unique "
    "key of link (source_seq, target_seq, relation_type)",
    "link.insert": "none: maintains the indexes of link",
    "link.find": "unique key of link (id), then the primary key of record for both ends",
    "link.type_taken": "primary key of link, then its unique key (source_seq, target_seq, "
    "relation_type)",
    "link.update": "primary key of link",
    "link.delete": "primary key of link",
    "link.updated": "primary key of link, then the primary key of record for both ends",
    "link.read": "unique key of link (id), then the primary key of record for both ends",
    "link.list": "with a record: unique key of record (id), then the unique key of link for links "
    "that start there and link_target for those that end there; with a scope only: record_owner "
    "(user_id, record_type, seq), then the unique key of link (source_seq, …)",
}
"""The index each statement is meant to use, and why, for 1 million chunks and 10,000 users."""

_COLUMNS: Final = (
    "l.id, s.id, s.record_type, e.id, e.record_type, l.relation_type, l.opposite_relation_type, "
    "l.link_time, l.metadata, l.created_at"
)


def _joined(t: Tables) -> str:
    return (
        f"{t.link} l JOIN {t.record} s ON s.seq = l.source_seq "
        f"JOIN {t.record} e ON e.seq = l.target_seq"
    )


def link_from_row(row: Sequence[Any]) -> RecordRelation:
    """Build a link from its columns: id, ends with their types, labels, times, metadata."""
    return RecordRelation(
        id=row[0],
        source_record_id=row[1],
        source_record_type=row[2],
        target_record_id=row[3],
        target_record_type=row[4],
        relation_type=row[5],
        opposite_relation_type=row[6],
        timestamp=row[7],
        metadata=row[8],
        created_at=row[9],
    )


def lock_ends(t: Tables, link: RecordRelation, record_filter: RecordFilter) -> Statement:
    """Lock the memories that a new link joins, as far as the filter lets them through."""
    ids = (link.source_record_id, link.target_record_id)
    where = record_where(replace(record_filter, ids=ids, record_types=MEMORY_TYPES))
    return Statement(
        name="link.lock_ends",
        text=f"SELECT {NODE_COLUMNS}, r.record_type, r.user_id FROM {t.record} r "
        f"WHERE {where.sql} ORDER BY r.seq FOR UPDATE",
        kind=StatementKind.QUERY,
        binds=where.binds,
    )


def clashes(t: Tables, link: RecordRelation) -> Statement:
    """Look for links that have the id of a new one, or its ends and its type: place, id."""
    return Statement(
        name="link.clashes",
        text=f"SELECT 1, l.id FROM {t.link} l WHERE l.id = :id UNION ALL "
        f"SELECT 2, l.id FROM {t.record} s JOIN {t.link} l ON l.source_seq = s.seq "
        f"JOIN {t.record} e ON e.seq = l.target_seq WHERE s.id = :source_id "
        f"AND e.id = :target_id AND l.relation_type = :relation_type ORDER BY 1",
        kind=StatementKind.QUERY,
        binds={
            "id": link.id,
            "source_id": link.source_record_id,
            "target_id": link.target_record_id,
            "relation_type": link.relation_type,
        },
    )


def insert_row(t: Tables, link: RecordRelation, source: int, target: int) -> Statement:
    """Store a link between two records."""
    return Statement(
        name="link.insert",
        text=f"INSERT INTO {t.link} (id, source_seq, target_seq, relation_type, "
        f"opposite_relation_type, link_time, metadata, created_at) VALUES (:id, :source_seq, "
        f":target_seq, :relation_type, :opposite_relation_type, :link_time, :metadata, "
        f":created_at)",
        kind=StatementKind.DML,
        binds={
            "id": link.id,
            "source_seq": source,
            "target_seq": target,
            "relation_type": link.relation_type,
            "opposite_relation_type": link.opposite_relation_type,
            "link_time": link.timestamp,
            "metadata": dict(link.metadata),
            "created_at": link.created_at,
        },
        types={"link_time": BindType.TIMESTAMP, "metadata": BindType.JSON},
    )


def lock_ends_of(t: Tables, link_id: str) -> Statement:
    """Lock the records that a link joins."""
    return Statement(
        name="link.lock_ends_of",
        text=f"SELECT {NODE_COLUMNS} FROM {t.record} r WHERE r.seq IN ("
        f"SELECT l.source_seq FROM {t.link} l WHERE l.id = :id UNION ALL "
        f"SELECT l.target_seq FROM {t.link} l WHERE l.id = :id) ORDER BY r.seq FOR UPDATE",
        kind=StatementKind.QUERY,
        binds={"id": link_id},
    )


def find_link(t: Tables, link_id: str, record_filter: RecordFilter) -> Statement:
    """Find a link between records of a scope: its seq and those of its ends."""
    where = _link_where(LinkQuery(filter=record_filter, ids=(link_id,)))
    return Statement(
        name="link.find",
        text=f"SELECT l.seq, l.source_seq, l.target_seq FROM {_joined(t)} WHERE {where.sql}",
        kind=StatementKind.QUERY,
        binds=where.binds,
    )


def type_taken(t: Tables, link_id: str, relation_type: str) -> Statement:
    """Look for another link with the same ends and a type."""
    return Statement(
        name="link.type_taken",
        text=f"SELECT o.id FROM {t.link} l JOIN {t.link} o ON o.source_seq = l.source_seq "
        f"AND o.target_seq = l.target_seq AND o.relation_type = :relation_type "
        f"WHERE l.id = :id AND o.seq <> l.seq",
        kind=StatementKind.QUERY,
        binds={"id": link_id, "relation_type": relation_type},
    )


def update_row(t: Tables, seq: int, values: Mapping[str, Any]) -> Statement:
    """Write new values into columns of a link; at least one."""
    types = {"link_time": BindType.TIMESTAMP, "metadata": BindType.JSON}
    return Statement(
        name="link.update",
        text=f"UPDATE {t.link} SET {', '.join(f'{name} = :{name}' for name in values)} "
        f"WHERE seq = :seq",
        kind=StatementKind.DML,
        binds={**values, "seq": seq},
        types={name: kind for name, kind in types.items() if name in values},
    )


def delete_row(t: Tables, seq: int) -> Statement:
    """Delete a link."""
    return Statement(
        name="link.delete",
        text=f"DELETE FROM {t.link} WHERE seq = :seq",
        kind=StatementKind.DML,
        binds={"seq": seq},
    )


def read_link(t: Tables, seq: int) -> Statement:
    """Read a link."""
    return Statement(
        name="link.updated",
        text=f"SELECT {_COLUMNS} FROM {_joined(t)} WHERE l.seq = :seq",
        kind=StatementKind.QUERY,
        binds={"seq": seq},
    )


def read_link_by_id(t: Tables, link_id: str) -> Statement:
    """Read a link by its id."""
    return Statement(
        name="link.read",
        text=f"SELECT {_COLUMNS} FROM {_joined(t)} WHERE l.id = :id",
        kind=StatementKind.QUERY,
        binds={"id": link_id},
    )


def list_links(t: Tables, query: LinkQuery) -> Statement:
    """Read one page of links in the order they were made, and one more."""
    where = _link_where(query)
    if query.after is not None:
        _, seq = read_cursor(query.after, "link")
        where.add(f"l.seq > {where.bind('after', seq)}")
    if query.record_id is not None:
        here = where.bind("record", query.record_id)
        where.add(
            f"l.seq IN (SELECT f.seq FROM {t.record} x JOIN {t.link} f ON f.source_seq = x.seq "
            f"WHERE x.id = {here} UNION ALL SELECT i.seq FROM {t.record} x "
            f"JOIN {t.link} i ON i.target_seq = x.seq WHERE x.id = {here})"
        )
    return Statement(
        name="link.list",
        text=f"SELECT {_COLUMNS}, l.seq FROM {_joined(t)} WHERE {where.sql} "
        f"ORDER BY l.seq FETCH FIRST {where.bind('rows', query.limit + 1)} ROWS ONLY",
        kind=StatementKind.QUERY,
        binds=where.binds,
    )


def page_of_links(rows: Rows, query: LinkQuery) -> Page[RecordRelation]:
    """Return the page that the rows of `list_links` make."""
    shown = rows[: query.limit]
    more = len(rows) > query.limit
    return Page(
        items=tuple(link_from_row(row) for row in shown),
        next_cursor=write_cursor("link", 0, shown[-1][-1]) if more else None,
    )


def _link_where(query: LinkQuery) -> Where:
    where = Where(prefix="l_")
    both_ends = replace(query.filter, ids=None, record_types=None, include_invalid=True)
    for alias in ("s", "e"):
        end = record_where(both_ends, alias)
        where.binds.update(end.binds)
        where.add(end.sql)
    if query.relation_types is not None:
        add_list(where, "l.relation_type", "kind", query.relation_types)
    if query.ids is not None:
        add_list(where, "l.id", "id", query.ids)
    return where


async def insert_link(
    transaction: Transaction,
    t: Tables,
    link: RecordRelation,
    record_filter: RecordFilter,
    now: datetime,
) -> tuple[RecordRelation, Trip]:
    """Store a link between two records that the filter lets through.

    Returns:
        The link, and the last trip of the work, which is still to be made.

    Raises:
        NotFoundError: An end is no memory of that scope. Nothing is written, as with the others.
        ConflictError: The id is taken, the same link exists, or both ends are one record.
        ScopeError: The ends belong to different users.
    """
    trip = Trip()
    found = trip.add(lock_ends(t, link, record_filter))
    taken = trip.add(clashes(t, link))
    await trip.run(transaction)
    ends = {row[1]: row for row in found}
    source, target = (_end(ends, name) for name in (link.source_record_id, link.target_record_id))
    if source[0] == target[0]:
        msg = f"record {link.source_record_id!r} cannot be linked to itself"
        raise ConflictError(msg)
    if source[7] != target[7]:
        msg = (
            f"records {link.source_record_id!r} and {link.target_record_id!r} belong to different "
            "users and cannot be linked"
        )
        raise ScopeError(msg, argument="target_record_id")
    if taken:
        msg = f"link {taken[0][1]!r} exists already with this id or these ends and type"
        raise ConflictError(msg)
    trip.add(insert_row(t, link, source[0], target[0]))
    latest = trip.add(heads(t, (target[0],)))
    await trip.run(transaction)
    graph = await _load(transaction, t, [row[:6] for row in found])
    graph.settle(heads_of((target[0],), latest))
    if link.relation_type == DEPENDENCY:
        graph.inherit(source[0], target[0])
    for statement in changes(t, graph, now):
        trip.add(statement)
    return replace(link, source_record_type=source[6], target_record_type=target[6]), trip


def _end(ends: Mapping[str, tuple[Any, ...]], record_id: str) -> tuple[Any, ...]:
    if record_id not in ends:
        msg = f"there is no memory {record_id!r} in this scope to be linked"
        raise NotFoundError(msg)
    return ends[record_id]


async def _load(transaction: Transaction, t: Tables, ends: Sequence[Sequence[Any]]) -> LinkGraph:
    """Load what a change of a link between two locked records may reach."""
    graph = LinkGraph()
    for row in ends:
        graph.add(Node(*row))
    await load_dependants(transaction, t, graph, [row[0] for row in ends])
    await load_dependencies(transaction, t, graph)
    return graph


async def change_link(
    transaction: Transaction,
    t: Tables,
    link_id: str,
    link_changes: LinkChanges,
    record_filter: RecordFilter,
    now: datetime,
) -> RecordRelation:
    """Change what is named of a link, settle the record it ends at, and commit."""
    values = link_values(link_changes)
    new_type = values.get("relation_type")
    trip = Trip()
    ends = trip.add(lock_ends_of(t, link_id))
    found = trip.add(find_link(t, link_id, record_filter))
    taken = [] if new_type is None else trip.add(type_taken(t, link_id, new_type))
    await trip.run(transaction)
    seq, source, target = _found(found, link_id)
    if taken:
        msg = f"link {taken[0][0]!r} has these ends and this type already"
        raise ConflictError(msg)
    if values:
        trip.add(update_row(t, seq, values))
        latest = trip.add(heads(t, (target,)))
        await trip.run(transaction)
        graph = await _load(transaction, t, ends)
        graph.settle(heads_of((target,), latest))
        graph.loosen(source)
        if new_type == DEPENDENCY:
            graph.inherit(source, target)
        for statement in changes(t, graph, now):
            trip.add(statement)
    stored = trip.add(read_link(t, seq))
    await trip.finish(transaction)
    return link_from_row(stored[0])


def link_values(link_changes: LinkChanges) -> dict[str, Any]:
    """Return the new values of columns by name."""
    values: dict[str, Any] = {}
    for name in LinkChanges.__slots__:
        value = getattr(link_changes, name)
        if value is NOT_SET_MARKER:
            continue
        if name == "timestamp":
            values["link_time"] = value
        else:
            values[name] = dict(value) if name == "metadata" else value
    return values


def has_values(link: RecordRelation, link_changes: LinkChanges) -> bool:
    """Tell whether a link is as a change leaves it."""
    return all(
        getattr(link, name) == value
        for name in LinkChanges.__slots__
        if (value := getattr(link_changes, name)) is not NOT_SET_MARKER
    )


def _found(rows: Rows, link_id: str) -> tuple[int, int, int]:
    if not rows:
        msg = f"there is no link {link_id!r} in this scope"
        raise NotFoundError(msg)
    seq, source, target = rows[0]
    return seq, source, target


async def remove_link(
    transaction: Transaction,
    t: Tables,
    link_id: str,
    record_filter: RecordFilter,
    now: datetime,
) -> None:
    """Delete a link, restore the record it ends at if it was the last there, and commit."""
    trip = Trip()
    ends = trip.add(lock_ends_of(t, link_id))
    found = trip.add(find_link(t, link_id, record_filter))
    await trip.run(transaction)
    seq, source, target = _found(found, link_id)
    trip.add(delete_row(t, seq))
    latest = trip.add(heads(t, (target,)))
    await trip.run(transaction)
    graph = await _load(transaction, t, ends)
    graph.settle(heads_of((target,), latest))
    graph.loosen(source)
    for statement in changes(t, graph, now):
        trip.add(statement)
    await trip.finish(transaction)
