"""Changes of one thread or one record on an Oracle store, with all that rests on it.

May import records, rows, where, writes, indexing, images, settling, embedder and lifecycle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from agentmemory.errors import NotFoundError
from agentmemory.records import ImageContent, ScopedRecord, ThreadRecord
from agentmemory.requests import (
    Expectation,
    JobDraft,
    RecordChanges,
    RecordFilter,
    ThreadChanges,
)
from agentmemory.scope import NOT_SET_MARKER, NotSet
from agentmemory.stores.absence import missing
from agentmemory.stores.index_fields import TokenMemo
from agentmemory.stores.lifecycle import LinkGraph, Node
from agentmemory.stores.oracle.embedder import Claim
from agentmemory.stores.oracle.images import put_images
from agentmemory.stores.oracle.indexing import (
    copy_columns,
    drop_vectors,
    from_row,
    index_anew,
    put_vectors,
    read_around,
    read_sources,
)
from agentmemory.stores.oracle.rows import (
    BIND_TYPES,
    metadata_binds,
    record_from_row,
    thread_from_row,
)
from agentmemory.stores.oracle.schema import FILTER_COLUMNS, Tables
from agentmemory.stores.oracle.settling import changes as graph_changes
from agentmemory.stores.oracle.settling import load_dependants, load_dependencies
from agentmemory.stores.oracle.statement import BindType, Statement, StatementKind, Transaction
from agentmemory.stores.oracle.trips import Rows, Trip
from agentmemory.stores.oracle.where import record_where
from agentmemory.stores.oracle.writes import (
    NewJobs,
    check_expectations,
    insert_sources,
    lock_expected,
    no_thread,
    read_thread,
    read_written,
)

if TYPE_CHECKING:
    from agentmemory.requests import FloatVector

PLAN_NOTES: Final[Mapping[str, str]] = {
    "thread.update": "unique key of thread (id)",
    "thread.lock_of_record": "unique key of record (id) for the filter's one id, then the unique "
    "key of thread (id)",
    "record.lock_target": "unique key of record (id) for the filter's one id",
    "record.update": "primary key of record",
    "source.delete": "primary key of source (record_seq, position), a range",
    "summary.outdate": "unique key of summary (thread_id, revision): a thread keeps a few",
}
"""The index each statement is meant to use, for a store of any size."""

_INDEXED_FIELDS: Final = frozenset({"content", "metadata", "event_time", "layer", "tags"})
_COPIED_FIELDS: Final = frozenset({*FILTER_COLUMNS, "event_time"})


def update_thread(
    t: Tables, thread_id: str, changes: ThreadChanges, now: datetime
) -> tuple[Statement, Statement]:
    """Change what is named of a thread, and read it; both find nothing if it is not there."""
    values: dict[str, Any] = {}
    if not isinstance(changes.metadata, NotSet):
        values.update(metadata_binds(changes.metadata))
    if not isinstance(changes.config, NotSet):
        values["config"] = dict(changes.config)
    assignments = "".join(f", {name} = :{name}" for name in values)
    return (
        Statement(
            name="thread.update",
            text=f"UPDATE {t.thread} SET updated_at = :now, revision = revision + 1{assignments} "
            f"WHERE id = :thread_id",
            kind=StatementKind.DML,
            binds={"now": now, "thread_id": thread_id, **values},
            types={name: BIND_TYPES[name] for name in values},
        ),
        read_thread(t, thread_id),
    )


async def change_thread(
    transaction: Transaction, t: Tables, thread_id: str, changes: ThreadChanges, now: datetime
) -> ThreadRecord:
    """Change what is named of a thread, in one round trip."""
    _, rows = await transaction.finish(*update_thread(t, thread_id, changes, now))
    if not rows:
        raise NotFoundError(no_thread(thread_id))
    return thread_from_row(rows[0])


def lock_thread_of(t: Tables, record_filter: RecordFilter) -> Statement:
    """Lock the threads of the records that a filter lets through."""
    where = record_where(record_filter)
    return Statement(
        name="thread.lock_of_record",
        text=f"SELECT th.id FROM {t.thread} th WHERE th.id IN ("
        f"SELECT r.thread_id FROM {t.record} r WHERE {where.sql}) ORDER BY th.id FOR UPDATE",
        kind=StatementKind.QUERY,
        binds=where.binds,
    )


def lock_target(t: Tables, record_filter: RecordFilter) -> Statement:
    """Lock the record that is to be changed, and read what the change depends on."""
    where = record_where(record_filter)
    return Statement(
        name="record.lock_target",
        text=f"SELECT r.seq, r.id, r.status, r.invalidation_reason, r.review_reason, r.layer, "
        f"r.record_type, r.thread_id FROM {t.record} r WHERE {where.sql} "
        f"ORDER BY r.seq FOR UPDATE",
        kind=StatementKind.QUERY,
        binds=where.binds,
    )


def update_row(t: Tables, seq: int, given: Mapping[str, Any], now: datetime) -> Statement:
    """Write new values into columns of a record."""
    values = dict(given)
    if "metadata" in values:
        values.update(metadata_binds(values["metadata"]))
    assignments = [f"{name} = :{name}" for name in values]
    if "status" in values:
        since = "COALESCE(invalidated_at, :now)" if values["status"] == "invalid" else "NULL"
        assignments.append(f"invalidated_at = {since}")
    return Statement(
        name="record.update",
        text=f"UPDATE {t.record} SET "
        f"{', '.join(('updated_at = :now', 'revision = revision + 1', *assignments))} "
        f"WHERE seq = :seq",
        kind=StatementKind.DML,
        binds={"now": now, "seq": seq, **values},
        types={"now": BindType.TIMESTAMP, **{name: BIND_TYPES[name] for name in values}},
    )


def delete_sources(t: Tables, seq: int) -> Statement:
    """Delete the list of messages that a record came from."""
    return Statement(
        name="source.delete",
        text=f"DELETE FROM {t.source} WHERE record_seq = :seq",
        kind=StatementKind.DML,
        binds={"seq": seq},
    )


def outdate_summaries(t: Tables, thread_id: str, seq: int) -> Statement:
    """Delete the summaries that were made of a message."""
    return Statement(
        name="summary.outdate",
        text=f"DELETE FROM {t.summary} WHERE thread_id = :thread_id AND covers_seq >= :seq",
        kind=StatementKind.DML,
        binds={"thread_id": thread_id, "seq": seq},
    )


def given_values(changes: RecordChanges) -> dict[str, Any]:
    """Return what is named of the changes, as it is stored; `sources` as a tuple."""
    values: dict[str, Any] = {}
    for name in RecordChanges.__slots__:
        value = getattr(changes, name)
        if value is NOT_SET_MARKER:
            continue
        if name in ("status", "tier", "layer", "stability") and value is not None:
            value = getattr(value, "value", value)
        elif name == "tags":
            value = list(value or ())
        values[name] = value
    return values


class Target:
    """The record that a transaction changes.

    Args:
        t: The store's tables.
        record_filter: Lets it through.
        changes: What becomes of it.
        now: The time of the change.
    """

    def __init__(
        self, t: Tables, record_filter: RecordFilter, changes: RecordChanges, now: datetime
    ) -> None:
        self._t = t
        self._filter = record_filter
        self._now = now
        self._given = given_values(changes)
        self._sources: tuple[str, ...] | None = self._given.pop("sources", None)
        self._found: Rows = []

    def ask(self, trip: Trip) -> None:
        """Lock it."""
        self._found = trip.add(lock_target(self._t, self._filter))

    def find(self) -> None:
        """Look at what `ask` brought.

        Raises:
            NotFoundError: It is not there.
        """
        if not self._found:
            raise NotFoundError(missing(self._filter))
        self.seq: int = self._found[0][0]
        self.id: str = self._found[0][1]
        self.record_type: str = self._found[0][6]
        self._thread_id: str | None = self._found[0][7]

    def write(self, trip: Trip) -> Rows:
        """Write its new values; return the list that what is to be indexed anew arrives in."""
        trip.add(update_row(self._t, self.seq, self._given, self._now))
        if self._sources is not None:
            trip.add(delete_sources(self._t, self.seq))
            for statement in insert_sources(self._t, {self.id: self._sources}):
                trip.add(statement)
        if not _INDEXED_FIELDS & self._given.keys():
            return []
        if "content" in self._given and self.record_type == "message" and self._thread_id:
            trip.add(outdate_summaries(self._t, self._thread_id, self.seq))
            return trip.add(read_around(self._t, self._thread_id, self.seq))
        return trip.add(read_sources(self._t, (self.seq,)))

    async def mark(self, transaction: Transaction) -> list[Statement]:
        """Find out which marks of what depends on it change; it has its new values by now."""
        of_status = "status" in self._given
        of_text = "content" in self._given and self.record_type != "message"
        if not (of_status or of_text):
            return []
        node = Node(*self._found[0][:6])
        for name in ("status", "invalidation_reason", "review_reason", "layer"):
            setattr(node, name, self._given.get(name, getattr(node, name)))
        graph = LinkGraph()
        graph.add(node)
        await load_dependants(transaction, self._t, graph, (self.seq,))
        if of_status:
            await load_dependencies(transaction, self._t, graph)
            graph.tell(self.seq)
        if of_text:
            graph.tell_of_change(self.seq)
        return graph_changes(self._t, graph, self._now)

    def index(self, trip: Trip, rows: Rows, memo: TokenMemo) -> None:
        """Rewrite the chunks of what `write` read, and drop vectors that rest on an old text."""
        sources = [from_row(row) for row in rows]
        if "content" in self._given:
            stale = [self.seq, *(source.seq for source in sources if source.seq > self.seq)]
            trip.add(drop_vectors(self._t, stale))
        for statement in index_anew(self._t, sources, memo):
            trip.add(statement)
        if _COPIED_FIELDS & self._given.keys():
            trip.add(copy_columns(self._t, (self.seq,)))


async def change_record(
    transaction: Transaction,
    t: Tables,
    record_filter: RecordFilter,
    changes: RecordChanges,
    *,
    claim: Claim,
    now: datetime,
    expects: Sequence[Expectation],
    vectors: Mapping[str, FloatVector] | None,
    jobs: Sequence[JobDraft],
    image: ImageContent | None,
) -> ScopedRecord:
    """Change what is named of one record, and rewrite what depends on it."""
    memo = TokenMemo()
    trip = Trip()
    tied = claim.ask(trip)
    trip.add(lock_thread_of(t, record_filter))
    revisions = trip.add(lock_expected(t, expects)) if expects else []
    target = Target(t, record_filter, changes, now)
    target.ask(trip)
    new_jobs = NewJobs(t, jobs)
    new_jobs.ask(trip)
    await trip.run(transaction)
    await claim.check(transaction, tied)
    check_expectations(expects, revisions)
    target.find()

    rows = target.write(trip)
    await trip.run(transaction)
    for statement in await target.mark(transaction):
        trip.add(statement)

    target.index(trip, rows, memo)
    if image is not None:
        for statement in put_images(t, {target.id: image}):
            trip.add(statement)
    for statement in put_vectors(t, vectors or {}):
        trip.add(statement)
    new_jobs.write(trip, now)
    stored = trip.add(read_written(t, (target.id,)))
    await trip.finish(transaction)
    return record_from_row(stored[0])


def took_effect(
    stored: ScopedRecord | ThreadRecord, changes: RecordChanges | ThreadChanges, now: datetime
) -> bool:
    """Tell whether a record or thread is as a change of that time left it."""
    return stored.updated_at == now and all(
        getattr(stored, name) == value
        for name in type(changes).__slots__
        if (value := getattr(changes, name)) is not NOT_SET_MARKER
    )
