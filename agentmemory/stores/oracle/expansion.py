"""Graph expansion on an Oracle store: what is linked to the direct results of a search.

The trees of all roots grow together, one statement per hop. A statement yields the links that
leave the records reached last in the order in which ties are broken, as many as the trees have
places free for with some to spare; only a hop that spent them on records reached before, and may
have more, is asked again for those that follow. May import requests, links, records and below.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, NamedTuple

from agentmemory.records import MEMORY_TYPES, RecordRelation
from agentmemory.requests import Expansion, LinkedNode
from agentmemory.stores.oracle.links import link_from_row
from agentmemory.stores.oracle.lists import listed
from agentmemory.stores.oracle.records import records_at
from agentmemory.stores.oracle.rows import record_from_row
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.statement import Statement, StatementKind, Transaction
from agentmemory.stores.oracle.trips import Rows, Trip
from agentmemory.stores.oracle.where import add_list, record_where

PLAN_NOTES: Final[Mapping[str, str]] = {
    "expand.roots": "unique key of record (id), once for each root",
    "expand.hop": "unique key of link (source_seq, …) and link_target (target_seq, …) for each "
    "record left, at most some thousand of them; then the primary key of record for each link, "
    "whatever the size of the store",
    "expand.links": "primary key of link, once for each step",
    "expand.records": "primary key of record, once for each record reached",
}
"""The index each statement is meant to use, and why, for 1 million chunks and 10,000 users."""

_SPARE: Final = 2
"""How many links a hop asks for, times the places that are free."""

_FEWEST: Final = 256


class _Place(NamedTuple):
    """Where a hop goes on: the age and id of a link, and the record it is left from."""

    created_at: datetime
    link_id: str
    here: int


@dataclass(slots=True)
class _Tree:
    """What one root reaches: records by seq, and the steps to them, nearest first."""

    reached: set[int]
    frontier: list[int]
    steps: list[tuple[int, int, int]] = field(default_factory=list)
    """The record a step leaves, the one it leads to, the link."""


def read_roots(t: Tables, ids: Iterable[str]) -> Statement:
    """Read id, seq and type of the roots."""
    condition, binds = listed("r.id", "id", ids)
    return Statement(
        name="expand.roots",
        text=f"SELECT r.id, r.seq, r.record_type FROM {t.record} r WHERE {condition}",
        kind=StatementKind.QUERY,
        binds=binds,
    )


def read_hop(
    t: Tables, query: Expansion, leaving: Iterable[int], limit: int, after: _Place | None = None
) -> Statement:
    """Read the links that leave some records and lead to one the filter lets through.

    Each row: the record left, the one reached, the link; its age and its id, the order of rows.
    """
    where = record_where(replace(query.filter, ids=None, exclude_ids=(), include_invalid=True), "o")
    types = [name for name in query.filter.record_types or MEMORY_TYPES if name in MEMORY_TYPES]
    add_list(where, "o.record_type", "kind", types)
    known = ""
    if query.filter.known_at is not None:
        known = f" AND l.created_at <= {where.bind('link_known_at', query.filter.known_at)}"
    seqs = sorted(set(leaving))
    outward, binds = listed("l.source_seq", "here", seqs)
    inward, _ = listed("l.target_seq", "here", seqs)
    where.binds.update(binds)
    if after is not None:
        time, link_id, here = (
            where.bind(f"after_{name}", value) for name, value in after._asdict().items()
        )
        where.add(
            f"(h.created_at > {time} OR (h.created_at = {time} AND (h.id > {link_id} "
            f"OR (h.id = {link_id} AND h.here > {here}))))"
        )
    columns = "l.seq AS link_seq, l.created_at, l.id"
    return Statement(
        name="expand.hop",
        text=f"SELECT h.here, h.there, h.link_seq, h.created_at, h.id FROM ("
        f"SELECT l.source_seq AS here, l.target_seq AS there, {columns} FROM {t.link} l "
        f"WHERE {outward}{known} UNION ALL "
        f"SELECT l.target_seq AS here, l.source_seq AS there, {columns} FROM {t.link} l "
        f"WHERE {inward}{known}) h JOIN {t.record} o ON o.seq = h.there WHERE {where.sql} "
        f"ORDER BY h.created_at, h.id, h.here "
        f"FETCH FIRST {where.bind('rows', limit)} ROWS ONLY",
        kind=StatementKind.QUERY,
        binds=where.binds,
    )


def read_links(t: Tables, seqs: Iterable[int]) -> Statement:
    """Read links by seq, with the seqs of their ends."""
    condition, binds = listed("l.seq", "seq", seqs)
    return Statement(
        name="expand.links",
        text=f"SELECT l.seq, l.source_seq, l.target_seq, l.id, l.relation_type, "
        f"l.opposite_relation_type, l.link_time, l.metadata, l.created_at "
        f"FROM {t.link} l WHERE {condition}",
        kind=StatementKind.QUERY,
        binds=binds,
    )


async def expand(
    transaction: Transaction, t: Tables, query: Expansion
) -> dict[str, tuple[LinkedNode, ...]]:
    """Return what each root reaches: a shortest-path tree, nearest first.

    Ties between paths of one length go to the older link, then to the smaller link id. What goes
    while the trees grow is left out, with what was reached through it.
    """
    if not query.roots:
        return {}
    (roots,) = await transaction.run(read_roots(t, query.roots))
    trees = {name: _Tree(reached={seq}, frontier=[seq]) for name, seq, _ in roots}
    for _ in range(query.hops):
        growing = [
            tree for tree in trees.values() if tree.frontier and len(tree.steps) < query.limit
        ]
        if not growing:
            break
        await _grow(transaction, t, query, growing)
    return await _described(transaction, t, trees, roots)


async def _grow(
    transaction: Transaction, t: Tables, query: Expansion, growing: Sequence[_Tree]
) -> None:
    """Let trees grow by one hop."""
    leaving: dict[int, list[_Tree]] = defaultdict(list)
    for tree in growing:
        for seq in tree.frontier:
            leaving[seq].append(tree)
        tree.frontier = []
    after: _Place | None = None
    while True:
        free = sum(query.limit - len(tree.steps) for tree in growing)
        limit = max(_FEWEST, _SPARE * free)
        (rows,) = await transaction.run(read_hop(t, query, leaving, limit, after))
        for here, there, link, *_ in rows:
            for tree in leaving[here]:
                if there in tree.reached or len(tree.steps) == query.limit:
                    continue
                tree.reached.add(there)
                tree.frontier.append(there)
                tree.steps.append((here, there, link))
        if len(rows) < limit or all(len(tree.steps) == query.limit for tree in growing):
            return
        after = _Place(rows[-1][3], rows[-1][4], rows[-1][0])


async def _described(
    transaction: Transaction, t: Tables, trees: Mapping[str, _Tree], roots: Rows
) -> dict[str, tuple[LinkedNode, ...]]:
    """Read the records and links of all steps."""
    steps = [step for tree in trees.values() for step in tree.steps]
    if not steps:
        return dict.fromkeys(trees, ())
    trip = Trip()
    record_rows = trip.add(
        records_at(t, "expand.records", sorted({there for _, there, _ in steps}))
    )
    link_rows = trip.add(read_links(t, sorted({link for _, _, link in steps})))
    await trip.run(transaction)
    records = {record.seq: record for record in map(record_from_row, record_rows)}
    ends: dict[int, tuple[str, str]] = {seq: (name, kind) for name, seq, kind in roots}
    ends.update((seq, (record.id, record.record_type)) for seq, record in records.items())
    relations: dict[int, RecordRelation] = {
        seq: link_from_row((link_id, *ends[source], *ends[target], *values))
        for seq, source, target, link_id, *values in link_rows
        if source in ends and target in ends
    }
    described: dict[str, tuple[LinkedNode, ...]] = {}
    for root, tree in trees.items():
        nodes = []
        alive = {seq for name, seq, _ in roots if name == root}
        for here, there, link in tree.steps:
            if here in alive and there in records and link in relations:
                alive.add(there)
                nodes.append(
                    LinkedNode(
                        parent_id=ends[here][0], relation=relations[link], record=records[there]
                    )
                )
        described[root] = tuple(nodes)
    return described
