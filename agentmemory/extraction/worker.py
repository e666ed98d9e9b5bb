"""The worker: takes jobs of the store's outbox, has them done, and survives whatever happens.

One supervisor task owns the task group in which jobs run. It starts on first need and is joined
by `close`. A job is leased while it runs; a lease that ran out, because its process died, goes to
whoever looks next, in any process. What a job brings is stored in the transaction that takes the
job away, so that it is done exactly once. May import telemetry, text, protocols and below.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Final

import anyio

from agentmemory.errors import (
    AgentMemoryError,
    BadModelOutput,
    ClosedError,
    LeaseLostError,
    RateLimitedError,
    StaleReadError,
    WaitTimeoutError,
)
from agentmemory.outbox import IN_BACKGROUND
from agentmemory.protocols import Clock, MemoryStore
from agentmemory.records import new_id
from agentmemory.requests import Job, JobOutcome, JobState
from agentmemory.telemetry import Event, emit
from agentmemory.text.redaction import redact_secrets

Handler = Callable[[Job], Awaitable[JobOutcome]]
"""Does the work of one kind of job; writes through the outcome only."""

CONCURRENCY: Final = 4
"""How many jobs, each of another thread, one worker has in hand."""

LEASE: timedelta = timedelta(seconds=60)
"""How long a worker may be silent before others take its job over."""

POLL_S: float = 5.0
"""How often a worker looks for jobs that nobody told it of."""

RETRY_BASE_S: float = 1.0
RETRY_LONGEST_S: float = 300.0
MAX_ATTEMPTS: Final = 12
"""How often a job that fails for a passing reason is tried."""

MAX_UNREADABLE: Final = 3
"""How often a job is tried whose answers cannot be understood."""

MAX_DEATHS: Final = 30
"""How often a job is taken up at all, should its workers die of it."""

QUEUE_SIZE: Final = 128
"""How many jobs may wait before `add_messages` does."""

DRAIN_S: float = 10.0
"""How long `close` waits for work that can be done now."""

_LONGEST_ERROR: Final = 500
_WAIT_S: Final = 0.2


class Worker:
    """Works on the jobs of one store.

    Args:
        store: The store, which is open when work begins.
        clock: Tells when jobs are due and leases run out.
        handlers: Who does which kind of job; other kinds are left to other workers.
        follow_ups: Kinds of jobs that other jobs bring.
    """

    def __init__(
        self,
        store: MemoryStore,
        clock: Clock,
        handlers: Mapping[str, Handler],
        *,
        follow_ups: Sequence[str] = (),
    ) -> None:
        self._follow_ups = tuple(follow_ups)
        self._store = store
        self._clock = clock
        self._handlers = handlers
        self._kinds = tuple(handlers)
        self._owner = new_id()
        self._supervisor: asyncio.Task[None] | None = None
        self._scope: anyio.CancelScope | None = None
        self._closing = False
        self._running = 0
        self._news = anyio.Event()
        self._progress = anyio.Event()
        self._failures: dict[str, BaseException] = {}
        self._watched: set[str] = set()

    @property
    def is_running(self) -> bool:
        """Whether the supervisor task is there."""
        return self._supervisor is not None and not self._supervisor.done()

    def wake(self) -> None:
        """Have the outbox looked at now; starts the supervisor on first need."""
        if self._closing:
            return
        if not self.is_running:
            self._news = anyio.Event()
            loop = asyncio.get_running_loop()
            self._supervisor = loop.create_task(self._supervise(), name="agentmemory-worker")
        self._news.set()

    async def close(self) -> None:
        """Finish what can be done now, within `DRAIN_S`; the rest stays in the outbox."""
        self._closing = True
        self._news.set()
        task = self._supervisor
        if task is None or task.done():
            return
        with anyio.move_on_after(DRAIN_S):
            await asyncio.wait((task,))
        if self._scope is not None:
            self._scope.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait((task,))

    async def wait(self, *, thread_id: str | None, timeout: float | None) -> None:
        """Wait until every job stored so far is done or given up, with the jobs it brought.

        Args:
            thread_id: Only jobs of this thread; None for all.
            timeout: Most seconds; None: no limit.

        Raises:
            WaitTimeoutError: Jobs are left after `timeout`.
        """
        left = 0
        with anyio.move_on_after(timeout):
            for kinds in (self._kinds, self._follow_ups):
                left, newest = await self._store.open_jobs(thread_id=thread_id, kinds=kinds)
                while left:
                    progress = self._progress
                    self.wake()
                    with anyio.move_on_after(_WAIT_S):
                        await progress.wait()
                    left, _ = await self._store.open_jobs(
                        thread_id=thread_id, until_seq=newest, kinds=kinds
                    )
            return
        msg = f"after {timeout:g} s there are {left} jobs left; they go on in the background"
        raise WaitTimeoutError(msg)

    async def finish(self, job_id: str, *, thread_id: str) -> None:
        """Wait for one job and raise what it failed with; it is tried again all the same."""
        self._watched.add(job_id)
        try:
            while True:
                progress = self._progress
                if job_id in self._failures:
                    raise self._failures[job_id]
                open_states = (JobState.READY, JobState.LEASED)
                jobs = await self._store.list_jobs(
                    thread_id=thread_id, states=open_states, limit=1000
                )
                if all(job.id != job_id for job in jobs):
                    if job_id in self._failures:
                        raise self._failures[job_id]
                    return
                self.wake()
                with anyio.move_on_after(_WAIT_S):
                    await progress.wait()
        finally:
            self._watched.discard(job_id)
            self._failures.pop(job_id, None)

    async def make_room(self, timeout: float, *, must: bool) -> None:
        """Wait while the outbox is full.

        Args:
            timeout: Most seconds.
            must: Whether it is an error if there is no room by then.

        Raises:
            WaitTimeoutError: There is no room, and there must be.
        """
        count, _ = await self._store.open_jobs(kinds=self._kinds)
        if count < QUEUE_SIZE:
            return
        with anyio.move_on_after(timeout):
            while True:
                progress = self._progress
                self.wake()
                with anyio.move_on_after(_WAIT_S):
                    await progress.wait()
                count, _ = await self._store.open_jobs(kinds=self._kinds)
                if count < QUEUE_SIZE:
                    return
        if must:
            msg = (
                f"after {timeout:g} s there are still {count} jobs waiting; nothing was stored: "
                "call again later"
            )
            raise WaitTimeoutError(msg)

    async def _supervise(self) -> None:
        IN_BACKGROUND.set(True)
        async with anyio.create_task_group() as group:
            self._scope = group.cancel_scope
            while True:
                self._news = anyio.Event()
                try:
                    taken = await self._take()
                    for job in taken:
                        self._running += 1
                        group.start_soon(self._run, job)
                    # What was stored while the outbox was looked at was told of meanwhile.
                    idle = not taken and not self._running and not self._news.is_set()
                    if self._closing and idle:
                        return
                    pause = await self._pause()
                except ClosedError:
                    group.cancel_scope.cancel()
                    return
                except Exception as error:  # noqa: BLE001 - it outlives whatever a store raises
                    _tell("worker.waiting", "the outbox could not be read, trying again", error)
                    pause = RETRY_BASE_S
                    if self._closing and not self._running:
                        return
                with anyio.move_on_after(pause):
                    await self._news.wait()

    async def _take(self) -> tuple[Job, ...]:
        free = CONCURRENCY - self._running
        if free <= 0:
            return ()
        now = self._clock.now()
        return await self._store.claim_jobs(
            owner=self._owner, limit=free, lease_until=now + LEASE, now=now, kinds=self._kinds
        )

    async def _pause(self) -> float:
        """Return how long nothing is to be expected, in seconds; news cuts it short."""
        if self._running >= CONCURRENCY:
            return POLL_S
        due = await self._store.next_job_at(kinds=self._kinds)
        if due is None:
            return POLL_S
        return min(max((due - self._clock.now()).total_seconds(), 0.02), POLL_S)

    async def _run(self, job: Job) -> None:
        IN_BACKGROUND.set(job.id not in self._watched)
        failure: BaseException | None = None
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._keep_lease, job, group.cancel_scope)
                failure = await self._attempt(job)
                group.cancel_scope.cancel()
            if failure is not None:
                await self._give_back(job, failure)
        except asyncio.CancelledError:
            with anyio.move_on_after(2, shield=True), contextlib.suppress(AgentMemoryError):
                await self._store.give_job_back(
                    job.id,
                    owner=self._owner,
                    error=None,
                    run_after=self._clock.now(),
                    now=self._clock.now(),
                )
            raise
        except Exception as error:  # noqa: BLE001 - the supervisor outlives whatever a store raises
            # The lease runs out by itself, and somebody takes the job over.
            _tell("worker.job_left", "a job could not be put back", error)
        finally:
            if failure is not None and job.id in self._watched:
                self._failures[job.id] = failure
            self._running -= 1
            self._news.set()
            self._progress.set()
            self._progress = anyio.Event()

    async def _attempt(self, job: Job) -> BaseException | None:
        """Do a job and store what it brought; return what went wrong."""
        try:
            if job.attempts > MAX_DEATHS:
                raise AgentMemoryError("its workers died of it again and again")
            outcome = await self._handlers[job.kind](job)
            await self._store.complete_job(
                job.id, outcome, owner=self._owner, now=self._clock.now()
            )
        except Exception as error:  # noqa: BLE001 - a model of the user's may raise anything
            return error
        return None

    async def _keep_lease(self, job: Job, scope: anyio.CancelScope) -> None:
        """Renew the lease while the job runs; stop the job if another worker has it."""
        while True:
            await anyio.sleep(LEASE.total_seconds() / 3)
            try:
                await self._store.renew_job(
                    job.id, owner=self._owner, lease_until=self._clock.now() + LEASE
                )
            except LeaseLostError:
                scope.cancel()
                return
            except Exception as error:  # noqa: BLE001 - the job goes on for as long as it may
                _tell("worker.lease", "a lease could not be renewed", error)

    async def _give_back(self, job: Job, failure: BaseException) -> None:
        if isinstance(failure, LeaseLostError):
            return
        now = self._clock.now()
        if isinstance(failure, StaleReadError):
            await self._store.give_job_back(
                job.id, owner=self._owner, error=None, run_after=now, now=now
            )
            return
        # A worker that died says nothing about the job, unless it happens again and again.
        wait = _retry_after(failure, max(job.attempts - job.deaths, 1))
        reason = redact_secrets(f"{type(failure).__name__}: {failure}")[:_LONGEST_ERROR]
        await self._store.give_job_back(
            job.id,
            owner=self._owner,
            error=reason,
            run_after=None if wait is None else now + timedelta(seconds=wait),
            now=now,
        )
        emit(
            Event(
                name="worker.job_dead" if wait is None else "worker.job_retry",
                message=(
                    "a job was given up; `retry_failed` tries it again"
                    if wait is None
                    else "a job failed and is tried again"
                ),
                level="error" if wait is None else "warning",
                attributes={
                    "job": job.id,
                    "kind": job.kind,
                    "attempts": job.attempts,
                    "error.type": getattr(failure, "code", type(failure).__name__),
                },
            )
        )


def _retry_after(failure: BaseException, attempts: int) -> float | None:
    """Return after how many seconds a failed job is tried again; None: never by itself."""
    if isinstance(failure, BadModelOutput):
        most = MAX_UNREADABLE
    elif isinstance(failure, AgentMemoryError) and not failure.retryable:
        return None
    else:
        most = MAX_ATTEMPTS
    if attempts >= most:
        return None
    if isinstance(failure, RateLimitedError) and failure.retry_after is not None:
        return max(failure.retry_after, 0.0)
    wait = min(RETRY_BASE_S * 2.0 ** (attempts - 1), RETRY_LONGEST_S)
    # Spread, so that jobs that failed together do not come back together.
    return wait * random.uniform(0.5, 1.0)  # noqa: S311 - no secret depends on it


def _tell(name: str, message: str, error: Exception) -> None:
    kind = getattr(error, "code", type(error).__name__)
    emit(Event(name=name, message=message, level="warning", attributes={"error.type": kind}))
