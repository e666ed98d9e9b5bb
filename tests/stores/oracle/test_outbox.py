"""The outbox and the summaries of an Oracle store do what those of a SQLite store do.

The rules are those of the SQLite store's tests, run once more; what only a database with many
writers can get wrong follows.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import anyio
import pytest

from agentmemory.errors import LeaseLostError, StaleReadError
from agentmemory.records import ThreadRecord
from agentmemory.requests import JobDraft, JobOutcome, JobState, StoredSummary
from tests.stores.sqlite.test_outbox import *  # noqa: F403 - the same rules for this store
from tests.stores.sqlite.test_outbox import claim, draft, record, summary
from tests.support.oracle.faults import FaultKind
from tests.support.oracle.served import Served, served_store

del test_a_file_of_the_first_version_is_brought_up_to_date  # noqa: F821 - about files

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)


@pytest.fixture
async def served():
    async with served_store() as opened:
        for name in ("t1", "t2"):
            await opened.store.add_thread(
                ThreadRecord(id=name, user_id="u", agent_id=None, created_at=NOW, updated_at=NOW)
            )
        opened.server.forget()
        yield opened


@pytest.fixture(name="store")
def _store(served):
    return served.store


async def many_jobs(store, threads=8, each=3):
    drafts = []
    for number in range(threads):
        name = f"thread{number}"
        await store.add_thread(
            ThreadRecord(id=name, user_id="u", agent_id=None, created_at=NOW, updated_at=NOW)
        )
        drafts += [draft(f"{name}-{place}", name) for place in range(each)]
    await store.add_records([record("m0")], jobs=drafts)
    return [item.id for item in drafts]


async def test_many_workers_do_every_job_once_and_those_of_a_thread_in_order(served):
    expected = await many_jobs(served.store)
    done: list[str] = []

    async def work(name: str) -> None:
        async with served.another() as mine:
            while len(done) < len(expected):
                jobs = await claim(mine, owner=name, limit=2)
                for job in jobs:
                    await mine.complete_job(job.id, JobOutcome(), owner=name, now=NOW)
                    done.append(job.id)
                if not jobs:
                    await anyio.sleep(0.01)

    async with anyio.create_task_group() as tasks:
        for number in range(4):
            tasks.start_soon(work, f"worker{number}")
    assert sorted(done) == sorted(expected)
    for number in range(8):
        of_thread = [name for name in done if name.startswith(f"thread{number}-")]
        assert of_thread == sorted(of_thread)


async def test_a_claim_passes_over_jobs_that_another_worker_is_locking(served):
    await served.store.add_records(
        [record("m0")], jobs=[draft("a", None), draft("b", None), draft("c", None)]
    )
    held = "SELECT 1 FROM memory_app.default_job WHERE id = 'a' FOR UPDATE"
    async with served.holding(held):
        taken = await claim(served.store, limit=2)
        assert [job.id for job in taken] == ["b", "c"]
    assert [job.id for job in await claim(served.store)] == ["a"]


async def test_claims_cost_one_trip_without_work_and_three_with_it(served):
    assert await claim(served.store) == ()
    assert served.server.count("pipeline", "execute") == 1
    await served.store.add_records([record("m0")], jobs=[draft("a")])
    served.server.forget()
    assert len(await claim(served.store)) == 1
    assert served.server.count("pipeline", "execute", "commit") == 3


async def test_a_claim_whose_answer_was_lost_is_found_and_counts_one_attempt(served):
    await served.store.add_records([record("m0")], jobs=[draft("a")])
    served.server.faults.add(FaultKind.LOST_AFTER, statement="SET state = 'leased'")
    (job,) = await claim(served.store)
    assert (job.id, job.attempts) == ("a", 1)


async def test_a_completion_whose_answer_was_lost_is_not_done_twice(served):
    await served.store.add_records([record("m1")], jobs=[draft("a")])
    await claim(served.store)
    served.server.faults.add(FaultKind.LOST_AFTER, statement="DELETE FROM DEFAULT_JOB WHERE id")
    outcome = JobOutcome(records=(record("f1", kind="fact"),))
    await served.store.complete_job("a", outcome, owner="w", now=NOW)
    assert (await served.store.stats(NOW)).records == {"fact": 1, "message": 1}
    assert await served.store.list_jobs(states=list(JobState)) == ()


async def test_a_completion_that_never_arrived_is_done_again(served):
    await served.store.add_records([record("m1")], jobs=[draft("a")])
    await claim(served.store)
    served.server.faults.add(FaultKind.LOST_BEFORE, statement="DELETE FROM DEFAULT_JOB WHERE id")
    outcome = JobOutcome(records=(record("f1", kind="fact"),))
    await served.store.complete_job("a", outcome, owner="w", now=NOW)
    assert (await served.store.stats(NOW)).records == {"fact": 1, "message": 1}


async def test_a_job_given_back_twice_for_want_of_an_answer_is_given_back_once(served):
    await served.store.add_records([record("m0")], jobs=[draft("a")])
    await claim(served.store)
    served.server.faults.add(FaultKind.LOST_AFTER, statement="SET state = :state")
    await served.store.give_job_back("a", owner="w", error="busy", run_after=LATER, now=NOW)
    (job,) = await served.store.list_jobs(states=[JobState.READY])
    assert (job.attempts, job.last_error) == (1, "busy")


async def test_revived_jobs_are_counted_though_the_answer_was_lost(served):
    await served.store.add_records([record("m0")], jobs=[draft("a"), draft("b", "t2")])
    for job in await claim(served.store):
        await served.store.give_job_back(job.id, owner="w", error="x", run_after=None, now=NOW)
    served.server.faults.add(FaultKind.LOST_AFTER, statement="SET state = 'ready'")
    assert await served.store.revive_jobs(now=LATER) == 2


async def test_a_lease_that_is_lost_stays_lost_when_its_renewal_is_asked_again(served):
    await served.store.add_records([record("m0")], jobs=[draft("a")])
    await claim(served.store, owner="w1")
    await claim(served.store, owner="w2", now=LATER)
    served.server.faults.add(FaultKind.LOST_AFTER, statement="SET lease_until = :lease_until WHERE")
    with pytest.raises(LeaseLostError):
        await served.store.renew_job("a", owner="w1", lease_until=LATER)


async def test_of_summaries_written_at_once_one_is_kept(served):
    results: list[object] = []

    async def put(text: str) -> None:
        async with served.another() as mine:
            try:
                results.append(
                    await mine.put_summary(summary(1, text=text), expected_revision=None)
                )
            except StaleReadError as error:
                results.append(error)

    async with anyio.create_task_group() as tasks:
        for number in range(4):
            tasks.start_soon(put, f"text {number}")
    kept = [item for item in results if isinstance(item, StoredSummary)]
    assert len(kept) == 1
    assert await served.store.get_summary("t1") == kept[0]


async def test_a_summary_whose_answer_was_lost_is_found(served):
    served.server.faults.add(FaultKind.LOST_AFTER, statement="INSERT INTO DEFAULT_SUMMARY")
    stored = await served.store.put_summary(summary(1), expected_revision=None)
    assert await served.store.get_summary("t1") == stored
    assert len(served.rows("SELECT 1 FROM memory_app.default_summary")) == 1


async def test_an_empty_summary_comes_back_empty(served):
    stored = await served.store.put_summary(summary(1, text=""), expected_revision=None)
    assert stored.content == ""


async def test_a_job_without_a_thread_holds_back_no_other(served: Served):
    drafts = [JobDraft(id=name, kind="extract", thread_id=None) for name in "abc"]
    await served.store.add_records([record("m0")], jobs=drafts)
    assert [job.id for job in await claim(served.store)] == ["a", "b", "c"]
    outcome = JobOutcome(held=("m1",))
    await served.store.complete_job("a", outcome, owner="w", now=NOW)
    await served.store.complete_job("b", JobOutcome(held=("m2",)), owner="w", now=NOW)
    (held,) = await served.store.list_jobs(states=[JobState.HELD])
    assert (held.thread_id, held.payload) == (None, {"messages": ["m2"]})
