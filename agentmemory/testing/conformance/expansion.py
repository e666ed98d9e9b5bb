"""Rules for what a search shows of the dead, and for linked results; may import the library."""

from __future__ import annotations

from typing import Any

from agentmemory.errors import ValidationError
from agentmemory.results import SearchResultFormatConfig
from agentmemory.testing.conformance.base import (
    USER,
    StoreRules,
    add_memories,
    chain,
    ids,
    reached,
    refused,
    tree,
)


class ExpansionRules(StoreRules):
    """Invalid results and graph expansion."""

    async def test_invalid_records_are_found_unless_left_out_at_every_layer(self) -> None:
        """The default includes them, on the thread, the client and the store alike."""
        async with self.memory() as memory:
            thread = await memory.create_thread(user_id=USER)
            old = await thread.add_memory("kite red")
            new = await thread.add_memory(
                "kite blue", memory_id_to_link=old, link_type="supersedes"
            )
            everything = {old, new}
            assert set(ids(await thread.search("kite"))) == everything
            assert set(ids(await memory.search("kite", user_id=USER))) == everything
            assert set(ids(await memory.store.search("kite"))) == everything
            assert ids(await thread.search("kite", include_invalid_results=False)) == [new]
            assert ids(
                await memory.search("kite", user_id=USER, include_invalid_results=False)
            ) == [new]
            assert ids(await memory.store.search("kite", include_invalid_results=False)) == [new]

    async def test_an_invalid_record_never_stands_before_what_replaced_it(self) -> None:
        """However much better it matches; and its result says what replaced it."""
        async with self.memory() as memory:
            await memory.add_memory(
                "The ferry to the island leaves at seven in the morning.",
                memory_id="old",
                user_id=USER,
            )
            await memory.add_memory("ferry: nine", memory_id="middle", user_id=USER)
            await memory.add_memory("It is the island boat at ten.", memory_id="new", user_id=USER)
            await chain(memory, ["new", "middle", "old"], "supersedes")
            hits = await memory.search("ferry island leaves seven morning", user_id=USER)
            places = {hit.id: place for place, hit in enumerate(hits)}
            assert places["new"] < places["middle"]
            assert places["new"] < places["old"]
            dead = next(hit for hit in hits if hit.id == "old")
            assert dead.record.replaced_by == "new"
            assert "<replaced_by>new</replaced_by>" in dead.formatted_content
            assert "<status>invalid</status>" in dead.formatted_content

    async def test_the_order_against_a_replacement_holds_when_a_step_between_is_not_found(
        self,
    ) -> None:
        """The chain is followed through records the search does not bring."""
        async with self.memory() as memory:
            await memory.add_memory("kite kite kite", memory_id="old", user_id=USER)
            await memory.add_memory("nothing of the sort", memory_id="middle", user_id=USER)
            await memory.add_memory(
                "one kite among many other words", memory_id="new", user_id=USER
            )
            await chain(memory, ["new", "middle", "old"], "refines")
            assert ids(await memory.search("kite", user_id=USER)) == ["new", "old"]

    async def test_num_hops_reaches_that_far_and_no_farther(self) -> None:
        """0 to 5 hops; each linked memory hangs below the one it was reached from."""
        names = [f"n{index}" for index in range(7)]
        async with self.memory() as memory:
            await add_memories(memory, names[1:])
            await memory.add_memory("lantern", memory_id="n0", user_id=USER)
            await chain(memory, names, "supports")
            for hops in range(6):
                (hit,) = await memory.search("lantern", user_id=USER, num_hops=hops)
                assert reached(hit) == names[1 : hops + 1]
            for bad in (-1, 6, True, "1"):
                with refused(ValidationError, "`num_hops`"):
                    await memory.search("lantern", user_id=USER, num_hops=bad)  # type: ignore[arg-type]

    async def test_links_are_followed_both_ways_and_keep_their_direction(self) -> None:
        """The label is that seen from the parent."""
        async with self.memory() as memory:
            await memory.add_memory("lantern", memory_id="root", user_id=USER)
            await add_memories(memory, ["above", "below"])
            await memory.link_records("above", "root", "supports")
            await memory.link_records("root", "below", "depends_on")
            (hit,) = await memory.search("lantern", user_id=USER, num_hops=1)
            seen = [
                (relation.source_record_id, relation.target_record_id, child.id)
                for relation, child in hit.linked_results
            ]
            assert seen == [("above", "root", "above"), ("root", "below", "below")]
            assert "<relation_type>is_supported_by</relation_type>" in hit.formatted_content
            assert "<relation_type>depends_on</relation_type>" in hit.formatted_content

    async def test_the_tree_is_one_of_shortest_paths_without_cycles(self) -> None:
        """Each memory is reached once, by the shortest way."""
        async with self.memory() as memory:
            await memory.add_memory("lantern", memory_id="root", user_id=USER)
            await add_memories(memory, ["a", "b", "c"])
            await chain(memory, ["root", "a", "b", "c", "root"], "supports")
            (hit,) = await memory.search("lantern", user_id=USER, num_hops=5)
            assert tree(hit) == {"a": {"b": {}}, "c": {}}

    async def test_ties_go_to_the_older_link_and_then_to_the_smaller_id(self) -> None:
        """The same graph always gives the same tree."""
        async with self.memory() as memory:
            await memory.add_memory("lantern", memory_id="root", user_id=USER)
            await add_memories(memory, ["p", "q", "x", "y"])
            await memory.link_records("root", "q", "supports", relation_id="l2")
            await memory.link_records("root", "p", "supports", relation_id="l1")
            self.clock.advance(1)
            await memory.link_records("p", "x", "supports", relation_id="a-later")
            await memory.link_records("q", "y", "supports", relation_id="b-later")
            self.clock.advance(1)
            await memory.link_records("q", "x", "supports", relation_id="a-latest")
            (hit,) = await memory.search("lantern", user_id=USER, num_hops=2)
            assert tree(hit) == {"p": {"x": {}}, "q": {"y": {}}}
            assert [child.id for _, child in hit.linked_results] == ["p", "q"]

    async def test_max_linked_results_bounds_each_result_over_all_hops(self) -> None:
        """100 by default; 0 for none; the nearest first."""
        async with self.memory() as memory:
            await memory.add_memory("lantern", memory_id="root", user_id=USER)
            names = [f"n{index:03}" for index in range(103)]
            await add_memories(memory, names)
            for name in names[:101]:
                await memory.link_records("root", name, "supports")
            await memory.link_records(names[0], names[101], "supports")
            (hit,) = await memory.search("lantern", user_id=USER, num_hops=2)
            assert len(reached(hit)) == 100
            (hit,) = await memory.search(
                "lantern", user_id=USER, num_hops=2, max_linked_results=102
            )
            assert len(reached(hit)) == 102
            assert names[101] in reached(hit)
            (hit,) = await memory.search("lantern", user_id=USER, num_hops=2, max_linked_results=3)
            assert reached(hit) == names[:3]
            (hit,) = await memory.search("lantern", user_id=USER, num_hops=2, max_linked_results=0)
            assert reached(hit) == []
            with refused(ValidationError, "`max_linked_results`"):
                await memory.search("lantern", user_id=USER, max_linked_results=-1)

    async def test_only_memories_expand_and_the_rest_stays_ranked(self) -> None:
        """Messages, images and profiles are results, and no vertices."""
        async with self.memory() as memory:
            thread = await memory.create_thread(user_id=USER)
            await thread.add_messages([{"role": "user", "content": "lantern"}])
            await memory.add_user(USER, "lantern collector")
            for kind in ("memory", "fact", "guideline", "preference"):
                await memory.add_memory(
                    f"lantern {kind}",
                    memory_type=kind,
                    memory_id=kind,
                    user_id=USER,
                )
            await add_memories(memory, ["x"])
            for kind in ("memory", "fact", "guideline", "preference"):
                await memory.link_records(kind, "x", "supports")
            hits = await memory.search("lantern", user_id=USER, num_hops=1)
            expanded = {hit.record.record_type: reached(hit) for hit in hits}
            assert expanded == {
                "message": [],
                "user_profile": [],
                **{kind: ["x"] for kind in ("memory", "fact", "guideline", "preference")},
            }

    async def test_status_never_filters_linked_memories(self) -> None:
        """Whatever `include_invalid_results` says, it is about direct results only."""
        async with self.memory() as memory:
            await memory.add_memory("lantern", memory_id="root", user_id=USER)
            await add_memories(memory, ["dead", "behind", "killer"])
            await chain(memory, ["root", "dead", "behind"], "supports")
            await memory.link_records("killer", "dead", "supersedes")
            for include in (True, False):
                (hit,) = await memory.search(
                    "lantern", user_id=USER, num_hops=2, include_invalid_results=include
                )
                assert tree(hit) == {"dead": {"behind": {}, "killer": {}}}

    async def test_only_rendering_hides_invalid_linked_memories(self) -> None:
        """Branches with nothing valid are left out; on the way to a valid one they keep status."""
        async with self.memory() as memory:
            await memory.add_memory("lantern", memory_id="root", user_id=USER)
            await add_memories(memory, ["dead", "behind", "lost"])
            await memory.link_records("root", "dead", "supersedes")
            await memory.link_records("dead", "behind", "supports")
            await memory.link_records("root", "lost", "supersedes")
            (hit,) = await memory.search(
                "lantern", user_id=USER, num_hops=2, include_invalid_results=False
            )
            assert "note lost" in hit.formatted_content
            shown = hit.format_content(SearchResultFormatConfig(include_invalid_results=False))
            assert "note lost" not in shown
            assert "<record_id>lost</record_id>" not in shown
            assert "<record_id>dead</record_id>" in shown
            assert "<status>invalid</status>" in shown
            assert "note dead" not in shown
            assert "note behind" in shown

    async def test_scope_types_metadata_validity_and_expiry_filter_every_node(self) -> None:
        """A memory that does not pass is neither shown nor gone through."""
        async with self.memory() as memory:
            await memory.add_memory(
                "lantern",
                memory_id="root",
                user_id=USER,
                agent_id="a1",
                memory_type="fact",
                metadata={"k": 1},
            )
            await add_memories(
                memory, ["good"], agent_id="a1", memory_type="fact", metadata={"k": 1}
            )
            rest: dict[str, Any] = {"agent_id": "a1", "memory_type": "fact", "metadata": {"k": 1}}
            await add_memories(memory, ["agent"], **(rest | {"agent_id": "a2"}))
            await add_memories(memory, ["type"], **(rest | {"memory_type": "memory"}))
            other: dict[str, Any] = rest | {"metadata": {"k": 2}}
            await add_memories(memory, ["metadata"], **other)
            await add_memories(memory, ["past"], valid_to="2026-01-01T00:00:00Z", **rest)
            await add_memories(memory, ["short"], ttl_days=1, **rest)
            for name in ("agent", "type", "metadata", "past", "short"):
                await memory.link_records("root", name, "supports")
                await memory.link_records(name, "good", "supports")
            self.clock.advance(days=2)
            (hit,) = await memory.search(
                "lantern",
                user_id=USER,
                agent_id="a1",
                record_types=["fact"],
                metadata_filter={"k": 1},
                as_of=self.clock.now(),
                num_hops=2,
            )
            assert tree(hit) == {}
            (hit,) = await memory.search("lantern", user_id=USER, num_hops=1)
            assert set(tree(hit)) == {"agent", "type", "metadata", "past"}

    async def test_several_roots_each_get_their_own_tree(self) -> None:
        """A memory can be a direct result and hang below another one."""
        async with self.memory() as memory:
            await memory.add_memory("lantern one", memory_id="a", user_id=USER)
            await memory.add_memory("lantern two", memory_id="b", user_id=USER)
            await memory.link_records("a", "b", "supports")
            hits = await memory.search("lantern", user_id=USER, num_hops=1)
            assert {hit.id: tree(hit) for hit in hits} == {"a": {"b": {}}, "b": {"a": {}}}
