"""Writes of threads and records on an Oracle store: trips, locks, lost answers, index rows."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import numpy as np
import pytest

from agentmemory.client import AsyncAgentMemory
from agentmemory.errors import ConflictError, NotFoundError, StaleReadError
from agentmemory.records import (
    ImageContent,
    Layer,
    RecordRelation,
    RecordStatus,
    ScopedRecord,
    ThreadRecord,
    Tier,
)
from agentmemory.requests import (
    Expectation,
    JobDraft,
    RecordChanges,
    RecordFilter,
    ThreadChanges,
    ThreadTail,
)
from agentmemory.scope import ScopeFilter
from agentmemory.stores.index_fields import previous_tokens
from agentmemory.stores.oracle import writing
from agentmemory.stores.oracle.indexing import draft
from agentmemory.stores.oracle.store import OracleStore
from agentmemory.stores.sqlite.store import SqliteStore
from agentmemory.testing import FrozenClock, HashEmbedder, ScriptedLlm
from tests.support.oracle.faults import FaultKind
from tests.support.oracle.served import Served, served_store

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


@pytest.fixture
async def served():
    async with served_store() as opened:
        yield opened


@pytest.fixture
async def threaded(served):
    await served.store.add_thread(thread("t1"))
    served.server.forget()
    return served


def thread(name, **values):
    given = {"user_id": "u", "agent_id": None, "created_at": NOW, "updated_at": NOW, **values}
    return ThreadRecord(id=name, **given)


def record(name, kind="message", **values):
    given = {
        "content": f"text of {name}",
        "created_at": NOW,
        "updated_at": NOW,
        "user_id": "u",
        "thread_id": "t1" if kind == "message" else None,
        **values,
    }
    return ScopedRecord(id=name, record_type=kind, **given)


def everywhere(*ids, now=NOW):
    return RecordFilter(scope=ScopeFilter(), now=now, tiers=tuple(Tier), ids=ids or None)


def unit(*values):
    vector = np.array(values, dtype=np.float32)
    return vector / np.linalg.norm(vector)


def texts(served: Served, name: str) -> list[list[str]]:
    """Return the token fields of a record's chunks, in order."""
    return [
        row[0]
        for row in served.rows(
            "SELECT c.fields FROM memory_app.default_chunk c JOIN memory_app.default_record r "
            f"ON r.seq = c.record_seq WHERE r.id = '{name}' ORDER BY c.position"
        )
    ]


def waited(server) -> int:
    """Return how many round trips an operation made, without what its pool does for itself."""
    return server.count() - server.count("rollback", "connect")


# Round trips.


async def test_records_are_stored_in_two_trips_whatever_belongs_to_them(threaded):
    await threaded.store.add_records([record("m0")])
    threaded.server.forget()
    messages = [record(f"m{number}", sources=("x",)) for number in range(1, 11)]
    await threaded.store.add_records(
        messages,
        vectors={item.id: unit(1, 2) for item in messages},
        tail=ThreadTail(thread_id="t1", last_message_id="m0", last_revision=1),
        jobs=[JobDraft(id="j", kind="extract", thread_id="t1")],
    )
    assert waited(threaded.server) == 2


@pytest.mark.parametrize("llm", [None, "scripted"])
async def test_ten_messages_cost_four_trips_with_all_that_the_client_reads(served, llm):
    memory = AsyncAgentMemory(
        store=OracleStore(served.pool),
        embedder=HashEmbedder(),
        llm=None if llm is None else ScriptedLlm([]),
        clock=FrozenClock(NOW),
    )
    async with memory:
        talk = await memory.create_thread(thread_id="t1", user_id="u")
        # The first call ties the store to the embedder.
        await talk.add_messages([{"role": "user", "content": "hello"}])
        extraction = memory._parts.extraction
        await extraction.worker.close()
        served.server.forget()
        await talk.add_messages(
            [{"role": "user", "content": f"please remember number {n}"} for n in range(10)]
        )
        assert waited(served.server) <= 4
    stored = served.rows("SELECT COUNT(*) FROM memory_app.default_record")
    assert stored == [(11,)]


async def test_without_pipelining_the_same_is_stored_in_more_trips():
    async with served_store(pipelining=False) as served:
        await served.store.add_thread(thread("t1"))
        stored = await served.store.add_records([record("m1"), record("m2")])
        assert [item.id for item in stored] == ["m1", "m2"]


