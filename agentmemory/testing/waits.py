"""Retries that do not wait; may import models."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import anyio.lowlevel

from agentmemory.models.http import Waits


@contextmanager
def without_waits() -> Generator[list[float]]:
    """Let the waits between attempts take no time, for every model client of this process.

    Yields:
        The waits that were asked for so far, in seconds.
    """
    asked: list[float] = []

    async def note(seconds: float) -> None:
        asked.append(seconds)
        await anyio.lowlevel.checkpoint()

    usual = Waits.sleep
    Waits.sleep = staticmethod(note)
    try:
        yield asked
    finally:
        Waits.sleep = staticmethod(usual)
