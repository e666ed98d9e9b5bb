"""How operations went, on a SQLite store: the memory and what it does to others, all or nothing.

Runs inside a write transaction. May import layers, layering and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from agentmemory.errors import NotFoundError
from agentmemory.layering import OutcomeWrite, OutcomeWritten
from agentmemory.records import ScopedRecord
from agentmemory.requests import RecordFilter
from agentmemory.stores.absence import missing
from agentmemory.stores.sqlite.indexing import Row
from agentmemory.stores.sqlite.layers import adjust_confidence, count_hits
from agentmemory.stores.sqlite.query import fetch_all
from agentmemory.stores.sqlite.where import record_where
from agentmemory.stores.sqlite.writes import insert_records

if TYPE_CHECKING:
    import apsw

    from agentmemory.stores.sqlite.schema import Tables


def write_outcome(
    connection: apsw.Connection,
    t: Tables,
    outcome: OutcomeWrite,
    *,
    rows: Sequence[Sequence[Row]],
    now: datetime,
) -> OutcomeWritten:
    """Store the memory of an outcome or count a hit, and adjust what the operation rested on.

    `rows` are the index rows of the memory, as `draft_rows` made them.
    """
    adjusted: tuple[ScopedRecord, ...] = ()
    if outcome.used is not None and outcome.delta:
        adjusted = adjust_confidence(connection, t, outcome.used, outcome.delta, now)
    elif outcome.used is not None:
        _check_there(connection, t, outcome.used)
    if count_hits(connection, t, outcome.known, now):
        return OutcomeWritten(is_new=False, adjusted=adjusted)
    insert_records(
        connection,
        t,
        (outcome.record,),
        rows=rows,
        vectors=outcome.vectors,
        tail=None,
        jobs=outcome.jobs,
        links=outcome.links,
        link_filter=outcome.link_filter,
        now=now,
    )
    return OutcomeWritten(is_new=True, adjusted=adjusted)


def _check_there(connection: apsw.Connection, t: Tables, wanted: RecordFilter) -> None:
    where = record_where(wanted)
    rows = fetch_all(connection, f"SELECT r.id FROM {t.record} r WHERE {where.sql}", where.binds)
    there = {row[0] for row in rows}
    for record_id in wanted.ids or ():
        if record_id not in there:
            raise NotFoundError(missing(replace(wanted, ids=(record_id,))))
