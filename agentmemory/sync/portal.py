"""The thread that carries out what blocking callers ask for, in an event loop of its own.

May import: errors.

It holds anyio's `BlockingPortal`, and adds what a library needs that its users forget about: an
interrupted caller takes its task along, nobody waits for a loop that is gone, a forked child is
told instead of left waiting, and the interpreter ends although nobody closed anything.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import logging
import os
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, ParamSpec, TypeAlias, TypeVar

import anyio
from anyio.from_thread import BlockingPortal

from agentmemory.errors import ClosedError, UsageError

P = ParamSpec("P")
T = TypeVar("T")

Farewell: TypeAlias = Callable[[], Coroutine[Any, Any, None]]

# An interrupted caller waits so long for its task to let go, a closing one for the thread to end.
_PATIENCE_S: Final = 5.0
# What nobody closed gets so long to close itself, at most; the interpreter waits for less.
_FAREWELL_S: Final = 5.0
_EXIT_GRACE_S: Final = 2.0
_HAND_OVER_STEP_S: Final = 0.001
# Ctrl-C does not wake a thread that was just about to wait for a lock, and none on Windows.
_WAIT_STEP_S: Final = 0.1

_logger = logging.getLogger("agentmemory")


class Call(Generic[T]):
    """One call, on its way to the loop and back."""

    def __init__(self, function: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self.begun = False
        self._function = function
        self._scope: anyio.CancelScope | None = None
        self._abandoned = False
        self._ended = False
        # Rather than an event: an interruption cannot leave it half waited for.
        self._bell = threading.Lock()
        self._bell.acquire()
        self._values: list[T] = []
        self._error: BaseException | None = None

    async def run(self) -> None:
        """Carry it out; runs on the loop, which no error of the call may reach."""
        self.begun = True
        if self._abandoned:
            self._end()
            return
        with anyio.CancelScope() as self._scope:
            try:
                self._values.append(await self._function())
            except BaseException as error:
                self._error = _without_frame(error)
                if isinstance(error, (asyncio.CancelledError, GeneratorExit)):
                    raise
            finally:
                self._end()

    def wait(self) -> None:
        """Wait for its end; the caller's thread may be interrupted meanwhile."""
        while not self._bell.acquire(timeout=_WAIT_STEP_S):
            pass

    def abandon(self, loop: asyncio.AbstractEventLoop) -> None:
        """Cancel it because its caller was interrupted, and wait a while until it has let go."""
        self._abandoned = True
        try:
            loop.call_soon_threadsafe(self._cancel)
        except RuntimeError:
            return
        if not self._ended:
            self._bell.acquire(timeout=_PATIENCE_S)

    def refuse(self, error: BaseException) -> None:
        """End it with an error if nothing else has ended it; in the thread of the loop."""
        if not self._ended:
            self._error = error
            self._end()

    def take_error(self) -> BaseException | None:
        """Hand over the error, keeping none, so that it does not hold itself alive."""
        error, self._error = self._error, None
        return error

    def take_value(self) -> T:
        """Hand over the value."""
        return self._values.pop()

    def _cancel(self) -> None:
        if self._ended:
            return
        if self._scope is None:
            # Not begun, or interrupted before it was handed over; if it comes, it will do nothing.
            self._end()
        else:
            self._scope.cancel()

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            self._bell.release()


