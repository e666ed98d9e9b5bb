"""The outbox and the summaries of a SQLite store: exactly once, in order, compare-and-swap."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import apsw
import pytest

from agentmemory.config import SchemaPolicy
from agentmemory.errors import (
    LeaseLostError,
    NotFoundError,
    SchemaMismatchError,
    StaleReadError,
)
from agentmemory.records import RecordRelation, ScopedRecord, ThreadRecord, Tier
from agentmemory.requests import (
    Expectation,
    JobDraft,
    JobOutcome,
    JobState,
    ListQuery,
    RecordChanges,
    RecordFilter,
    StoredSummary,
)
from agentmemory.scope import ScopeFilter
from agentmemory.stores.sqlite.schema import (
    APPLICATION_ID,
    MIGRATIONS,
    REGISTRY,
    SCHEMA_VERSION,
    Tables,
)
from agentmemory.stores.sqlite.store import SqliteStore

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)


@pytest.fixture
async def store():
    opened = SqliteStore(":memory:")
    await opened.open()
    for name in ("t1", "t2"):
        await opened.add_thread(
            ThreadRecord(id=name, user_id="u", agent_id=None, created_at=NOW, updated_at=NOW)
        )
    yield opened
    await opened.close()


def record(name, *, kind="message", thread="t1", sources=(), content=None):
    return ScopedRecord(
        id=name,
        record_type=kind,
        content=content or f"text of {name}",
        created_at=NOW,
        updated_at=NOW,
        user_id="u",
        thread_id=thread,
        sources=sources,
    )


def draft(name, thread="t1"):
    return JobDraft(id=name, kind="extract", thread_id=thread, payload={"n": name})


def everywhere(*ids):
    return RecordFilter(scope=ScopeFilter(), now=NOW, tiers=tuple(Tier), ids=ids or None)


async def ids_of(store, kind):
    page = await store.list_records(
        ListQuery(filter=RecordFilter(scope=ScopeFilter(), now=NOW, record_types=(kind,)))
    )
    return [item.id for item in page]


async def claim(store, *, owner="w", limit=10, now=NOW):
    return await store.claim_jobs(
        owner=owner, limit=limit, lease_until=now + timedelta(seconds=30), now=now
    )


async def test_jobs_of_a_thread_are_claimed_one_after_another_in_order(store):
    await store.add_records([record("m1")], jobs=[draft("a"), draft("b"), draft("c", "t2")])
    first = await claim(store)
    assert [job.id for job in first] == ["a", "c"]
    assert (first[0].attempts, first[0].lease_owner, first[0].payload) == (1, "w", {"n": "a"})
    assert await claim(store) == ()
    await store.complete_job("a", JobOutcome(), owner="w", now=NOW)
    assert [job.id for job in await claim(store)] == ["b"]


async def test_a_lease_that_ran_out_goes_to_another_worker_and_the_first_one_can_not_complete(
    store,
):
    await store.add_records([record("m1")], jobs=[draft("a")])
    await claim(store, owner="w1")
    assert [job.attempts for job in await claim(store, owner="w2", now=LATER)] == [2]
    outcome = JobOutcome(records=(record("f1", kind="fact"),))
    for call in (
        store.complete_job("a", outcome, owner="w1", now=LATER),
        store.renew_job("a", owner="w1", lease_until=LATER),
        store.give_job_back("a", owner="w1", error="x", run_after=None, now=LATER),
    ):
        with pytest.raises(LeaseLostError, match="'a'"):
            await call
    assert await ids_of(store, "fact") == []
    await store.complete_job("a", outcome, owner="w2", now=LATER)
    with pytest.raises(LeaseLostError):
        await store.complete_job(
            "a", JobOutcome(records=(record("f2", kind="fact"),)), owner="w2", now=LATER
        )
    assert await ids_of(store, "fact") == ["f1"]


async def test_leases_that_ran_out_are_counted_apart(store):
    await store.add_records([record("m")], jobs=[draft("a")])
    now = NOW
    for deaths in range(4):
        (job,) = await claim(store, owner=f"w{deaths}", now=now)
        assert (job.attempts, job.deaths) == (deaths + 1, deaths)
        now += timedelta(hours=1)
    await store.give_job_back("a", owner="w3", error="busy", run_after=now, now=now)
    (job,) = await claim(store, now=now)
    assert (job.attempts, job.deaths) == (5, 3)
    await store.give_job_back("a", owner="w", error="busy", run_after=None, now=now)
    await store.revive_jobs(now=now)
    (job,) = await claim(store, now=now)
    assert (job.attempts, job.deaths) == (1, 0)


async def test_a_file_of_the_first_version_is_brought_up_to_date(tmp_path):
    path = tmp_path / "m.db"

    def make() -> None:
        t = Tables("DEFAULT")
        connection = apsw.Connection(str(path))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        for statement in (
            *MIGRATIONS[1](t),
            f"CREATE TABLE {REGISTRY} (store_id TEXT PRIMARY KEY, schema_version INTEGER NOT NULL)",
            f"INSERT INTO {REGISTRY} VALUES ('DEFAULT', 1)",
        ):
            connection.execute(statement)
        connection.execute(
            f"INSERT INTO {t.job} (id, kind, payload, state, attempts, run_after, created_at, "
            f"updated_at) VALUES ('old', 'work', '{{}}', 'ready', 2, 0, 0, 0)"
        )
        connection.close()

    await asyncio.to_thread(make)
    strict = SqliteStore(str(path), schema_policy=SchemaPolicy.REQUIRE_EXISTING)
    with pytest.raises(SchemaMismatchError, match="CREATE_IF_NECESSARY"):
        await strict.open()
    store = SqliteStore(str(path))
    await store.open()
    (job,) = await claim(store)
    assert (job.id, job.attempts, job.deaths) == ("old", 3, 0)
    assert (await store.stats(NOW)).schema_version == SCHEMA_VERSION
    await store.close()


async def test_a_renewed_lease_is_not_taken_over(store):
    await store.add_records([record("m1")], jobs=[draft("a")])
    await claim(store)
    await store.renew_job("a", owner="w", lease_until=LATER + timedelta(minutes=1))
    assert await claim(store, owner="w2", now=LATER) == ()


async def test_a_failed_job_waits_for_its_time_and_holds_back_its_thread(store):
    await store.add_records([record("m1")], jobs=[draft("a"), draft("b")])
    await claim(store)
    await store.give_job_back("a", owner="w", error="busy", run_after=LATER, now=NOW)
    assert await claim(store) == ()
    assert await store.next_job_at() == LATER
    again = await claim(store, now=LATER)
    assert [(job.id, job.attempts, job.last_error) for job in again] == [("a", 2, "busy")]


async def test_a_job_given_back_without_an_error_has_not_used_an_attempt(store):
    await store.add_records([record("m1")], jobs=[draft("a")])
    await claim(store)
    await store.give_job_back("a", owner="w", error=None, run_after=NOW, now=NOW)
    assert [(job.attempts, job.last_error) for job in await claim(store)] == [(1, None)]


async def test_dead_letters_keep_their_reason_let_the_thread_go_on_and_can_be_revived(store):
    await store.add_records([record("m1")], jobs=[draft("a"), draft("b")])
    await claim(store)
    await store.give_job_back("a", owner="w", error="refused", run_after=None, now=NOW)
    dead = await store.list_jobs(states=[JobState.DEAD])
    assert [(job.id, job.last_error) for job in dead] == [("a", "refused")]
    assert await store.open_jobs(thread_id="t1") == (1, 2)
    assert (await store.stats(NOW)).jobs == {"dead": 1, "ready": 1}
    assert [job.id for job in await claim(store)] == ["b"]
    assert await store.revive_jobs(now=LATER) == 1
    assert [(job.state, job.attempts) for job in await store.list_jobs(states=list(JobState))] == [
        (JobState.READY, 0),
        (JobState.LEASED, 1),
    ]


async def test_completing_stores_nothing_when_a_message_was_changed_since_it_was_read(store):
    await store.add_records([record("m1")], jobs=[draft("a")])
    await claim(store)
    await store.update_record(everywhere("m1"), RecordChanges(content="other"), now=NOW)
    outcome = JobOutcome(
        records=(record("f1", kind="fact", sources=("m1",)),),
        expects=(Expectation(record_id="m1", revision=1),),
    )
    with pytest.raises(StaleReadError):
        await store.complete_job("a", outcome, owner="w", now=NOW)
    assert await ids_of(store, "fact") == []
    assert (await store.open_jobs())[0] == 1


async def test_a_link_whose_end_is_gone_does_not_cost_the_memory(store):
    await store.add_records([record("m1"), record("old", kind="fact")], jobs=[draft("a")])
    await claim(store)

    def link(name, target):
        return RecordRelation(
            id=name,
            source_record_id="new",
            source_record_type="fact",
            target_record_id=target,
            target_record_type="fact",
            relation_type="supersedes",
            opposite_relation_type="is_superseded_by",
            created_at=NOW,
        )

    outcome = JobOutcome(
        records=(record("new", kind="fact"),), links=(link("l1", "gone"), link("l2", "old"))
    )
    await store.complete_job("a", outcome, owner="w", now=NOW)
    (old,) = await store.get_records(everywhere("old"))
    assert (old.status, old.replaced_by) == ("invalid", "new")


async def test_what_came_only_from_retired_messages_goes_and_what_came_partly_is_marked(store):
    await store.add_records([record("m1"), record("m2")], jobs=[draft("a")])
    await store.add_records(
        [
            record("only", kind="fact", sources=("m1",)),
            record("partly", kind="fact", sources=("m1", "m2")),
            record("other", kind="fact", sources=("m2",)),
            record("by-hand", kind="fact"),
        ]
    )
    await claim(store)
    outcome = JobOutcome(
        records=(record("new", kind="fact", sources=("m1",)),), retired_sources=("m1",)
    )
    deletion = await store.complete_job("a", outcome, owner="w", now=NOW)
    assert deletion.counts == {"fact": 1}
    assert await ids_of(store, "fact") == ["partly", "other", "by-hand", "new"]
    partly, other = await store.get_records(everywhere("partly", "other"))
    assert partly.review_reason == "came partly from a message that was changed"
    assert other.review_reason is None


async def test_more_sources_are_added_once_to_what_was_extracted_and_never_to_what_was_written_by_hand(
    store,
):
    await store.add_records([record("m1"), record("m2")], jobs=[draft("a")])
    await store.add_records(
        [record("f", kind="fact", sources=("m1",)), record("by-hand", kind="fact")]
    )
    await claim(store)
    outcome = JobOutcome(more_sources={"f": ("m1", "m2"), "by-hand": ("m2",)})
    await store.complete_job("a", outcome, owner="w", now=NOW)
    extracted, by_hand = await store.get_records(everywhere("f", "by-hand"))
    assert extracted.sources == ("m1", "m2")
    assert by_hand.sources == ()


def summary(covers, text="so far"):
    return StoredSummary(
        thread_id="t1",
        revision=0,
        content=text,
        topics=("b", "a"),
        covers_seq=covers,
        created_at=NOW,
    )


async def test_a_summary_is_stored_only_on_top_of_the_one_its_writer_saw(store):
    first = await store.put_summary(summary(1), expected_revision=None)
    assert (first.content, first.topics, first.covers_seq) == ("so far", ("b", "a"), 1)
    for expected in (None, first.revision + 1):
        with pytest.raises(StaleReadError):
            await store.put_summary(summary(2), expected_revision=expected)
    second = await store.put_summary(summary(2), expected_revision=first.revision)
    assert second.revision > first.revision
    assert await store.get_summary("t1") == second
    assert await store.get_summary("t1", before_seq=2) == first
    assert await store.get_summary("t2") is None
    with pytest.raises(NotFoundError):
        await store.put_summary(
            StoredSummary(
                thread_id="t9", revision=0, content="x", topics=(), covers_seq=1, created_at=NOW
            ),
            expected_revision=None,
        )


async def test_a_changed_message_takes_the_summaries_that_cover_it_and_their_revision_is_not_used_again(
    store,
):
    one, two = await store.add_records([record("m1"), record("m2")])
    kept = await store.put_summary(summary(one.seq), expected_revision=None)
    gone = await store.put_summary(summary(two.seq), expected_revision=kept.revision)
    await store.update_record(everywhere("m2"), RecordChanges(content="other"), now=NOW)
    assert await store.get_summary("t1") == kept
    renewed = await store.put_summary(summary(two.seq), expected_revision=kept.revision)
    assert renewed.revision not in (kept.revision, gone.revision)
    await store.delete_records(everywhere("m1"))
    assert await store.get_summary("t1") is None


async def test_a_summary_of_a_message_that_changed_meanwhile_is_refused(store):
    await store.add_records([record("m1")])
    await store.delete_records(everywhere("m1"))
    with pytest.raises(StaleReadError):
        await store.put_summary(
            summary(1), expected_revision=None, expects=[Expectation(record_id="m1", revision=1)]
        )


async def test_a_thread_keeps_a_bounded_number_of_summaries(store):
    revision = None
    for place in range(30):
        revision = (await store.put_summary(summary(place), expected_revision=revision)).revision
    assert await store.get_summary("t1", before_seq=9) is None
    assert (await store.get_summary("t1", before_seq=11)).covers_seq == 10


async def test_held_messages_are_a_note_that_the_next_job_of_the_thread_replaces(store):
    await store.add_records([record("m1")], jobs=[draft("a"), draft("b")])
    await claim(store)
    await store.complete_job("a", JobOutcome(held=("m1",)), owner="w", now=NOW)
    (held,) = await store.list_jobs(thread_id="t1", states=[JobState.HELD])
    assert held.payload == {"messages": ["m1"]}
    assert await store.open_jobs() == (1, 3)
    assert [job.id for job in await claim(store)] == ["b"]
    await store.complete_job("b", JobOutcome(held=()), owner="w", now=NOW)
    assert await store.list_jobs(states=list(JobState)) == ()
    assert await store.next_job_at() is None


async def test_jobs_of_other_kinds_are_left_alone_and_hold_their_thread_back(store):
    await store.add_records(
        [record("m1")],
        jobs=[
            JobDraft(id="a", kind="other", thread_id="t1"),
            draft("b"),
            draft("c", "t2"),
            JobDraft(id="d", kind="other", thread_id="t2"),
        ],
    )
    mine = await store.claim_jobs(
        owner="w", limit=10, lease_until=LATER, now=NOW, kinds=["extract"]
    )
    assert [job.id for job in mine] == ["c"]
    assert (await store.open_jobs(kinds=["extract"]))[0] == 2
    assert (await store.open_jobs())[0] == 4
    assert await store.next_job_at(kinds=["extract"]) == LATER
    assert await store.next_job_at(kinds=["nothing"]) is None
