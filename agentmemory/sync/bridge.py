"""What a blocking client and its handles share: the way to the event loop, and its end.

May import: errors, and `portal` of this package.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from agentmemory.errors import ClosedError
from agentmemory.sync.portal import Farewell, Portal

P = ParamSpec("P")
T = TypeVar("T")


class Bridge:
    """Carries calls into an event loop in a thread of its own, started by the first of them.

    Any thread may call, also one whose own event loop is running: that loop stands still
    meanwhile. Context variables of the caller are seen by the call. Callables that a call was
    given run in the bridge's thread, from where the blocking API is refused. If nobody calls
    `close`, the thread ends when the bridge is collected or the interpreter exits, and says the
    farewell either way.

    Args:
        farewell: What closes the async side; must do no harm when it is called again, and must
            not hold the bridge.
    """

    def __init__(self, farewell: Farewell) -> None:
        self._farewell = farewell
        self._portal: Portal | None = None
        self._closed = False
        self._closing = threading.Lock()

    def call(
        self,
        function: Callable[P, Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Await `function(*args, **kwargs)` in the bridge's thread and return what it returns.

        If the caller is interrupted, by Ctrl-C for one, the task is cancelled, and for a few
        seconds at most waited for, before the interruption goes on.

        Raises:
            ClosedError: The bridge was closed, also while the call was running.
            UsageError: In the bridge's own thread, or after a fork.
            BaseException: What the function raises, itself.
        """
        portal = self._portal
        if portal is None or self._closed or portal.failed:
            portal = self._start()
        portal.check_caller()
        return portal.call(function, *args, **kwargs)

    def close(
        self,
        function: Callable[P, Coroutine[Any, Any, None]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        """Await what closes the async side, then end the thread; the first call decides.

        Calls of other threads that are still running then raise `ClosedError`. In a forked
        process it only marks the bridge as closed.

        Raises:
            UsageError: In the bridge's own thread.
            BaseException: What the function raises, itself; the thread is ended all the same.
        """
        if self._portal is not None:
            if self._portal.forked:
                self._closed = True
                return
            self._portal.check_caller()
        with self._closing:
            with _starting:
                first, self._closed = not self._closed, True
                portal = self._portal
            if portal is None or portal.left or not first:
                return
            try:
                portal.call(function, *args, **kwargs)
            finally:
                portal.leave()
                portal.join()

    def _start(self) -> Portal:
        with _starting:
            if self._closed:
                raise ClosedError("this memory is closed; open a new one")
            if self._portal is None or self._portal.failed:
                portal = Portal(self._farewell)
                # First of all, so that an interrupted start leaves no thread behind either.
                weakref.finalize(self, portal.leave).atexit = False
                portal.start()
                self._portal = portal
            return self._portal


_starting = threading.Lock()


def _renew_in_child() -> None:
    # A thread that did not come along may have held it.
    global _starting  # noqa: PLW0603
    _starting = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_in_child)
