"""Links on an Oracle store do to records what they do on SQLite, whoever writes at the same time."""

from __future__ import annotations

import itertools
import random
from datetime import UTC, datetime, timedelta

import anyio
import pytest

from agentmemory.errors import ConflictError, NotFoundError, ScopeError
from agentmemory.records import LINK_TYPES, RecordRelation, RecordStatus, ScopedRecord, Tier
from agentmemory.requests import (
    Expansion,
    LinkChanges,
    LinkQuery,
    RecordChanges,
    RecordFilter,
)
from agentmemory.scope import DimensionMatch, ScopeFilter
from agentmemory.stores.sqlite.store import SqliteStore
from tests.support.oracle.faults import FaultKind
from tests.support.oracle.served import served_store

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
async def served():
    async with served_store() as opened:
        yield opened


def record(name, **values):
    given = {"user_id": "u", "created_at": NOW, "updated_at": NOW, **values}
    return ScopedRecord(id=name, record_type="fact", content=f"text of {name}", **given)


def everywhere(*ids):
    return RecordFilter(scope=ScopeFilter(), now=NOW, tiers=tuple(Tier), ids=ids or None)


def link(name, source, target, kind="supports", **values):
    given = {"created_at": NOW, **values}
    return RecordRelation(
        id=name,
        source_record_id=source,
        source_record_type="fact",
        target_record_id=target,
        target_record_type="fact",
        relation_type=kind,
        opposite_relation_type=LINK_TYPES[kind],
        **given,
    )


async def seen(store, names):
    """Return what links did to records: status, reasons, what replaced them, revisions."""
    found = await store.get_records(everywhere(*names))
    return [
        (
            item.id,
            item.status.value,
            item.invalidation_reason,
            item.invalidated_at,
            item.review_reason,
            item.replaced_by,
            item.revision,
        )
        for item in found
    ]


# The same as SQLite.


@pytest.mark.parametrize("seed", range(5))
async def test_whatever_is_linked_changed_and_deleted_the_records_are_as_on_sqlite(served, seed):
    chance = random.Random(seed)
    names = [f"r{number}" for number in range(7)]
    sqlite = SqliteStore(":memory:")
    await sqlite.open()
    stores = (sqlite, served.store)
    for store in stores:
        await store.add_records([record(name) for name in names])
    kinds = ("supersedes", "refines", "duplicates", "depends_on", "depends_on", "depends_on")
    made = 0
    for step in range(45):
        now = NOW + timedelta(minutes=step)
        choice = chance.random()
        # A new link may go by one of a few names, so that some are taken, and some are gone.
        name = f"l{chance.randint(0, 14)}"
        source, target = chance.sample(names, 2)
        kind, status = chance.choice(kinds), chance.choice(list(RecordStatus))
        raised: list[object] = []
        for store in stores:
            try:
                if choice < 0.5:
                    await store.add_link(
                        link(name, source, target, kind, created_at=now),
                        record_filter=everywhere(),
                        now=now,
                    )
                elif choice < 0.65:
                    await store.delete_link(name, record_filter=everywhere(), now=now)
                elif choice < 0.8:
                    changes = LinkChanges(
                        relation_type=kind, opposite_relation_type=LINK_TYPES[kind]
                    )
                    await store.update_link(name, changes, record_filter=everywhere(), now=now)
                elif choice < 0.9:
                    changed = RecordChanges(
                        status=status,
                        invalidation_reason="by hand" if status == "invalid" else None,
                    )
                    await store.update_record(everywhere(source), changed, now=now)
                elif choice < 0.95:
                    changed = RecordChanges(content=f"new at {step}", review_reason=None)
                    await store.update_record(everywhere(source), changed, now=now)
                else:
                    await store.delete_records(everywhere(source))
                    await store.add_records([record(source)])
                raised.append(None)
            except (ConflictError, NotFoundError) as error:
                raised.append((type(error), str(error)))
        assert raised[0] == raised[1]
        made += raised[0] is None
        ours, theirs = [await seen(store, names) for store in reversed(stores)]
        assert ours == theirs, f"after step {step}"
        pages = [await store.list_links(LinkQuery(filter=everywhere())) for store in stores]
        assert pages[0].items == pages[1].items
    await sqlite.close()
    assert made > 20


