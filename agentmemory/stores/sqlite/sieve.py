"""Filters applied to what the arms of a search rank; may import rows and where.

The arms rank first and ask here, from the best down, what the filters of the queries let
through. Mostly that is what was ranked best, so little more is read than what is handed back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from agentmemory.records import ScopedRecord
from agentmemory.stores.sqlite.rows import dump_json, record_from_row, record_select
from agentmemory.stores.sqlite.schema import Tables
from agentmemory.stores.sqlite.where import Where

if TYPE_CHECKING:
    import apsw


_LEAST_STEP: Final = 16
"""How many records are read at least when the first did not suffice; each time twice as many."""


class Sieve:
    """The filters of several queries over one snapshot; reads no record twice.

    Args:
        connection: A connection in a read transaction.
        t: The store's tables.
        wheres: The filter of each query.
    """

    def __init__(self, connection: apsw.Connection, t: Tables, wheres: Sequence[Where]) -> None:
        self._connection = connection
        self._before: list[Any] = []
        self._after: list[Any] = []
        if len(wheres) == 1:
            # What a single filter refuses need not even be read.
            flags, condition, self._after = "", wheres[0].sql, wheres[0].binds
        else:
            flags, condition = "".join(f", ({where.sql})" for where in wheres), "1"
            self._before = [value for where in wheres for value in where.binds]
        self._sql = (
            f"SELECT {record_select(t)}{flags} "
            # CROSS JOIN keeps the planner from walking the whole scope instead of the list.
            f"FROM json_each(?) j CROSS JOIN {t.record} r ON r.seq = j.value WHERE {condition}"
        )
        self._flags = len(wheres) if flags else 0
        self._asked: set[int] = set()
        self._rows: dict[int, tuple[Any, ...]] = {}

    def passing(self, ranked: Sequence[int], wanted: Mapping[int, int]) -> dict[int, list[int]]:
        """Return for some of the queries the best records that their filters let through.

        Args:
            ranked: Records by seq, best first, none of them twice.
            wanted: How many are needed at most, by the query's place.
        """
        found: dict[int, list[int]] = {place: [] for place in wanted}
        start, end = 0, sum(wanted.values())
        more = max(_LEAST_STEP, end // 4)
        while start < len(ranked) and any(len(found[place]) < wanted[place] for place in wanted):
            step = ranked[start:end]
            self._read([seq for seq in step if seq not in self._asked])
            for place, hits in found.items():
                hits.extend(self._let_through(step, place))
            start, end, more = end, end + more, 2 * more
        return {place: hits[: wanted[place]] for place, hits in found.items()}

    def records(self, seqs: Sequence[int]) -> dict[int, ScopedRecord]:
        """Hand out records that a filter let through, by seq; each once."""
        rows, flags = self._rows, self._flags
        if not flags:
            return {seq: record_from_row(rows.pop(seq)) for seq in seqs}
        return {seq: record_from_row(rows.pop(seq)[:-flags]) for seq in seqs}

    def _let_through(self, seqs: Sequence[int], place: int) -> list[int]:
        rows = self._rows
        if not self._flags:
            return [seq for seq in seqs if seq in rows]
        flag = place - self._flags
        return [seq for seq in seqs if seq in rows and rows[seq][flag]]

    def _read(self, seqs: Sequence[int]) -> None:
        if not seqs:
            return
        self._asked.update(seqs)
        rows = self._connection.execute(self._sql, (*self._before, dump_json(seqs), *self._after))
        self._rows.update({row[0]: row for row in rows})
