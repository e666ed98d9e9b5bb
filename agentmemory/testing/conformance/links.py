"""Rules for links and for what they do to the memories they join; may import the library."""

from __future__ import annotations

from agentmemory.errors import ConflictError, NotFoundError, ScopeError, ValidationError
from agentmemory.records import LIFECYCLE_LINK_TYPES, LINK_TYPES, RecordStatus
from agentmemory.testing.conformance.base import (
    USER,
    StoreRules,
    add_memories,
    chain,
    ids,
    refused,
    status_of,
)


class LinkRules(StoreRules):
    """Links: types, labels, verbs, lifecycle."""

    async def test_each_built_in_type_has_its_label_from_the_other_end(self) -> None:
        """A link reads one way from its source and another from its target."""
        async with self.memory() as memory:
            for index, (name, opposite) in enumerate(LINK_TYPES.items()):
                source, target = f"s{index}", f"t{index}"
                await add_memories(memory, [source, target])
                link = await memory.link_records(source, target, name)
                assert (link.relation_type, link.opposite_relation_type) == (name, opposite)
                assert link.label_from(source) == name
                assert link.label_from(target) == opposite
                with refused(ValidationError, "`opposite_relation_type`", opposite):
                    await memory.link_records(
                        target, source, name, opposite_relation_type="something else"
                    )

    async def test_a_label_of_the_callers_own_keeps_both_its_sides(self) -> None:
        """Custom labels are stored as given; the other side is the same unless told."""
        async with self.memory() as memory:
            await add_memories(memory, ["a", "b"])
            link = await memory.link_records(
                "a", "b", "was inspired by", opposite_relation_type="inspired"
            )
            assert link.label_from("b") == "inspired"
            twin = await memory.link_records("a", "b", "resembles")
            assert twin.label_from("b") == "resembles"
            assert await status_of(memory, "b") == "valid"
            with refused(ValidationError, "`relation_type`"):
                await memory.link_records("a", "b", "x" * 65)

    async def test_only_lifecycle_links_invalidate_their_target(self) -> None:
        """`supersedes`, `refines` and `duplicates` do; the other types do not."""
        async with self.memory() as memory:
            for index, name in enumerate(LINK_TYPES):
                source, target = f"s{index}", f"t{index}"
                await add_memories(memory, [source, target])
                await memory.link_records(source, target, name)
                expected = "invalid" if name in LIFECYCLE_LINK_TYPES else "valid"
                assert await status_of(memory, target) == expected, name
                assert await status_of(memory, source) == "valid", name

    async def test_the_reason_of_an_invalidation_is_kept_and_goes_with_it(self) -> None:
        """An invalid record says why, since when and what replaced it."""
        async with self.memory() as memory:
            await add_memories(memory, ["old", "new"])
            self.clock.advance(days=1)
            link = await memory.link_records("new", "old", "supersedes")
            dead = await memory.get_memory("old")
            assert dead.status is RecordStatus.INVALID
            assert dead.invalidation_reason == "superseded by new"
            assert dead.invalidated_at == self.clock.now()
            assert dead.replaced_by == "new"
            await memory.delete_record_link(link.id)
            alive = await memory.get_memory("old")
            assert alive.status is RecordStatus.VALID
            assert (alive.invalidation_reason, alive.invalidated_at) == (None, None)
            assert alive.replaced_by is None

    async def test_a_record_is_restored_only_with_its_last_lifecycle_link(self) -> None:
        """Each lifecycle link alone keeps its target invalid, since the first of them."""
        async with self.memory() as memory:
            await add_memories(memory, ["old", "a", "b"])
            first = await memory.link_records("a", "old", "supersedes")
            since = self.clock.now()
            self.clock.advance(hours=1)
            second = await memory.link_records("b", "old", "duplicates")
            await memory.delete_record_link(first.id)
            dead = await memory.get_memory("old")
            assert (dead.status.value, dead.replaced_by) == ("invalid", "b")
            assert dead.invalidation_reason == "duplicate of b"
            assert dead.invalidated_at == since
            await memory.delete_record_link(second.id)
            assert await status_of(memory, "old") == "valid"

    async def test_in_a_chain_only_the_head_stands_and_every_link_restores_one(self) -> None:
        """Each step of a chain is dead for as long as the link that ends at it stands."""
        names = ["d", "c", "b", "a"]
        async with self.memory() as memory:
            await add_memories(memory, names)
            links = await chain(memory, names, "supersedes")
            assert [await status_of(memory, name) for name in names] == ["valid"] + 3 * ["invalid"]
            for name in "abc":
                assert (await memory.get_memory(name)).replaced_by == "d"
            await memory.delete_record_link(links[0])
            assert [await status_of(memory, name) for name in "dcba"] == [
                "valid",
                "valid",
                "invalid",
                "invalid",
            ]
            assert (await memory.get_memory("a")).replaced_by == "c"
            await memory.delete_memory("b")
            assert await status_of(memory, "a") == "valid"

    async def test_in_a_cycle_all_are_dead_until_it_is_cut(self) -> None:
        """A cycle of lifecycle links replaces everything by everything, and can be undone."""
        async with self.memory() as memory:
            await add_memories(memory, ["a", "b", "c"])
            await chain(memory, ["a", "b", "c"], "supersedes")
            closing = await memory.link_records("c", "a", "refines")
            assert {await status_of(memory, name) for name in "abc"} == {"invalid"}
            assert (await memory.get_memory("a")).replaced_by == "c"
            assert len(await memory.search("note", user_id=USER)) == 3
            await memory.delete_record_link(closing.id)
            assert [await status_of(memory, name) for name in "abc"] == [
                "valid",
                "invalid",
                "invalid",
            ]

    async def test_the_deletion_of_the_source_restores_the_target(self) -> None:
        """With the replacement goes the reason for the invalidation."""
        async with self.memory() as memory:
            await add_memories(memory, ["old", "new"])
            await memory.link_records("new", "old", "supersedes")
            deletion = await memory.delete_memory("new")
            assert deletion.counts["link"] == 1
            assert await status_of(memory, "old") == "valid"

    async def test_changing_the_type_of_a_link_settles_its_target(self) -> None:
        """A link that becomes a lifecycle link invalidates, one that ceases to be restores."""
        async with self.memory() as memory:
            await add_memories(memory, ["a", "b"])
            link = await memory.link_records("a", "b", "supports")
            await memory.update_record_link(link.id, relation_type="supersedes")
            assert await status_of(memory, "b") == "invalid"
            changed = await memory.update_record_link(link.id, relation_type="contradicts")
            assert changed.opposite_relation_type == "contradicts"
            assert await status_of(memory, "b") == "valid"

    async def test_a_link_that_changes_keeps_what_was_not_named(self) -> None:
        """An update of a link loses nothing it did not name; None clears."""
        async with self.memory() as memory:
            await add_memories(memory, ["a", "b"])
            link = await memory.link_records(
                "a", "b", "supports", timestamp="2026-01-02T03:04:05+00:00", metadata={"k": 1}
            )
            changed = await memory.update_record_link(link.id, metadata={"k": 2})
            assert changed.timestamp == link.timestamp
            assert changed.relation_type == "supports"
            cleared = await memory.update_record_link(link.id, timestamp=None, metadata=None)
            assert (cleared.timestamp, dict(cleared.metadata)) == (None, {})
            with refused(ValidationError, "nothing to change"):
                await memory.update_record_link(link.id)
            with refused(NotFoundError, "'x'"):
                await memory.update_record_link("x", metadata=None)

    async def test_bad_links_are_refused_and_change_nothing(self) -> None:
        """Unknown ends, itself, twice the same, a taken id, an end that is no memory."""
        async with self.memory() as memory:
            await add_memories(memory, ["a", "b"])
            thread = await memory.create_thread(user_id=USER)
            (message,) = await thread.add_messages([{"role": "user", "content": "hello"}])
            await memory.link_records("a", "b", "supports", relation_id="l1")
            for source, target in (("a", "x"), ("x", "a"), ("a", message), (message, "a")):
                with refused(NotFoundError):
                    await memory.link_records(source, target, "supersedes")
            with refused(ValidationError, "`target_record_id`"):
                await memory.link_records("a", "a", "supports")
            with refused(ConflictError):
                await memory.link_records("a", "b", "supports")
            with refused(ConflictError):
                await memory.link_records("b", "a", "supports", relation_id="l1")
            assert ids(await memory.list_record_links(user_id=USER)) == ["l1"]
            assert await status_of(memory, "a") == "valid"

    async def test_a_link_stays_within_one_user_and_within_the_scope_it_was_asked_in(self) -> None:
        """Nobody's memory is changed by, or shows the id of, another user's."""
        async with self.memory() as memory:
            await add_memories(memory, ["mine", "own"], agent_id="a1")
            await add_memories(memory, ["theirs"], user_id="u2")
            await add_memories(memory, ["shared"], user_id=None)
            for target in ("theirs", "shared"):
                with refused(ScopeError, "different"):
                    await memory.link_records("mine", target, "supersedes")
                with refused(NotFoundError):
                    await memory.link_records("mine", target, "supersedes", user_id=USER)
            link = await memory.link_records("mine", "own", "supports")
            with refused(NotFoundError):
                await memory.link_records("mine", "own", "refines", agent_id="a2")
            with refused(NotFoundError):
                await memory.update_record_link(link.id, metadata=None, user_id="u2")
            with refused(NotFoundError):
                await memory.delete_record_link(link.id, user_id="u2")
            assert ids(await memory.list_record_links(user_id="u2")) == []
            assert ids(await memory.list_record_links(user_id=USER)) == [link.id]

    async def test_links_are_listed_by_end_and_type_in_pages(self) -> None:
        """Listing filters by record and type, and a cursor neither skips nor repeats."""
        async with self.memory() as memory:
            names = [f"m{index}" for index in range(6)]
            await add_memories(memory, names)
            made = await chain(memory, names, "supports")
            other = await memory.link_records("m0", "m5", "resembles")
            assert ids(await memory.list_record_links(user_id=USER, record_id="m0")) == [
                made[0],
                other.id,
            ]
            of_type = await memory.list_record_links(user_id=USER, relation_types=["resembles"])
            assert ids(of_type) == [other.id]
            page = await memory.list_record_links(user_id=USER, limit=2)
            seen = ids(page)
            while page.next_cursor is not None:
                page = await memory.list_record_links(
                    user_id=USER, limit=2, cursor=page.next_cursor
                )
                seen += ids(page)
            assert seen == [*made, other.id]

    async def test_a_memory_can_be_added_with_a_link_in_one_step(self) -> None:
        """The new memory is the source; if the link cannot be made, nothing is stored."""
        async with self.memory() as memory:
            await add_memories(memory, ["old"])
            new = await memory.add_memory(
                "note new",
                user_id=USER,
                memory_id_to_link="old",
                link_type="supersedes",
                link_id="l1",
                link_metadata={"why": "moved"},
            )
            (link,) = await memory.list_record_links(user_id=USER)
            assert (link.id, link.source_record_id, link.target_record_id) == ("l1", new, "old")
            assert await status_of(memory, "old") == "invalid"
            with refused(NotFoundError):
                await memory.add_memory(
                    "note x", user_id=USER, memory_id_to_link="nothing", link_type="supports"
                )
            with refused(ValidationError, "`link_type`"):
                await memory.add_memory("note x", user_id=USER, memory_id_to_link="old")
            with refused(ValidationError, "`memory_id_to_link`"):
                await memory.add_memory("note x", user_id=USER, link_type="supports")
            assert (await memory.stats()).records == {"memory": 2}

    async def test_when_a_record_dies_its_dependants_are_marked_until_it_lives_again(self) -> None:
        """The mark reaches those that depend on it through others, and says why."""
        async with self.memory() as memory:
            await add_memories(memory, ["base", "middle", "top", "new", "free"])
            await chain(memory, ["top", "middle", "base"], "depends_on")
            link = await memory.link_records("new", "base", "supersedes")
            for name in ("middle", "top"):
                marked = await memory.get_memory(name)
                assert marked.review_reason == "depends on base, which is superseded by new"
                assert marked.status is RecordStatus.VALID
            assert (await memory.get_memory("free")).review_reason is None
            await memory.delete_record_link(link.id)
            for name in ("middle", "top"):
                assert (await memory.get_memory(name)).review_reason is None

    async def test_a_mark_names_what_was_deleted_and_ends_with_a_new_content(self) -> None:
        """Deleting what others depend on marks them; other restorations do not clear that."""
        async with self.memory() as memory:
            await add_memories(memory, ["base", "other", "top", "new"])
            await memory.link_records("top", "base", "depends_on")
            await memory.link_records("top", "other", "depends_on")
            await memory.delete_memory("base")
            reason = "depends on base, which was deleted"
            assert (await memory.get_memory("top")).review_reason == reason
            link = await memory.link_records("new", "other", "supersedes")
            await memory.delete_record_link(link.id)
            assert (await memory.get_memory("top")).review_reason == reason
            await memory.update_memory("top", content="note rewritten")
            assert (await memory.get_memory("top")).review_reason is None

    async def test_old_news_does_not_mark_again_what_was_reviewed(self) -> None:
        """After a review only a new death marks a record; without the link it is free."""
        async with self.memory() as memory:
            await add_memories(memory, ["a", "b", "top", "new"])
            to_a = await memory.link_records("top", "a", "depends_on")
            await memory.link_records("top", "b", "depends_on")
            await memory.link_records("new", "a", "supersedes")
            await memory.update_memory("top", content="note reviewed")
            second = await memory.link_records("new", "b", "supersedes")
            assert (await memory.get_memory("top")).review_reason == (
                "depends on b, which is superseded by new"
            )
            await memory.delete_record_link(second.id)
            assert (await memory.get_memory("top")).review_reason == (
                "depends on a, which is superseded by new"
            )
            await memory.delete_record_link(to_a.id)
            assert (await memory.get_memory("top")).review_reason is None

    async def test_depending_on_what_is_dead_already_marks_at_once(self) -> None:
        """A dependency that is added to a dead record is news."""
        async with self.memory() as memory:
            await add_memories(memory, ["base", "top", "new"])
            await memory.link_records("new", "base", "supersedes")
            await memory.link_records("top", "base", "depends_on")
            assert (await memory.get_memory("top")).review_reason == (
                "depends on base, which is superseded by new"
            )

    async def test_links_of_a_thread_reach_the_memories_of_its_user_and_agent(self) -> None:
        """A thread links what it can find, and nothing beyond."""
        async with self.memory() as memory:
            thread = await memory.create_thread(user_id=USER, agent_id="a1")
            sibling = await memory.create_thread(user_id=USER, agent_id="a1")
            stranger = await memory.create_thread(user_id=USER, agent_id="a2")
            own = await thread.add_memory("note own")
            near = await sibling.add_memory("note near")
            far = await stranger.add_memory("note far")
            link = await thread.link_records(own, near, "refines")
            assert ids(await thread.list_record_links()) == [link.id]
            assert ids(await stranger.list_record_links()) == []
            with refused(NotFoundError):
                await thread.link_records(own, far, "supports")
            with refused(NotFoundError):
                await stranger.delete_record_link(link.id)
            changed = await sibling.update_record_link(link.id, relation_type="supports")
            assert changed.relation_type == "supports"
            await thread.delete_record_link(link.id)
            assert ids(await thread.list_record_links()) == []
