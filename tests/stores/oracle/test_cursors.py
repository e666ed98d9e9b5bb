"""Cursors of the driver end with the operation that needed them, not when they are collected."""

from __future__ import annotations

import gc

import oracledb
import pytest

from agentmemory.errors import StoreError
from tests.support.oracle.faults import FaultKind
from tests.support.oracle_engines import change, engine_on, many, scripted


def cursors() -> int:
    """Return how many cursors there are."""
    return sum(isinstance(item, oracledb.AsyncCursor) for item in gc.get_objects())


@pytest.mark.parametrize("kind", [FaultKind.ERROR, FaultKind.LOST_BEFORE])
async def test_a_failed_pipeline_leaves_none_to_the_collector(kind):
    async def work(transaction):
        await transaction.run(
            many("INSERT INTO t (a) VALUES (:a)", {"a": 1}, {"a": 2}), change("UPDATE t SET a = 3")
        )

    with scripted() as (server, _):
        async with engine_on(server, "pool", attempts=1) as engine:
            gc.collect()
            gc.disable()
            try:
                before = cursors()
                server.faults.add(kind, statement="UPDATE", code=932, times=9)
                with pytest.raises(StoreError) as caught:
                    await engine.write(work)
                assert cursors() == before, caught.value
            finally:
                gc.enable()
