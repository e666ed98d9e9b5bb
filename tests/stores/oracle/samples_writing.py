"""Samples of the statements that write: threads, records, index rows, links, deletes, outbox."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

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
    Deletion,
    Expansion,
    Expectation,
    JobDraft,
    JobState,
    LinkQuery,
    RecordChanges,
    RecordFilter,
    StoredSummary,
    ThreadChanges,
)
from agentmemory.scope import DimensionMatch, ScopeFilter
from agentmemory.stores.cursors import write_cursor
from agentmemory.stores.index_fields import TokenMemo
from agentmemory.stores.lifecycle import Node
from agentmemory.stores.oracle import (
    embedder,
    erasure,
    expansion,
    gone,
    images,
    indexing,
    jobs,
    links,
    records,
    settling,
    summaries,
    updates,
    writes,
)
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.statement import Statement

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
USER = ScopeFilter(user=DimensionMatch(True, "ada"))
AGENT_IN_THREAD = ScopeFilter(
    agent=DimensionMatch(True, "guide"), thread=DimensionMatch(True, "t1")
)
NOBODY = ScopeFilter(user=DimensionMatch(True, None))
ONE = RecordFilter(scope=USER, now=NOW, ids=("r1",), record_types=("fact", "memory"))
MANY = RecordFilter(
    scope=USER,
    now=NOW,
    include_invalid=False,
    known_at=NOW,
    tiers=(Tier.HOT, Tier.COLD),
    metadata={"k": {"$gt": 1}},
)
EXPIRED = RecordFilter(scope=ScopeFilter(), now=NOW, tiers=tuple(Tier), only_expired=True)

RECORD = ScopedRecord(
    id="r1",
    record_type="message",
    content="The lantern is in the shed.",
    metadata={"room": "shed"},
    actor="Ada",
    created_at=NOW,
    updated_at=NOW,
    user_id="ada",
    thread_id="t1",
    sources=("m1", "m2"),
    layer=Layer.RULE,
    tags=("lantern",),
)
THREAD = ThreadRecord(id="t1", user_id="ada", agent_id=None, created_at=NOW, updated_at=NOW)
LINK = RecordRelation(
    id="l1",
    source_record_id="r1",
    source_record_type="fact",
    target_record_id="r2",
    target_record_type="fact",
    relation_type="supersedes",
    opposite_relation_type="is_superseded_by",
    created_at=NOW,
)
SUMMARY = StoredSummary(
    thread_id="t1", revision=0, content="So far.", topics=("light",), covers_seq=7, created_at=NOW
)
JOB = JobDraft(id="j1", kind="extract", thread_id="t1", payload={"messages": ["m1"]})
NODE = Node(1, "r1", "invalid", "superseded by r2", "depends on r2, which was deleted")
LAST = indexing.LastMessage(
    seq=1,
    id="m1",
    thread_id="t1",
    revision=1,
    text="The lantern.",
    scope="u0",
    chunk_id=1,
    position=0,
    fields=["lantern", "", "", "", "", "", ""],
)
VECTOR = np.array([0.6, 0.8], dtype=np.float32)
FINGERPRINT = {"model": "toy", "dimension": 2}


def sample_statements(t: Tables) -> tuple[Statement, ...]:
    """Return every statement that writes, with and without what is optional in it."""
    return (
        *_threads_and_records(t),
        *_index_rows(t),
        *_links(t),
        *_deletes(t),
        *_outbox(t),
        *_embedder(t),
    )


def _threads_and_records(t: Tables) -> tuple[Statement, ...]:
    image = ImageContent(mime_type="image/png", width=1, height=1, size_bytes=3, data=b"png")
    changes = RecordChanges(
        content="new",
        metadata={"k": 1},
        status=RecordStatus.INVALID,
        invalidation_reason="by hand",
        review_reason=None,
        tier=Tier.HOT,
        layer=None,
        tags=("a",),
        event_time=NOW,
    )
    return (
        writes.insert_thread(t, THREAD),
        writes.read_thread(t, "t1"),
        writes.lock_threads(t, ["t1", "t2", "t3"]),
        writes.lock_expected(t, [Expectation(record_id="r1", revision=1)]),
        writes.taken_ids(t, ["r1", "r2"]),
        writes.profiles_of(t, "user", ["ada"]),
        writes.profiles_of(t, "agent", ["guide"]),
        writes.insert_rows(t, [RECORD]),
        *writes.insert_sources(t, {"r1": ["m1", "m2"]}),
        writes.read_written(t, ["r1"]),
        writes.read_numbers(t, ["r1", "r2"]),
        writes.taken_jobs(t, ["j1"]),
        writes.insert_jobs(t, [JOB], NOW),
        *images.put_images(t, {"r1": image}),
        images.read_images(t, ["r1"], include_bytes=True),
        images.read_images(t, ["r1"], include_bytes=False),
        *updates.update_thread(t, "t1", ThreadChanges(metadata={"k": 1}, config={"c": 2}), NOW),
        *updates.update_thread(t, "t1", ThreadChanges(), NOW),
        updates.lock_thread_of(t, ONE),
        updates.lock_target(t, ONE),
        updates.update_row(t, 1, updates.given_values(changes), NOW),
        updates.update_row(
            t, 1, updates.given_values(RecordChanges(status=RecordStatus.VALID)), NOW
        ),
        updates.delete_sources(t, 1),
        updates.outdate_summaries(t, "t1", 7),
    )


def _index_rows(t: Tables) -> tuple[Statement, ...]:
    memo = TokenMemo()
    stored = indexing.from_record(RECORD)
    stored.content = "One sentence about lanterns. " * 60
    return (
        indexing.read_sources(t, [1, 2, 3]),
        indexing.read_around(t, "t1", 7),
        indexing.last_messages(t, ["t1"]),
        indexing.insert_chunks(t, indexing.draft([RECORD])[0].chunks, {"r1": VECTOR}),
        *indexing.index_anew(t, [stored], memo),
        *indexing.index_following(t, [(LAST, "And now?")]),
        indexing.copy_columns(t, [1]),
        *indexing.put_vectors(t, {"r1": VECTOR}),
        indexing.held_vectors(t, [1, 2]),
        indexing.drop_vectors(t, [1, 2]),
    )


def _links(t: Tables) -> tuple[Statement, ...]:
    expansion_query = Expansion(filter=MANY, roots=("r1", "r2"), hops=2, limit=5)
    plain = Expansion(filter=ONE, roots=("r1",), hops=1, limit=5)
    place = expansion._Place(NOW, "l1", 1)
    listing = LinkQuery(
        filter=MANY,
        record_id="r1",
        relation_types=("supports",),
        ids=("l1",),
        after=write_cursor("link", 0, 3),
    )
    return (
        settling.lock_nodes(t, [1]),
        settling.lock_dependants(t, [1, 2]),
        settling.dependency_edges(t, [1, 2]),
        settling.dependencies(t, [1]),
        settling.heads(t, [1]),
        settling.settle_records(t, [NODE], NOW),
        settling.review_records(t, {1: "because", 2: None}),
        links.lock_ends(t, LINK, MANY),
        links.clashes(t, LINK),
        links.insert_row(t, LINK, 1, 2),
        links.lock_ends_of(t, "l1"),
        links.find_link(t, "l1", MANY),
        links.type_taken(t, "l1", "refines"),
        links.update_row(t, 1, {"relation_type": "refines", "link_time": None, "metadata": {}}),
        links.delete_row(t, 1),
        links.read_link(t, 1),
        links.read_link_by_id(t, "l1"),
        links.list_links(t, listing),
        links.list_links(t, LinkQuery(filter=ONE)),
        expansion.read_roots(t, ["r1"]),
        expansion.read_hop(t, plain, [1], 256),
        expansion.read_hop(t, expansion_query, [1, 2, 3], 256, place),
        expansion.read_links(t, [1]),
        records.records_at(t, "expand.records", [1, 2]),
    )


def _deletes(t: Tables) -> tuple[Statement, ...]:
    return (
        *gone.clear(t),
        gone.add_filtered(t, ONE),
        gone.add_filtered(t, MANY),
        gone.add_expired(t, EXPIRED, 1000),
        *(gone.add_scope(t, scope) for scope in (USER, AGENT_IN_THREAD, NOBODY)),
        gone.add_of_threads(t),
        gone.add_derived_alone(t, ["m1", "m2"]),
        gone.add_derived(t, any_source=False),
        gone.add_derived(t, any_source=True),
        gone.add_thread(t, "t1"),
        *(gone.add_threads(t, scope) for scope in (USER, AGENT_IN_THREAD)),
        gone.lock_threads(t),
        gone.lock_talks(t, ONE),
        gone.lock_gathered_talks(t),
        gone.lock_scope_talks(t, USER),
        gone.lock(t),
        gone.keep_changed(t, EXPIRED),
        gone.count(t),
        gone.count_types(t),
        *gone.counts(t).values(),
        gone.neighbours(t, "before"),
        gone.neighbours(t, "after"),
        gone.freed(t),
        gone.orphans(t),
        gone.partly(t),
        gone.touched(t, ["m1"]),
        gone.among(t, [1]),
        gone.sample(t),
        gone.sample_threads(t),
        gone.delete_named(t),
        *gone.delete_all(t),
        erasure.note_erasure(t, USER, NOW, Deletion(counts={"fact": 1})),
        erasure.optimize_text_index(t),
        erasure.optimize_hybrid_index(t),
        *erasure.find_residues(t, {1: "r1", 2: "r2"}, ["t1"]).values(),
    )


def _outbox(t: Tables) -> tuple[Statement, ...]:
    return (
        jobs.due_jobs(t, now=NOW, kinds=None, after=0, limit=4),
        jobs.due_jobs(t, now=NOW, kinds=("extract", "detect", "summarize"), after=7, limit=4),
        jobs.lock_due(t, [1, 2], now=NOW),
        *jobs.lease(t, [1, 2], owner="w", lease_until=NOW, now=NOW),
        *(jobs.renew(t, "j1", owner="w", lease_until=NOW), jobs.held_lease(t, "j1", owner="w")),
        jobs.lock_thread_of(t, "j1"),
        jobs.delete_job(t, "j1"),
        jobs.drop_held(t, "t1"),
        jobs.drop_held(t, None),
        jobs.lock_sourced(t, ["r1"]),
        jobs.add_sources(t, {"r1": ("m1", "m2")}),
        jobs.give_back(t, "j1", owner="w", error="busy", run_after=NOW, now=NOW),
        jobs.give_back(t, "j1", owner="w", error=None, run_after=None, now=NOW),
        jobs.lock_dead(t),
        jobs.list_dead(t),
        jobs.revive(t, [1, 2, 3], now=NOW),
        jobs.leased_at(t, owner="w", lease_until=NOW, now=NOW),
        jobs.list_jobs(t, thread_id="t1", states=[JobState.DEAD], limit=100),
        jobs.list_jobs(t, thread_id=None, states=list(JobState), limit=100),
        *jobs.open_jobs(t, thread_id="t1", until_seq=9, kinds=("extract",)),
        *jobs.open_jobs(t, thread_id=None, until_seq=None, kinds=None),
        jobs.next_at(t, kinds=None),
        jobs.next_at(t, kinds=("extract",)),
        jobs.read_job(t, "j1"),
        summaries.latest(t, "t1", before_seq=None),
        summaries.latest(t, "t1", before_seq=7),
        *summaries.insert_summary(t, SUMMARY),
        summaries.prune(t, "t1"),
    )


def _embedder(t: Tables) -> tuple[Statement, ...]:
    return (
        embedder.read_embedder(t),
        embedder.hold_embedder(t),
        embedder.seize_embedder(t),
        embedder.tie_embedder(t, FINGERPRINT),
        embedder.any_vector(t),
        embedder.drop_all_vectors(t),
    )
