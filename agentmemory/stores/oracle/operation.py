"""One unit of work: tried, tried again, stopped in time, and its outcome found out if it got lost.

May import errors and telemetry, and `connection`, `driver`, `faults`, `statement` and
`transaction` of this package.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any, Final, Generic, TypeVar

import anyio

from agentmemory.errors import (
    AgentMemoryError,
    ConflictError,
    StoreError,
    StoreTimeoutError,
    StoreUnavailableError,
)
from agentmemory.stores.oracle.connection import AnySession, Background, Source
from agentmemory.stores.oracle.faults import Diagnosis, Remedy, diagnose, is_driver_error
from agentmemory.stores.oracle.statement import Transaction
from agentmemory.stores.oracle.transaction import DriverTransaction
from agentmemory.telemetry import Event, emit

T = TypeVar("T")

Step = Callable[[AnySession], Coroutine[Any, Any, T]]

_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 2.0
_LAST_WAIT_S: Final = 0.5
_NOT_KNOWN: Final = "whether the write took effect is not known"


class Operation(Generic[T]):
    """One unit of work of an engine.

    Args:
        source: Where connections come from.
        background: Keeps what cannot be stopped until it ends.
        step: What is done with a connection; may be called several times.
        attempts: How often it is tried in all while its failures allow it.
        grace_s: Seconds it has to stop cleanly; after that its connection is cut.
        settled: Finds out, with another connection, what became of a commit without an answer:
            returns the result if it took effect, None if not. None if nobody can.
    """

    def __init__(
        self,
        source: Source,
        background: Background,
        step: Step[T],
        *,
        attempts: int,
        grace_s: float,
        settled: Step[T | None] | None = None,
    ) -> None:
        self._source = source
        self._background = background
        self._step = step
        self._attempts = attempts
        self._grace_s = grace_s
        self._settled = settled
        self._session: AnySession | None = None
        self._asked: Operation[Any] | None = None
        self._diagnosis: Diagnosis | None = None
        self._is_outcome_unknown = False
        self._refusal: AgentMemoryError | None = None
        self._refused: asyncio.Future[None] | None = None
        self.task: asyncio.Task[T] | None = None
        """Where it runs; None before and while nothing does."""

    @property
    def session(self) -> AnySession | None:
        """Where it is at work now; None between two attempts."""
        return self._session if self._asked is None else self._asked.session

    async def run(self, seconds: float) -> T:
        """Do it, within so many seconds.

        Raises:
            StoreTimeoutError: It took longer, and was stopped.
            AgentMemoryError: What it failed with, or what it was refused with.
        """
        loop = asyncio.get_running_loop()
        task = self.task = loop.create_task(self.drive(time.monotonic() + seconds))
        self._refused = loop.create_future()
        ends: set[asyncio.Future[Any]] = {task, self._refused}
        try:
            await asyncio.wait(
                ends,
                timeout=None if seconds == math.inf else seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
        except BaseException:
            await self._stop(task)
            raise
        expired = not task.done()
        if expired and await self._stop(task):
            raise asyncio.CancelledError
        if task.done() and not task.cancelled():
            return task.result()
        if self._refusal is not None:
            raise self._refusal
        if not expired:
            raise asyncio.CancelledError
        return await self._after_deadline(seconds)

    def refuse(self, error: AgentMemoryError) -> None:
        """Stop it from outside; its caller gets the error."""
        self._refusal = error
        if self._refused is not None and not self._refused.done():
            self._refused.set_result(None)

    async def drive(self, until: float) -> T:
        """Do it in the running task, which somebody else stops in time."""
        was_unknown = False
        for attempt in range(1, self._attempts + self._source.capacity + 1):
            try:
                return await self._once(self._step, until)
            except AgentMemoryError as error:
                if self._is_outcome_unknown or (was_unknown and isinstance(error, ConflictError)):
                    # The conflict may be with the write itself, which arrived after all.
                    answer = await self._find_out(error, until)
                    if answer is not None:
                        return answer
                    if not self._is_outcome_unknown:
                        raise
                    was_unknown, self._is_outcome_unknown = True, False
                known = self._diagnosis
                if known is None or not self._may_repeat(known, attempt):
                    raise
                self._tell_retry(known, attempt)
            # A pool may hold several connections that died together: each costs one attempt.
            if not known.unusable or attempt >= self._attempts:
                await _pause(attempt, until)
        raise AssertionError("the last attempt returns or raises")

    async def _once(self, step: Step[T], until: float) -> T:
        """Try it on one connection, and leave nothing behind there."""
        self._diagnosis = None
        try:
            session = await self._source.acquire(until=until)
        except AgentMemoryError as error:
            cause = error.__cause__
            if cause is not None and is_driver_error(cause):
                # There was no connection that others could have died with.
                self._diagnosis = replace(diagnose(cause), unusable=False)
            raise
        self._session = session
        usable = False
        try:
            result = await step(session)
            usable = not session.in_transaction or await _rolled_back(session)
            return result
        except BaseException as error:
            known = self._diagnosis = session.diagnosis_of(error)
            self._is_outcome_unknown = session.commit_pending and (known is None or known.lost)
            if known is None or not known.unusable:
                usable = not session.used or await _rolled_back(session)
            raise
        finally:
            self._session = None
            self._source.give_back(session, usable=usable)

    def _tell_retry(self, known: Diagnosis, attempt: int) -> None:
        emit(
            Event(
                name="store.retry",
                message=f"trying again on {self._source.where} after {known.code}",
                attributes={"error.type": known.code, "attempt": attempt},
            )
        )

    def _may_repeat(self, known: Diagnosis, attempt: int) -> bool:
        if known.remedy is Remedy.NONE:
            return False
        if known.remedy is Remedy.RECONNECT and not self._source.renews:
            return False
        more = self._source.capacity if known.unusable else 0
        return attempt < self._attempts + more

    async def _find_out(self, error: AgentMemoryError, until: float) -> T | None:
        """Return the result of a commit without an answer; None if it did not take effect.

        Raises:
            StoreUnavailableError: Nobody can say.
        """
        unknown = StoreUnavailableError(f"{error}; {_NOT_KNOWN}")
        # The same call might do it twice.
        unknown.retryable = False
        if self._settled is None:
            raise unknown from error
        self._asked = self._asking(self._settled)
        try:
            return await self._asked.drive(until)
        except AgentMemoryError:
            raise unknown from error
        finally:
            self._asked = None

    async def _after_deadline(self, seconds: float) -> T:
        text = f"the operation took longer than {seconds:g} s and was stopped"
        if not self._is_outcome_unknown:
            raise StoreTimeoutError(text)
        unknown = StoreTimeoutError(f"{text}; {_NOT_KNOWN}")
        unknown.retryable = False
        if self._settled is None:
            raise unknown
        try:
            answer = await self._asking(self._settled).run(max(self._grace_s, _LAST_WAIT_S))
        except StoreError:
            raise unknown from None
        if answer is None:
            raise StoreTimeoutError(text)
        return answer

    def _asking(self, settled: Step[T | None]) -> Operation[T | None]:
        return Operation(
            self._source,
            self._background,
            settled,
            attempts=self._attempts,
            grace_s=self._grace_s,
        )

    async def _stop(self, task: asyncio.Task[T]) -> bool:
        """End it within a bound, whoever cancels meanwhile.

        Returns:
            Whether its caller was cancelled while it waited here.
        """
        task.cancel()
        cancelled = await outlast(task, self._grace_s)
        session = self.session
        if not task.done() and session is not None and session.cut():
            emit(
                Event(
                    name="store.connection_cut",
                    message=f"a connection to {self._source.where} did not stop within "
                    f"{self._grace_s:g} s and was cut",
                    level="warning",
                )
            )
            cancelled |= await outlast(task, self._grace_s)
            if not task.done():
                # Nothing is left of the connection that a second cancellation could confuse.
                task.cancel()
                cancelled |= await outlast(task, _LAST_WAIT_S)
        if not task.done():
            self._background.keep(task)
        return cancelled


async def in_transaction(
    session: AnySession, work: Callable[[Transaction], Awaitable[T]], *, writes: bool
) -> T:
    """Run a function in a transaction of a session, and commit it if it writes."""
    transaction = DriverTransaction(session, writes=writes)
    try:
        result = await work(transaction)
        if writes and not transaction.over:
            await transaction.finish()
        return result
    finally:
        transaction.give_up()


async def outlast(task: asyncio.Task[Any], seconds: float) -> bool:
    """Wait for the end of a task, so many seconds at most, whoever cancels meanwhile.

    Returns:
        Whether somebody did.
    """
    until = time.monotonic() + seconds
    cancelled = False
    with anyio.CancelScope(shield=True):
        while not task.done() and (left := until - time.monotonic()) > 0:
            try:
                await asyncio.wait({task}, timeout=left)
            except asyncio.CancelledError:
                cancelled = True
    return cancelled


async def _rolled_back(session: AnySession) -> bool:
    """Undo what was not committed; whether that could be done."""
    try:
        await session.rollback()
    except AgentMemoryError:
        return False
    return True


async def _pause(attempt: int, until: float) -> None:
    # Jitter keeps processes that failed together from coming back together.
    longest = min(_PAUSE_S * 2 ** (attempt - 1), _LONGEST_PAUSE_S)
    seconds = longest * random.uniform(0.5, 1.0)  # noqa: S311
    await asyncio.sleep(max(min(seconds, until - time.monotonic()), 0))
