"""How operations went, on an Oracle store: the memory and what it does to others, all or nothing.

May import layers, writing and what lies below.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from agentmemory.errors import NotFoundError
from agentmemory.layering import OutcomeWrite, OutcomeWritten
from agentmemory.requests import RecordFilter
from agentmemory.stores.absence import missing
from agentmemory.stores.layer_scores import RESTORED_FROM
from agentmemory.stores.oracle.layers import adjust, adjustable, count_hits, restore
from agentmemory.stores.oracle.links import insert_link
from agentmemory.stores.oracle.records import records_at
from agentmemory.stores.oracle.rows import record_from_row
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.statement import Statement, Transaction
from agentmemory.stores.oracle.trips import Rows, Trip
from agentmemory.stores.oracle.writes import NewRecords, read_written
from agentmemory.stores.oracle.writing import OracleUnits, drafted


class OracleOutcomes(OracleUnits):
    """The part of an Oracle store that remembers how operations went."""

    async def write_outcome(self, outcome: OutcomeWrite, *, now: datetime) -> OutcomeWritten:
        """Remember how an operation went and adjust what it rested on, in one transaction."""
        drafts = await drafted((outcome.record,))
        last: list[OutcomeWritten] = []

        async def work(transaction: Transaction) -> OutcomeWritten:
            trip = Trip()
            claim = self._claim(outcome.vectors)
            tied = claim.ask(trip)
            used = [] if outcome.used is None else trip.add(adjustable(self._t, outcome.used))
            hit, count = count_hits(self._t, outcome.known, now)
            trip.add(hit)
            counted = trip.add(count)
            await trip.run(transaction)
            if outcome.used is not None:
                _check_there(used, outcome.used)
            for statement in _adjusting(self._t, used, outcome.delta, now):
                trip.add(statement)
            is_new = not counted[0][0]
            if is_new:
                new = NewRecords(
                    self._t,
                    (outcome.record,),
                    vectors=outcome.vectors,
                    jobs=outcome.jobs,
                    drafts=drafts,
                )
                new.ask(trip)
                await trip.run(transaction)
                await claim.check(transaction, tied)
                new.check()
                new.write(trip, now)
                await trip.run(transaction)
                for link in outcome.links:
                    _, pending = await insert_link(
                        transaction, self._t, link, outcome.link_filter, now
                    )
                    await pending.run(transaction)
            seqs = [row[1] for row in used] if outcome.delta else []
            stored = trip.add(records_at(self._t, "layers.adjusted", seqs)) if seqs else []
            last[:] = [OutcomeWritten(is_new=is_new)]
            await trip.finish(transaction)
            adjusted = {record.id: record for record in map(record_from_row, stored)}
            wanted = () if outcome.used is None else outcome.used.ids or ()
            last[:] = [
                OutcomeWritten(
                    is_new=is_new,
                    adjusted=tuple(adjusted[name] for name in wanted if name in adjusted),
                )
            ]
            return last[0]

        async def settled(transaction: Transaction) -> OutcomeWritten | None:
            (rows,) = await transaction.run(read_written(self._t, [outcome.record.id]))
            if not rows or not last:
                return None
            record = record_from_row(rows[0])
            if (record.created_at if last[0].is_new else record.last_hit_at) != now:
                return None
            used = () if outcome.used is None or not outcome.delta else outcome.used.ids or ()
            (found,) = await transaction.run(read_written(self._t, list(used))) if used else ([],)
            adjusted = {record.id: record for record in map(record_from_row, found)}
            return replace(
                last[0], adjusted=tuple(adjusted[name] for name in used if name in adjusted)
            )

        return await self._write(work, settled)


def _check_there(rows: Rows, wanted: RecordFilter) -> None:
    there = {row[0] for row in rows}
    for record_id in wanted.ids or ():
        if record_id not in there:
            raise NotFoundError(missing(replace(wanted, ids=(record_id,))))


def _adjusting(t: Tables, rows: Rows, delta: float, now: datetime) -> Iterator[Statement]:
    """Yield what adds to the confidence of records that `adjustable` has read."""
    if not rows or not delta:
        return
    # Rounded, so that five times 0.2 from 1.0 is exactly nothing.
    confidences = {
        seq: round(min(1.0, max(0.0, confidence + delta)), 6) for _, seq, confidence in rows
    }
    yield adjust(t, confidences, now)
    raised = [seq for seq, value in confidences.items() if value >= RESTORED_FROM]
    if delta > 0 and raised:
        yield from restore(t, raised, now)