# What is stored.


async def test_records_come_back_as_sqlite_gives_them_back(threaded):
    records = [
        record("m1", content="", actor="Ada", role="user", metadata={"a": {"b": [1, 2.5, None]}}),
        record(
            "f1",
            "fact",
            layer=Layer.RULE,
            tags=("tea", "cup"),
            compressed="short",
            confidence=0.25,
            trust="user",
            event_time=LATER,
            valid_from=NOW,
            valid_to=LATER,
            expires_at=LATER,
            sources=("m1", "m0"),
            tier=Tier.WARM,
            content="Ein Satz. " * 2000,
        ),
        record("m2", content="京都 🏮 'quoted' :bind"),
    ]
    answers = []
    sqlite = SqliteStore(":memory:")
    await sqlite.open()
    await sqlite.add_thread(thread("t1"))
    for store in (sqlite, threaded.store):
        answers.append(await store.add_records(records))
        answers.append(await store.get_records(everywhere("m2", "f1", "m1")))
    await sqlite.close()
    assert answers[:2] == answers[2:]


async def test_a_thread_comes_back_as_it_was_given_and_changes_count(served):
    given = thread("t9", metadata={"k": 1.5}, config={"search": {"kind": "x"}})
    assert await served.store.add_thread(given) == given
    assert await served.store.get_thread("t9") == given
    changed = await served.store.update_thread("t9", ThreadChanges(metadata={}), now=LATER)
    assert changed == replace(given, metadata={}, updated_at=LATER, revision=2)
    with pytest.raises(ConflictError, match="thread 't9' exists already; open it with"):
        await served.store.add_thread(given)
    for call in (
        served.store.get_thread("t8"),
        served.store.update_thread("t8", ThreadChanges(), now=NOW),
    ):
        with pytest.raises(NotFoundError, match="there is no thread 't8'"):
            await call


async def test_what_is_refused_is_refused_in_the_words_of_sqlite(threaded):
    await threaded.store.add_records([record("m1"), record("p1", "user_profile")])
    sqlite = SqliteStore(":memory:")
    await sqlite.open()
    await sqlite.add_thread(thread("t1"))
    await sqlite.add_records([record("m1"), record("p1", "user_profile")])
    stale = ThreadTail(thread_id="t1", last_message_id="m1", last_revision=7)
    calls: list[tuple[list[ScopedRecord], dict[str, Any]]] = [
        ([record("m1")], {}),
        ([record("x"), record("x")], {}),
        ([record("x", thread_id="t9")], {}),
        ([record("x", user_id="other")], {}),
        ([record("p2", "user_profile")], {}),
        ([record("m2")], {"tail": stale}),
        ([record("m2")], {"tail": replace(stale, last_message_id=None, last_revision=None)}),
    ]
    for records, options in calls:
        raised = []
        for store in (sqlite, threaded.store):
            with pytest.raises((ConflictError, NotFoundError)) as caught:
                await store.add_records(records, **options)
            raised.append((type(caught.value), str(caught.value)))
        assert raised[0] == raised[1]
    await sqlite.close()
    assert (await threaded.store.stats(NOW)).records == {"message": 1, "user_profile": 1}


async def test_an_image_is_stored_beside_its_record_and_replaced(served):
    first = ImageContent(
        mime_type="image/png", width=1, height=2, size_bytes=40_000, data=b"a" * 40_000
    )
    await served.store.add_records([record("i", "image")], images={"i": first})
    assert await served.store.get_images(["i", "x"], include_bytes=True) == {"i": first}
    plain = await served.store.get_images(["i"], include_bytes=False)
    assert plain == {"i": replace(first, data=None)}
    second = ImageContent(mime_type="image/webp", width=3, height=4, size_bytes=2, data=b"bb")
    await served.store.update_record(everywhere("i"), RecordChanges(), now=NOW, image=second)
    assert await served.store.get_images(["i"], include_bytes=True) == {"i": second}
    assert await served.store.get_images([], include_bytes=True) == {}


# Index rows.


