"""Methods of the SQLite store on background work and summaries.

May import jobs, summaries, embedder, the engine and what lies below.
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
from agentmemory.stores.sqlite import jobs, summaries
from agentmemory.stores.sqlite.analysis import analysed_records
from agentmemory.stores.sqlite.embedder import TiedToEmbedder


class SqliteOutbox(TiedToEmbedder):
    """The part of a SQLite store that keeps background work and summaries."""

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
        return await self._engine.write(
            lambda c: jobs.claim(
                c,
                self._t,
                owner=owner,
                limit=limit,
                lease_until=lease_until,
                now=now,
                kinds=kinds,
            )
        )

    async def renew_job(self, job_id: str, *, owner: str, lease_until: datetime) -> None:
        """Hold a lease for longer."""
        await self._engine.write(
            lambda c: jobs.renew(c, self._t, job_id, owner=owner, lease_until=lease_until)
        )

    async def complete_job(
        self, job_id: str, outcome: JobOutcome, *, owner: str, now: datetime
    ) -> Deletion:
        """Store what a job brought and take the job away, all or nothing."""
        rows = await analysed_records(outcome.records)
        return await self._write_vectors(
            outcome.vectors,
            lambda c: jobs.complete(c, self._t, job_id, outcome, rows=rows, owner=owner, now=now),
        )

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
        await self._engine.write(
            lambda c: jobs.give_back(
                c, self._t, job_id, owner=owner, error=error, run_after=run_after, now=now
            )
        )

    async def revive_jobs(self, *, now: datetime) -> int:
        """Make every dead letter ready again and return how many there were."""
        return await self._engine.write(lambda c: jobs.revive(c, self._t, now=now))

    async def list_jobs(
        self, *, thread_id: str | None = None, states: Sequence[JobState], limit: int = 100
    ) -> tuple[Job, ...]:
        """Return jobs in the order they were stored."""
        return await self._engine.read(
            lambda c: jobs.list_jobs(c, self._t, thread_id=thread_id, states=states, limit=limit)
        )

    async def open_jobs(
        self,
        *,
        thread_id: str | None = None,
        until_seq: int | None = None,
        kinds: Sequence[str] | None = None,
    ) -> tuple[int, int]:
        """Return how many jobs are ready or leased, and the newest job's number."""
        return await self._engine.read(
            lambda c: jobs.open_jobs(
                c, self._t, thread_id=thread_id, until_seq=until_seq, kinds=kinds
            )
        )

    async def next_job_at(self, *, kinds: Sequence[str] | None = None) -> datetime | None:
        """Return when the next job is due or the next lease runs out; None without open jobs."""
        return await self._engine.read(lambda c: jobs.next_at(c, self._t, kinds=kinds))

    async def get_summary(
        self, thread_id: str, *, before_seq: int | None = None
    ) -> StoredSummary | None:
        """Return the latest summary of a thread, or None."""
        return await self._engine.read(
            lambda c: summaries.latest(c, self._t, thread_id, before_seq=before_seq)
        )

    async def put_summary(
        self,
        summary: StoredSummary,
        *,
        expected_revision: int | None,
        expects: Sequence[Expectation] = (),
    ) -> StoredSummary:
        """Store a summary if the thread's latest one is still what its writer saw."""
        return await self._engine.write(
            lambda c: summaries.put(
                c, self._t, summary, expected_revision=expected_revision, expects=expects
            )
        )