class Portal:
    """An event loop in a daemon thread, for callers in other threads.

    Args:
        farewell: Awaited on the loop before the thread ends, however it ends, when no call is
            running any more. The portal keeps it, so it must not hold whoever owns the portal.
    """

    def __init__(self, farewell: Farewell) -> None:
        self._pid = os.getpid()
        self._farewell = farewell
        self._calls: set[Call[Any]] = set()
        self._leaving = False
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._stop: anyio.Event | None = None
        self._portal: BlockingPortal | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        # A daemon thread hands its nature down to the worker threads its loop starts: the
        # interpreter waits for none of them.
        self._thread = threading.Thread(target=self._main, name="agentmemory-portal", daemon=True)

    def start(self) -> None:
        """Start the thread; the first call waits until its loop runs.

        Raises:
            UsageError: No thread can be started.
        """
        _live.add(self)
        # Anew with each portal, so that this comes before the exit handlers of what it will use.
        atexit.unregister(_leave_all)
        atexit.register(_leave_all)
        try:
            self._thread.start()
        except RuntimeError as error:
            _live.discard(self)
            raise UsageError(f"no thread could be started for the blocking API: {error}") from error

    @property
    def failed(self) -> bool:
        """Whether its loop could not be started; another portal may be luckier."""
        return self._failure is not None

    @property
    def left(self) -> bool:
        """Whether it takes no calls any more."""
        return self._leaving

    @property
    def forked(self) -> bool:
        """Whether this process is a fork of the one whose thread it is."""
        return os.getpid() != self._pid

    def check_caller(self) -> None:
        """Refuse callers that would wait forever.

        Raises:
            UsageError: In a forked process, or in the portal's own thread.
        """
        if self.forked:
            raise UsageError(
                "this memory was used before the process was forked, and its thread did not come "
                "along; make memories after a fork only, or start processes with 'spawn'"
            )
        if threading.get_ident() == self._thread.ident:
            raise UsageError(
                "the blocking API was called in its own event loop, which would wait for itself; "
                "use the async API inside callbacks"
            )

    def call(
        self,
        function: Callable[P, Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a coroutine function on the loop, in the caller's context, and wait for it.

        Whatever interrupts the caller cancels the task, and is raised again when that has let go.

        Raises:
            ClosedError: The portal is leaving.
            UsageError: Its event loop could not be started.
            BaseException: What the function raises, itself.
        """
        call = Call(functools.partial(function, *args, **kwargs))
        # Before looking whether it is leaving: a portal that leaves looks the other way round.
        self._calls.add(call)
        try:
            self._hand_over(call)
            call.wait()
        except BaseException:
            if self._loop is not None:
                call.abandon(self._loop)
            raise
        finally:
            self._calls.discard(call)
        error = call.take_error()
        if error is None:
            return call.take_value()
        try:
            if self._leaving and isinstance(error, (asyncio.CancelledError, GeneratorExit)):
                raise _closed() from None
            raise error
        finally:
            del error

    def leave(self) -> None:
        """Have the thread cancel its calls, say farewell and end; waits for nothing.

        Safe in a finalizer, which runs in any thread and under any lock, and may be called twice.
        """
        self._leaving = True
        if self._loop is not None and self._stop is not None and not self.forked:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stop.set)

    def join(self, seconds: float = _PATIENCE_S) -> None:
        """Wait for the thread's end, so long at most."""
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def _hand_over(self, call: Call[Any]) -> None:
        self._started.wait()
        if self._failure is not None:
            raise UsageError("the blocking API could not start its event loop") from self._failure
        if self._leaving or self._portal is None:
            raise _closed()
        try:
            self._portal.start_task_soon(call.run)
        except RuntimeError as error:
            raise _closed() from error

    def _main(self) -> None:
        try:
            anyio.run(self._serve, backend="asyncio")
        except BaseException as error:  # noqa: BLE001 - nobody is above it
            if self._portal is None:
                self._failure = error
            else:
                _log("the event loop of the blocking API ended with an error", error)
        finally:
            self._leaving = True
            _live.discard(self)
            for call in tuple(self._calls):
                call.refuse(_closed())
            self._started.set()

    async def _serve(self) -> None:
        async with BlockingPortal() as portal:
            stop = anyio.Event()
            self._portal, self._stop = portal, stop
            self._loop = asyncio.get_running_loop()
            # After the loop is known: `leave` looks the other way round.
            if self._leaving:
                stop.set()
            self._started.set()
            await stop.wait()
            while self._is_awaited():  # noqa: ASYNC110 - by threads
                await anyio.sleep(_HAND_OVER_STEP_S)
            await portal.stop(cancel_remaining=True)
        with anyio.move_on_after(_FAREWELL_S):
            try:
                await self._farewell()
            except Exception as error:  # noqa: BLE001 - there is no caller to tell
                _log("a memory that nobody closed could not be closed properly", error)

    def _is_awaited(self) -> bool:
        """Whether a caller is about to hand over: nobody would answer it when the loop is gone."""
        return any(not call.begun for call in tuple(self._calls))


def _without_frame(error: BaseException) -> BaseException:
    """Drop the frame that caught an error from its traceback: it tells nothing to a caller."""
    trace = error.__traceback__
    return error.with_traceback(trace.tb_next if trace else None)


def _closed() -> ClosedError:
    return ClosedError("this memory is closed; open a new one")


def _log(message: str, error: BaseException) -> None:
    # While the interpreter ends, threads cannot be started any more, and faults say nothing.
    level = logging.DEBUG if _exiting.is_set() else logging.WARNING
    _logger.log(level, message, exc_info=error)


_live: set[Portal] = set()
_exiting = threading.Event()


def _forget_in_child() -> None:
    _live.clear()


def _leave_all() -> None:
    """Close what nobody closed; what does not react in time dies with the process."""
    _exiting.set()
    portals = tuple(_live)
    for portal in portals:
        portal.leave()
    until = time.monotonic() + _EXIT_GRACE_S
    for portal in portals:
        portal.join(max(0.0, until - time.monotonic()))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
