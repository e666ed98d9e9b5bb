"""Methods of the Oracle store that read: lists, records by id, the turns around one, searches.

May import absence, hybrid_index, listing, records, search, vectors, the engine and below.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from agentmemory.errors import AgentMemoryError, NotFoundError
from agentmemory.records import ScopedRecord, ThreadRecord
from agentmemory.requests import (
    Candidate,
    CandidateQuery,
    ListQuery,
    Neighbourhood,
    Page,
    RecordFilter,
    ThreadQuery,
)
from agentmemory.scope import DimensionMatch
from agentmemory.stores.absence import missing
from agentmemory.stores.oracle.embedder import OracleEmbedderClaim
from agentmemory.stores.oracle.hybrid_index import HybridSearch, fits
from agentmemory.stores.oracle.lexical import TermCounts
from agentmemory.stores.oracle.listing import (
    check_limit,
    cursor_of_records,
    page_of_threads,
    records_page,
    threads_page,
)
from agentmemory.stores.oracle.records import RecordRows, records_where, select_records
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.search import SearchTools, find_candidates
from agentmemory.stores.oracle.search_indexes import SearchIndexes
from agentmemory.stores.oracle.statement import Statement, StatementKind, Transaction
from agentmemory.stores.oracle.trips import Rows, Trip
from agentmemory.stores.oracle.vectors import read_vectors
from agentmemory.stores.oracle.where import Where, add_dimension, record_where

if TYPE_CHECKING:
    from agentmemory.requests import FloatVector

_MOST_REMEMBERED: Final = 10_000
"""Of how many users the speakers are remembered."""

_logger = logging.getLogger("agentmemory")

PLAN_NOTES: Final[Mapping[str, str]] = {
    "reading.records": "unique key of record (id), one probe for each listed id",
    "reading.neighbours": "unique key of record (id), then record_thread (thread_id, "
    "record_type, seq) for the nearest entry on either side, found by the index alone",
    "reading.thread_tail": "record_thread (thread_id, record_type, seq), its last entry for the "
    "thread; then the primary key of record",
    "reading.actors": "record_actor (user_id, actor) alone: the entries of one user, some hundred "
    "of a million",
}
"""The index each statement is meant to use, and why, for 1 million chunks and 10,000 users."""


def neighbours(t: Tables, record_filter: RecordFilter) -> Statement:
    """Read the messages before and after the message that the filter lets through.

    Plan: the nearest entry on either side in the index on thread, type and seq.
    """
    where = record_where(record_filter)

    def nearest(picked: str, sign: str) -> str:
        return (
            f"SELECT (SELECT {picked}(o.seq) FROM {t.record} o WHERE o.thread_id = r.thread_id "
            f"AND o.record_type = 'message' AND o.seq {sign} r.seq) AS seq "
            f"FROM {t.record} r WHERE r.record_type = 'message' AND {where.sql}"
        )

    return select_records(
        t,
        "reading.neighbours",
        f"{nearest('MAX', '<')} UNION ALL {nearest('MIN', '>')}",
        where.binds,
        short=True,
    )


def thread_tail(t: Tables, thread_id: str) -> Statement:
    """Read the last message of a thread.

    Plan: the last entry of the thread in the index on thread, type and seq.
    """
    return select_records(
        t,
        "reading.thread_tail",
        f"SELECT MAX(o.seq) AS seq FROM {t.record} o WHERE o.thread_id = :thread "
        f"AND o.record_type = 'message'",
        {"thread": thread_id},
        short=True,
    )


def actors(t: Tables, user: DimensionMatch) -> Statement:
    """Read the speakers' names, unsorted: the session decides how the database sorts text.

    Plan: the index on user and actor alone.
    """
    where = Where()
    add_dimension(where, "r.user_id", "user", user)
    where.add("r.actor IS NOT NULL")
    return Statement(
        name="reading.actors",
        text=f"SELECT DISTINCT r.actor FROM {t.record} r WHERE {where.sql}",
        kind=StatementKind.QUERY,
        binds=where.binds,
    )


class OracleReading(OracleEmbedderClaim):
    """The part of an Oracle store that reads records and searches them."""

    _indexes: SearchIndexes
    _hybrid: HybridSearch | None = None
    _counts: TermCounts | None = None
    _speakers: dict[DimensionMatch, tuple[str, ...]] | None = None

    async def list_records(self, query: ListQuery) -> Page[ScopedRecord]:
        """Return one page of records."""
        limit = check_limit(query.limit)
        statement = records_page(self._t, query, limit)

        async def work(transaction: Transaction) -> Page[ScopedRecord]:
            (rows,) = await transaction.run(statement)
            cursor = cursor_of_records(rows, query, limit)
            items = await self._records(transaction, rows[:limit], extra=1)
            return Page(items=tuple(items), next_cursor=cursor)

        return await self._engine.read(work)

    async def list_threads(self, query: ThreadQuery) -> Page[ThreadRecord]:
        """Return one page of threads."""
        limit = check_limit(query.limit)
        rows = await self._read_one(threads_page(self._t, query, limit))
        return page_of_threads(rows, query, limit)

    async def get_records(self, record_filter: RecordFilter) -> tuple[ScopedRecord, ...]:
        """Return the records of `record_filter.ids` that the filter lets through."""
        if not record_filter.ids:
            return ()
        records = await self._read_records(
            records_where(self._t, "reading.records", record_filter, short=True)
        )
        found = {record.id: record for record in records}
        return tuple(found[name] for name in record_filter.ids if name in found)

    async def neighbourhood(self, record_filter: RecordFilter) -> Neighbourhood:
        """Return a message with the turns around it in its thread."""
        found = await self._read_records(
            records_where(self._t, "reading.records", record_filter, short=True),
            neighbours(self._t, record_filter),
        )
        if not found:
            raise NotFoundError(missing(record_filter))
        record, *beside = found
        return Neighbourhood(
            record=record,
            previous=next((item for item in beside if item.seq < record.seq), None),
            following=next((item for item in beside if item.seq > record.seq), None),
        )

    async def thread_tail(self, thread_id: str) -> ScopedRecord | None:
        """Return the last message of a thread, or None."""
        records = await self._read_records(thread_tail(self._t, thread_id))
        return records[0] if records else None

    async def vectors(self, record_ids: Sequence[str]) -> Mapping[str, FloatVector]:
        """Return the unit vectors of the records that have one."""
        if not record_ids:
            return {}
        return dict(await self._read_one(read_vectors(self._t, record_ids)))

    async def candidates(self, query: CandidateQuery) -> tuple[Candidate, ...]:
        """Run both arms of a search and return the union, each with the scores of both."""
        return (await self.candidates_together((query,)))[0]

    async def candidates_together(
        self, queries: Sequence[CandidateQuery]
    ) -> list[tuple[Candidate, ...]]:
        """Answer queries that share their words and vector in two round trips, as apart."""
        tools = self._search_tools()
        if not any(fits(tools.hybrid, query) for query in queries):
            return await self._candidates(queries, tools)
        try:
            return await self._candidates(queries, tools)
        except AgentMemoryError as error:
            if error.retryable:
                raise
            # Whatever else is wrong is wrong without the index too.
            found = await self._candidates(queries, replace(tools, hybrid=None))
            self._leave_hybrid_index(error)
            return found

    def _leave_hybrid_index(self, error: AgentMemoryError) -> None:
        """Have searches do without the hybrid vector index until the store is opened again."""
        if self._hybrid is None:
            return
        self._hybrid = None
        self._engine.capabilities = replace(self._engine.capabilities, hybrid_model=None)
        _logger.warning(
            "The hybrid vector index of store %s cannot be asked (%s); searches do without it "
            "until the store is opened again.",
            self._t.store_id,
            error,
        )

    async def _candidates(
        self, queries: Sequence[CandidateQuery], tools: SearchTools
    ) -> list[tuple[Candidate, ...]]:
        user = queries[0].filter.scope.user

        async def work(transaction: Transaction) -> list[tuple[Candidate, ...]]:
            told: list[Rows] = []
            found = await find_candidates(
                transaction,
                self._t,
                tools,
                queries,
                self._check_embedder,
                lambda trip: told.append(trip.add(actors(self._t, user))),
            )
            self._remember_actors(user, told[0])
            return found

        return await self._engine.read(work)

    async def actors(self, record_filter: RecordFilter) -> tuple[str, ...]:
        """Return the names of the speakers in a scope, sorted."""
        user = record_filter.scope.user
        return self._remember_actors(user, await self._read_one(actors(self._t, user)))

    def remembered_actors(self, record_filter: RecordFilter) -> tuple[str, ...]:
        """Return the speakers that the last search of the user's records found."""
        return (self._speakers or {}).get(record_filter.scope.user, ())

    def _remember_actors(self, user: DimensionMatch, rows: Rows) -> tuple[str, ...]:
        if self._speakers is None or len(self._speakers) >= _MOST_REMEMBERED:
            self._speakers = {}
        names = tuple(sorted(row[0] for row in rows))
        self._speakers[user] = names
        return names

    def _search_tools(self) -> SearchTools:
        """Return what a search may use now."""
        if self._counts is None:
            self._counts = TermCounts()
        indexes = self._indexes
        return SearchTools(
            text_index=indexes.text is not None,
            vector_dimension=None if indexes.vector is None else indexes.dimension,
            counts=self._counts,
            hybrid=self._hybrid,
        )

    async def _read_records(self, *statements: Statement) -> list[ScopedRecord]:
        """Read records by short statements, which travel together."""

        async def work(transaction: Transaction) -> list[ScopedRecord]:
            answers = await transaction.run(*statements)
            return await self._records(transaction, [row for rows in answers for row in rows])

        return await self._engine.read(work)

    async def _records(
        self, transaction: Transaction, rows: Rows, *, extra: int = 0
    ) -> list[ScopedRecord]:
        """Return the records of short rows, after a second trip if one of them has a long text."""
        trip = Trip()
        records = RecordRows(self._t, rows, extra=extra)
        records.ask_long(trip)
        await trip.run(transaction)
        return records.records()

    async def _read_one(self, statement: Statement) -> Rows:
        async def work(transaction: Transaction) -> Rows:
            return (await transaction.run(statement))[0]

        return await self._engine.read(work)
