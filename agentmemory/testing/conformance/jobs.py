"""Rules for background work and summaries: exactly once, in order; imports the library."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Final

from agentmemory.errors import LeaseLostError, StaleReadError
from agentmemory.protocols import MemoryStore
from agentmemory.records import Layer, ThreadRecord
from agentmemory.requests import (
    Expectation,
    Job,
    JobDraft,
    JobOutcome,
    JobState,
    ListQuery,
    RecordChanges,
    RecordFilter,
    StoredSummary,
)
from agentmemory.scope import ScopeFilter
from agentmemory.testing.conformance.base import NOW, USER, StoreRules, ids, record, refused

LATER: Final = NOW + timedelta(minutes=1)


def draft(name: str, thread_id: str = "t1", kind: str = "extract") -> JobDraft:
    """Make a job."""
    return JobDraft(id=name, kind=kind, thread_id=thread_id, payload={"name": name})


async def claim(store: MemoryStore, owner: str = "w", at: datetime = NOW) -> tuple[Job, ...]:
    """Take what is due, for half a minute."""
    return await store.claim_jobs(
        owner=owner, limit=10, lease_until=at + timedelta(seconds=30), now=at
    )


async def facts(store: MemoryStore) -> list[str]:
    """Return the ids of all facts."""
    found = RecordFilter(scope=ScopeFilter(), now=NOW, record_types=("fact",))
    return ids(await store.list_records(ListQuery(filter=found)))


class JobRules(StoreRules):
    """Background work and summaries."""

    @asynccontextmanager
    async def threads(self, *jobs: JobDraft) -> AsyncGenerator[MemoryStore]:
        """Give a store with two threads and a message in each, stored with some jobs."""
        async with self.store() as store:
            for name in ("t1", "t2"):
                await store.add_thread(
                    ThreadRecord(
                        id=name, user_id=USER, agent_id=None, created_at=NOW, updated_at=NOW
                    )
                )
            await store.add_records(
                [
                    record("m1", record_type="message", thread_id="t1"),
                    record("m2", record_type="message", thread_id="t2"),
                ],
                jobs=jobs,
            )
            yield store

    async def test_jobs_of_a_thread_are_done_one_after_another(self) -> None:
        """Other threads do not wait for them."""
        async with self.threads(draft("a"), draft("b"), draft("c", "t2")) as store:
            taken = await claim(store)
            assert ids(taken) == ["a", "c"]
            assert taken[0].payload == {"name": "a"}
            assert await claim(store) == ()
            await store.complete_job("a", JobOutcome(), owner="w", now=NOW)
            assert ids(await claim(store)) == ["b"]

    async def test_a_job_is_stored_once_however_often_it_is_stored(self) -> None:
        """Its id makes it so."""
        async with self.threads(draft("a"), draft("a")) as store:
            assert (await store.open_jobs())[0] == 1

    async def test_what_a_job_brings_is_stored_by_the_holder_of_its_lease_only(self) -> None:
        """Another worker took it over, and its work counts."""
        async with self.threads(draft("a")) as store:
            await claim(store, "first")
            assert [job.attempts for job in await claim(store, "second", LATER)] == [2]
            brought = JobOutcome(records=(record("f", record_type="fact", thread_id="t1"),))
            with refused(LeaseLostError, "'a'"):
                await store.complete_job("a", brought, owner="first", now=LATER)
            with refused(LeaseLostError, "'a'"):
                await store.renew_job("a", owner="first", lease_until=LATER)
            assert await facts(store) == []
            await store.complete_job("a", brought, owner="second", now=LATER)
            with refused(LeaseLostError, "'a'"):
                await store.complete_job("a", JobOutcome(), owner="second", now=LATER)
            assert await facts(store) == ["f"]

    async def test_a_job_brings_nothing_if_what_it_read_has_changed(self) -> None:
        """It stays leased, to be done anew."""
        async with self.threads(draft("a")) as store:
            await claim(store)
            message = RecordFilter(scope=ScopeFilter(), now=NOW, ids=("m1",))
            await store.update_record(message, RecordChanges(content="other"), now=NOW)
            brought = JobOutcome(
                records=(record("f", record_type="fact", thread_id="t1"),),
                expects=(Expectation(record_id="m1", revision=1),),
            )
            with refused(StaleReadError):
                await store.complete_job("a", brought, owner="w", now=NOW)
            assert await facts(store) == []
            assert (await store.open_jobs())[0] == 1

    async def test_failed_jobs_wait_or_are_given_up_and_can_be_revived(self) -> None:
        """A job that waits holds back its thread, a dead one does not."""
        async with self.threads(draft("a"), draft("b")) as store:
            await claim(store)
            await store.give_job_back("a", owner="w", error="busy", run_after=LATER, now=NOW)
            assert await claim(store) == ()
            assert await store.next_job_at() == LATER
            (again,) = await claim(store, "w", LATER)
            assert (again.id, again.attempts, again.last_error) == ("a", 2, "busy")
            await store.give_job_back("a", owner="w", error="no", run_after=None, now=LATER)
            assert ids(await store.list_jobs(states=[JobState.DEAD])) == ["a"]
            assert ids(await claim(store, "w", LATER)) == ["b"]
            assert await store.revive_jobs(now=LATER) == 1
            assert await store.list_jobs(states=[JobState.DEAD]) == ()

    async def test_jobs_of_other_kinds_are_left_alone(self) -> None:
        """They hold their thread back all the same."""
        async with self.threads(draft("a", kind="other"), draft("b"), draft("c", "t2")) as store:
            mine = await store.claim_jobs(
                owner="w", limit=10, lease_until=LATER, now=NOW, kinds=["extract"]
            )
            assert ids(mine) == ["c"]
            assert (await store.open_jobs(kinds=["extract"]))[0] == 2
            assert await store.next_job_at(kinds=["nothing"]) is None

    async def test_held_messages_wait_for_the_next_job_of_their_thread(self) -> None:
        """They are a note and no work."""
        async with self.threads(draft("a"), draft("b")) as store:
            await claim(store)
            await store.complete_job("a", JobOutcome(held=("m1",)), owner="w", now=NOW)
            (held,) = await store.list_jobs(thread_id="t1", states=[JobState.HELD])
            assert held.payload == {"messages": ["m1"]}
            assert (await store.open_jobs())[0] == 1
            assert ids(await claim(store)) == ["b"]
            await store.complete_job("b", JobOutcome(held=()), owner="w", now=NOW)
            assert await store.list_jobs(states=list(JobState)) == ()

    async def test_new_memories_take_the_place_of_those_of_a_changed_message(self) -> None:
        """What came partly from it stays and is marked."""
        async with self.threads(draft("a")) as store:
            await store.add_records(
                [
                    record("only", record_type="fact", sources=("m1",)),
                    record("partly", record_type="fact", sources=("m1", "m2")),
                ]
            )
            await claim(store)
            brought = JobOutcome(
                records=(record("new", record_type="fact", sources=("m1",)),),
                more_sources={"partly": ("m2", "m3")},
                retired_sources=("m1",),
            )
            deletion = await store.complete_job("a", brought, owner="w", now=NOW)
            assert deletion.counts == {"fact": 1}
            assert await facts(store) == ["partly", "new"]
            (partly,) = await store.get_records(
                RecordFilter(scope=ScopeFilter(), now=NOW, ids=("partly",))
            )
            assert partly.review_reason is not None
            assert partly.sources == ("m1", "m2", "m3")

    async def test_a_summary_is_stored_on_top_of_the_one_its_writer_saw(self) -> None:
        """A changed message takes along the summaries that cover it."""
        async with self.threads() as store:
            message = RecordFilter(scope=ScopeFilter(), now=NOW, ids=("m1",))
            (seen,) = await store.get_records(message)
            made = StoredSummary(
                thread_id="t1",
                revision=0,
                content="so far",
                topics=("b", "a"),
                covers_seq=seen.seq,
                created_at=NOW,
            )
            expects = (Expectation(record_id="m1", revision=seen.revision),)
            stored = await store.put_summary(made, expected_revision=None, expects=expects)
            assert (stored.content, stored.topics) == ("so far", ("b", "a"))
            with refused(StaleReadError):
                await store.put_summary(made, expected_revision=None)
            assert await store.get_summary("t1") == stored
            assert await store.get_summary("t1", before_seq=seen.seq) is None
            await store.update_record(message, RecordChanges(content="other"), now=NOW)
            assert await store.get_summary("t1") is None
            with refused(StaleReadError):
                await store.put_summary(made, expected_revision=None, expects=expects)
            renewed = await store.put_summary(made, expected_revision=None)
            assert renewed.revision != stored.revision

    async def test_records_can_be_read_by_their_layer(self) -> None:
        """A record without a layer is of none."""
        async with self.store() as store:
            await store.add_records(
                [record("a", layer=Layer.CRITICAL), record("b", layer=Layer.RULE), record("c")]
            )
            critical = RecordFilter(scope=ScopeFilter(), now=NOW, layers=(Layer.CRITICAL,))
            assert ids(await store.list_records(ListQuery(filter=critical))) == ["a"]
