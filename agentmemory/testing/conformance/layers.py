"""Rules for layers: what is always there, what matches, hits, confidence, eviction.

May import the library.
"""

from __future__ import annotations

from agentmemory.errors import NotFoundError
from agentmemory.testing.conformance.base import USER, StoreRules, add_memories, ids, refused


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