async def test_bad_links_are_refused_in_the_words_of_sqlite(served):
    sqlite = SqliteStore(":memory:")
    await sqlite.open()
    of_user = RecordFilter(scope=ScopeFilter(user=DimensionMatch(True, "u")), now=NOW)
    calls = [
        (link("l2", "a", "x"), everywhere()),
        (link("l2", "x", "a"), everywhere()),
        (link("l2", "a", "a"), everywhere()),
        (link("l2", "a", "theirs"), everywhere()),
        (link("l2", "a", "theirs"), of_user),
        (link("l1", "b", "a"), everywhere()),
        (link("l2", "a", "b"), everywhere()),
    ]
    raised: list[list[object]] = []
    for store in (sqlite, served.store):
        await store.add_records([record("a"), record("b"), record("theirs", user_id="v")])
        await store.add_link(link("l1", "a", "b"), record_filter=everywhere(), now=NOW)
        words: list[object] = []
        for made, record_filter in calls:
            with pytest.raises((ConflictError, NotFoundError, ScopeError)) as caught:
                await store.add_link(made, record_filter=record_filter, now=NOW)
            words.append((type(caught.value), str(caught.value)))
        raised.append(words)
    await sqlite.close()
    assert raised[0] == raised[1]


async def test_a_diamond_of_dependencies_is_walked_once(served):
    # 24 layers of two records, each depending on both of the layer below: 2 ** 24 paths.
    layers = [[f"n{layer}-{side}" for side in range(2)] for layer in range(24)]
    await served.store.add_records(
        [record(name) for names in layers for name in names] + [record("new")],
        links=[
            link(f"{upper}{lower}", upper, lower, "depends_on")
            for below, above in itertools.pairwise(layers)
            for upper in above
            for lower in below
        ],
    )
    with anyio.fail_after(20):
        await served.store.add_link(
            link("l", "new", "n0-0", "supersedes"), record_filter=everywhere(), now=NOW
        )
    (top,) = await served.store.get_records(everywhere("n23-1"))
    assert top.review_reason == "depends on n0-0, which is superseded by new"


# Writers that meet.


async def test_links_made_at_once_leave_the_target_as_the_last_of_them_says(served):
    names = [f"s{number}" for number in range(4)]
    await served.store.add_records([record(name) for name in (*names, "old")])

    async def supersede(name: str) -> None:
        async with served.another() as mine:
            await mine.add_link(
                link(f"l-{name}", name, "old", "supersedes"), record_filter=everywhere(), now=NOW
            )

    async with anyio.create_task_group() as tasks:
        for name in names:
            tasks.start_soon(supersede, name)
    ((last,),) = served.rows(
        "SELECT r.id FROM memory_app.default_link l JOIN memory_app.default_record r "
        "ON r.seq = l.source_seq ORDER BY l.seq DESC LIMIT 1"
    )
    (old,) = await served.store.get_records(everywhere("old"))
    assert old.invalidation_reason == f"superseded by {last}"


