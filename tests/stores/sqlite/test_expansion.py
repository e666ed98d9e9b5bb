"""Graph expansion against a plain walk over the same links, written without any shortcut."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from agentmemory.records import RecordRelation, RecordStatus, RecordType, ScopedRecord
from agentmemory.requests import Expansion, RecordFilter
from agentmemory.scope import DimensionMatch, ScopeFilter
from agentmemory.stores.sqlite.store import SqliteStore

START = datetime(2100, 5, 4, 12, tzinfo=UTC)
# In the future, so that nothing has expired when it is linked.
MEMORIES = 60
Path = tuple[str, str, str]
"""Parent, link, record."""


def note(number: int, chance: random.Random) -> ScopedRecord:
    return ScopedRecord(
        id=f"m{number}",
        record_type=chance.choice(("memory", "fact")),
        content=f"note {number}",
        status=chance.choice((RecordStatus.VALID, RecordStatus.VALID, RecordStatus.INVALID)),
        metadata={} if chance.random() < 0.5 else {"n": number},
        user_id="u",
        agent_id=chance.choice(("a", "b", None)),
        created_at=START,
        updated_at=START,
        expires_at=START + timedelta(days=1) if chance.random() < 0.1 else None,
    )


def link(number: int, source: ScopedRecord, target: ScopedRecord, age: int) -> RecordRelation:
    return RecordRelation(
        # The order of ids is not that of writing.
        id=f"l{number * 7919 % 1000:03}",
        source_record_id=source.id,
        source_record_type=source.record_type,  # type: ignore[arg-type]
        target_record_id=target.id,
        target_record_type=target.record_type,  # type: ignore[arg-type]
        relation_type="supports",
        opposite_relation_type="is_supported_by",
        metadata={"age": age} if age % 2 else {},
        created_at=START + timedelta(seconds=age),
    )


def walk(
    root: str,
    links: Sequence[RecordRelation],
    passing: set[str],
    *,
    hops: int,
    limit: int,
) -> list[Path]:
    """Return what a root reaches, breadth first, older links and smaller ids first."""
    ordered = sorted(links, key=lambda link: (link.created_at, link.id))
    found: list[Path] = []
    seen, edge = {root}, {root}
    for _ in range(hops):
        following: set[str] = set()
        for one in ordered:
            ends = (one.source_record_id, one.target_record_id)
            for here, there in (ends, ends[::-1]):
                if here in edge and there in passing and there not in seen and len(found) < limit:
                    seen.add(there)
                    following.add(there)
                    found.append((here, one.id, there))
        edge = following
    return found


@pytest.mark.parametrize("seed", range(6))
async def test_every_tree_is_the_one_a_plain_walk_finds(tmp_path, seed):
    chance = random.Random(seed)
    records = [note(number, chance) for number in range(MEMORIES)]
    pairs = [chance.sample(range(MEMORIES), 2) for _ in range(4 * MEMORIES)]
    unique = list(dict.fromkeys(map(tuple, pairs)))
    links = [
        link(number, records[one], records[other], chance.randrange(4))
        for number, (one, other) in enumerate(unique)
    ]
    store = SqliteStore(str(tmp_path / "m.db"))
    await store.open()
    try:
        stored = {record.id: record for record in await store.add_records(records)}
        await store.add_records([], links=links)
        for hops in range(1, 6):
            for limit in (0, 1, 7, 100):
                agent = chance.choice(("a", "b", None))
                known = chance.choice((None, START + timedelta(seconds=2)))
                types: tuple[RecordType, ...] | None = chance.choice((None, ("fact",)))
                scope = ScopeFilter(agent=DimensionMatch(exact=agent is not None, value=agent))
                wanted = RecordFilter(
                    scope=scope,
                    now=START + timedelta(days=2),
                    record_types=types,
                    include_invalid=False,
                    known_at=known,
                )
                passing = {
                    record.id
                    for record in records
                    if record.expires_at is None
                    and (agent is None or record.agent_id == agent)
                    and (types is None or record.record_type in types)
                }
                roots = tuple(chance.sample([record.id for record in records], 8))
                trees = await store.expand(
                    Expansion(filter=wanted, roots=(*roots, "gone"), hops=hops, limit=limit)
                )
                assert set(trees) == set(roots)
                visible = [one for one in links if known is None or one.created_at <= known]
                for root in roots:
                    assert [
                        (node.parent_id, node.relation.id, node.record.id) for node in trees[root]
                    ] == walk(root, visible, passing, hops=hops, limit=limit)
                by_id = {one.id: one for one in links}
                for node in (node for tree in trees.values() for node in tree):
                    assert node.relation == by_id[node.relation.id]
                    assert node.record.content == stored[node.record.id].content
                    assert node.record.metadata == stored[node.record.id].metadata
    finally:
        await store.close()
