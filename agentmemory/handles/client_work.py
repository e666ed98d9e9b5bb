"""What a client does with background work: wait for it, and try again what was given up.

May import handles.base, parts and below.
"""

from __future__ import annotations

from agentmemory.checks import check_int, check_number
from agentmemory.handles.base import ClientHandle
from agentmemory.requests import Job, JobState


class ClientWork(ClientHandle):
    """The background work of a client."""

    async def wait_for_memory_extraction(self, timeout: float | None = None) -> None:
        """Wait until every message added so far has been worked on, or was given up.

        Args:
            timeout: Most seconds to wait; None: no limit.

        Raises:
            WaitTimeoutError: Work is left after `timeout`; it goes on in the background.
            ValidationError: `timeout` is no number of seconds.
        """
        if timeout is not None:
            check_number(timeout, argument="timeout", minimum=0)
        await self._parts.ready()
        await self._parts.extraction.worker.wait(thread_id=None, timeout=timeout)

    async def list_failed(self, *, limit: int = 100) -> list[Job]:
        """Return the work that was given up, oldest first, each with its `last_error`.

        Args:
            limit: Most of them, 1 to 1000.
        """
        check_int(limit, argument="limit", minimum=1, maximum=1000)
        await self._parts.ready()
        return list(await self._parts.store.list_jobs(states=[JobState.DEAD], limit=limit))

    async def retry_failed(self) -> int:
        """Try again all work that was given up, and return how much that is."""
        await self._parts.ready()
        count = await self._parts.store.revive_jobs(now=self._parts.clock.now())
        if count:
            self._parts.extraction.worker.wake()
        return count