async def test_a_message_is_indexed_with_the_turns_around_it_whenever_they_come(threaded):
    await threaded.store.add_records([record("m1", content="alpha")])
    await threaded.store.add_records([record("m2", content="beta"), record("m3", content="gamma")])
    fields = [texts(threaded, name)[0][:3] for name in ("m1", "m2", "m3")]
    assert fields == [["alpha", "", "beta"], ["beta", "alpha", "gamma"], ["gamma", "beta", ""]]
    await threaded.store.update_record(everywhere("m2"), RecordChanges(content="delta"), now=LATER)
    fields = [texts(threaded, name)[0][:3] for name in ("m1", "m2", "m3")]
    assert fields == [["alpha", "", "delta"], ["delta", "alpha", "gamma"], ["gamma", "delta", ""]]


async def test_a_message_is_followed_though_its_metadata_is_longer_than_a_short_row_holds(threaded):
    words = [f"word{number}" for number in range(900)]
    long = record("m1", content="Alpha. " * 200, metadata={"words": words})
    await threaded.store.add_records([long], vectors={"m1": unit(1, 0)})
    chunks = len(texts(threaded, "m1"))
    assert chunks > 1
    threaded.server.forget()
    await threaded.store.add_records([record("m2", content="beta")])
    # What did not come whole is asked for apart.
    assert threaded.server.count("pipeline", "execute") == 3
    fields = texts(threaded, "m1")
    assert [chunk[2] for chunk in fields][-1] == "beta"
    assert len(fields) == chunks
    assert all(chunk[4].split() == words for chunk in fields)
    assert texts(threaded, "m2")[0][1] == previous_tokens(long.content)
    assert set(await threaded.store.vectors(["m1"])) == {"m1"}


@pytest.mark.parametrize("content", ["🏮" * 700, "x" * 1299 + "🏮", "🏮x" * 900, "京都へ。" * 500])
async def test_the_end_of_a_long_message_is_what_is_indexed_before_the_next(threaded, content):
    await threaded.store.add_records([record("m1", content=content)])
    await threaded.store.add_records([record("m2", content="beta")])
    assert texts(threaded, "m2")[0][1] == previous_tokens(content)
    assert texts(threaded, "m1")[-1][2] == "beta"


async def test_memories_do_not_stand_between_messages(threaded):
    await threaded.store.add_records(
        [
            record("m1", content="alpha"),
            record("f1", "fact", thread_id="t1", content="fact"),
            record("m2", content="beta"),
        ]
    )
    assert texts(threaded, "m2")[0][:3] == ["beta", "alpha", ""]
    assert texts(threaded, "f1")[0][:3] == ["fact", "", ""]


async def test_a_record_that_shrinks_or_grows_keeps_its_vector_only_if_its_text_did(served):
    long = "One sentence about a lantern in the shed. " * 60
    await served.store.add_records([record("f", "fact", content=long)], vectors={"f": unit(1, 0)})
    assert len(texts(served, "f")) > 2
    await served.store.update_record(everywhere("f"), RecordChanges(tags=("shed",)), now=LATER)
    assert all(fields[-1] == "shed" for fields in texts(served, "f"))
    assert set(await served.store.vectors(["f"])) == {"f"}
    await served.store.update_record(everywhere("f"), RecordChanges(content="short"), now=LATER)
    assert [fields[0] for fields in texts(served, "f")] == ["short"]
    assert await served.store.vectors(["f"]) == {}
    await served.store.update_record(
        everywhere("f"), RecordChanges(content=long), now=LATER, vectors={"f": unit(0, 1)}
    )
    assert len(texts(served, "f")) > 2
    assert np.allclose((await served.store.vectors(["f"]))["f"], unit(0, 1))


async def test_a_changed_message_drops_the_vectors_that_rest_on_its_old_text(threaded):
    names = ["m1", "m2", "m3"]
    await threaded.store.add_records(
        [record(name) for name in names], vectors={name: unit(1, 0) for name in names}
    )
    await threaded.store.update_record(
        everywhere("m2"), RecordChanges(content="new"), now=LATER, vectors={"m2": unit(0, 1)}
    )
    assert set(await threaded.store.vectors(names)) == {"m1", "m2"}


