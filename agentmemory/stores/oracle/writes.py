"""New threads and records on an Oracle store: the statements, and the transaction they make up.

Whoever writes messages of a thread, or what rests on them, locks the thread's row first, so that
messages are numbered in the order of their transactions and see each other as neighbours. Locks
are taken in one order everywhere: threads, jobs, records. Records are inserted in one round trip
with all that belongs to them, which finds them by id. May import rows, records, indexing, images.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final

import orjson

from agentmemory.errors import ConflictError, NotFoundError, StaleReadError
from agentmemory.records import ImageContent, ScopedRecord, ThreadRecord
from agentmemory.requests import Expectation, JobDraft, ThreadTail
from agentmemory.stores.oracle.images import put_images
from agentmemory.stores.oracle.indexing import (
    Chunk,
    Draft,
    LastMessage,
    behind,
    draft,
    index_following,
    insert_chunks,
    last_messages,
    put_vectors,
)
from agentmemory.stores.oracle.lexical import long_fields
from agentmemory.stores.oracle.lists import in_parts, listed
from agentmemory.stores.oracle.records import select_records
from agentmemory.stores.oracle.rows import (
    BIND_TYPES,
    INSERT_COLUMNS,
    THREAD_SELECT,
    record_binds,
    thread_binds,
)
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.statement import BindType, Statement, StatementKind
from agentmemory.stores.oracle.trips import Rows, Trip

if TYPE_CHECKING:
    from agentmemory.requests import FloatVector

PLAN_NOTES: Final[Mapping[str, str]] = {
    "thread.insert": "none: one row",
    "thread.read": "unique key of thread (id)",
    "thread.lock": "unique key of thread (id), once for each listed id",
    "record.expect": "unique key of record (id), once for each listed id",
    "record.taken": "unique key of record (id) alone, once for each listed id",
    "record.user_profiles": "record_user_profile, an index of profiles only",
    "record.agent_profiles": "record_agent_profile, an index of profiles only",
    "record.insert": "none: maintains the indexes of record",
    "record.numbers": "unique key of record (id), once for each listed id",
    "record.written": "unique key of record (id), once for each listed id",
    "source.insert": "unique key of record (id) for the seq",
    "job.taken": "unique key of job (id) alone, once for each listed id",
    "job.insert": "none: maintains the indexes of job",
}
"""The index each statement is meant to use, for a store of any size."""


def insert_thread(t: Tables, thread: ThreadRecord) -> Statement:
    """Store a thread."""
    values = thread_binds(thread)
    return Statement(
        name="thread.insert",
        text=f"INSERT INTO {t.thread} ({', '.join(values)}) "
        f"VALUES ({', '.join(f':{name}' for name in values)})",
        kind=StatementKind.DML,
        binds=values,
        types={name: BIND_TYPES[name] for name in values},
    )


def read_thread(t: Tables, thread_id: str) -> Statement:
    """Read a thread."""
    return Statement(
        name="thread.read",
        text=f"SELECT {THREAD_SELECT} FROM {t.thread} WHERE id = :thread_id",
        kind=StatementKind.QUERY,
        binds={"thread_id": thread_id},
    )


def lock_threads(t: Tables, thread_ids: Iterable[str]) -> Statement:
    """Lock threads, in the order of their ids, and read whose each is: id, user."""
    condition, binds = listed("th.id", "id", thread_ids)
    return Statement(
        name="thread.lock",
        text=f"SELECT th.id, th.user_id FROM {t.thread} th WHERE {condition} "
        f"ORDER BY th.id FOR UPDATE",
        kind=StatementKind.QUERY,
        binds=binds,
    )


def lock_expected(t: Tables, expects: Iterable[Expectation]) -> Statement:
    """Lock the records a writer has seen, and read their revisions."""
    condition, binds = listed("r.id", "id", (expected.record_id for expected in expects))
    return Statement(
        name="record.expect",
        text=f"SELECT r.id, r.revision FROM {t.record} r WHERE {condition} "
        f"ORDER BY r.seq FOR UPDATE",
        kind=StatementKind.QUERY,
        binds=binds,
    )


def taken_ids(t: Tables, ids: Iterable[str]) -> Statement:
    """Look which ids of records are taken."""
    condition, binds = listed("r.id", "id", ids)
    return Statement(
        name="record.taken",
        text=f"SELECT r.id FROM {t.record} r WHERE {condition}",
        kind=StatementKind.QUERY,
        binds=binds,
    )


def profiles_of(t: Tables, kind: str, owners: Iterable[str]) -> Statement:
    """Look which users or agents have a profile.

    Args:
        t: The store's tables.
        kind: "user" or "agent".
        owners: Their ids.
    """
    # Word for word what the index is on.
    column = f"CASE record_type WHEN '{kind}_profile' THEN {kind}_id END"
    condition, binds = listed(column, "owner", owners)
    return Statement(
        name=f"record.{kind}_profiles",
        text=f"SELECT {kind}_id FROM {t.record} WHERE {condition}",
        kind=StatementKind.QUERY,
        binds=binds,
    )


def insert_rows(t: Tables, records: Sequence[ScopedRecord]) -> Statement:
    """Store records, numbered in this order."""
    return Statement(
        name="record.insert",
        text=f"INSERT INTO {t.record} ({', '.join(INSERT_COLUMNS)}) "
        f"VALUES ({', '.join(f':{name}' for name in INSERT_COLUMNS)})",
        kind=StatementKind.MANY,
        rows=tuple(record_binds(record) for record in records),
        types={name: BIND_TYPES[name] for name in INSERT_COLUMNS},
    )


def insert_sources(t: Tables, sources: Mapping[str, Sequence[str]]) -> list[Statement]:
    """Store the ids of the messages that records came from, by the id of the record."""
    rows = tuple(
        {"record_id": record_id, "position": position, "message_id": message_id}
        for record_id, message_ids in sources.items()
        for position, message_id in enumerate(message_ids)
    )
    if not rows:
        return []
    return [
        Statement(
            name="source.insert",
            text=f"INSERT INTO {t.source} (record_seq, position, message_id) VALUES ("
            f"(SELECT r.seq FROM {t.record} r WHERE r.id = :record_id), :position, :message_id)",
            kind=StatementKind.MANY,
            rows=rows,
        )
    ]


def read_written(t: Tables, ids: Iterable[str]) -> Statement:
    """Read whole records by id, in the order of writing."""
    condition, binds = listed("r.id", "id", ids)
    picked = f"SELECT r.seq FROM {t.record} r WHERE {condition}"
    return select_records(t, "record.written", picked, binds)


def read_numbers(t: Tables, ids: Iterable[str]) -> Statement:
    """Read id and seq of records that were just stored."""
    condition, binds = listed("r.id", "id", ids)
    return Statement(
        name="record.numbers",
        text=f"SELECT r.id, r.seq FROM {t.record} r WHERE {condition}",
        kind=StatementKind.QUERY,
        binds=binds,
    )


def taken_jobs(t: Tables, ids: Iterable[str]) -> Statement:
    """Look which ids of jobs are taken."""
    condition, binds = listed("j.id", "id", ids)
    return Statement(
        name="job.taken",
        text=f"SELECT j.id FROM {t.job} j WHERE {condition}",
        kind=StatementKind.QUERY,
        binds=binds,
    )


def insert_jobs(
    t: Tables, jobs: Sequence[JobDraft], now: datetime, *, state: str = "ready"
) -> Statement:
    """Enqueue jobs in this order."""
    return Statement(
        name="job.insert",
        text=f"INSERT INTO {t.job} (id, kind, thread_id, payload, state, attempts, deaths, "
        f"run_after, created_at, updated_at) VALUES (:id, :kind, :thread_id, :payload, :state, "
        f"0, 0, :now, :now, :now)",
        kind=StatementKind.MANY,
        rows=tuple(
            {
                "id": job.id,
                "kind": job.kind,
                "thread_id": job.thread_id,
                "payload": dict(job.payload),
                "state": state,
                "now": now,
            }
            for job in jobs
        ),
        types={
            "thread_id": BindType.STRING,
            "payload": BindType.JSON,
            "now": BindType.TIMESTAMP,
        },
    )


def check_expectations(expects: Iterable[Expectation], rows: Rows) -> None:
    """Raise `StaleReadError` unless every record is as its reader saw it.

    Args:
        expects: What was seen.
        rows: What `lock_expected` brought.
    """
    revisions: dict[str, int] = dict(rows)
    for expected in expects:
        if revisions.get(expected.record_id) != expected.revision:
            msg = f"record {expected.record_id!r} was changed meanwhile"
            raise StaleReadError(msg)


def no_thread(thread_id: str) -> str:
    """Say that a thread is not there."""
    return f"there is no thread {thread_id!r}"


class NewJobs:
    """Jobs to be enqueued; one whose id is there already stays as it is."""

    def __init__(self, t: Tables, jobs: Iterable[JobDraft]) -> None:
        self._t = t
        self._jobs: dict[str, JobDraft] = {}
        for job in jobs:
            self._jobs.setdefault(job.id, job)
        self._taken: Rows = []

    def ask(self, trip: Trip) -> None:
        """Let the first trip find out which are there."""
        if self._jobs:
            self._taken = trip.add(taken_jobs(self._t, self._jobs))

    def write(self, trip: Trip, now: datetime) -> None:
        """Let a later trip store the others, in the order they were given."""
        there = {row[0] for row in self._taken}
        new = [job for job in self._jobs.values() if job.id not in there]
        if new:
            trip.add(insert_jobs(self._t, new, now))


class NewRecords:
    """Records to be stored with their index rows, sources, files, vectors and jobs.

    Use: `ask` on the first trip of a transaction, `check` after it, `ask_long` and its trip,
    `write` on a later one, `stored` after that.

    Args:
        t: The store's tables.
        records: Complete but for `seq`.
        vectors: Unit vectors by record id.
        tail: What the writer saw as the last message of a thread.
        jobs: Background work to store with them.
        images: The files of image records by record id.
        drafts: What `draft` made of the records; made here if it is left out.
    """

    def __init__(
        self,
        t: Tables,
        records: Sequence[ScopedRecord],
        *,
        vectors: Mapping[str, FloatVector] | None = None,
        tail: ThreadTail | None = None,
        jobs: Sequence[JobDraft] = (),
        images: Mapping[str, ImageContent] | None = None,
        drafts: Sequence[Draft] | None = None,
    ) -> None:
        self._t = t
        self._records = records
        self._vectors = vectors or {}
        self._tail = tail
        self._jobs = NewJobs(t, jobs)
        self._images = {
            record.id: images[record.id] for record in records if images and record.id in images
        }
        self._drafts = draft(records) if drafts is None else drafts
        self._threads: Rows = []
        self._taken: Rows = []
        self._profiles: dict[str, Rows] = {}
        self._last: Rows = []
        self._messages: dict[str, LastMessage] = {}
        self._long: Rows = []
        self._numbers: Rows = []

    def ask(self, trip: Trip) -> None:
        """Lock the threads, and read what the records are checked against and indexed with."""
        t = self._t
        threads = {record.thread_id for record in self._records} - {None}
        talks = {
            record.thread_id for record in self._records if record.record_type == "message"
        } - {None}
        if self._tail is not None:
            threads.add(self._tail.thread_id)
            talks.add(self._tail.thread_id)
        if threads:
            self._threads = trip.add(lock_threads(t, sorted(filter(None, threads))))
        if talks:
            self._last = trip.add(last_messages(t, sorted(filter(None, talks))))
        if self._records:
            ids = [record.id for record in self._records]
            self._taken = trip.add(*in_parts(partial(taken_ids, t), ids))
        for kind in ("user", "agent"):
            owners = [
                owner
                for record in self._records
                if record.record_type == f"{kind}_profile"
                and (owner := getattr(record, f"{kind}_id")) is not None
            ]
            if owners:
                self._profiles[kind] = trip.add(profiles_of(t, kind, owners))
        self._jobs.ask(trip)

    def check(self) -> None:
        """Look at what `ask` brought.

        Raises:
            StaleReadError: The tail has moved.
            ConflictError: An id is taken, or a user or agent has a profile already.
            NotFoundError: A record names a thread that does not exist or is another user's.
        """
        messages = map(LastMessage.from_row, self._last)
        self._messages = {message.thread_id: message for message in messages}
        self._check_tail()
        ids = [record.id for record in self._records]
        doubled = [record_id for record_id, count in Counter(ids).items() if count > 1]
        if doubled:
            msg = f"id {doubled[0]!r} stands twice in one call"
            raise ConflictError(msg)
        if self._taken:
            msg = (
                f"a record with id {self._taken[0][0]!r} exists already; ids are unique in a store"
            )
            raise ConflictError(msg)
        owners = {row[0]: row[1] for row in self._threads}
        for record in self._records:
            thread_id = record.thread_id
            if thread_id is not None and (
                thread_id not in owners or owners[thread_id] != record.user_id
            ):
                # In the words of a thread that is not there, so as not to tell that it is.
                raise NotFoundError(no_thread(thread_id))
        self._check_profiles()

    def _check_tail(self) -> None:
        if self._tail is None:
            return
        last = self._messages.get(self._tail.thread_id)
        seen = (self._tail.last_message_id, self._tail.last_revision)
        if seen != ((None, None) if last is None else (last.id, last.revision)):
            msg = f"thread {self._tail.thread_id!r} got another last message meanwhile"
            raise StaleReadError(msg)

    def _check_profiles(self) -> None:
        for kind, rows in self._profiles.items():
            if rows:
                msg = f"{kind} {rows[0][0]!r} has a profile already; change it with `update_{kind}`"
                raise ConflictError(msg)

    def ask_long(self, trip: Trip) -> None:
        """Let a trip read the fields of last messages that were too long for the first one.

        Mostly there are none, and no trip is made.
        """
        long = [message.chunk_id for message in self._messages.values() if message.fields is None]
        if long:
            self._long = trip.add(long_fields(self._t, long))

    def write(self, trip: Trip, now: datetime) -> None:
        """Let a trip store everything."""
        t = self._t
        if self._records:
            chunks, followed = self._chunks()
            trip.add(insert_rows(t, self._records))
            sources = {record.id: record.sources for record in self._records}
            for statement in (
                *insert_sources(t, sources),
                *put_images(t, self._images),
                insert_chunks(t, chunks, self._vectors),
                *index_following(t, followed),
            ):
                trip.add(statement)
            names = [record.id for record in self._records]
            self._numbers = trip.add(*in_parts(partial(read_numbers, t), names))
        ids = {record.id for record in self._records}
        others = {name: vector for name, vector in self._vectors.items() if name not in ids}
        for statement in put_vectors(t, others):
            trip.add(statement)
        self._jobs.write(trip, now)

    def stored(self) -> tuple[ScopedRecord, ...]:
        """Return the records as they are stored, once the trip that `write` filled was made."""
        numbers: dict[str, int] = dict(self._numbers)
        return tuple(
            replace(
                record,
                seq=numbers[record.id],
                metadata=orjson.loads(orjson.dumps(record.metadata)),
                sources=() if record.record_type == "message" else tuple(record.sources),
                replaced_by=None,
            )
            for record in self._records
        )

    def _chunks(self) -> tuple[list[Chunk], list[tuple[LastMessage, str]]]:
        """Return the chunks of the records, and the messages they follow with what does."""
        long: dict[int, list[str]] = dict(self._long)
        chunks: list[Chunk] = []
        followed: list[tuple[LastMessage, str]] = []
        for made in self._drafts:
            source = made.source
            before = self._messages.get(source.thread_id or "") if made.leads else None
            if before is None:
                chunks += made.chunks
                continue
            chunks += behind(made, before.text).chunks
            before.fields = before.fields or long.get(before.seq)
            if before.fields is not None:
                followed.append((before, source.content or ""))
        return chunks, followed
