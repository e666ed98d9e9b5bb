"""Methods of the Oracle store on background work and summaries.

May import jobs, summaries, writing and what lies below.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from agentmemory.requests import (
    Deletion,
    Expectation,
    Job,
    JobOutcome,
    JobState,
    StoredSummary,
)
from agentmemory.stores.oracle import jobs, summaries
from agentmemory.stores.oracle.statement import Transaction
from agentmemory.stores.oracle.writes import taken_ids
from agentmemory.stores.oracle.writing import OracleUnits, drafted


class OracleOutbox(OracleUnits):
    """The part of an Oracle store that keeps background work and summaries."""

    async def claim_jobs(
        self,
        *,
        owner: str,
        limit: int,
        lease_until: datetime,
        now: datetime,
        kinds: Sequence[str] | None = None,
    ) -> tuple[Job, ...]:
        """Lease the oldest jobs that are due, at most the first open one of each thread."""

        async def work(transaction: Transaction) -> tuple[Job, ...]:
            return await jobs.claim(
                transaction,
                self._t,
                owner=owner,
                limit=limit,
                lease_until=lease_until,
                now=now,
                kinds=kinds,
            )

        async def settled(transaction: Transaction) -> tuple[Job, ...] | None:
            (rows,) = await transaction.run(
                jobs.leased_at(self._t, owner=owner, lease_until=lease_until, now=now)
            )
            return tuple(map(jobs.job_from_row, rows)) or None

        return await self._write(work, settled)

    async def renew_job(self, job_id: str, *, owner: str, lease_until: datetime) -> None:
        """Hold a lease for longer."""

        async def work(transaction: Transaction) -> bool:
            await jobs.renew_lease(
                transaction, self._t, job_id, owner=owner, lease_until=lease_until
            )
            return True

        async def settled(_: Transaction) -> bool | None:
            # To do it again does no harm.
            return None

        await self._write(work, settled)

    async def complete_job(
        self, job_id: str, outcome: JobOutcome, *, owner: str, now: datetime
    ) -> Deletion:
        """Store what a job brought and take the job away, all or nothing."""
        drafts = await drafted(outcome.records)
        ids = [record.id for record in outcome.records]
        last: list[Deletion] = []

        async def work(transaction: Transaction) -> Deletion:
            retired, pending = await jobs.complete(
                transaction,
                self._t,
                job_id,
                outcome,
                claim=self._claim(outcome.vectors),
                drafts=drafts,
                owner=owner,
                now=now,
            )
            last[:] = [retired]
            await pending.finish(transaction)
            return retired

        async def settled(transaction: Transaction) -> Deletion | None:
            # The job is gone for this worker's work, unless its lease ran out just now and
            # another one has been as fast: that one's records have other ids.
            job, *records = await transaction.run(
                jobs.read_job(self._t, job_id), *([taken_ids(self._t, ids)] if ids else [])
            )
            stored = {row[0] for rows in records for row in rows}
            return last[0] if not job and stored >= set(ids) else None

        return await self._write(work, settled)

    async def give_job_back(
        self,
        job_id: str,
        *,
        owner: str,
        error: str | None,
        run_after: datetime | None,
        now: datetime,
    ) -> None:
        """Put a job back: for later, or with `run_after` None among the dead letters."""

        async def work(transaction: Transaction) -> bool:
            held, _ = await transaction.finish(
                jobs.held_lease(self._t, job_id, owner=owner),
                jobs.give_back(
                    self._t, job_id, owner=owner, error=error, run_after=run_after, now=now
                ),
            )
            jobs.check_lease(held, job_id)
            return True

        async def settled(transaction: Transaction) -> bool | None:
            (rows,) = await transaction.run(jobs.read_job(self._t, job_id))
            state = JobState.DEAD if run_after is None else JobState.READY
            given = bool(rows) and rows[0][-1] == now and rows[0][4] == state.value
            return True if given else None

        await self._write(work, settled)

    async def revive_jobs(self, *, now: datetime) -> int:
        """Make every dead letter ready again and return how many there were."""
        last: list[int] = []

        async def work(transaction: Transaction) -> int:
            (dead,) = await transaction.run(jobs.lock_dead(self._t))
            last[:] = [len(dead)]
            await transaction.finish(jobs.revive(self._t, [row[0] for row in dead], now=now))
            return len(dead)

        async def settled(transaction: Transaction) -> int | None:
            (dead,) = await transaction.run(jobs.list_dead(self._t))
            return None if dead else last[0]

        return await self._write(work, settled)

    async def list_jobs(
        self, *, thread_id: str | None = None, states: Sequence[JobState], limit: int = 100
    ) -> tuple[Job, ...]:
        """Return jobs in the order they were stored."""

        async def work(transaction: Transaction) -> tuple[Job, ...]:
            (rows,) = await transaction.run(
                jobs.list_jobs(self._t, thread_id=thread_id, states=states, limit=limit)
            )
            return tuple(map(jobs.job_from_row, rows))

        return await self._engine.read(work)

    async def open_jobs(
        self,
        *,
        thread_id: str | None = None,
        until_seq: int | None = None,
        kinds: Sequence[str] | None = None,
    ) -> tuple[int, int]:
        """Return how many jobs are ready or leased, and the newest job's number."""

        async def work(transaction: Transaction) -> tuple[int, int]:
            count, newest = await transaction.run(
                *jobs.open_jobs(self._t, thread_id=thread_id, until_seq=until_seq, kinds=kinds)
            )
            return int(count[0][0]), int(newest[0][0])

        return await self._engine.read(work)

    async def next_job_at(self, *, kinds: Sequence[str] | None = None) -> datetime | None:
        """Return when the next job is due or the next lease runs out; None without open jobs."""

        async def work(transaction: Transaction) -> datetime | None:
            (rows,) = await transaction.run(jobs.next_at(self._t, kinds=kinds))
            at: datetime | None = rows[0][0]
            return at

        return await self._engine.read(work)

    async def get_summary(
        self, thread_id: str, *, before_seq: int | None = None
    ) -> StoredSummary | None:
        """Return the latest summary of a thread, or None."""

        async def work(transaction: Transaction) -> StoredSummary | None:
            (rows,) = await transaction.run(
                summaries.latest(self._t, thread_id, before_seq=before_seq)
            )
            return summaries.summary_from_row(rows[0]) if rows else None

        return await self._engine.read(work)

    async def put_summary(
        self,
        summary: StoredSummary,
        *,
        expected_revision: int | None,
        expects: Sequence[Expectation] = (),
    ) -> StoredSummary:
        """Store a summary if the thread's latest one is still what its writer saw."""

        async def work(transaction: Transaction) -> StoredSummary:
            return await summaries.put(
                transaction,
                self._t,
                summary,
                expected_revision=expected_revision,
                expects=expects,
            )

        async def settled(transaction: Transaction) -> StoredSummary | None:
            (rows,) = await transaction.run(
                summaries.latest(self._t, summary.thread_id, before_seq=None)
            )
            stored = summaries.summary_from_row(rows[0]) if rows else None
            same = (
                stored is not None
                and stored.revision != expected_revision
                and (stored.content, stored.covers_seq, stored.created_at)
                == (summary.content, summary.covers_seq, summary.created_at)
            )
            return stored if same else None

        return await self._write(work, settled)