@pytest.mark.parametrize(
    "changes",
    [
        RecordChanges(status=RecordStatus.INVALID, invalidation_reason="by hand"),
        RecordChanges(tier=Tier.ARCHIVED, layer=Layer.CRITICAL),
        RecordChanges(event_time=LATER, valid_from=NOW, valid_to=LATER, expires_at=LATER),
        RecordChanges(content="x" * 5000, metadata={"k": 1}),
    ],
    ids=["status", "tier", "times", "content"],
)
async def test_chunks_repeat_what_their_record_says_after_every_change(served, changes):
    await served.store.add_records([record("f", "fact", content="A lantern. " * 200)])
    await served.store.update_record(everywhere("f"), changes, now=LATER)
    columns = (
        "user_id, agent_id, thread_id, record_type, status, tier, layer, created_at, "
        "effective_time, valid_from, valid_to, expires_at"
    )
    (said,) = served.rows(f"SELECT {columns} FROM memory_app.default_record")
    repeated = served.rows(f"SELECT {columns} FROM memory_app.default_chunk")
    assert repeated
    assert set(repeated) == {said}


async def test_new_sources_take_the_place_of_the_old_ones(served):
    await served.store.add_records([record("f", "fact", sources=("a", "b"))])
    changed = await served.store.update_record(
        everywhere("f"), RecordChanges(sources=("c",)), now=LATER
    )
    assert (changed.sources, changed.revision, changed.updated_at) == (("c",), 2, LATER)


async def test_a_status_set_by_hand_says_since_when(served):
    await served.store.add_records([record("f", "fact")])
    invalid = RecordChanges(status=RecordStatus.INVALID)
    dead = await served.store.update_record(everywhere("f"), invalid, now=LATER)
    assert dead.invalidated_at == LATER
    again = await served.store.update_record(
        everywhere("f"), invalid, now=LATER + timedelta(days=1)
    )
    assert again.invalidated_at == LATER
    valid = RecordChanges(status=RecordStatus.VALID)
    assert (
        await served.store.update_record(everywhere("f"), valid, now=NOW)
    ).invalidated_at is None


