"""Rules for layers: what is always there, what matches, hits, confidence, eviction.

May import the library.
"""

from __future__ import annotations

from dataclasses import replace

from agentmemory.errors import ConflictError, NotFoundError
from agentmemory.layering import OutcomeWrite
from agentmemory.records import Layer, RecordRelation
from agentmemory.requests import JobDraft, JobState, LinkQuery
from agentmemory.scope import DimensionMatch, ScopeFilter
from agentmemory.testing.conformance.base import (
    EVERYWHERE,
    NOW,
    USER,
    StoreRules,
    add_memories,
    ids,
    record,
    refused,
)


class LayerRules(StoreRules):
    """Memories by layer, found and put away."""

    async def test_critical_is_complete_whatever_the_intent(self) -> None:
        """All of the scope, none of another, in the order of writing."""
        async with self.memory() as memory:
            names = [f"c{number:02}" for number in range(30)]
            await add_memories(memory, names, layer="critical")
            await add_memories(memory, ["theirs"], layer="critical", user_id="u2")
            found = await memory.retrieve("kites", user_id=USER)
            assert ids(found.critical) == names

    async def test_tags_and_content_match_within_a_layer(self) -> None:
        """A tag counts more than a word of the content; other layers do not take part."""
        async with self.memory() as memory:
            await add_memories(memory, ["tagged"], layer="rule", tags=["credit"])
            await add_memories(memory, ["told"], "credit", layer="rule")
            await add_memories(memory, ["neither"], layer="rule")
            await add_memories(memory, ["elsewhere"], "credit", layer="background")
            found = await memory.retrieve("credit", user_id=USER, layers=["rule"])
            assert ids(found.rule) == ["tagged", "told"]
            assert found.background == ()

    async def test_glued_tags_match_by_their_parts_and_chinese_by_its_words(self) -> None:
        """As the analyzer reads them, the same in every store."""
        async with self.memory() as memory:
            await add_memories(memory, ["glued"], layer="rule", tags=["credit_limit_check"])
            await add_memories(memory, ["han"], "认证有效期检查", layer="rule")
            for word, name in (("limit", "glued"), ("有效期", "han")):
                found = await memory.retrieve(word, user_id=USER, layers=["rule"])
                assert ids(found.rule) == [name], word

    async def test_a_changed_layer_counts_at_once(self) -> None:
        """So do changed tags."""
        async with self.memory() as memory:
            await add_memories(memory, ["a"])
            await memory.update_memory("a", layer="context", tags=["credit"])
            found = await memory.retrieve("credit", user_id=USER, layers=["context"])
            assert ids(found.context) == ["a"]
            await memory.update_memory("a", layer="critical")
            found = await memory.retrieve("credit", user_id=USER, layers=["context"])
            assert (ids(found.critical), found.context) == (["a"], ())

    async def test_hits_move_neither_revision_nor_time_of_change(self) -> None:
        """They only count, and only when asked."""
        async with self.memory() as memory:
            await add_memories(memory, ["a"], layer="rule", tags=["credit"])
            before = await memory.get_memory("a")
            self.clock.advance(days=1)
            await memory.retrieve("credit", user_id=USER, layers=["rule"])
            await memory.retrieve("credit", user_id=USER, layers=["rule"], count_hits=True)
            after = await memory.get_memory("a")
            assert (after.hit_count, after.last_hit_at) == (1, self.clock.now())
            assert (after.revision, after.updated_at) == (before.revision, before.updated_at)

    async def test_confidence_stays_between_nothing_and_one(self) -> None:
        """Five steps of 0.2 take all of it, exactly; another scope cannot."""
        async with self.memory() as memory:
            await add_memories(memory, ["a"], layer="rule")
            seen = [await memory.lower_confidence("a", user_id=USER) for _ in range(6)]
            assert seen == [0.8, 0.6, 0.4, 0.2, 0.0, 0.0]
            with refused(NotFoundError, "'a'"):
                await memory.raise_confidence("a", user_id="u2")
            assert await memory.raise_confidence("a", 1.0, user_id=USER) == 1.0

    async def test_what_is_put_away_is_nowhere_and_comes_back(self) -> None:
        """A dry run changes nothing, and a second run finds nothing to do."""
        async with self.memory() as memory:
            await add_memories(memory, ["low", "old"], "credit", layer="rule")
            await add_memories(memory, ["always"], "credit", layer="critical")
            await memory.lower_confidence("low", 0.8)
            await memory.lower_confidence("always", 1.0)
            self.clock.advance(days=200)
            planned = await memory.run_eviction(dry_run=True)
            assert planned.counts == {"deprecated": 1, "archived": 1}
            assert (await memory.get_memory("low")).tier.value == "hot"
            assert (await memory.run_eviction()).changes == planned.changes
            assert not (await memory.run_eviction()).changes
            assert (await memory.retrieve("credit", user_id=USER, layers=["rule"])).rule == ()
            assert ids(await memory.search("credit", user_id=USER)) == ["always"]
            for name in ("low", "old"):
                await memory.raise_confidence(name, 0.5)
            found = await memory.retrieve("credit", user_id=USER, layers=["rule"])
            assert set(ids(found.rule)) == {"low", "old"}

    async def test_a_memory_leaves_when_the_rule_it_rests_on_changes(self) -> None:
        """Its text counts, not its tags."""
        async with self.memory() as memory:
            await add_memories(memory, ["rule"], layer="critical")
            await add_memories(
                memory, ["case"], layer="rule", memory_id_to_link="rule", link_type="depends_on"
            )
            await memory.update_memory("rule", tags=["credit"])
            assert not (await memory.run_eviction()).changes
            await memory.update_memory("rule", content="another limit")
            assert ids((await memory.run_eviction()).changes) == ["case"]

    async def test_an_outcome_is_written_whole_or_not_at_all(self) -> None:
        """What cannot be adjusted keeps its memory from being written, new or known."""
        async with self.memory() as memory:
            await add_memories(memory, ["a"], layer="rule")
            with refused(NotFoundError, "'nobody'"):
                await memory.record_outcome(
                    "PAY", success=False, used=["a", "nobody"], user_id=USER
                )
            assert ids((await memory.list_memories(user_id=USER)).items) == ["a"]
            assert (await memory.get_memory("a")).confidence == 1.0
            done = await memory.record_outcome("PAY", success=False, used=["a"], user_id=USER)
            assert (done.is_new, done.confidence) == (True, {"a": 0.8})
            with refused(NotFoundError, "'nobody'"):
                await memory.record_outcome(
                    "PAY", success=False, used=["a", "nobody"], user_id=USER
                )
            assert (await memory.get_memory(done.memory_id)).hit_count == 0
            assert (await memory.get_memory("a")).confidence == 0.8
            again = await memory.record_outcome("PAY", success=False, used=["a"], user_id=USER)
            assert (again.is_new, again.confidence) == (False, {"a": 0.6})
            known = await memory.get_memory(done.memory_id)
            assert (known.hit_count, known.last_hit_at) == (1, self.clock.now())

    async def test_an_outcome_that_cannot_be_written_adjusts_nothing(self) -> None:
        """Its id may be taken, or an end of a link may be gone."""
        async with self.store() as store:
            used = replace(EVERYWHERE, ids=("a",))
            await store.add_records([record("a"), record("taken", user_id="u2")])
            lost = RecordRelation(
                id="l",
                source_record_id="new",
                source_record_type="memory",
                target_record_id="gone",
                target_record_type="guideline",
                relation_type="depends_on",
                opposite_relation_type="is_dependency_of",
                created_at=NOW,
            )
            mine = ScopeFilter(user=DimensionMatch(exact=True, value=USER))
            for name, links, error in (
                ("taken", (), ConflictError),
                ("new", (lost,), NotFoundError),
            ):
                with refused(error, "'taken'" if name == "taken" else "'gone'"):
                    await store.write_outcome(
                        OutcomeWrite(
                            record=record(name),
                            known=replace(EVERYWHERE, scope=mine, ids=(name,)),
                            links=links,
                            link_filter=EVERYWHERE,
                            used=used,
                            delta=-0.2,
                        ),
                        now=NOW,
                    )
            (kept,) = await store.get_records(used)
            assert (kept.confidence, kept.revision) == (1.0, 1)
            assert await store.get_records(replace(EVERYWHERE, ids=("new",))) == ()

    async def test_a_success_needs_what_it_rested_on_and_leaves_it_as_it_is(self) -> None:
        """The memory is tagged, layered and tied to its rule; a second time it is a hit."""
        async with self.store() as store:
            await store.add_records([record("a"), record("base", record_type="guideline")])
            tie = RecordRelation(
                id="l",
                source_record_id="new",
                source_record_type="memory",
                target_record_id="base",
                target_record_type="guideline",
                relation_type="depends_on",
                opposite_relation_type="is_dependency_of",
                created_at=NOW,
            )
            draft = JobDraft(id="j", kind="any", thread_id=None)
            outcome = OutcomeWrite(
                record=record("new", layer=Layer.RULE, tags=("PAY",)),
                known=replace(EVERYWHERE, ids=("new",)),
                jobs=(draft,),
                links=(tie,),
                link_filter=EVERYWHERE,
                used=replace(EVERYWHERE, ids=("a",)),
            )
            with refused(NotFoundError, "'b'"):
                absent = replace(outcome, used=replace(EVERYWHERE, ids=("a", "b")))
                await store.write_outcome(absent, now=NOW)
            assert await store.get_records(outcome.known) == ()
            written = await store.write_outcome(outcome, now=NOW)
            assert (written.is_new, written.adjusted) == (True, ())
            links = await store.list_links(LinkQuery(filter=EVERYWHERE))
            assert [(link.source_record_id, link.target_record_id) for link in links.items] == [
                ("new", "base")
            ]
            written = await store.write_outcome(outcome, now=NOW)
            assert (written.is_new, written.adjusted) == (False, ())
            (known,) = await store.get_records(outcome.known)
            assert (known.hit_count, known.tags) == (1, ("PAY",))
            (kept,) = await store.get_records(replace(EVERYWHERE, ids=("a",)))
            assert (kept.confidence, kept.revision) == (1.0, 1)
            assert ids(await store.list_jobs(states=[JobState.READY])) == ["j"]
