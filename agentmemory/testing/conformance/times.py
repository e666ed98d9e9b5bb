"""Rules for time: validity, expiry, what was true and known when; may import the library."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from agentmemory.config import MemoryRetentionConfig, TimeToLiveAnchor
from agentmemory.errors import NotFoundError, ValidationError
from agentmemory.testing.conformance.base import (
    NOW,
    USER,
    StoreRules,
    add_memories,
    ids,
    reached,
    refused,
)


class TimeRules(StoreRules):
    """Validity intervals, expiry, ranges."""

    async def test_as_of_shows_what_was_true_then(self) -> None:
        """From `valid_from` on, before `valid_to`; without either, always."""
        async with self.memory() as memory:
            await add_memories(memory, ["always"])
            await add_memories(memory, ["first"], valid_to="2026-03-01T00:00:00+00:00")
            await add_memories(memory, ["second"], valid_from="2026-03-01T01:00:00+01:00")

            async def at(time: str) -> set[str]:
                return set(ids(await memory.search("note", user_id=USER, as_of=time)))

            assert await at("2026-02-28T23:59:59.999999Z") == {"always", "first"}
            assert await at("2026-03-01T00:00:00Z") == {"always", "second"}
            assert set(ids(await memory.search("note", user_id=USER))) == {
                "always",
                "first",
                "second",
            }
            with refused(ValidationError, "`valid_to`"):
                await add_memories(
                    memory,
                    ["x"],
                    valid_from="2026-03-01T00:00:00Z",
                    valid_to="2026-03-01T00:00:00Z",
                )

    async def test_known_as_of_shows_what_was_known_then(self) -> None:
        """Records, links and invalidations that came later are not there yet."""
        async with self.memory() as memory:
            await add_memories(memory, ["old", "friend"])
            before = self.clock.now()
            self.clock.advance(days=1)
            await add_memories(memory, ["new"])
            await memory.link_records("new", "old", "supersedes")
            await memory.link_records("old", "friend", "supports")
            for include in (True, False):
                hits = await memory.search(
                    "note old",
                    user_id=USER,
                    known_as_of=before,
                    include_invalid_results=include,
                    num_hops=2,
                )
                assert set(ids(hits)) == {"old", "friend"}
                assert {hit.status.value for hit in hits} == {"valid"}
                assert {hit.record.replaced_by for hit in hits} == {None}
                assert [reached(hit) for hit in hits] == [[], []]
            today = await memory.search(
                "note",
                user_id=USER,
                known_as_of=self.clock.now(),
                include_invalid_results=False,
            )
            assert set(ids(today)) == {"new", "friend"}

    async def test_ranges_bound_when_it_happened_and_when_it_was_stored(self) -> None:
        """From the start on, before the end; without an event time the time of writing counts."""
        async with self.memory() as memory:
            await add_memories(memory, ["past"], timestamp="2026-01-10T00:00:00Z")
            await add_memories(memory, ["present"])
            self.clock.advance(days=1)
            await add_memories(memory, ["late"], timestamp="2026-01-20T00:00:00Z")

            async def found(**bounds: Any) -> set[str]:
                searched = set(ids(await memory.search("note", user_id=USER, **bounds)))
                listed = set(ids(await memory.list_memories(user_id=USER, **bounds)))
                assert searched == listed
                return searched

            assert await found(event_before="2026-01-20T00:00:00Z") == {"past"}
            assert await found(event_after="2026-01-20T00:00:00Z") == {"late", "present"}
            assert await found(created_before=NOW + timedelta(days=1)) == {"past", "present"}
            assert await found(created_after=NOW + timedelta(days=1)) == {"late"}
            assert await found(created_after=NOW, event_before=NOW) == {"past", "late"}

    async def test_what_expired_is_gone_from_every_read(self) -> None:
        """At once, and before anything is purged; `ttl_days` takes days or a duration."""
        async with self.memory() as memory:
            thread = await memory.create_thread(user_id=USER)
            await thread.add_messages(
                [{"role": "user", "content": "note m", "id": "m"}], ttl_days=1
            )
            await add_memories(memory, ["short"], ttl_days=timedelta(hours=24))
            await add_memories(memory, ["long"], ttl_days=1.5)
            await add_memories(memory, ["gone"], ttl_days=0)
            assert set(ids(await memory.search("note", user_id=USER))) == {"m", "short", "long"}
            self.clock.advance(hours=24)
            assert ids(await memory.search("note", user_id=USER)) == ["long"]
            assert ids(await memory.list_memories(user_id=USER)) == ["long"]
            assert ids(await thread.get_messages()) == []
            for name in ("short", "gone"):
                with refused(NotFoundError):
                    await memory.get_memory(name)
                with refused(NotFoundError):
                    await memory.update_memory(name, content="x")
            with refused(NotFoundError):
                await thread.get_message("m")
            assert (await memory.stats()).records == {"memory": 1}
            assert "note m" not in (await thread.get_context_card(query="note")).content

    async def test_a_purge_removes_what_expired_and_nothing_else(self) -> None:
        """With its index rows; a memory outlives the message it came from."""
        async with self.memory() as memory:
            thread = await memory.create_thread(user_id=USER)
            await thread.add_messages([{"role": "user", "content": "hello"}], ttl_days=1)
            await add_memories(memory, ["short"], ttl_days=1)
            await add_memories(memory, ["long"], ttl_days=3)
            await memory.link_records("short", "long", "supersedes")
            self.clock.advance(days=1)
            deletion = await memory.purge_expired()
            assert dict(deletion.counts) == {"link": 1, "memory": 1, "message": 1}
            stats = await memory.stats()
            assert (stats.records, stats.chunks, stats.links) == ({"memory": 1}, 1, 0)
            assert (await memory.get_memory("long")).status.value == "valid"
            assert (await memory.purge_expired()).counts == {}

    async def test_a_time_to_live_counts_from_its_anchor(self) -> None:
        """From writing, or from when it happened."""
        async with self.memory() as memory:
            await add_memories(
                memory,
                ["a"],
                ttl_days=10,
                ttl_anchor=TimeToLiveAnchor.TIMESTAMP,
                timestamp=NOW - timedelta(days=4),
            )
            await add_memories(
                memory,
                ["b"],
                ttl_days=10,
                ttl_anchor="created_at",
                timestamp="2026-01-01T00:00:00Z",
            )
            assert (await memory.get_memory("a")).expires_at == NOW + timedelta(days=6)
            assert (await memory.get_memory("b")).expires_at == NOW + timedelta(days=10)
            with refused(ValidationError, "`ttl_anchor`"):
                await add_memories(memory, ["c"], ttl_days=1, ttl_anchor="timestamp")
            with refused(ValidationError, "`ttl_days`"):
                await add_memories(memory, ["c"], ttl_days=-1)

    async def test_the_retention_of_a_client_gives_a_default_and_a_maximum(self) -> None:
        """Omitted is the default, None as long as allowed; more than allowed is refused."""
        retention = MemoryRetentionConfig(default_ttl_days=2, max_ttl_days=timedelta(days=5))
        async with self.memory(memory_retention_config=retention) as memory:
            await add_memories(memory, ["default"])
            await add_memories(memory, ["longest"], ttl_days=None)
            await add_memories(memory, ["own"], ttl_days=1)
            for name, days in (("default", 2), ("longest", 5), ("own", 1)):
                expires = (await memory.get_memory(name)).expires_at
                assert expires == NOW + timedelta(days=days), name
            with refused(ValidationError, "`ttl_days`"):
                await add_memories(memory, ["x"], ttl_days=6)

    async def test_a_time_to_live_can_be_renewed_and_lifted(self) -> None:
        """An update counts anew from now; other updates leave it alone."""
        async with self.memory() as memory:
            await add_memories(memory, ["a"], ttl_days=2)
            self.clock.advance(days=1)
            kept = await memory.update_memory("a", content="note a again")
            assert kept.expires_at == NOW + timedelta(days=2)
            renewed = await memory.update_memory("a", ttl_days=2)
            assert renewed.expires_at == NOW + timedelta(days=3)
            lifted = await memory.update_memory("a", ttl_days=None)
            assert lifted.expires_at is None

    async def test_an_update_changes_validity_and_nothing_else(self) -> None:
        """An update never loses what it did not name."""
        async with self.memory() as memory:
            await add_memories(
                memory,
                ["a"],
                metadata={"k": 1},
                timestamp="2026-01-01T00:00:00Z",
                valid_from="2026-01-01T00:00:00Z",
            )
            before = await memory.get_memory("a")
            after = await memory.update_memory("a", valid_to="2026-02-01T00:00:00Z")
            assert after.valid_from == before.valid_from
            assert after.valid_to is not None
            assert (after.content, dict(after.metadata)) == ("note a", {"k": 1})
            assert (after.event_time, after.revision) == (before.event_time, 2)