@pytest.mark.parametrize(("size", "apart"), [(1000, False), (50_000, True)])
async def test_large_texts_are_analysed_apart_from_the_loop(served, monkeypatch, size, apart):
    threads: list[threading.Thread] = []

    def watched(records):
        threads.append(threading.current_thread())
        return draft(records)

    monkeypatch.setattr(writing, "draft", watched)
    await served.store.add_records([record("f", "fact", content="A lantern. " * (size // 11))])
    assert [item is not threading.current_thread() for item in threads] == [apart]
    assert texts(served, "f")


# Writers that meet.


async def test_messages_of_many_writers_stand_in_one_order_and_know_their_neighbours(threaded):
    async def write(writer: int) -> None:
        async with threaded.another() as mine:
            for number in range(4):
                word = f"w{writer}n{number}"
                await mine.add_records(
                    [record(word, content=word), record(f"{word}b", content=f"{word}b")]
                )

    async with anyio.create_task_group() as tasks:
        for writer in range(4):
            tasks.start_soon(write, writer)
    rows = threaded.rows("SELECT id FROM memory_app.default_record ORDER BY seq")
    names = [row[0] for row in rows]
    assert len(names) == 32
    # What was written together stands together.
    assert [name + "b" for name in names[::2]] == names[1::2]
    for place, name in enumerate(names):
        content, previous, following, *_ = texts(threaded, name)[0]
        assert content == name
        assert previous == (names[place - 1] if place else "")
        assert following == (names[place + 1] if place + 1 < len(names) else "")


async def test_a_tail_that_moves_while_a_writer_waits_is_seen(threaded):
    await threaded.store.add_records([record("m1")])
    raised: list[BaseException] = []
    stored: list[str] = []

    async def write(name: str) -> None:
        async with threaded.another() as mine:
            try:
                tail = ThreadTail(thread_id="t1", last_message_id="m1", last_revision=1)
                await mine.add_records([record(name)], tail=tail)
                stored.append(name)
            except StaleReadError as error:
                raised.append(error)

    async with anyio.create_task_group() as tasks:
        for number in range(3):
            tasks.start_soon(write, f"new{number}")
    assert len(stored) == 1
    assert len(raised) == 2


async def test_an_id_taken_at_the_same_moment_is_named(threaded):
    results: list[object] = []

    async def write() -> None:
        async with threaded.another() as mine:
            try:
                results.append(await mine.add_records([record("same", "fact")]))
            except ConflictError as error:
                results.append(str(error))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(write)
    words = [item for item in results if isinstance(item, str)]
    assert words == ["a record with id 'same' exists already; ids are unique in a store"] * 2


async def test_a_thread_that_is_being_deleted_takes_no_message(threaded):
    results: list[object] = []

    async def write() -> None:
        async with threaded.another() as mine:
            try:
                results.append(await mine.add_records([record("late")]))
            except NotFoundError as error:
                results.append(error)

    deleting = "DELETE FROM memory_app.default_thread WHERE id = 't1'"
    async with threaded.holding(deleting) as other, anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        await anyio.sleep(0.2)
        assert results == []
        await other.commit()
    assert [type(item) for item in results] == [NotFoundError]


async def test_a_change_that_rests_on_an_older_revision_is_refused(threaded):
    await threaded.store.add_records([record("m1"), record("m2")])
    expects = [Expectation(record_id="m1", revision=1), Expectation(record_id="x", revision=None)]
    await threaded.store.update_record(
        everywhere("m2"), RecordChanges(content="new"), now=LATER, expects=expects
    )
    await threaded.store.update_record(everywhere("m1"), RecordChanges(content="n"), now=LATER)
    for call in (
        threaded.store.update_record(
            everywhere("m2"), RecordChanges(content="newer"), now=LATER, expects=expects
        ),
        threaded.store.put_vectors({"m2": unit(1, 0)}, expects=expects),
        threaded.store.delete_records(everywhere("m2"), expects=expects),
    ):
        with pytest.raises(StaleReadError, match="record 'm1' was changed meanwhile"):
            await call


# Answers that were lost.


@pytest.mark.parametrize("kind", [FaultKind.LOST_AFTER, FaultKind.LOST_BEFORE])
async def test_a_write_without_an_answer_is_done_once(threaded, kind):
    store = threaded.store
    image = ImageContent(mime_type="image/png", width=1, height=1, size_bytes=1, data=b"x")
    link = RecordRelation(
        id="l1",
        source_record_id="f1",
        source_record_type="fact",
        target_record_id="f2",
        target_record_type="fact",
        relation_type="supports",
        opposite_relation_type="is_supported_by",
        created_at=NOW,
    )

    async def lose(pattern: str) -> None:
        threaded.server.faults.add(kind, statement=pattern)

    await lose("INSERT INTO DEFAULT_THREAD")
    assert (await store.add_thread(thread("t2"))).id == "t2"
    await lose("UPDATE DEFAULT_THREAD")
    changed = await store.update_thread("t2", ThreadChanges(config={"a": 1}), now=LATER)
    assert changed.revision == 2
    await lose("INSERT INTO DEFAULT_RECORD")
    stored = await store.add_records(
        [record("m1"), record("f1", "fact", sources=("m1",)), record("f2", "fact")],
        jobs=[JobDraft(id="j", kind="extract", thread_id="t1")],
    )
    assert [item.id for item in stored] == ["m1", "f1", "f2"]
    await lose("INSERT INTO DEFAULT_JOB")
    assert (
        await store.add_records([], jobs=[JobDraft(id="k", kind="extract", thread_id="t1")]) == ()
    )
    await lose("UPDATE DEFAULT_CHUNK SET tokens")
    updated = await store.update_record(
        everywhere("m1"), RecordChanges(content="new"), now=LATER, image=image
    )
    assert (updated.content, updated.revision) == ("new", 2)
    await lose("UPDATE DEFAULT_CHUNK SET embedding")
    await store.put_vectors({"m1": unit(1, 0)})
    await lose("INSERT INTO DEFAULT_LINK")
    assert (await store.add_link(link, record_filter=everywhere(), now=NOW)).id == "l1"
    await lose("DELETE FROM DEFAULT_LINK WHERE seq")
    await store.delete_link("l1", record_filter=everywhere(), now=NOW)
    await lose("DELETE FROM DEFAULT_GONE$")
    deletion = await store.delete_records(everywhere("m1"))
    assert dict(deletion.counts) == {"fact": 1, "message": 1}
    stats = await store.stats(NOW)
    assert (stats.records, stats.threads, stats.links, dict(stats.jobs)) == (
        {"fact": 1},
        2,
        0,
        {"ready": 2},
    )
    came = [fault.kind for fault in threaded.server.faults.came]
    assert came == [kind] * len(came)
    assert len(came) == 9


async def test_a_deadlock_is_tried_again(threaded):
    await threaded.store.add_records([record("m1")])
    fault = threaded.server.faults.add(FaultKind.ERROR, statement="FOR UPDATE", code=60)
    await threaded.store.add_records([record("m2")])
    assert fault in threaded.server.faults.came
