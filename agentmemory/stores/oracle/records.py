"""Statements that read whole records, and records from their rows; pure.

May import rows, where, schema, statement, trips and requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from agentmemory.records import ScopedRecord
from agentmemory.requests import RecordFilter
from agentmemory.stores.oracle.rows import (
    LIFECYCLE_SQL,
    record_from_row,
    record_from_short_row,
    record_select,
    short_select,
)
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.statement import Statement, StatementKind
from agentmemory.stores.oracle.trips import Rows, Trip
from agentmemory.stores.oracle.where import Where, add_list, batches, record_where

PLAN_NOTES: Final[Mapping[str, str]] = {
    "records.long": "primary key of record, one probe for each record with a long text",
}
"""The index each statement is meant to use, and why, for 1 million chunks and 10,000 users."""


def select_records(
    t: Tables,
    name: str,
    picked: str,
    binds: Mapping[str, Any],
    *,
    extra: Sequence[str] = (),
    order: str = "r.seq",
    short: bool = False,
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
        short: For `RecordRows`, rather than for `record_from_row`.
    """
    select = short_select if short else record_select
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
        f"SELECT {', '.join((select(t, replaced_by='b.id'), *extra))} "
        f"FROM picked p JOIN {t.record} r ON r.seq = p.seq "
        f"LEFT JOIN best b ON b.root = r.seq AND b.place = 1 ORDER BY {order}"
    )
    return Statement(name=name, text=text, kind=StatementKind.QUERY, binds=binds)


class RecordRows:
    """Records on their way: those with a long text or long JSON need a second trip.

    Args:
        t: The tables.
        rows: Where the rows of a short statement of `select_records` arrive.
        extra: How many further expressions the statement has.
    """

    def __init__(self, t: Tables, rows: Rows, *, extra: int = 0) -> None:
        self._t = t
        self._rows = rows
        self._end = -extra or None
        self._short: dict[int, ScopedRecord | None] = {}
        self._long: Rows = []

    def ask_long(self, trip: Trip) -> None:
        """Let the trip after theirs fetch the records that did not come whole."""
        self._short = {row[0]: record_from_short_row(row[: self._end]) for row in self._rows}
        seqs = [seq for seq, record in self._short.items() if record is None]
        self._long = trip.add(
            *(records_at(self._t, "records.long", part) for part in batches(seqs))
        )

    def records(self) -> list[ScopedRecord]:
        """Return the records in the order of the rows, but for those that are gone meanwhile."""
        long = {record.seq: record for record in map(record_from_row, self._long)}
        found = (record or long.get(seq) for seq, record in self._short.items())
        return [record for record in found if record is not None]


def records_at(t: Tables, name: str, seqs: Sequence[int], *, short: bool = False) -> Statement:
    """Return the statement that reads records by seq, in the order of writing.

    Plan: the primary key of the record table, once for each listed seq.

    Args:
        t: The tables.
        name: The statement's name.
        seqs: At least one.
        short: As of `select_records`.
    """
    where = Where()
    add_list(where, "r.seq", "seq", seqs)
    return select_records(
        t, name, f"SELECT r.seq FROM {t.record} r WHERE {where.sql}", where.binds, short=short
    )


def records_where(
    t: Tables, name: str, record_filter: RecordFilter, *, short: bool = False
) -> Statement:
    """Return the statement that reads every record a filter lets through, in order of writing.

    Plan: with ids, the unique key on `id`; otherwise the index of the narrowest dimension of the
    scope, `record_thread` or `record_owner`.
    """
    where = record_where(record_filter)
    return select_records(
        t, name, f"SELECT r.seq FROM {t.record} r WHERE {where.sql}", where.binds, short=short
    )