@pytest.mark.parametrize("number", range(6))
async def test_a_dependency_made_while_its_ground_dies_is_marked(served, number):
    # top -> middle is linked while base, which middle depends on, is superseded.
    await served.store.add_records([record(name) for name in ("base", "middle", "top", "new")])
    await served.store.add_link(
        link("l1", "middle", "base", "depends_on"), record_filter=everywhere(), now=NOW
    )

    async def make(made: RecordRelation, wait: float) -> None:
        async with served.another() as mine:
            await anyio.sleep(wait)
            await mine.add_link(made, record_filter=everywhere(), now=NOW)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(make, link("l2", "top", "middle", "depends_on"), 0.002 * (number % 3))
        tasks.start_soon(make, link("l3", "new", "base", "supersedes"), 0.002 * (number // 3))
    reason = "depends on base, which is superseded by new"
    for found in await served.store.get_records(everywhere("middle", "top")):
        assert found.review_reason == reason, found.id


async def test_a_memory_that_is_being_deleted_cannot_be_linked(served):
    await served.store.add_records([record("a"), record("b")])
    raised: list[BaseException] = []

    async def make() -> None:
        async with served.another() as mine:
            try:
                await mine.add_link(link("l", "a", "b"), record_filter=everywhere(), now=NOW)
            except NotFoundError as error:
                raised.append(error)

    deleting = (
        "DELETE FROM memory_app.default_chunk WHERE record_seq = 2; "
        "DELETE FROM memory_app.default_record WHERE seq = 2"
    )
    async with served.holding(deleting) as other, anyio.create_task_group() as tasks:
        tasks.start_soon(make)
        await anyio.sleep(0.2)
        assert raised == []
        await other.commit()
    assert str(raised[0]) == "there is no memory 'b' in this scope to be linked"


async def test_a_link_to_a_record_that_is_being_deleted_goes_with_it(served):
    await served.store.add_records([record("a"), record("b")])

    async def make() -> None:
        async with served.another() as mine:
            try:
                await mine.add_link(
                    link("l", "a", "b", "supersedes"), record_filter=everywhere(), now=NOW
                )
            except NotFoundError:
                return

    async def delete() -> None:
        async with served.another() as mine:
            await mine.delete_records(everywhere("a"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(make)
        tasks.start_soon(delete)
    (left,) = await served.store.get_records(everywhere("b"))
    assert left.status is RecordStatus.VALID
    assert served.rows("SELECT 1 FROM memory_app.default_link") == []


# Answers that were lost.


@pytest.mark.parametrize("kind", [FaultKind.LOST_AFTER, FaultKind.LOST_BEFORE])
async def test_a_change_of_a_link_without_an_answer_is_done_once(served, kind):
    await served.store.add_records([record("a"), record("b")])
    await served.store.add_link(link("l", "a", "b"), record_filter=everywhere(), now=NOW)
    served.server.faults.add(kind, statement="SELECT l.id, s.id.*WHERE l.seq = :seq")
    changes = LinkChanges(
        relation_type="supersedes", opposite_relation_type="is_superseded_by", metadata={"k": 1}
    )
    changed = await served.store.update_link("l", changes, record_filter=everywhere(), now=NOW)
    assert (changed.relation_type, changed.metadata) == ("supersedes", {"k": 1})
    (dead,) = await served.store.get_records(everywhere("b"))
    assert (dead.status, dead.revision) == (RecordStatus.INVALID, 2)


# Expansion.


async def test_a_hub_is_asked_again_only_while_places_are_free(served):
    spokes = [f"s{number:03}" for number in range(320)]
    await served.store.add_records([record(name) for name in ("hub", "root", *spokes)])
    await served.store.add_records(
        [record("x")],
        links=[
            link("0", "root", "hub"),
            *(
                link(f"{kind}{name}", "hub", name, kind)
                for name in spokes
                for kind in ("supports", "contradicts")
            ),
        ],
    )
    served.server.forget()
    found = await served.store.expand(
        Expansion(filter=everywhere(), roots=("root",), hops=2, limit=5)
    )
    assert [node.record.id for node in found["root"]] == ["hub", *sorted(spokes)[:4]]
    hops = [text for text in served.server.statements if "AS here" in text]
    assert len(hops) == 2
    served.server.forget()
    found = await served.store.expand(
        Expansion(filter=everywhere(), roots=("root",), hops=2, limit=1000)
    )
    assert sorted(node.record.id for node in found["root"]) == ["hub", *spokes]
