"""The outbox of an Oracle store: jobs that are leased, renewed, completed or given up.

A job is stored in the transaction of what causes it, and taken away in the transaction of what
it brought, so that each is done exactly once however often its worker dies. Jobs of one thread
run one after another in the order they were stored.

A claim chooses first and locks then: a query that locks may not be limited to the first rows
(ORA-02014), and without a limit it would lock every job that is due. So the seqs of the oldest
jobs are read without a lock, then exactly those are locked that nobody else has in hand (SKIP
LOCKED, so that workers do not queue up behind one another), all conditions looked at again, and
then leased by an update that looks a last time at the rows as they are now. May import requests,
deletes, links, writes and below.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from agentmemory.errors import ConflictError, LeaseLostError, NotFoundError
from agentmemory.records import RecordRelation, Tier, new_id
from agentmemory.requests import Deletion, Job, JobDraft, JobOutcome, JobState, RecordFilter
from agentmemory.scope import ScopeFilter
from agentmemory.stores.oracle.deletes import retire_derived
from agentmemory.stores.oracle.embedder import Claim
from agentmemory.stores.oracle.indexing import Draft
from agentmemory.stores.oracle.links import insert_link
from agentmemory.stores.oracle.lists import listed
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.statement import BindType, Statement, StatementKind, Transaction
from agentmemory.stores.oracle.trips import Trip
from agentmemory.stores.oracle.where import Where, add_list
from agentmemory.stores.oracle.writes import (
    NewRecords,
    check_expectations,
    insert_jobs,
    lock_expected,
)

PLAN_NOTES: Final[Mapping[str, str]] = {
    "job.due": "job_ready (state, run_after, seq) for the few that are ready or leased, "
    "job_thread (thread_id, seq) to see that nothing of the thread comes first; the table holds "
    "work that is not done yet, thousands of rows at worst",
    "job.lock_due": "primary key of job for each listed seq, job_thread as before",
    "job.lease": "primary key of job, once for each listed seq",
    "job.leased": "primary key of job, once for each listed seq",
    "job.renew": "unique key of job (id)",
    "job.held": "unique key of job (id)",
    "job.lock_thread": "unique key of job (id), then the unique key of thread (id)",
    "job.delete": "unique key of job (id)",
    "job.give_back": "unique key of job (id)",
    "job.drop_held": "job_thread (thread_id, seq)",
    "job.lock_dead": "job_ready (state, …)",
    "job.list_dead": "job_ready (state, …)",
    "job.revive": "primary key of job, once for each listed seq",
    "job.leased_at": "job_ready (state, …) for the few that are leased",
    "job.list": "job_thread for a thread; primary key of job in its order without one",
    "job.count_open": "job_ready (state, …), or job_thread for a thread",
    "job.newest": "primary key of job, its last entry",
    "job.next_at": "job_ready (state, …) for the few that are ready or leased, job_thread to see "
    "that nothing of the thread comes first",
    "job.read": "unique key of job (id)",
    "source.lock_records": "unique key of record (id), once for each listed id",
    "source.add": "unique key of record (id), then the primary key of source",
}
"""The index each statement is meant to use, and why, for 1 million chunks and 10,000 users."""

_COLUMNS: Final = (
    "j.id, j.kind, j.thread_id, j.payload, j.state, j.attempts, j.run_after, j.lease_owner, "
    "j.lease_until, j.last_error, j.created_at, j.deaths"
)


def job_from_row(row: Sequence[Any]) -> Job:
    """Build a job from its columns."""
    return Job(
        id=row[0],
        kind=row[1],
        thread_id=row[2],
        payload=row[3],
        state=JobState(row[4]),
        attempts=row[5],
        run_after=row[6],
        lease_owner=row[7],
        lease_until=row[8],
        last_error=row[9],
        created_at=row[10],
        deaths=row[11],
    )


def _first_of_thread(t: Tables) -> str:
    return (
        f"NOT EXISTS (SELECT 1 FROM {t.job} e WHERE e.thread_id = j.thread_id "
        f"AND e.seq < j.seq AND e.state IN ('ready', 'leased'))"
    )


def _due(where: Where, now: datetime) -> str:
    at = where.bind("now", now)
    return (
        f"((j.state = 'ready' AND j.run_after <= {at}) "
        f"OR (j.state = 'leased' AND j.lease_until <= {at}))"
    )


def _add_kinds(where: Where, kinds: Sequence[str] | None) -> None:
    if kinds is not None:
        add_list(where, "j.kind", "kind", kinds)


def due_jobs(
    t: Tables, *, now: datetime, kinds: Sequence[str] | None, after: int, limit: int
) -> Statement:
    """Read the seqs of the oldest jobs that are due, at most the first open one of each thread."""
    where = Where(prefix="")
    where.add(_due(where, now))
    where.add(f"j.seq > {where.bind('after', after)}")
    _add_kinds(where, kinds)
    where.add(_first_of_thread(t))
    return Statement(
        name="job.due",
        text=f"SELECT j.seq FROM {t.job} j WHERE {where.sql} ORDER BY j.seq "
        f"FETCH FIRST {where.bind('rows_wanted', limit)} ROWS ONLY",
        kind=StatementKind.QUERY,
        binds=where.binds,
    )


def lock_due(t: Tables, seqs: Iterable[int], *, now: datetime) -> Statement:
    """Lock those of some jobs that are still due and that nobody else is locking."""
    where = Where(prefix="")
    add_list(where, "j.seq", "seq", list(seqs))
    where.add(_due(where, now))
    where.add(_first_of_thread(t))
    return Statement(
        name="job.lock_due",
        text=f"SELECT j.seq FROM {t.job} j WHERE {where.sql} ORDER BY j.seq FOR UPDATE SKIP LOCKED",
        kind=StatementKind.QUERY,
        binds=where.binds,
    )


def lease(
    t: Tables, seqs: Iterable[int], *, owner: str, lease_until: datetime, now: datetime
) -> tuple[Statement, Statement]:
    """Lease locked jobs, and read them."""
    values = list(seqs)
    condition, binds = listed("seq", "seq", values)
    found, found_binds = listed("j.seq", "seq", values)
    ownership = {"owner": owner, "lease_until": lease_until}
    return (
        Statement(
            name="job.lease",
            text=f"UPDATE {t.job} SET state = 'leased', lease_owner = :owner, "
            f"lease_until = :lease_until, attempts = attempts + 1, "
            f"deaths = deaths + CASE state WHEN 'leased' THEN 1 ELSE 0 END, updated_at = :now "
            f"WHERE {condition} AND (state = 'ready' "
            f"OR (state = 'leased' AND lease_until <= :now))",
            kind=StatementKind.DML,
            binds={**binds, **ownership, "now": now},
        ),
        Statement(
            name="job.leased",
            text=f"SELECT {_COLUMNS} FROM {t.job} j WHERE {found} AND j.state = 'leased' "
            f"AND j.lease_owner = :owner AND j.lease_until = :lease_until ORDER BY j.seq",
            kind=StatementKind.QUERY,
            binds={**found_binds, **ownership},
        ),
    )


async def claim(
    transaction: Transaction,
    t: Tables,
    *,
    owner: str,
    limit: int,
    lease_until: datetime,
    now: datetime,
    kinds: Sequence[str] | None,
) -> tuple[Job, ...]:
    """Lease the oldest jobs that are due, at most the first open one of each thread, and commit.

    Jobs that another worker is just locking are passed over for those that follow.
    """
    taken: list[int] = []
    after = 0
    while len(taken) < limit:
        wanted = limit - len(taken)
        (rows,) = await transaction.run(
            due_jobs(t, now=now, kinds=kinds, after=after, limit=wanted)
        )
        if not rows:
            break
        (locked,) = await transaction.run(lock_due(t, [row[0] for row in rows], now=now))
        taken += [row[0] for row in locked]
        if len(rows) < wanted:
            break
        after = rows[-1][0]
    if not taken:
        return ()
    statements = lease(t, taken, owner=owner, lease_until=lease_until, now=now)
    _, rows = await transaction.finish(*statements)
    return tuple(job_from_row(row) for row in rows)


def renew(t: Tables, job_id: str, *, owner: str, lease_until: datetime) -> Statement:
    """Hold a lease for longer, if it is held."""
    return Statement(
        name="job.renew",
        text=f"UPDATE {t.job} SET lease_until = :lease_until WHERE id = :job_id "
        f"AND lease_owner = :owner AND state = 'leased'",
        kind=StatementKind.DML,
        binds={"lease_until": lease_until, "job_id": job_id, "owner": owner},
    )


def held_lease(t: Tables, job_id: str, *, owner: str) -> Statement:
    """Lock a job that is leased to a worker; no row if it is not."""
    return Statement(
        name="job.held",
        text=f"SELECT j.thread_id FROM {t.job} j WHERE j.id = :job_id "
        f"AND j.lease_owner = :owner AND j.state = 'leased' FOR UPDATE",
        kind=StatementKind.QUERY,
        binds={"job_id": job_id, "owner": owner},
    )


def lock_thread_of(t: Tables, job_id: str) -> Statement:
    """Lock the thread of a job, which comes before the job itself in the order of locks."""
    return Statement(
        name="job.lock_thread",
        text=f"SELECT th.id FROM {t.thread} th WHERE th.id IN ("
        f"SELECT j.thread_id FROM {t.job} j WHERE j.id = :job_id) FOR UPDATE",
        kind=StatementKind.QUERY,
        binds={"job_id": job_id},
    )


def check_lease(rows: Sequence[Any], job_id: str) -> None:
    """Raise `LeaseLostError` unless there is a row of a job that is still held."""
    if not rows:
        msg = f"job {job_id!r} is not leased to this worker any more"
        raise LeaseLostError(msg)


async def renew_lease(
    transaction: Transaction, t: Tables, job_id: str, *, owner: str, lease_until: datetime
) -> None:
    """Hold a lease for longer, and commit."""
    rows, _ = await transaction.finish(
        held_lease(t, job_id, owner=owner),
        renew(t, job_id, owner=owner, lease_until=lease_until),
    )
    check_lease(rows, job_id)


def delete_job(t: Tables, job_id: str) -> Statement:
    """Take a job away."""
    return Statement(
        name="job.delete",
        text=f"DELETE FROM {t.job} WHERE id = :job_id",
        kind=StatementKind.DML,
        binds={"job_id": job_id},
    )


def drop_held(t: Tables, thread_id: str | None) -> Statement:
    """Delete the note of what waits for the next job of a thread."""
    where = "thread_id IS NULL" if thread_id is None else "thread_id = :thread_id"
    return Statement(
        name="job.drop_held",
        text=f"DELETE FROM {t.job} WHERE {where} AND state = 'held'",
        kind=StatementKind.DML,
        binds={} if thread_id is None else {"thread_id": thread_id},
    )


def lock_sourced(t: Tables, record_ids: Iterable[str]) -> Statement:
    """Lock the records that come from more messages than was known."""
    condition, binds = listed("r.id", "id", record_ids)
    return Statement(
        name="source.lock_records",
        text=f"SELECT r.seq FROM {t.record} r WHERE {condition} ORDER BY r.seq FOR UPDATE",
        kind=StatementKind.QUERY,
        binds=binds,
    )


def add_sources(t: Tables, more: Mapping[str, Sequence[str]]) -> Statement:
    """Add messages to the sources of records that have some, each message once."""
    return Statement(
        name="source.add",
        text=f"INSERT INTO {t.source} (record_seq, position, message_id) "
        f"SELECT r.seq, (SELECT MAX(p.position) + 1 FROM {t.source} p "
        f"WHERE p.record_seq = r.seq), :message_id FROM {t.record} r WHERE r.id = :record_id "
        f"AND EXISTS (SELECT 1 FROM {t.source} s WHERE s.record_seq = r.seq) "
        f"AND NOT EXISTS (SELECT 1 FROM {t.source} o WHERE o.record_seq = r.seq "
        f"AND o.message_id = :message_id)",
        kind=StatementKind.MANY,
        rows=tuple(
            {"record_id": record_id, "message_id": message_id}
            for record_id, message_ids in more.items()
            for message_id in message_ids
        ),
        types={"record_id": BindType.STRING, "message_id": BindType.STRING},
    )


async def complete(
    transaction: Transaction,
    t: Tables,
    job_id: str,
    outcome: JobOutcome,
    *,
    claim: Claim,
    drafts: Sequence[Draft],
    owner: str,
    now: datetime,
) -> tuple[Deletion, Trip]:
    """Store what a job brought and take the job away.

    Returns:
        What it retired, and the last trip of the work, which is still to be made.
    """
    trip = Trip()
    tied = claim.ask(trip)
    trip.add(lock_thread_of(t, job_id))
    held = trip.add(held_lease(t, job_id, owner=owner))
    revisions = trip.add(lock_expected(t, outcome.expects)) if outcome.expects else []
    new = NewRecords(t, outcome.records, vectors=outcome.vectors, jobs=outcome.jobs, drafts=drafts)
    new.ask(trip)
    await trip.run(transaction)
    await claim.check(transaction, tied)
    check_lease(held, job_id)
    check_expectations(outcome.expects, revisions)
    retired = Deletion()
    if outcome.retired_sources:
        removal, pending = await retire_derived(transaction, t, outcome.retired_sources, now)
        await pending.run(transaction)
        retired = removal.deletion
    new.check()
    new.ask_long(trip)
    await trip.run(transaction)
    trip.add(delete_job(t, job_id))
    new.write(trip, now)
    if outcome.links:
        await trip.run(transaction)
        await _insert_links(transaction, t, outcome.links, now)
    more = {name: ids for name, ids in outcome.more_sources.items() if ids}
    if more:
        trip.add(lock_sourced(t, more), add_sources(t, more))
    if outcome.held is not None:
        thread_id = held[0][0]
        trip.add(drop_held(t, thread_id))
        if outcome.held:
            note = JobDraft(
                id=new_id(),
                kind="held",
                thread_id=thread_id,
                payload={"messages": list(outcome.held)},
            )
            trip.add(insert_jobs(t, [note], now, state="held"))
    return retired, trip


async def _insert_links(
    transaction: Transaction, t: Tables, links: Iterable[RecordRelation], now: datetime
) -> None:
    everywhere = RecordFilter(scope=ScopeFilter(), now=now, tiers=tuple(Tier))
    for link in links:
        # What a link points at may have gone since it was proposed; the memory stands without.
        with contextlib.suppress(NotFoundError, ConflictError):
            _, pending = await insert_link(transaction, t, link, everywhere, now)
            await pending.run(transaction)


def give_back(
    t: Tables,
    job_id: str,
    *,
    owner: str,
    error: str | None,
    run_after: datetime | None,
    now: datetime,
) -> Statement:
    """Put a job back that is held; without an error the attempt did not count."""
    state = JobState.DEAD if run_after is None else JobState.READY
    values: dict[str, Any] = {"state": state.value, "now": now}
    assignments = ["state = :state", "lease_owner = NULL", "lease_until = NULL"]
    if error is None:
        assignments.append("attempts = attempts - 1")
    else:
        assignments.append("last_error = :error")
        values["error"] = error
    if run_after is not None:
        assignments.append("run_after = :run_after")
        values["run_after"] = run_after
    return Statement(
        name="job.give_back",
        text=f"UPDATE {t.job} SET {', '.join(assignments)}, updated_at = :now "
        f"WHERE id = :job_id AND lease_owner = :owner AND state = 'leased'",
        kind=StatementKind.DML,
        binds={**values, "job_id": job_id, "owner": owner},
        types={"error": BindType.CLOB} if error is not None else {},
    )


def lock_dead(t: Tables) -> Statement:
    """Lock every dead letter; a row for each."""
    return Statement(
        name="job.lock_dead",
        text=f"SELECT j.seq FROM {t.job} j WHERE j.state = 'dead' ORDER BY j.seq FOR UPDATE",
        kind=StatementKind.QUERY,
    )


def list_dead(t: Tables) -> Statement:
    """Read the seqs of dead letters."""
    return Statement(
        name="job.list_dead",
        text=f"SELECT j.seq FROM {t.job} j WHERE j.state = 'dead'",
        kind=StatementKind.QUERY,
    )


def revive(t: Tables, seqs: Iterable[int], *, now: datetime) -> Statement:
    """Make dead letters ready again."""
    condition, binds = listed("seq", "seq", seqs)
    return Statement(
        name="job.revive",
        text=f"UPDATE {t.job} SET state = 'ready', attempts = 0, deaths = 0, "
        f"run_after = :now, updated_at = :now WHERE {condition} AND state = 'dead'",
        kind=StatementKind.DML,
        binds={**binds, "now": now},
    )


def leased_at(t: Tables, *, owner: str, lease_until: datetime, now: datetime) -> Statement:
    """Read the jobs that a worker leased at a time, in the order they were stored."""
    return Statement(
        name="job.leased_at",
        text=f"SELECT {_COLUMNS} FROM {t.job} j WHERE j.state = 'leased' "
        f"AND j.lease_owner = :owner AND j.lease_until = :lease_until AND j.updated_at = :now "
        f"ORDER BY j.seq",
        kind=StatementKind.QUERY,
        binds={"owner": owner, "lease_until": lease_until, "now": now},
    )


def list_jobs(
    t: Tables, *, thread_id: str | None, states: Iterable[JobState], limit: int
) -> Statement:
    """Read jobs in the order they were stored."""
    where = Where(prefix="")
    if thread_id is not None:
        where.add(f"j.thread_id = {where.bind('thread_id', thread_id)}")
    add_list(where, "j.state", "state", [state.value for state in states])
    return Statement(
        name="job.list",
        text=f"SELECT {_COLUMNS} FROM {t.job} j WHERE {where.sql} ORDER BY j.seq "
        f"FETCH FIRST {where.bind('rows_wanted', limit)} ROWS ONLY",
        kind=StatementKind.QUERY,
        binds=where.binds,
    )


def open_jobs(
    t: Tables, *, thread_id: str | None, until_seq: int | None, kinds: Sequence[str] | None
) -> tuple[Statement, Statement]:
    """Count the jobs that are not done yet, and read the number of the newest one stored."""
    where = Where(prefix="")
    where.add("j.state IN ('ready', 'leased')")
    if thread_id is not None:
        where.add(f"j.thread_id = {where.bind('thread_id', thread_id)}")
    if until_seq is not None:
        where.add(f"j.seq <= {where.bind('until_seq', until_seq)}")
    _add_kinds(where, kinds)
    return (
        Statement(
            name="job.count_open",
            text=f"SELECT COUNT(*) FROM {t.job} j WHERE {where.sql}",
            kind=StatementKind.QUERY,
            binds=where.binds,
        ),
        Statement(
            name="job.newest",
            text=f"SELECT COALESCE(MAX(j.seq), 0) FROM {t.job} j",
            kind=StatementKind.QUERY,
        ),
    )


def next_at(t: Tables, *, kinds: Sequence[str] | None) -> Statement:
    """Read when the next job is due or the next lease runs out; NULL without open jobs."""
    where = Where(prefix="")
    where.add("j.state IN ('ready', 'leased')")
    _add_kinds(where, kinds)
    where.add(_first_of_thread(t))
    return Statement(
        name="job.next_at",
        text=f"SELECT MIN(CASE j.state WHEN 'leased' THEN j.lease_until ELSE j.run_after END) "
        f"FROM {t.job} j WHERE {where.sql}",
        kind=StatementKind.QUERY,
        binds=where.binds,
    )


def read_job(t: Tables, job_id: str) -> Statement:
    """Read a job, with the time of its last change."""
    return Statement(
        name="job.read",
        text=f"SELECT {_COLUMNS}, j.updated_at FROM {t.job} j WHERE j.id = :job_id",
        kind=StatementKind.QUERY,
        binds={"job_id": job_id},
    )
