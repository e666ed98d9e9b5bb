"""Deletes on an Oracle store take the same as on SQLite, in a number of statements that is fixed."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import anyio
import numpy as np
import pytest

from agentmemory.errors import NotFoundError, ScopeError
from agentmemory.records import LINK_TYPES, RecordRelation, ScopedRecord, ThreadRecord, Tier
from agentmemory.requests import (
    Deletion,
    JobDraft,
    JobOutcome,
    LinkQuery,
    ListQuery,
    RecordFilter,
    StoredSummary,
)
from agentmemory.scope import DimensionMatch, ScopeFilter
from agentmemory.stores.audit import scope_digest
from agentmemory.stores.oracle import deletes
from agentmemory.stores.oracle.erasure import TEXT_INDEX, UNSEARCHED, scan
from agentmemory.stores.sqlite.store import SqliteStore
from tests.support.oracle.faults import FaultKind
from tests.support.oracle.served import served_store

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(days=2)


@pytest.fixture
async def served():
    async with served_store() as opened:
        yield opened


def everywhere(*ids, now=NOW):
    return RecordFilter(scope=ScopeFilter(), now=now, tiers=tuple(Tier), ids=ids or None)


def scope(**dimensions):
    return ScopeFilter(**{name: DimensionMatch(True, value) for name, value in dimensions.items()})


def record(name, kind="message", **values):
    given = {"created_at": NOW, "updated_at": NOW, "user_id": "u", **values}
    return ScopedRecord(id=name, record_type=kind, content=f"text of {name}", **given)


def link(name, source, target, kind):
    return RecordRelation(
        id=name,
        source_record_id=source,
        source_record_type="fact",
        target_record_id=target,
        target_record_type="fact",
        relation_type=kind,
        opposite_relation_type=LINK_TYPES[kind],
        created_at=NOW,
    )


async def fill(store, chance):
    """Store threads of two users with messages, and memories that came from them, linked."""
    vectors = {}
    for thread, user in (("t1", "u"), ("t2", "u"), ("t3", "v")):
        await store.add_thread(
            ThreadRecord(id=thread, user_id=user, agent_id="a", created_at=NOW, updated_at=NOW)
        )
    messages = []
    for number in range(18):
        thread, user = chance.choice((("t1", "u"), ("t2", "u"), ("t3", "v")))
        expires = LATER if chance.random() < 0.3 else None
        messages.append(
            record(f"m{number}", thread_id=thread, user_id=user, agent_id="a", expires_at=expires)
        )
        vectors[f"m{number}"] = np.array([1, number], dtype=np.float32) / (1 + number)
    await store.add_records(messages, vectors=vectors)
    for number, message in enumerate(messages):
        await store.put_summary(
            StoredSummary(
                thread_id=message.thread_id,
                revision=0,
                content=f"so far {number}",
                topics=(),
                covers_seq=number + 1,
                created_at=NOW,
            ),
            expected_revision=_revision(await store.get_summary(message.thread_id)),
        )
    facts = []
    for number in range(16):
        sources = tuple(
            chance.sample([message.id for message in messages], chance.choice((0, 1, 1, 2)))
        )
        facts.append(
            record(
                f"f{number}",
                "fact",
                user_id=chance.choice(("u", "u", "v")),
                agent_id=chance.choice(("a", None)),
                thread_id=None,
                sources=sources,
                expires_at=LATER if chance.random() < 0.2 else None,
            )
        )
    await store.add_records(
        facts, jobs=[JobDraft(id=f"j{n}", kind="extract", thread_id=f"t{n}") for n in (1, 2, 3)]
    )
    made = 0
    while made < 18:
        source, target = chance.sample(facts, 2)
        kind = chance.choice(("supersedes", "refines", "depends_on", "depends_on", "supports"))
        if source.user_id == target.user_id:
            made += 1
            name = f"l{made}"
            if (await _ends(store, source.id, target.id, kind)) == 0:
                await store.add_link(
                    link(name, source.id, target.id, kind), record_filter=everywhere(), now=NOW
                )


def _revision(summary):
    return None if summary is None else summary.revision


async def _ends(store, source, target, kind):
    page = await store.list_links(LinkQuery(filter=everywhere(), record_id=source, limit=1000))
    return sum(
        (item.source_record_id, item.target_record_id, item.relation_type) == (source, target, kind)
        for item in page
    )


async def left(store, now=NOW):
    """Return all that a store holds, as far as stores can be compared by it."""
    page = await store.list_records(ListQuery(filter=everywhere(now=now), limit=1000))
    links = await store.list_links(LinkQuery(filter=everywhere(now=now), limit=1000))
    summaries = [await store.get_summary(name) for name in ("t1", "t2", "t3")]
    stats = await store.stats(now)
    return {
        "records": page.items,
        "links": [item.id for item in links],
        "vectors": sorted(await store.vectors([item.id for item in page])),
        "summaries": [item and item.content for item in summaries],
        "counts": (stats.records, stats.threads, stats.chunks, stats.vectors, dict(stats.jobs)),
    }


DELETES = {
    "a message": lambda store: store.delete_records(everywhere("m5")),
    "some": lambda store: store.delete_records(everywhere("m1", "m2", "m3", "m8", "f1", "f2")),
    "by filter": lambda store: store.delete_records(
        RecordFilter(scope=scope(user="u"), now=NOW, record_types=("fact",))
    ),
    "nothing": lambda store: store.delete_records(everywhere("x")),
    "a thread": lambda store: store.delete_thread("t1", now=LATER),
    "a user": lambda store: store.delete_scope(scope(user="u"), now=LATER),
    "an agent": lambda store: store.delete_scope(scope(agent="a"), now=LATER),
    "without an agent": lambda store: store.delete_scope(scope(agent=None, user="u"), now=LATER),
    "without a thread": lambda store: store.delete_scope(scope(thread=None), now=LATER),
    "the scope of a thread": lambda store: store.delete_scope(scope(thread="t2"), now=LATER),
    "what expired": lambda store: store.purge_expired(LATER),
    "all counted": lambda store: store.delete_scope(scope(user="u"), now=LATER, dry_run=True),
}


@pytest.mark.parametrize("name", DELETES)
async def test_a_delete_takes_marks_and_leaves_what_it_does_on_sqlite(served, name):
    seed = sum(name.encode())
    sqlite = SqliteStore(":memory:")
    await sqlite.open()
    answers = []
    for store in (sqlite, served.store):
        await fill(store, random.Random(seed))
        deletion = await DELETES[name](store)
        answers.append((deletion, await left(store)))
    await sqlite.close()
    (their_deletion, theirs), (our_deletion, ours) = answers
    assert ours == theirs
    assert our_deletion.stale == their_deletion.stale
    assert dict(our_deletion.counts) == dict(their_deletion.counts)
    # Neighbours are indexed as if what went had never been.
    check_neighbours(served)


def check_neighbours(served):
    """Compare each message's index rows with those that its thread alone gives it."""
    rows = served.rows(
        "SELECT r.thread_id, r.content, c.fields FROM memory_app.default_record r "
        "JOIN memory_app.default_chunk c ON c.record_seq = r.seq "
        "WHERE r.record_type = 'message' ORDER BY r.thread_id, r.seq"
    )
    for place, (thread, content, fields) in enumerate(rows):
        for beside, field in ((place - 1, fields[1]), (place + 1, fields[2])):
            near = rows[beside] if 0 <= beside < len(rows) else (None, None, None)
            assert field == (near[1] if near[0] == thread else ""), content


