"""What a store must do for background work: jobs that outlive their workers, and summaries.

May import requests and what lies below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from datetime import datetime
from typing import Final, Protocol

from agentmemory.records import new_id
from agentmemory.requests import (
    Deletion,
    Expectation,
    Job,
    JobDraft,
    JobOutcome,
    JobState,
    StoredSummary,
)

IN_BACKGROUND: Final = ContextVar("agentmemory.in_background", default=False)
"""Whether the running task does work that no caller waits for; a store may let others go first."""


RENEW_VECTORS: Final = "renew_vectors"
"""Kind of the jobs that make vectors which were dropped, or could not be made in time."""

_RENEWED_AT_ONCE: Final = 200


def renewals(message_ids: Sequence[str]) -> tuple[JobDraft, ...]:
    """Return the work that sees to it that messages have their vectors.

    It goes with the write that leaves them without: whoever writes makes them right after, and
    the work is there for when that does not come to an end.
    """
    return tuple(
        JobDraft(
            id=new_id(),
            kind=RENEW_VECTORS,
            thread_id=None,
            payload={"messages": list(message_ids[start : start + _RENEWED_AT_ONCE])},
        )
        for start in range(0, len(message_ids), _RENEWED_AT_ONCE)
    )


class JobStore(Protocol):
    """Keeps background work and the summaries it makes, safe against the death of workers."""

    async def claim_jobs(
        self,
        *,
        owner: str,
        limit: int,
        lease_until: datetime,
        now: datetime,
        kinds: Sequence[str] | None = None,
    ) -> tuple[Job, ...]:
        """Lease the oldest jobs that are due, at most the first open one of each thread.

        Args:
            owner: Who takes them.
            limit: Most jobs.
            lease_until: When others may take them over.
            now: What is due.
            kinds: Only jobs of these kinds; None for all. Others hold their threads back.
        """
        ...

    async def renew_job(self, job_id: str, *, owner: str, lease_until: datetime) -> None:
        """Hold a lease for longer.

        Raises:
            LeaseLostError: Another worker took the job over.
        """
        ...

    async def complete_job(
        self, job_id: str, outcome: JobOutcome, *, owner: str, now: datetime
    ) -> Deletion:
        """Store what a job brought and take the job away, all or nothing.

        Returns:
            What the outcome retired.

        Raises:
            LeaseLostError: Another worker took the job over.
            StaleReadError: An expectation does not hold any more; the job stays leased.
        """
        ...

    async def give_job_back(
        self,
        job_id: str,
        *,
        owner: str,
        error: str | None,
        run_after: datetime | None,
        now: datetime,
    ) -> None:
        """Put a job back: for later, or with `run_after` None among the dead letters.

        Args:
            job_id: The job.
            owner: Who holds its lease.
            error: Why it failed; None if it did not, so that the attempt does not count.
            run_after: When it may be tried again; None: never by itself.
            now: The time of the change.

        Raises:
            LeaseLostError: Another worker took the job over.
        """
        ...

    async def revive_jobs(self, *, now: datetime) -> int:
        """Make every dead letter ready again and return how many there were."""
        ...

    async def list_jobs(
        self, *, thread_id: str | None = None, states: Sequence[JobState], limit: int = 100
    ) -> tuple[Job, ...]:
        """Return jobs in the order they were stored."""
        ...

    async def open_jobs(
        self,
        *,
        thread_id: str | None = None,
        until_seq: int | None = None,
        kinds: Sequence[str] | None = None,
    ) -> tuple[int, int]:
        """Return how many jobs are ready or leased, and the number of the newest job ever stored.

        Args:
            thread_id: Only jobs of this thread; None for all.
            until_seq: Only jobs stored up to this number; None for all.
            kinds: Only jobs of these kinds; None for all.
        """
        ...

    async def next_job_at(self, *, kinds: Sequence[str] | None = None) -> datetime | None:
        """Return when the next job is due or the next lease runs out; None without open jobs."""
        ...

    async def get_summary(
        self, thread_id: str, *, before_seq: int | None = None
    ) -> StoredSummary | None:
        """Return the latest summary of a thread, or None.

        Args:
            thread_id: The thread.
            before_seq: Only a summary that covers messages before this one alone.
        """
        ...

    async def put_summary(
        self,
        summary: StoredSummary,
        *,
        expected_revision: int | None,
        expects: Sequence[Expectation] = (),
    ) -> StoredSummary:
        """Store a summary if the thread's latest one is still what its writer saw.

        Args:
            summary: The summary; the store gives it its revision.
            expected_revision: Revision of the latest summary as seen; None if there was none.
            expects: The messages it was made of.

        Raises:
            StaleReadError: The latest summary or a message has changed.
            NotFoundError: The thread is gone.
        """
        ...
