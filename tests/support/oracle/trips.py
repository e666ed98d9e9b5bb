"""Round trips: where the driver waits for the database, and all that can happen there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from typing import Any

import oracledb

from tests.support.oracle.errors import connection_closed, dpy, ora
from tests.support.oracle.faults import Fault, FaultKind
from tests.support.oracle.server import ServerSession
from tests.support.oracle.values import drive, drive_now

Work = Callable[[], Generator[Any, Any, Any]]

_BREAK_TRAVELS_S = 0.05
_HANGS = (FaultKind.HANG_BEFORE, FaultKind.HANG_AFTER)


class Broken(threading.Event):
    """Set when the driver breaks a request off; can be waited for in a loop, too."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def set(self) -> None:
        """Wake all who wait."""
        super().set()
        for loop, event in self._waiting:
            loop.call_soon_threadsafe(event.set)

    async def arrived(self) -> None:
        """Wait for it in an event loop."""
        event = asyncio.Event()
        self._waiting.append((asyncio.get_running_loop(), event))
        if not self.is_set():
            await event.wait()


class Request:
    """One request of the driver and its answer; the driver runs it as one of its own.

    A cancelled request is handled as the driver handles it: it sends a break and waits for the
    database to acknowledge. A second cancellation during that wait leaves the connection out of
    step, and whoever uses it after that breaks the rules.

    Args:
        link: The connection's end of the wire.
        name: What the driver calls the round trip.
        work: What the database does; a generator of its session.
        statements: The statements that travel in it.
        timed: Whether `call_timeout` bounds it; it does not bound pipelines.
    """

    def __init__(
        self,
        link: Link,
        name: str,
        work: Work,
        statements: tuple[str, ...] = (),
        *,
        timed: bool = True,
    ) -> None:
        self._link = link
        self._name = name
        self._work = work
        self._statements = statements
        self._timed = timed
        self._broken = Broken()
        self._running: asyncio.Task[Any] | None = None
        self.result: Any = None

    # What the driver calls.

    async def process_async(self) -> None:
        """Make the round trip in an event loop."""
        link = self._link
        async with link.async_lock:
            try:
                fault = self._begin()
                # The database goes on whatever its client does: so it is a task of its own.
                answer = asyncio.get_running_loop().create_task(self._answer(fault))
                answer.add_done_callback(_seen)
                link.session.server.keep(answer)
                self._running = answer
                self.result = await self._wait(answer, fault)
            finally:
                link.request = self._running = None

    def process(self) -> None:
        """Make the round trip and block."""
        link = self._link
        with link.lock:
            try:
                self.result = self._answer_now(self._begin())
            except Exception as error:
                link.received(error)
                raise
            finally:
                link.request = None
            link.told_transaction = link.session.in_transaction

    def break_off(self) -> None:
        """Send a break."""
        if self._broken.is_set():
            return
        self._broken.set()
        work = self._link.session.work
        if self._running is None:
            work.interrupt_now()
        elif not self._running.done():
            session = self._link.session
            session.breaking = asyncio.get_running_loop().create_task(
                self._interrupt(self._running)
            )
            session.server.keep(session.breaking)

    async def _interrupt(self, answer: asyncio.Task[Any]) -> None:
        # Most statements end before the break arrives.
        await asyncio.wait((answer,), timeout=_BREAK_TRAVELS_S)
        if not answer.done():
            await self._link.session.work.interrupt()

    # The client's side.

    def _begin(self) -> Fault | None:
        link = self._link
        session = link.session
        if not session.alive:
            raise connection_closed()
        if session.out_of_step:
            session.server.violate(
                f"{self._name} {self._statements} on a connection whose break was not acknowledged"
            )
        fault = session.server.note(self._name, self._statements, session)
        link.request = self
        if fault is not None and fault.kind is FaultKind.LOST_BEFORE:
            link.disconnect()
            raise connection_closed()
        if fault is not None and fault.kind is FaultKind.ERROR:
            raise ora(fault.code)
        if session.deaf or (fault is not None and fault.kind is FaultKind.DEAF):
            session.deaf = True
        return fault

    async def _wait(self, answer: asyncio.Task[Any], fault: Fault | None) -> Any:
        link = self._link
        timeout = link.call_timeout / 1000 if self._timed and link.call_timeout else None
        try:
            result = await asyncio.wait_for(asyncio.shield(answer), timeout)
        except TimeoutError:
            self.break_off()
            try:
                await asyncio.wait_for(_finished(answer), timeout)
            except TimeoutError:
                link.disconnect()
                raise connection_closed() from None
            raise dpy("ERR_CALL_TIMEOUT_EXCEEDED", timeout=link.call_timeout) from None
        except asyncio.CancelledError:
            self.break_off()
            try:
                await _finished(answer)
            except asyncio.CancelledError:
                link.session.out_of_step = True
                raise
            raise
        except Exception as error:
            link.received(error)
            raise
        link.told_transaction = link.session.in_transaction
        if fault is not None and fault.kind is FaultKind.LOST_AFTER:
            link.disconnect()
            raise connection_closed()
        return result

    # The database's side.

    async def _answer(self, fault: Fault | None) -> Any:
        await asyncio.sleep(0)
        link = self._link
        if link.session.breaking is not None:
            # The database answers a break before it reads on; ours is told of it from outside.
            await asyncio.wait((link.session.breaking,))
            link.session.breaking = None
        if link.session.deaf:
            await link.gone.wait()
            raise connection_closed()
        if fault is not None and fault.kind is FaultKind.HANG_BEFORE:
            await self._broken.arrived()
        if link.closed.is_set():
            raise connection_closed()
        if self._broken.is_set():
            raise ora(1013)
        result = await drive(self._work())
        if fault is not None and fault.kind is FaultKind.HANG_AFTER:
            await self._broken.arrived()
            raise connection_closed() if link.closed.is_set() else ora(1013)
        return result

    def _answer_now(self, fault: Fault | None) -> Any:
        link = self._link
        timeout = link.call_timeout / 1000 if self._timed and link.call_timeout else None
        hang = link.session.deaf or (fault is not None and fault.kind in _HANGS)
        result: Any = None
        if not link.session.deaf and not (fault and fault.kind is FaultKind.HANG_BEFORE):
            result = drive_now(self._work())
        if hang:
            if link.session.deaf:
                link.closed.wait(timeout and 2 * timeout)
                link.disconnect()
                raise connection_closed()
            broken = self._broken.wait(timeout)
            if link.closed.is_set():
                raise connection_closed()
            if not broken:
                raise dpy("ERR_CALL_TIMEOUT_EXCEEDED", timeout=link.call_timeout)
            raise ora(1013)
        if fault is not None and fault.kind is FaultKind.LOST_AFTER:
            link.disconnect()
            raise connection_closed()
        return result


class Link:
    """A connection's end of the wire: what all of its round trips share.

    Args:
        disconnect: Cuts the wire at the driver's end.
    """

    session: ServerSession

    def __init__(self, disconnect: Callable[[], None]) -> None:
        self._disconnect = disconnect
        self.lock = threading.Lock()
        self.closed = threading.Event()
        self.call_timeout = 0
        self.told_transaction = False
        self.request: Request | None = None
        self.async_lock = asyncio.Lock()
        self.gone = asyncio.Event()

    def received(self, error: BaseException) -> None:
        """Take note of an error that the database answered with."""
        self.told_transaction = self.session.in_transaction
        if isinstance(error, oracledb.Error) and error.args[0].is_session_dead:
            self.disconnect()

    def disconnect(self) -> None:
        """Cut the wire at both ends; in the loop's thread, if the connection is async."""
        self.closed.set()
        self.gone.set()
        if hasattr(self, "session"):
            self.session.kill()
        if self.request is not None:
            self.request.break_off()
        self._disconnect()


async def _finished(answer: asyncio.Task[Any]) -> None:
    await asyncio.wait((answer,))


def _seen(answer: asyncio.Task[Any]) -> None:
    if not answer.cancelled():
        answer.exception()
