"""Vectors of two embedders never mix on an Oracle store, whoever writes while one is replaced."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import anyio
import numpy as np
import pytest

from agentmemory.errors import EmbedderMismatchError
from agentmemory.protocols import EmbedderFingerprint
from agentmemory.records import ScopedRecord, Tier
from agentmemory.requests import JobDraft, JobOutcome, RecordChanges, RecordFilter
from agentmemory.scope import ScopeFilter
from tests.support.oracle.faults import FaultKind
from tests.support.oracle.served import served_store

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
OLD = EmbedderFingerprint(model="old", dimension=2)
NEW = EmbedderFingerprint(model="new", dimension=3)


@pytest.fixture
async def served():
    async with served_store() as opened:
        yield opened


def record(name):
    return ScopedRecord(
        id=name,
        record_type="fact",
        content=f"text of {name}",
        created_at=NOW,
        updated_at=NOW,
        user_id="u",
    )


def everywhere(*ids):
    return RecordFilter(scope=ScopeFilter(), now=NOW, tiers=tuple(Tier), ids=ids or None)


def unit(dimension):
    return np.full(dimension, dimension**-0.5, dtype=np.float32)


def dimensions(served):
    """Return how many vectors there are of each length."""
    return dict(
        served.rows(
            "SELECT vector_dims(embedding), COUNT(*) FROM memory_app.default_chunk "
            "WHERE embedding IS NOT NULL GROUP BY 1"
        )
    )


async def test_an_empty_store_is_tied_to_whoever_comes_and_then_to_the_first_with_vectors(served):
    await served.store.claim_embedder(OLD)
    async with served.another() as other:
        await other.claim_embedder(NEW)
        await other.add_records([record("a")], vectors={"a": unit(3)})
    with pytest.raises(EmbedderMismatchError, match="dimension: stored 3, given 2"):
        await served.store.claim_embedder(OLD)
    async with served.another() as third:
        await third.claim_embedder(NEW)


async def test_a_claim_that_holds_already_locks_nothing(served):
    await served.store.claim_embedder(OLD)
    async with served.another() as other:
        served.server.forget()
        await other.claim_embedder(OLD)
        assert not [text for text in served.server.statements if "LOCK TABLE" in text]


async def test_every_write_of_a_vector_is_refused_once_another_embedder_took_over(served):
    await served.store.claim_embedder(OLD)
    await served.store.add_records(
        [record("a")],
        vectors={"a": unit(2)},
        jobs=[JobDraft(id="j", kind="extract", thread_id=None)],
    )
    await served.store.claim_jobs(
        owner="w", limit=1, lease_until=NOW + timedelta(minutes=1), now=NOW
    )
    async with served.another() as other:
        await other.replace_embedder(NEW)
    vectors = {"a": unit(2)}
    outcome = JobOutcome(records=(record("b"),), vectors={"b": unit(2)})
    for call in (
        served.store.add_records([record("b")], vectors={"b": unit(2)}),
        served.store.update_record(
            everywhere("a"), RecordChanges(content="new"), now=NOW, vectors=vectors
        ),
        served.store.put_vectors(vectors),
        served.store.delete_records(everywhere("a"), vectors=vectors),
        served.store.complete_job("j", outcome, owner="w", now=NOW),
    ):
        with pytest.raises(EmbedderMismatchError, match="model: stored 'new', given 'old'"):
            await call
    assert dimensions(served) == {}
    assert len(await served.store.get_records(everywhere("a", "b"))) == 1
    # What brings no vector is welcome.
    await served.store.add_records([record("c")])


async def test_no_vector_of_the_one_before_outlives_a_replacement_in_the_middle_of_writes(served):
    await served.store.claim_embedder(OLD)
    refused = 0

    async def write(number: int) -> None:
        nonlocal refused
        async with served.another() as mine:
            await mine.claim_embedder(OLD)
            for place in range(12):
                name = f"r{number}-{place}"
                try:
                    await mine.add_records([record(name)], vectors={name: unit(2)})
                except EmbedderMismatchError:
                    refused += 1

    async def replace() -> None:
        async with served.another() as mine:
            await anyio.sleep(0.05)
            await mine.replace_embedder(NEW)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(replace)
        for number in range(3):
            tasks.start_soon(write, number)
    assert refused > 0
    assert dimensions(served) == {}


async def test_a_writer_in_the_middle_is_waited_for_by_whoever_replaces(served):
    await served.store.claim_embedder(OLD)
    replaced = anyio.Event()

    async def replace() -> None:
        await served.store.replace_embedder(NEW)
        replaced.set()

    # What a transaction that writes vectors holds.
    holding = "LOCK TABLE memory_app.default_meta IN ROW SHARE MODE"
    async with served.another() as mine, served.holding(holding) as writer:
        await mine.claim_embedder(OLD)
        # Writers do not wait for one another.
        with anyio.fail_after(10):
            await mine.add_records([record("a")], vectors={"a": unit(2)})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(replace)
            await anyio.sleep(0.2)
            assert not replaced.is_set()
            await writer.rollback()
    assert replaced.is_set()
    assert dimensions(served) == {}


@pytest.mark.parametrize("kind", [FaultKind.LOST_AFTER, FaultKind.LOST_BEFORE])
async def test_a_claim_without_an_answer_holds(served, kind):
    served.server.faults.add(kind, statement="MERGE INTO DEFAULT_META")
    await served.store.claim_embedder(OLD)
    served.server.faults.add(kind, statement="MERGE INTO DEFAULT_META")
    await served.store.replace_embedder(NEW)
    assert served.rows("SELECT value FROM memory_app.default_meta WHERE name = 'embedder'") == [
        (
            {
                "model": "new",
                "dimension": 3,
                "normalized": True,
                "query_prefix": "",
                "document_prefix": "",
            },
        )
    ]


async def test_a_store_that_was_made_anew_is_tied_again_by_the_next_vector(served):
    await served.store.claim_embedder(OLD)
    served.rows("DELETE FROM memory_app.default_meta WHERE name = 'embedder'")

    async def write(name: str) -> None:
        await served.store.add_records([record(name)], vectors={name: unit(2)})

    async with anyio.create_task_group() as tasks:
        for number in range(3):
            tasks.start_soon(write, f"r{number}")
    async with served.another() as other:
        with pytest.raises(EmbedderMismatchError):
            await other.claim_embedder(NEW)
    assert dimensions(served) == {2: 3}
