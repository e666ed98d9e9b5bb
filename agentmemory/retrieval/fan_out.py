"""Several awaitable pieces of work at once, in order, first failure first.

Imports anyio only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import anyio

T = TypeVar("T")
R = TypeVar("R")


async def fan_out(
    worker: Callable[[T], Awaitable[R]], items: Sequence[T], *, limiter: anyio.CapacityLimiter
) -> list[R]:
    """Run `worker` on every item in one task group and return the results in item order.

    Args:
        worker: Awaited once per item.
        items: What to work on.
        limiter: Bounds how many run at once; may be shared.

    Raises:
        Exception: The first failure as itself, never as a group; the rest are cancelled.
    """
    results: dict[int, R] = {}
    failures: list[Exception] = []

    async def run(index: int, item: T) -> None:
        async with limiter:
            try:
                results[index] = await worker(item)
            except Exception as failure:  # noqa: BLE001 - raised below, as itself
                failures.append(failure)
                group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for index, item in enumerate(items):
            group.start_soon(run, index, item)
    if failures:
        raise failures[0]
    return [results[index] for index in range(len(items))]
