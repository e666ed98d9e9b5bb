"""Rules for deletes: nothing that was derived stays, and nothing else goes; imports the library."""

# The rules look behind the client, where its store is.
# pyright: reportPrivateUsage=false
from __future__ import annotations

from dataclasses import replace

from agentmemory.client import AsyncAgentMemory
from agentmemory.errors import NotFoundError, ScopeError
from agentmemory.requests import JobDraft, RecordFilter
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
from agentmemory.testing.conformance.lists import PNG
from agentmemory.testing.hash_embedder import HashEmbedder


async def derive(memory: AsyncAgentMemory, name: str, sources: tuple[str, ...]) -> None:
    """Store a memory that came from messages."""
    await memory._parts.store.add_records(  # noqa: SLF001 - as an extractor does
        [record(name, f"note {name}", sources=sources)]
    )


class DeleteRules(StoreRules):
    """Deletes and their cascades."""

    async def test_a_deleted_record_is_gone_from_every_read(self) -> None:
        """With its index rows, its vector and its links."""
        async with self.memory(embedder=HashEmbedder()) as memory:
            await add_memories(memory, ["a", "b"])
            await memory.link_records("a", "b", "supports")
            await memory.delete_memory("a")
            assert ids(await memory.search("note", user_id=USER, num_hops=1)) == ["b"]
            stats = await memory.stats()
            assert (stats.records, stats.links) == ({"memory": 1}, 0)
            assert (stats.chunks, stats.vectors) == (1, 1)
            with refused(NotFoundError, "'a'"):
                await memory.delete_memory("a")

    async def test_a_deleted_message_is_forgotten_by_its_neighbours(self) -> None:
        """They are indexed without it, and their vectors are made anew."""
        async with self.memory(embedder=HashEmbedder()) as memory:
            thread = await memory.create_thread(user_id=USER)
            await thread.add_messages(
                [
                    {"role": "user", "content": word, "id": word}
                    for word in ("alpha", "zebra", "omega")
                ]
            )
            assert (await memory.search("zebra", user_id=USER, max_results=3))[0].id == "zebra"
            await thread.delete_message("zebra")
            hits = await memory.search("zebra", user_id=USER)
            assert {hit.explain.lexical for hit in hits} <= {0.0}
            assert (await memory.stats()).vectors == 2

    async def test_a_memory_goes_with_the_last_message_it_came_from(self) -> None:
        """One that came from others too stays, without that source, and is marked."""
        async with self.memory() as memory:
            thread = await memory.create_thread(user_id=USER)
            await thread.add_messages(
                [{"role": "user", "content": f"hello {name}", "id": name} for name in ("m1", "m2")]
            )
            await derive(memory, "of-first", ("m1",))
            await derive(memory, "of-both", ("m1", "m2"))
            await derive(memory, "of-none", ())
            deletion = await thread.delete_message("m1")
            assert (deletion.counts["message"], deletion.counts["memory"]) == (1, 1)
            assert ids(await memory.list_memories(user_id=USER)) == ["of-both", "of-none"]
            kept = await memory.get_memory("of-both")
            assert kept.sources == ("m2",)
            assert kept.review_reason == "came partly from m1, which was deleted"
            await thread.delete_message("m2")
            assert ids(await memory.list_memories(user_id=USER)) == ["of-none"]

    async def test_a_delete_marks_and_counts_only_what_stays(self) -> None:
        """Not what depends on it and goes with it, though the mark reaches beyond that."""
        async with self.memory() as memory:
            await add_memories(memory, ["base", "middle", "top", "roof"])
            for source, target in (("middle", "base"), ("top", "middle"), ("roof", "top")):
                await memory.link_records(source, target, "depends_on")
            deletion = await memory._parts.store.delete_records(  # noqa: SLF001 - two at once
                replace(EVERYWHERE, ids=("base", "top"))
            )
            assert dict(deletion.counts) == {"link": 3, "memory": 2, "review": 2}
            marked = [await memory.get_memory(name) for name in ("middle", "roof")]
            assert [record.review_reason for record in marked] == [
                "depends on base, which was deleted"
            ] * 2

    async def test_a_thread_goes_with_all_that_is_in_it(self) -> None:
        """Messages, memories, images, jobs and what came from its messages."""
        async with self.memory() as memory:
            thread = await memory.create_thread(thread_id="t1", user_id=USER)
            other = await memory.create_thread(thread_id="t2", user_id=USER)
            await thread.add_messages([{"role": "user", "content": "hello", "id": "m1"}])
            await other.add_messages([{"role": "user", "content": "hello", "id": "m2"}])
            await thread.add_memory("a note")
            await thread.add_image(PNG, description="a lantern")
            await derive(memory, "elsewhere", ("m1",))
            await memory._parts.store.add_records(  # noqa: SLF001 - as a recorder does
                [record("x", thread_id="t1")],
                jobs=[JobDraft(id="j1", kind="extract", thread_id="t1")],
            )
            deletion = await memory.delete_thread("t1")
            assert dict(deletion.counts) == {
                "image": 1,
                "job": 1,
                "memory": 3,
                "message": 1,
                "thread": 1,
            }
            stats = await memory.stats()
            assert (stats.records, stats.threads, stats.jobs) == ({"message": 1}, 1, {})
            with refused(NotFoundError, "'t1'"):
                await memory.delete_thread("t1")

    async def test_deletes_in_bulk_need_a_scope(self) -> None:
        """Nothing deletes everything by leaving something out."""
        async with self.memory() as memory:
            await add_memories(memory, ["a"])
            for scope in ({}, {"agent_id": None}, {"thread_id": None}):
                with refused(ScopeError, "`user_id`"):
                    await memory.forget(**scope)  # type: ignore[arg-type]
            store = memory._parts.store  # noqa: SLF001 - the protocol below the client
            unbound = ScopeFilter(user=DimensionMatch(exact=False, value=USER))
            with refused(ScopeError):
                await store.delete_records(RecordFilter(scope=unbound, now=NOW))
            with refused(ScopeError):
                await store.delete_scope(unbound, now=NOW)
            with refused(ScopeError):
                await store.erase_scope(unbound, now=NOW)
            assert (
                len(
                    await store.get_records(
                        RecordFilter(scope=EVERYWHERE.scope, now=NOW, ids=("a",))
                    )
                )
                == 1
            )

    async def test_forget_counts_first_and_then_does_what_it_said(self) -> None:
        """A dry run changes nothing; the receipt names every kind that went."""
        async with self.memory() as memory:
            await self._three_users(memory)
            before = await memory.stats()
            dry = await memory.forget(user_id="u1", dry_run=True)
            assert dry.dry_run
            assert dict(dry.counts) == {
                "image": 1,
                "link": 1,
                "memory": 3,
                "message": 2,
                "thread": 1,
                "user_profile": 1,
            }
            assert await memory.stats() == before
            receipt = await memory.forget(user_id="u1")
            assert (dict(receipt.counts), receipt.dry_run) == (dict(dry.counts), False)
            assert receipt.records == 7
            assert not receipt.scan or receipt.is_clean
            for verb in (memory.list_memories, memory.list_messages, memory.list_images):
                assert ids(await verb(user_id="u1")) == []
            assert await memory.search("lantern", user_id="u1") == []
            for user in ("u2", None):
                assert len(await memory.search("lantern", user_id=user)) == 6 - (user is None)
            assert (await memory.forget(user_id="u1")).records == 0

    async def test_forget_takes_what_came_from_a_forgotten_message_even_in_part(self) -> None:
        """To forget means more than to delete: a trace may stand in any memory made of it."""
        async with self.memory() as memory:
            for name in ("t1", "t2"):
                thread = await memory.create_thread(thread_id=name, user_id=USER)
                await thread.add_messages([{"role": "user", "content": "hello", "id": f"m-{name}"}])
            await derive(memory, "of-both", ("m-t1", "m-t2"))
            receipt = await memory.forget(thread_id="t1")
            assert dict(receipt.counts) == {"memory": 1, "message": 1, "thread": 1}
            assert (await memory.stats()).records == {"message": 1}

    async def test_forget_can_be_bound_to_an_agent_or_to_both(self) -> None:
        """Dimensions narrow one another."""
        async with self.memory() as memory:
            for user in ("u1", "u2"):
                for agent in ("a1", None):
                    await memory.add_memory(
                        "a note", memory_id=f"{user}-{agent}", user_id=user, agent_id=agent
                    )
            await memory.forget(user_id="u1", agent_id="a1")
            assert ids(await memory.list_memories(user_id="u1")) == ["u1-None"]
            await memory.forget(user_id="u2", agent_id=None)
            assert ids(await memory.list_memories(user_id="u2")) == ["u2-a1"]
            await memory.forget(agent_id="a1")
            assert (await memory.stats()).records == {"memory": 1}

    async def test_forget_takes_what_is_archived_invalid_or_expired(self) -> None:
        """No state of a record saves it."""
        async with self.memory() as memory:
            await add_memories(memory, ["a", "b"])
            await add_memories(memory, ["short"], ttl_days=1)
            await memory.link_records("a", "b", "supersedes")
            self.clock.advance(days=2)
            receipt = await memory.forget(user_id=USER)
            assert receipt.counts["memory"] == 3

    async def _three_users(self, memory: AsyncAgentMemory) -> None:
        for user in ("u1", "u2", None):
            if user is not None:
                await memory.add_user(user, "lantern collector")
            thread = await memory.create_thread(user_id=user)
            await thread.add_messages([{"role": "user", "content": "lantern"}] * 2)
            one = await thread.add_memory("lantern one")
            await memory.add_memory(
                "lantern two", user_id=user, memory_id_to_link=one, link_type="supports"
            )
            await thread.add_image(PNG, description="a lantern")
            if user == "u1":
                await memory.add_memory("something else", user_id=user, agent_id="a1")
