"""What links do to records on an Oracle store: loads a `LinkGraph`, and writes its changes back.

Whoever adds, changes or removes a link locks both ends first. So the records that depend on a
record cannot become more once it and all of them are locked, which `load_dependants` sees to: it
looks again after each lock, until there is nothing new. The recursion is a statement per step
instead of one recursive query, because such a query walks every path of a graph, of which there
may be exponentially many. May import lifecycle, lists, trips, indexing and schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Final

from agentmemory.stores.lifecycle import LinkGraph, Node
from agentmemory.stores.oracle.indexing import copy_columns
from agentmemory.stores.oracle.lists import in_parts, listed
from agentmemory.stores.oracle.rows import LIFECYCLE_SQL
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.statement import BindType, Statement, StatementKind, Transaction
from agentmemory.stores.oracle.trips import Rows, Trip

NODE_COLUMNS: Final = "r.seq, r.id, r.status, r.invalidation_reason, r.review_reason, r.layer"
"""The select list a `Node` is made of."""

PLAN_NOTES: Final[Mapping[str, str]] = {
    "record.lock_nodes": "primary key of record, once for each listed seq",
    "link.lock_dependants": "link_target (target_seq, relation_type) for the listed records, then "
    "the primary key of record; a record has few dependants, whatever the size of the store",
    "link.dependency_edges": "link_target (target_seq, relation_type), without touching record",
    "link.dependencies": "unique key of link (source_seq, target_seq, relation_type), then the "
    "primary key of record",
    "link.heads": "link_target (target_seq, relation_type), once for each listed record and once "
    "more to see that no later link ends there",
    "record.settle": "primary key of record",
    "record.review": "primary key of record",
}
"""The index each statement is meant to use, for a store of any size."""


def lock_nodes(t: Tables, seqs: Iterable[int]) -> Statement:
    """Lock records and read what a `Node` holds of them."""
    condition, binds = listed("r.seq", "seq", seqs)
    return Statement(
        name="record.lock_nodes",
        text=f"SELECT {NODE_COLUMNS} FROM {t.record} r WHERE {condition} ORDER BY r.seq FOR UPDATE",
        kind=StatementKind.QUERY,
        binds=binds,
    )


def lock_dependants(t: Tables, seqs: Iterable[int]) -> Statement:
    """Lock the records that depend on the given ones directly, and read them."""
    condition, binds = listed("l.target_seq", "seq", seqs)
    return Statement(
        name="link.lock_dependants",
        text=f"SELECT {NODE_COLUMNS} FROM {t.record} r WHERE r.seq IN ("
        f"SELECT l.source_seq FROM {t.link} l WHERE l.relation_type = 'depends_on' "
        f"AND {condition}) ORDER BY r.seq FOR UPDATE",
        kind=StatementKind.QUERY,
        binds=binds,
    )


def dependency_edges(t: Tables, seqs: Iterable[int]) -> Statement:
    """Read the dependencies that end at records: source, target."""
    condition, binds = listed("l.target_seq", "seq", seqs)
    return Statement(
        name="link.dependency_edges",
        text=f"SELECT l.source_seq, l.target_seq FROM {t.link} l "
        f"WHERE l.relation_type = 'depends_on' AND {condition}",
        kind=StatementKind.QUERY,
        binds=binds,
    )


def dependencies(t: Tables, seqs: Iterable[int]) -> Statement:
    """Read what records depend on directly: the record, then the node it depends on."""
    condition, binds = listed("l.source_seq", "seq", seqs)
    return Statement(
        name="link.dependencies",
        text=f"SELECT l.source_seq, {NODE_COLUMNS} FROM {t.link} l "
        f"JOIN {t.record} r ON r.seq = l.target_seq "
        f"WHERE l.relation_type = 'depends_on' AND {condition}",
        kind=StatementKind.QUERY,
        binds=binds,
    )


def heads(t: Tables, seqs: Iterable[int]) -> Statement:
    """Read the latest lifecycle link that ends at each record: target, type, id of the source."""
    condition, binds = listed("l.target_seq", "seq", seqs)
    return Statement(
        name="link.heads",
        text=f"SELECT l.target_seq, l.relation_type, s.id FROM {t.link} l "
        f"JOIN {t.record} s ON s.seq = l.source_seq "
        f"WHERE {condition} AND l.relation_type IN {LIFECYCLE_SQL} "
        f"AND NOT EXISTS (SELECT 1 FROM {t.link} o WHERE o.target_seq = l.target_seq "
        f"AND o.relation_type IN {LIFECYCLE_SQL} AND o.seq > l.seq)",
        kind=StatementKind.QUERY,
        binds=binds,
    )


def heads_of(seqs: Iterable[int], rows: Rows) -> dict[int, tuple[str, str] | None]:
    """Return the answer of `heads` for every record asked for, in that order."""
    found = {row[0]: (row[1], row[2]) for row in rows}
    return {seq: found.get(seq) for seq in seqs}


def settle_records(t: Tables, nodes: Iterable[Node], now: datetime) -> Statement:
    """Write the status of records, and why."""
    return Statement(
        name="record.settle",
        text=f"UPDATE {t.record} SET status = :status, invalidation_reason = :reason, "
        f"updated_at = :now, invalidated_at = CASE WHEN :status = 'invalid' "
        f"THEN COALESCE(invalidated_at, :now) END, revision = revision + 1 WHERE seq = :seq",
        kind=StatementKind.MANY,
        rows=tuple(
            {
                "status": node.status,
                "reason": node.invalidation_reason,
                "now": now,
                "seq": node.seq,
            }
            for node in nodes
        ),
        types={"status": BindType.STRING, "reason": BindType.CLOB, "now": BindType.TIMESTAMP},
    )


def review_records(t: Tables, marks: Mapping[int, str | None]) -> Statement:
    """Write marks for review, by the seq of the record."""
    return Statement(
        name="record.review",
        text=f"UPDATE {t.record} SET review_reason = :reason WHERE seq = :seq",
        kind=StatementKind.MANY,
        rows=tuple({"reason": mark, "seq": seq} for seq, mark in marks.items()),
        types={"reason": BindType.CLOB},
    )


async def load_dependants(
    transaction: Transaction, t: Tables, graph: LinkGraph, seqs: Iterable[int]
) -> None:
    """Lock and load all that depends on some records, which are locked already."""
    known = dict.fromkeys(seqs)
    while known:
        trip = Trip()
        nodes = trip.add(*in_parts(partial(lock_dependants, t), known))
        edges = trip.add(*in_parts(partial(dependency_edges, t), known))
        await trip.run(transaction)
        for row in nodes:
            graph.add(Node(*row))
        for source, target in edges:
            graph.add_dependency(source, target)
        new = [row[0] for row in nodes if row[0] not in known]
        if not new:
            return
        known.update(dict.fromkeys(new))


async def load_dependencies(transaction: Transaction, t: Tables, graph: LinkGraph) -> None:
    """Load what the marked records of a graph depend on, directly or through others.

    Nothing of it is locked: whoever lets one of these die needs the lock on the marked record,
    which is held, before the mark can be written.
    """
    waiting = [node.seq for node in graph.nodes.values() if node.is_marked]
    seen = set(waiting)
    while waiting:
        trip = Trip()
        rows = trip.add(*in_parts(partial(dependencies, t), waiting))
        await trip.run(transaction)
        waiting = []
        for source, *node in rows:
            graph.add(Node(*node))
            graph.add_dependency(source, node[0])
            if node[0] not in seen:
                seen.add(node[0])
                waiting.append(node[0])


def changes(t: Tables, graph: LinkGraph, now: datetime) -> list[Statement]:
    """Return the statements that write back what has changed in a graph."""
    statements = []
    settled = graph.settled()
    if settled:
        statements.append(settle_records(t, settled, now))
        statements += in_parts(partial(copy_columns, t), [node.seq for node in settled])
    reviewed = graph.reviewed()
    if reviewed:
        marks = {node.seq: node.review_reason for node in reviewed}
        statements.append(review_records(t, marks))
    return statements
