"""Who goes first: operations that callers wait for, before those of work in the background.

May import outbox.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import anyio

from agentmemory.outbox import IN_BACKGROUND

T = TypeVar("T")

PATIENCE_S: Final = 0.05
"""How long an operation in the background stands back at most: under constant load twenty a second
get through, so that work goes on and few callers meet one."""


class Precedence:
    """Lets operations in the background stand back while callers have some under way.

    Those in the background take turns, so that one at most is ahead of a caller's, in the queue of
    a thread as well as at the interpreter.
    """

    def __init__(self) -> None:
        self._callers = 0
        self._idle = anyio.Event()
        self._turn = anyio.Lock()

    async def run(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Run an operation when it is its turn: a caller's at once."""
        if IN_BACKGROUND.get():
            async with self._turn:
                await self._stand_back()
                return await operation()
        self._callers += 1
        try:
            return await operation()
        finally:
            self._callers -= 1
            if not self._callers:
                self._idle.set()

    async def _stand_back(self) -> None:
        with anyio.move_on_after(PATIENCE_S):
            while self._callers:
                self._idle = anyio.Event()
                await self._idle.wait()