@pytest.mark.parametrize("any_source", [False, True])
async def test_erasing_takes_what_came_from_a_message_even_in_part(served, any_source):
    await served.store.add_thread(
        ThreadRecord(id="t1", user_id="u", agent_id=None, created_at=NOW, updated_at=NOW)
    )
    await served.store.add_records(
        [record("m1", thread_id="t1"), record("both", "fact", sources=("m1", "elsewhere"))]
    )
    if any_source:
        erasure = await served.store.erase_scope(scope(thread="t1"), now=NOW)
        assert dict(erasure.deletion.counts) == {"fact": 1, "message": 1, "thread": 1}
    else:
        deletion = await served.store.delete_scope(scope(thread="t1"), now=NOW)
        assert dict(deletion.counts) == {"message": 1, "review": 1, "thread": 1}


async def test_what_came_from_what_came_from_a_message_goes_with_it_however_far(served):
    await served.store.add_records([record("m1"), record("m2")])
    chain = [f"f{number}" for number in range(6)]
    before = ["m1", *chain]
    await served.store.add_records(
        [
            record(name, "fact", sources=(source,))
            for name, source in zip(chain, before, strict=False)
        ]
        + [record("kept", "fact", sources=("f5", "m2"))]
    )
    deletion = await served.store.delete_records(everywhere("m1"))
    assert dict(deletion.counts) == {"fact": 6, "message": 1, "review": 1}
    (kept,) = await served.store.get_records(everywhere("kept"))
    assert (kept.sources, kept.review_reason) == (
        ("m2",),
        "came partly from f5, which was deleted",
    )


