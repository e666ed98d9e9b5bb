"""Statements that read whole records; pure.

May import rows, where, schema, statement and requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentmemory.requests import RecordFilter
from agentmemory.stores.oracle.rows import LIFECYCLE_SQL, record_select
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.statement import Statement, StatementKind
from agentmemory.stores.oracle.where import Where, add_list, record_where


def select_records(
    t: Tables,
    name: str,
    picked: str,
    binds: Mapping[str, Any],
    *,
    extra: Sequence[str] = (),
    order: str = "r.seq",
) -> Statement:
    """Return the statement that reads records, each with what replaced it if it is invalid.

    What replaced a record is looked for along the chain of replacements to a valid one; without
    one, it is the latest step of it. All chains are walked by one recursion that starts at the
    picked records, for a recursion inside a subquery may not refer to the row outside.

    Plan: `picked` decides. Its seqs lead into the primary key of the record table, sources into
    theirs, and the chains of the few invalid ones into `link_target`.

    Args:
        t: The tables.
        name: The statement's name.
        picked: A query of one column `seq`, without an order that matters.
        binds: Its binds.
        extra: Further expressions on `r`, after the columns that `record_from_row` reads.
        order: How the rows are ordered.
    """
    text = (
        f"WITH picked (seq) AS ({picked}), "
        f"up (root, seq, step, link_seq) AS ("
        f"SELECT l.target_seq, l.source_seq, 1, l.seq FROM picked p "
        f"JOIN {t.record} r ON r.seq = p.seq JOIN {t.link} l ON l.target_seq = r.seq "
        f"WHERE r.status = 'invalid' AND l.relation_type IN {LIFECYCLE_SQL} "
        f"UNION ALL "
        f"SELECT u.root, l.source_seq, 2, l.seq FROM up u JOIN {t.link} l "
        f"ON l.target_seq = u.seq WHERE l.relation_type IN {LIFECYCLE_SQL}) "
        f"CYCLE seq SET is_cycle TO 'Y' DEFAULT 'N', "
        f"best (root, id, place) AS ("
        f"SELECT u.root, w.id, ROW_NUMBER() OVER (PARTITION BY u.root "
        f"ORDER BY w.status DESC, u.step, u.link_seq DESC) "
        f"FROM up u JOIN {t.record} w ON w.seq = u.seq "
        f"WHERE u.is_cycle = 'N' AND w.seq <> u.root) "
        f"SELECT {', '.join((record_select(t, replaced_by='b.id'), *extra))} "
        f"FROM picked p JOIN {t.record} r ON r.seq = p.seq "
        f"LEFT JOIN best b ON b.root = r.seq AND b.place = 1 ORDER BY {order}"
    )
    return Statement(name=name, text=text, kind=StatementKind.QUERY, binds=binds)


def records_at(t: Tables, name: str, seqs: Sequence[int]) -> Statement:
    """Return the statement that reads records by seq, in the order of writing.

    Plan: the primary key of the record table, once for each listed seq.

    Args:
        t: The tables.
        name: The statement's name.
        seqs: At least one.
    """
    where = Where()
    add_list(where, "r.seq", "seq", seqs)
    return select_records(t, name, f"SELECT r.seq FROM {t.record} r WHERE {where.sql}", where.binds)


def records_where(t: Tables, name: str, record_filter: RecordFilter) -> Statement:
    """Return the statement that reads every record a filter lets through, in order of writing.

    Plan: with ids, the unique key on `id`; otherwise the index of the narrowest dimension of the
    scope, `record_thread` or `record_owner`.
    """
    where = record_where(record_filter)
    return select_records(t, name, f"SELECT r.seq FROM {t.record} r WHERE {where.sql}", where.binds)
