"""The parts that stand in for models and time."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta, timezone

import anyio
import numpy as np
import pytest

from agentmemory.errors import ValidationError
from agentmemory.protocols import Clock, IEmbedder
from agentmemory.testing import FrozenClock, HashEmbedder


async def test_texts_with_words_in_common_are_closer() -> None:
    embedder = HashEmbedder()
    rows = await embedder.embed(
        ["User is vegetarian.", "the user is a VEGETARIAN", "deploy the database"]
    )
    assert rows.shape == (3, 64)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-6)
    assert rows[0] @ rows[1] > 0.5 > rows[0] @ rows[2]


async def test_chinese_text_is_compared_by_character() -> None:
    rows = await HashEmbedder().embed(["我喜欢安静的餐厅", "安静的餐厅在哪里", "数据库迁移"])
    assert rows[0] @ rows[1] > rows[0] @ rows[2]


async def test_hash_vectors_are_the_same_in_every_process() -> None:
    code = (
        "import asyncio; from agentmemory.testing import HashEmbedder;"
        "print(asyncio.run(HashEmbedder(8).embed(['quiet restaurants'])).tobytes().hex())"
    )
    here = (await HashEmbedder(8).embed(["quiet restaurants"])).tobytes().hex()
    there = await anyio.run_process([sys.executable, "-c", code])
    assert there.stdout.decode().strip() == here


async def test_text_without_words_is_a_zero_vector() -> None:
    rows = await HashEmbedder().embed(["", "?!"])
    assert not rows.any()


async def test_calls_are_recorded() -> None:
    embedder = HashEmbedder(dimension=3)
    await embedder.embed(["a"], is_query=True)
    await embedder.embed(["b", "c"])
    assert embedder.calls == [(("a",), True), (("b", "c"), False)]
    assert (await embedder.fingerprint()).dimension == 3
    assert isinstance(embedder, IEmbedder)


@pytest.mark.parametrize("dimension", [0, -1, True, 2.0, "64"])
def test_a_dimension_that_is_none_is_refused(dimension: object) -> None:
    with pytest.raises(ValidationError, match="`dimension`"):
        HashEmbedder(dimension)  # type: ignore[arg-type]


def test_the_clock_stands_until_it_is_moved() -> None:
    start = datetime(2026, 5, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    clock = FrozenClock(start)
    assert clock.now() == start
    assert clock.now().tzinfo is UTC
    clock.advance(90)
    clock.advance(timedelta(minutes=1), days=1, hours=-1)
    assert clock.now() - start == timedelta(days=1, hours=-1, seconds=150)
    clock.set(start)
    assert clock.now() == start
    assert isinstance(clock, Clock)


def test_a_clock_without_a_time_zone_is_refused() -> None:
    with pytest.raises(ValidationError, match="`now`"):
        FrozenClock(datetime(2026, 5, 1))  # noqa: DTZ001 - the point of the test
