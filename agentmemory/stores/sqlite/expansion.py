"""Graph expansion on a SQLite store: what is linked to the direct results of a search.

The trees of all roots grow together, one statement per hop. A statement yields the links that
leave the records reached last in the order in which ties are broken, and is left as soon as no
tree has a place free: a last hop that has thousands of links for a few places looks at the records
behind a fraction of them. May import requests, query, rows and where.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import orjson

from agentmemory.records import MEMORY_TYPES, RecordRelation, ScopedRecord
from agentmemory.requests import Expansion, LinkedNode
from agentmemory.stores.sqlite.query import fetch_all
from agentmemory.stores.sqlite.rows import (
    dump_json,
    from_micros,
    record_from_row,
    record_select,
    to_micros,
)
from agentmemory.stores.sqlite.where import record_where

if TYPE_CHECKING:
    import apsw

    from agentmemory.stores.sqlite.schema import Tables

_LAST_MOMENT: Final = 2**63 - 1


class _Root(NamedTuple):
    """What a link says of an end that is no linked record."""

    id: str
    record_type: str


@dataclass(slots=True)
class _Tree:
    """What one root reaches: records by seq, and the steps to them, nearest first."""

    reached: set[int]
    frontier: list[int]
    steps: list[tuple[int, int, int]] = field(default_factory=list)
    """The record a step leaves, the one it leads to, the link."""


def expand(
    connection: apsw.Connection, t: Tables, query: Expansion
) -> dict[str, tuple[LinkedNode, ...]]:
    """Return what each root reaches: a shortest-path tree, nearest first.

    Ties between paths of one length go to the older link, then to the smaller link id.
    """
    roots = fetch_all(
        connection,
        f"SELECT id, seq, record_type FROM {t.record} WHERE id IN (SELECT value FROM json_each(?))",
        (dump_json(query.roots),),
    )
    trees = {name: _Tree(reached={seq}, frontier=[seq]) for name, seq, _ in roots}
    sql, binds = _hop(t, query)
    for _ in range(query.hops):
        growing = [
            tree for tree in trees.values() if tree.frontier and len(tree.steps) < query.limit
        ]
        if not growing:
            break
        _grow(connection, growing, query.limit, sql, binds)
    steps = [step for tree in trees.values() for step in tree.steps]
    records = _records(connection, t, {there for _, there, _ in steps})
    ends: dict[int, _Root | ScopedRecord] = {seq: _Root(name, kind) for name, seq, kind in roots}
    ends.update(records)
    relations = _relations(connection, t, {link for _, _, link in steps}, ends)
    return {
        root: tuple(
            LinkedNode(parent_id=ends[here].id, relation=relations[link], record=records[there])
            for here, there, link in tree.steps
        )
        for root, tree in trees.items()
    }


def _hop(t: Tables, query: Expansion) -> tuple[str, tuple[Any, ...]]:
    """Return the statement of a hop and the values of all parameters but the first.

    The first lists the records that the hop leaves.
    """
    where = record_where(replace(query.filter, ids=None, exclude_ids=(), include_invalid=True), "o")
    types = [name for name in query.filter.record_types or MEMORY_TYPES if name in MEMORY_TYPES]
    where.add("o.record_type IN (SELECT value FROM json_each(?))", dump_json(types))
    known_at = to_micros(query.filter.known_at)
    # The limit, which is none, keeps SQLite from joining before it sorts: links are sorted by
    # themselves, and the record behind one is looked at only when the link's turn comes.
    sql = (
        f"WITH hop AS ("
        f"SELECT l.source_seq AS here, l.target_seq AS there, l.seq, l.created_at, l.id "
        f"FROM json_each(?1) j CROSS JOIN {t.link} l ON l.source_seq = j.value "
        f"WHERE l.created_at <= ?2 UNION ALL "
        f"SELECT l.target_seq, l.source_seq, l.seq, l.created_at, l.id "
        f"FROM json_each(?1) j CROSS JOIN {t.link} l ON l.target_seq = j.value "
        f"WHERE l.created_at <= ?2 ORDER BY 4, 5 LIMIT -1) "
        f"SELECT h.here, h.there, h.seq FROM hop h "
        f"CROSS JOIN {t.record} o ON o.seq = h.there WHERE {where.sql}"
    )
    return sql, (_LAST_MOMENT if known_at is None else known_at, *where.binds)


def _grow(
    connection: apsw.Connection,
    growing: Sequence[_Tree],
    limit: int,
    sql: str,
    binds: Sequence[Any],
) -> None:
    """Let trees grow by one hop."""
    leaving: dict[int, list[_Tree]] = defaultdict(list)
    for tree in growing:
        for seq in tree.frontier:
            leaving[seq].append(tree)
        tree.frontier = []
    free = len(growing)
    rows = connection.execute(sql, (dump_json(sorted(leaving)), *binds))
    for here, there, link in rows:
        for tree in leaving[here]:
            if there in tree.reached or len(tree.steps) == limit:
                continue
            tree.reached.add(there)
            tree.frontier.append(there)
            tree.steps.append((here, there, link))
            free -= len(tree.steps) == limit
        if not free:
            break
    rows.close()


def _records(
    connection: apsw.Connection, t: Tables, seqs: Collection[int]
) -> dict[int, ScopedRecord]:
    """Return records by seq; each is read once, however many trees it hangs in."""
    rows = connection.execute(
        f"SELECT {record_select(t)} FROM json_each(?) j CROSS JOIN {t.record} r ON r.seq = j.value",
        (dump_json(sorted(seqs)),),
    )
    return {record.seq: record for record in map(record_from_row, rows)}


def _relations(
    connection: apsw.Connection,
    t: Tables,
    seqs: Collection[int],
    ends: Mapping[int, _Root | ScopedRecord],
) -> dict[int, RecordRelation]:
    """Return links by seq; both ends of each are known already."""
    rows = connection.execute(
        f"SELECT l.seq, l.id, l.source_seq, l.target_seq, l.relation_type, "
        f"l.opposite_relation_type, l.timestamp, l.metadata, l.created_at "
        f"FROM json_each(?) j CROSS JOIN {t.link} l ON l.seq = j.value",
        (dump_json(sorted(seqs)),),
    )
    return {row[0]: _relation(row, ends) for row in rows}


class _Draft(RecordRelation):
    """A link that is being filled in, past the slow initialiser of a frozen dataclass; see rows."""

    __slots__ = ()
    __setattr__ = object.__setattr__
    __delattr__ = object.__delattr__


def _relation(row: Sequence[Any], ends: Mapping[int, _Root | ScopedRecord]) -> RecordRelation:
    draft: Any = object.__new__(_Draft)
    (
        _,
        draft.id,
        source,
        target,
        draft.relation_type,
        draft.opposite_relation_type,
        timestamp,
        metadata,
        created_at,
    ) = row
    end = ends[source]
    draft.source_record_id = end.id
    draft.source_record_type = end.record_type
    end = ends[target]
    draft.target_record_id = end.id
    draft.target_record_type = end.record_type
    draft.timestamp = from_micros(timestamp)
    draft.metadata = {} if metadata == "{}" else orjson.loads(metadata)
    draft.created_at = from_micros(created_at)
    draft.__class__ = RecordRelation
    return cast("RecordRelation", draft)
