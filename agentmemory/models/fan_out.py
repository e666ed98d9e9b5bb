"""Several calls at once, of which the first failure counts; imports nothing of the package."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

import anyio


async def run_all(jobs: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """Run jobs at the same time.

    Args:
        jobs: What to run; how many really run at a time is up to what they call.

    Raises:
        Exception: What the first job to fail raised, as itself; the others are cancelled.
    """
    failed: list[Exception] = []

    async def run(job: Callable[[], Awaitable[None]]) -> None:
        try:
            await job()
        except Exception as error:  # noqa: BLE001 - raised below, out of its group
            failed.append(error)
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for job in jobs:
            group.start_soon(run, job)
    if failed:
        raise failed[0]
