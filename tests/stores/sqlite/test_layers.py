"""Layered retrieval asked of the store itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from agentmemory.errors import NotFoundError, ValidationError
from agentmemory.layering import EvictionPolicy, LayerQuery, LayerWord
from agentmemory.records import Layer, RecordRelation, ScopedRecord, Tier
from agentmemory.requests import RecordChanges, RecordFilter
from agentmemory.scope import DimensionMatch, ScopeFilter
from agentmemory.stores.sqlite.store import SqliteStore
from agentmemory.text.analyzer import analyze, analyze_query

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
MINE = ScopeFilter(user=DimensionMatch(exact=True, value="u1"))
HERE = RecordFilter(scope=MINE, now=NOW, include_invalid=False)
ALL = RecordFilter(scope=MINE, now=NOW, tiers=tuple(Tier))


@pytest.fixture
async def store() -> AsyncIterator[SqliteStore]:
    store = SqliteStore(":memory:")
    await store.open()
    yield store
    await store.close()


def memory(record_id: str, layer: str | None, content: str = "note", **values: Any) -> ScopedRecord:
    given = {"created_at": NOW, "updated_at": NOW, "user_id": "u1", **values}
    return ScopedRecord(
        id=record_id,
        record_type="memory",
        content=content,
        layer=None if layer is None else Layer(layer),
        **given,
    )


def query(
    *words: str,
    layers: tuple[str, ...] = ("rule",),
    pool: int = 10,
    seen: RecordFilter = HERE,
    count_to: int = 1000,
) -> LayerQuery:
    return LayerQuery(
        filter=seen,
        words=tuple(
            LayerWord(
                text=word,
                forms=(analyze_query(word),),
                whole=frozenset([" ".join(analyze(word))]),
            )
            for word in words
        ),
        pools={Layer(name): pool for name in layers},
        count_to=count_to,
    )


async def tiers(store: SqliteStore, *ids: str) -> list[str]:
    records = await store.get_records(RecordFilter(scope=MINE, now=NOW, tiers=tuple(Tier), ids=ids))
    return [record.tier.value for record in records]


async def test_critical_comes_in_full_whatever_the_words(store: SqliteStore):
    await store.add_records([memory(f"c{n:03}", "critical") for n in range(300)])
    await store.add_records([memory("other", "critical", user_id="u2")])
    found = await store.match_layers(query("nothing"))
    assert [record.id for record in found.critical] == [f"c{n:03}" for n in range(300)]
    assert found.active == 300
    assert (await store.match_layers(query("nothing", count_to=7))).active == 7
    assert (await store.match_layers(query("nothing", count_to=0))).active == 0
    assert found.matches == {Layer.RULE: ()}


async def test_tags_count_more_than_content_and_layers_stay_apart(store: SqliteStore):
    await store.add_records(
        [
            memory("content", "rule", "about certification of suppliers"),
            memory("tags", "rule", "note", tags=("certification", "supplier")),
            memory("half", "rule", "note", tags=("supplier",)),
            memory("none", "rule", "weather"),
            memory("context", "context", "certification of a supplier"),
            memory("plain", None, "certification of a supplier"),
        ]
    )
    found = await store.match_layers(query("certification", "supplier", layers=("rule", "context")))
    assert [item.record.id for item in found.matches[Layer.RULE]] == ["tags", "content", "half"]
    assert [item.record.id for item in found.matches[Layer.CONTEXT]] == ["context"]
    assert found.matches[Layer.RULE][0].match == 1.0
    assert found.matches[Layer.RULE][1].match == pytest.approx(0.64)
    assert found.matches[Layer.RULE][2].words == ("supplier",)
    assert found.active == 5


async def test_parts_of_glued_tags_and_chinese_words_match(store: SqliteStore):
    await store.add_records(
        [
            memory("glued", "rule", tags=("CREATE_ORDER", "certification_validity")),
            memory("han", "rule", "认证有效期检查规则"),
        ]
    )
    for word, name in (("certification", "glued"), ("create_order", "glued"), ("有效期", "han")):
        found = await store.match_layers(query(word))
        assert [item.record.id for item in found.matches[Layer.RULE]] == [name], word


async def test_signs_of_patterns_are_no_patterns(store: SqliteStore):
    await store.add_records([memory("a", "rule", "100 percent"), memory("b", "rule", "x_y")])
    found = await store.match_layers(query("%", "_", '"', "10%"))
    assert found.matches[Layer.RULE] == ()


async def test_a_busy_layer_does_not_starve_another(store: SqliteStore):
    await store.add_records(
        [memory(f"r{n}", "rule", "credit limit", hit_count=9) for n in range(400)]
    )
    await store.add_records([memory("k", "context", "credit limit")])
    found = await store.match_layers(query("credit", layers=("rule", "context"), pool=5))
    assert [item.record.id for item in found.matches[Layer.CONTEXT]] == ["k"]
    assert len(found.matches[Layer.RULE]) == 5


@pytest.mark.parametrize("others", [0, 200])
async def test_what_others_know_of_the_same_names_changes_nothing(store: SqliteStore, others: int):
    """Few chunks that hold every name are looked at together, many by user and layer."""
    layers = ("rule", "context", "background")
    await store.add_records(
        [memory(f"o{n}", "rule", "credit limit", user_id="u2", hit_count=9) for n in range(others)]
    )
    await store.add_records(
        [
            memory(f"{layer}{n}", layer, f"credit limit number {n}", tags=("credit",), hit_count=n)
            for layer in layers
            for n in range(20)
        ]
    )
    await store.add_records(
        [memory(f"credit{n}", layer, "credit") for n, layer in enumerate(layers * 30)]
    )
    matches = (await store.match_layers(query("credit", "limit", layers=layers, pool=9))).matches
    for layer in layers:
        found = [item.record.id for item in matches[Layer(layer)]]
        assert found == [f"{layer}{n}" for n in range(19, 10, -1)]


async def test_matches_bring_their_vectors_along_when_they_will_be_needed(store: SqliteStore):
    vectors = {name: np.eye(4, dtype=np.float32)[n] for n, name in enumerate("abc")}
    await store.add_records(
        [memory(name, "rule", "credit") for name in (*vectors, "bare")], vectors=vectors
    )
    for count_to, vectors_from, comes in (
        (0, None, False), (0, 0, True), (9, 4, True), (9, 5, False), (9, None, False),
    ):  # fmt: skip
        asked = replace(query("credit", count_to=count_to), vectors_from=vectors_from)
        matches = (await store.match_layers(asked)).matches[Layer.RULE]
        assert len(matches) == 4
        for item in matches:
            expected = vectors.get(item.record.id) if comes else None
            assert (item.vector is None) == (expected is None)
            assert item.vector is None or (item.vector == expected).all()


async def test_a_filter_that_hides_most_still_fills_the_pool(store: SqliteStore):
    await store.add_records(
        [
            memory(f"r{n}", "rule", "credit", agent_id="a1" if n % 100 == 0 else "a2")
            for n in range(900)
        ]
    )
    mine = ScopeFilter(user=MINE.user, agent=DimensionMatch(exact=True, value="a1"))
    for scope in (mine, ScopeFilter(agent=mine.agent)):
        found = await store.match_layers(
            query("credit", seen=RecordFilter(scope=scope, now=NOW), pool=9)
        )
        assert {item.record.agent_id for item in found.matches[Layer.RULE]} == {"a1"}
        assert len(found.matches[Layer.RULE]) == 9


async def test_the_used_and_trusted_come_first_among_equals(store: SqliteStore):
    await store.add_records(
        [
            memory("plain", "rule", "credit"),
            memory("doubted", "rule", "credit", confidence=0.4),
            memory("used", "rule", "credit", hit_count=3),
        ]
    )
    found = await store.match_layers(query("credit"))
    assert [item.record.id for item in found.matches[Layer.RULE]] == ["used", "plain", "doubted"]


async def test_a_new_layer_or_new_tags_are_found_at_once(store: SqliteStore):
    await store.add_records([memory("a", None)])
    one = RecordFilter(scope=MINE, now=NOW, ids=("a",))
    await store.update_record(one, RecordChanges(layer=Layer.RULE, tags=("credit",)), now=NOW)
    found = await store.match_layers(query("credit"))
    assert [item.record.id for item in found.matches[Layer.RULE]] == ["a"]


async def test_hits_are_counted_without_a_new_revision_and_in_scope_only(store: SqliteStore):
    await store.add_records([memory("a", "rule"), memory("b", "rule", user_id="u2")])
    later = NOW + timedelta(days=1)
    only = RecordFilter(scope=MINE, now=NOW, ids=("a", "b"))
    assert await store.count_hits(only, now=later) == 1
    assert await store.count_hits(only, now=later) == 1
    (record,) = await store.get_records(only)
    assert (record.hit_count, record.last_hit_at, record.revision) == (2, later, 1)
    assert record.updated_at == NOW


async def test_confidence_falls_to_nothing_in_five_steps_and_rises_to_one(store: SqliteStore):
    await store.add_records([memory("a", "rule")])
    one = RecordFilter(scope=MINE, now=NOW, ids=("a",))
    seen = [(await store.adjust_confidence(one, -0.2, now=NOW))[0].confidence for _ in range(6)]
    assert seen == [0.8, 0.6, 0.4, 0.2, 0.0, 0.0]
    assert (await store.adjust_confidence(one, 5, now=NOW))[0].confidence == 1.0


async def test_confidence_of_several_changes_together_or_not_at_all(store: SqliteStore):
    await store.add_records([memory("a", "rule"), memory("b", "rule", user_id="u2")])
    with pytest.raises(NotFoundError, match="'b'"):
        await store.adjust_confidence(
            RecordFilter(scope=MINE, now=NOW, ids=("a", "b")), -0.5, now=NOW
        )
    (record,) = await store.get_records(RecordFilter(scope=MINE, now=NOW, ids=("a",)))
    assert record.confidence == 1.0


async def test_memories_cool_by_idle_time_and_hits_and_critical_and_plain_ones_do_not(
    store: SqliteStore,
):
    await store.add_records(
        [
            memory("c", "critical", confidence=0.0),
            memory("plain", None),
            memory("r", "rule"),
            memory("used", "rule", hit_count=2, last_hit_at=NOW),
            memory("hit", "context", hit_count=1, last_hit_at=NOW + timedelta(days=80)),
        ]
    )
    names = ("c", "plain", "r", "used", "hit")
    seen = {}
    for days in (30, 31, 61, 91, 181, 361):
        at = NOW + timedelta(days=days)
        await store.evict(ALL, EvictionPolicy(), now=at, dry_run=False)
        seen[days] = await tiers(store, *names)
    assert seen[30] == ["hot"] * 5
    assert seen[31] == ["hot", "hot", "warm", "hot", "hot"]
    assert seen[61] == ["hot", "hot", "warm", "warm", "hot"]
    assert seen[91] == ["hot", "hot", "cold", "warm", "hot"]
    assert seen[181] == ["hot", "hot", "archived", "cold", "cold"]
    assert seen[361] == ["hot", "hot", "archived", "archived", "archived"]


async def test_a_standing_guideline_is_not_archived(store: SqliteStore):
    await store.add_records([replace(memory("g", "rule"), record_type="guideline")])
    await store.evict(ALL, EvictionPolicy(), now=NOW + timedelta(days=999), dry_run=False)
    assert await tiers(store, "g") == ["cold"]


async def test_an_eviction_says_what_it_would_do_and_a_second_run_does_nothing(store: SqliteStore):
    await store.add_records([memory("low", "rule", confidence=0.29), memory("old", "rule")])
    later = NOW + timedelta(days=40)
    dry = await store.evict(ALL, EvictionPolicy(), now=later, dry_run=True)
    assert await tiers(store, "low", "old") == ["hot", "hot"]
    done = await store.evict(ALL, EvictionPolicy(), now=later, dry_run=False)
    assert done.changes == dry.changes
    assert [(change.id, change.after.value, change.reason) for change in done.changes] == [
        ("low", "deprecated", "confidence 0.29 is below 0.3"),
        ("old", "warm", "idle for 40 days"),
    ]
    assert done.counts == {"deprecated": 1, "warm": 1}
    assert not (await store.evict(ALL, EvictionPolicy(), now=later, dry_run=False)).changes


async def test_what_is_put_away_is_not_matched_and_comes_back(store: SqliteStore):
    await store.add_records([memory("low", "rule", "credit", confidence=0.2)])
    await store.evict(ALL, EvictionPolicy(), now=NOW, dry_run=False)
    assert (await store.match_layers(query("credit"))).matches[Layer.RULE] == ()
    asked = await store.match_layers(query("credit", seen=ALL))
    assert [item.record.id for item in asked.matches[Layer.RULE]] == ["low"]
    one = RecordFilter(scope=MINE, now=NOW, tiers=tuple(Tier), ids=("low",))
    await store.adjust_confidence(one, 0.05, now=NOW)
    assert await tiers(store, "low") == ["deprecated"]
    await store.adjust_confidence(one, 0.5, now=NOW)
    assert await tiers(store, "low") == ["hot"]
    assert not (await store.evict(ALL, EvictionPolicy(), now=NOW, dry_run=False)).changes


async def test_a_memory_goes_when_the_rule_it_rests_on_changes(store: SqliteStore):
    link = RecordRelation(
        id="l",
        source_record_id="outcome",
        source_record_type="memory",
        target_record_id="rule",
        target_record_type="memory",
        relation_type="depends_on",
        opposite_relation_type="is_dependency_of",
        created_at=NOW,
    )
    await store.add_records([memory("rule", "critical"), memory("outcome", "rule")], links=[link])
    one = RecordFilter(scope=MINE, now=NOW, ids=("rule",))
    await store.update_record(one, RecordChanges(tags=("x",)), now=NOW)
    assert not (await store.evict(ALL, EvictionPolicy(), now=NOW, dry_run=True)).changes
    await store.update_record(one, RecordChanges(content="45 days"), now=NOW)
    done = await store.evict(ALL, EvictionPolicy(), now=NOW, dry_run=False)
    assert [(change.id, change.reason) for change in done.changes] == [
        ("outcome", "rests on rule, whose text was changed")
    ]
    again = RecordFilter(scope=MINE, now=NOW, tiers=tuple(Tier), ids=("outcome",))
    (record,) = await store.adjust_confidence(again, 0.1, now=NOW)
    assert (record.tier, record.review_reason) == (Tier.HOT, None)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"warm_after": -1}, "warm_after"),
        ({"cold_after": 10}, "cold_after"),
        ({"archive_after": "soon"}, "archive_after"),
        ({"kept_hits": 0}, "kept_hits"),
        ({"deprecate_below": 1.5}, "deprecate_below"),
    ],
)
def test_bad_policies_are_refused_by_name(values: Any, named: str):
    with pytest.raises(ValidationError, match=f"`{named}`"):
        EvictionPolicy(**values)