async def test_what_cannot_be_deleted_is_refused(served):
    unbound = ScopeFilter(user=DimensionMatch(exact=False, value="u"))
    for call in (
        served.store.delete_records(RecordFilter(scope=unbound, now=NOW)),
        served.store.delete_scope(unbound, now=NOW),
        served.store.erase_scope(unbound, now=NOW),
    ):
        with pytest.raises(ScopeError, match="without a scope"):
            await call
    with pytest.raises(NotFoundError, match="there is no thread 't9'"):
        await served.store.delete_thread("t9", now=NOW)


# How it is done.


async def test_a_delete_takes_as_many_statements_for_many_records_as_for_one(served):
    statements = []
    for user, count in (("few", 2), ("many", 700)):
        await served.store.add_thread(
            ThreadRecord(id=user, user_id=user, agent_id=None, created_at=NOW, updated_at=NOW)
        )
        await served.store.add_records(
            [
                record(f"{user}{number}", user_id=user, thread_id=user, expires_at=LATER)
                for number in range(count)
            ]
        )
        served.server.forget()
        await served.store.delete_scope(scope(user=user), now=NOW)
        statements.append(list(served.server.statements))
    assert statements[0] == statements[1]
    assert served.rows("SELECT 1 FROM memory_app.default_chunk") == []


async def test_expired_records_go_in_batches_that_are_committed_each(served, monkeypatch):
    monkeypatch.setattr(deletes, "EXPIRED_BATCH", 10)
    await served.store.add_records(
        [record(f"f{number:02}", "fact", expires_at=LATER) for number in range(25)]
        + [record("kept", "fact")]
    )
    served.server.forget()
    deletion = await served.store.purge_expired(LATER)
    assert dict(deletion.counts) == {"fact": 25}
    assert served.server.statements.count("DELETE FROM DEFAULT_GONE") == 6
    assert served.rows("SELECT id FROM memory_app.default_record") == [("kept",)]


async def test_what_was_extended_while_a_purge_waited_stays(served):
    await served.store.add_records([record("f", "fact", expires_at=NOW), record("g", "fact")])
    done: list[Deletion] = []

    async def purge() -> None:
        async with served.another() as mine:
            done.append(await mine.purge_expired(NOW))

    extending = (
        "UPDATE memory_app.default_record SET expires_at = TIMESTAMP '2027-01-01 00:00:00' "
        "WHERE id = 'f'"
    )
    async with served.holding(extending) as other, anyio.create_task_group() as tasks:
        tasks.start_soon(purge)
        await anyio.sleep(0.2)
        assert done == []
        await other.commit()
    assert done == [Deletion()]
    assert len(await served.store.get_records(everywhere("f", "g"))) == 2


async def test_what_is_gathered_is_forgotten_with_the_transaction(served):
    await served.store.add_records([record("f", "fact")])
    await served.store.delete_scope(scope(user="u"), now=NOW, dry_run=True)
    await served.store.delete_records(everywhere("f"))
    for table in ("gone", "gone_thread"):
        assert served.rows(f"SELECT 1 FROM memory_app.default_{table}") == []


@pytest.mark.parametrize("kind", [FaultKind.LOST_AFTER, FaultKind.LOST_BEFORE])
async def test_a_delete_without_an_answer_still_says_what_it_took(served, kind):
    await served.store.add_thread(
        ThreadRecord(id="t1", user_id="u", agent_id=None, created_at=NOW, updated_at=NOW)
    )
    await served.store.add_records([record("m1", thread_id="t1"), record("f", "fact")])
    for call, counts in (
        (lambda: served.store.delete_thread("t1", now=NOW), {"message": 1, "thread": 1}),
        (lambda: served.store.delete_scope(scope(user="u"), now=NOW), {"fact": 1}),
    ):
        served.server.faults.add(kind, statement="DELETE FROM DEFAULT_GONE_THREAD$", at=2)
        assert dict((await call()).counts) == counts


async def test_memories_a_job_retires_go_with_what_it_brings(served):
    await served.store.add_records(
        [
            record("only", "fact", sources=("m1",)),
            record("partly", "fact", sources=("m1", "m2")),
            record("base", "fact"),
        ],
        jobs=[JobDraft(id="j", kind="extract", thread_id=None)],
    )
    await served.store.add_link(
        link("l1", "only", "base", "supersedes"), record_filter=everywhere(), now=NOW
    )
    await served.store.claim_jobs(owner="w", limit=1, lease_until=LATER, now=NOW)
    outcome = JobOutcome(
        records=(record("new", "fact", sources=("m1",)),),
        retired_sources=("m1",),
        links=(link("l2", "new", "base", "supports"), link("l3", "new", "only", "supports")),
        more_sources={"partly": ("m3", "m1"), "gone": ("m1",)},
    )
    deletion = await served.store.complete_job("j", outcome, owner="w", now=NOW)
    assert dict(deletion.counts) == {"fact": 1, "link": 1}
    partly, base, new = await served.store.get_records(everywhere("partly", "base", "new"))
    assert partly.review_reason == "came partly from a message that was changed"
    assert partly.sources == ("m1", "m2", "m3")
    assert base.status == "valid"
    assert new.sources == ("m1",)
    assert [item.id for item in await served.store.list_links(LinkQuery(filter=everywhere()))] == [
        "l2"
    ]


# Erasure.


async def test_an_erasure_says_what_was_searched_and_what_cannot_be(served):
    await served.store.add_thread(
        ThreadRecord(id="t1", user_id="u", agent_id=None, created_at=NOW, updated_at=NOW)
    )
    await served.store.add_records(
        [record("m1", thread_id="t1"), record("f", "fact"), record("other", "fact", user_id="v")]
    )
    erased = scope(user="u")
    erasure = await served.store.erase_scope(erased, now=NOW)
    assert erasure.rebuilt == {"text_index": 1, "reindexed": 0}
    assert erasure.scan is not None
    assert (erasure.scan.probes, erasure.scan.residues) == (3, ())
    assert erasure.scan.unsearched == UNSEARCHED
    ((action, subject, detail),) = served.rows(
        "SELECT action, subject, detail FROM memory_app.default_audit"
    )
    assert (action, subject) == ("forget", {"scope": scope_digest(erased)})
    assert detail == {"fact": 1, "message": 1, "thread": 1}
    assert "'u'" not in str(subject)
    assert any("CTX_DDL.OPTIMIZE_INDEX" in text for text in served.server.statements)


async def test_a_text_index_that_could_not_be_optimised_is_not_called_searched(served, caplog):
    await served.store.add_records([record("f", "fact")])
    served.server.faults.add(FaultKind.ERROR, statement="OPTIMIZE_INDEX", code=20000)
    erasure = await served.store.erase_scope(scope(user="u"), now=NOW)
    assert erasure.rebuilt["text_index"] == 0
    assert erasure.scan is not None
    assert erasure.scan.unsearched == (TEXT_INDEX, *UNSEARCHED)
    assert "could not be optimised" in caplog.text


async def test_a_search_for_what_is_left_finds_it_wherever_it_is(served):
    await served.store.add_thread(
        ThreadRecord(id="t1", user_id="u", agent_id=None, created_at=NOW, updated_at=NOW)
    )
    await served.store.add_records(
        [record("m1", thread_id="t1"), record("f", "fact", sources=("m1",)), record("g", "fact")],
        jobs=[JobDraft(id="j", kind="extract", thread_id="t1")],
        links=[link("l", "f", "g", "supports")],
    )
    seqs = served.rows("SELECT seq, id FROM memory_app.default_record ORDER BY seq")

    async def look(transaction):
        return await scan(transaction, served.store._t, seqs, [("t1",)], text_index=True)

    found = await served.store._engine.read(look)
    assert found.probes == 4
    assert set(found.residues) == {
        "record m1",
        "record f",
        "record g",
        "chunk m1",
        "chunk f",
        "chunk g",
        "source f",
        "source of another m1",
        "link from f",
        "link to g",
        "thread t1",
        "job t1",
    }
