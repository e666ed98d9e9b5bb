"""Rules for lists and pages, profiles and images; may import the library."""

# The rules look behind the client, where its store is.
# pyright: reportPrivateUsage=false
from __future__ import annotations

import struct
import zlib
from typing import Any, Final

from agentmemory.errors import ConflictError, NotFoundError, ValidationError
from agentmemory.records import RecordStatus, ScopedRecord, Tier
from agentmemory.requests import ListQuery, RecordChanges, RecordFilter
from agentmemory.scope import ScopeFilter
from agentmemory.testing.conformance.base import (
    NOW,
    USER,
    StoreRules,
    add_memories,
    ids,
    record,
    refused,
)


def small_png(width: int = 2, height: int = 1) -> bytes:
    """Return a black image in grey as a whole PNG file."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        check = zlib.crc32(body, zlib.crc32(kind))
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", check)

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    pixels = zlib.compress(bytes((width + 1) * height))
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    )


PNG: Final = small_png()


class ListRules(StoreRules):
    """Lists, pages, tiers."""

    async def test_memories_are_listed_by_type_status_metadata_and_order(self) -> None:
        """Every filter of a list, alone and in either order."""
        async with self.memory() as memory:
            await add_memories(memory, ["a"], timestamp="2026-01-03T00:00:00Z", metadata={"k": 1})
            await add_memories(memory, ["b"], memory_type="fact", timestamp="2026-01-01T00:00:00Z")
            await add_memories(memory, ["c"], memory_type="preference", metadata={"k": 2})
            await memory.link_records("c", "b", "supersedes")

            async def listed(**options: Any) -> list[str]:
                return ids(await memory.list_memories(user_id=USER, **options))

            assert await listed() == ["a", "b", "c"]
            assert await listed(descending=True) == ["c", "b", "a"]
            assert await listed(order="event") == ["b", "a", "c"]
            assert await listed(order="event", descending=True) == ["c", "a", "b"]
            assert await listed(record_types=["fact", "preference"]) == ["b", "c"]
            assert await listed(include_invalid_results=False) == ["a", "c"]
            assert await listed(metadata_filter={"k": {"$gte": 2}}) == ["c"]
            for name, bad in (
                ("record_types", ["message"]),
                ("record_types", []),
                ("limit", 0),
                ("limit", 1001),
                ("order", "random"),
                ("cursor", "nonsense"),
                ("tiers", []),
            ):
                with refused(ValidationError, f"`{name}`"):
                    await listed(**{name: bad})

    async def test_several_memories_are_read_in_the_order_of_their_ids(self) -> None:
        """What is not of the scope, or no memory, is left out; an id given twice comes once."""
        async with self.memory() as memory:
            await add_memories(memory, ["a", "b"])
            await add_memories(memory, ["c"], user_id="u2")
            thread = await memory.create_thread(thread_id="t1", user_id=USER)
            (said,) = await thread.add_messages([{"role": "user", "content": "no memory"}])

            async def read(*wanted: str, **scope: Any) -> list[str]:
                return ids(await memory.get_memories(wanted, **scope))

            assert await read("c", "a", "gone", "b", said, "a") == ["c", "a", "b"]
            assert await read("c", "b", user_id=USER) == ["b"]
            for bad in ("a", [], ["a", ""], ["a", 1], [str(number) for number in range(1001)]):
                with refused(ValidationError, "`memory_ids`"):
                    await memory.get_memories(bad)  # type: ignore[arg-type]

    async def test_messages_are_listed_by_time(self) -> None:
        """When they were said, else stored; half-open ranges."""
        async with self.memory() as memory:
            thread = await memory.create_thread(thread_id="t1", user_id=USER)
            for day in (1, 2, 3):
                said = f"2026-01-0{day}T00:00:00Z"
                await thread.add_messages(
                    [{"role": "user", "content": f"day {day}", "timestamp": said, "id": f"m{day}"}]
                )
            times: dict[str, Any] = {
                "event_after": "2026-01-02T00:00:00Z",
                "event_before": "2026-01-03T00:00:00Z",
            }
            assert ids(await memory.list_messages(user_id=USER, **times)) == ["m2"]
            assert ids(await thread.get_messages(**times)) == ["m2"]
            assert ids(await memory.list_messages(user_id=USER, created_before=NOW)) == []
            assert len(await memory.list_messages(user_id=USER, created_after=NOW)) == 3

    async def test_resting_tiers_are_read_only_when_asked_for(self) -> None:
        """Archived and deprecated records are left out by lists and searches."""
        async with self.memory() as memory:
            for tier in Tier:
                await add_memories(memory, [tier.value])
                await memory._parts.store.update_record(  # noqa: SLF001 - no verb sets tiers yet
                    RecordFilter(scope=ScopeFilter(), now=NOW, ids=(tier.value,)),
                    RecordChanges(tier=tier),
                    now=NOW,
                )
            working = ["hot", "warm", "cold"]
            assert ids(await memory.list_memories(user_id=USER)) == working
            assert set(ids(await memory.search("note", user_id=USER))) == set(working)
            asked = await memory.list_memories(user_id=USER, tiers=["archived", Tier.HOT])
            assert ids(asked) == ["hot", "archived"]
            for resting in ("archived", "deprecated"):
                assert ids(await memory.search("note", user_id=USER, tiers=[resting])) == [resting]
            both = await memory.store.search("note", tiers=[Tier.DEPRECATED, "cold"])
            assert set(ids(both)) == {"deprecated", "cold"}
            everything = await memory.search("note", user_id=USER, tiers=list(Tier))
            assert set(ids(everything)) == {tier.value for tier in Tier}

    async def test_pages_neither_skip_nor_repeat_while_others_write(self) -> None:
        """Whatever is added, changed or deleted between two pages."""
        async with self.memory() as memory:
            names = [f"m{index:02}" for index in range(20)]
            for index, name in enumerate(names):
                await add_memories(
                    memory, [name], timestamp=f"2026-01-{1 + index // 3:02}T00:00:00Z"
                )
            for order in ("created", "event"):
                for descending in (False, True):
                    seen: list[str] = []
                    cursor = None
                    turn = 0
                    while True:
                        page = await memory.list_memories(
                            user_id=USER,
                            limit=3,
                            cursor=cursor,
                            order=order,
                            descending=descending,
                        )
                        seen += [name for name in ids(page) if name in names]
                        cursor = page.next_cursor
                        if cursor is None:
                            break
                        turn += 1
                        extra = f"x-{order}-{descending}-{turn}"
                        await add_memories(memory, [extra], timestamp="2025-12-01T00:00:00Z")
                        await memory.update_memory(names[0], metadata={"turn": turn})
                        if turn % 2:
                            await memory.delete_memory(extra)
                    assert seen == (names[::-1] if descending else names), (order, descending)

    async def test_a_cursor_belongs_to_its_listing(self) -> None:
        """A cursor of another order is refused instead of being misread."""
        async with self.memory() as memory:
            await add_memories(memory, ["a", "b"])
            page = await memory.list_memories(user_id=USER, limit=1)
            with refused(ValidationError, "`cursor`"):
                await memory.list_memories(
                    user_id=USER, limit=1, cursor=page.next_cursor, order="event"
                )

    async def test_lookups_by_ids_keep_their_order_and_leave_out_what_is_missing(self) -> None:
        """`get_records` answers in the order asked."""
        async with self.store() as store:
            await store.add_records([record("a"), record("b"), record("c")])
            wanted = RecordFilter(scope=ScopeFilter(), now=NOW, ids=("c", "x", "a"))
            assert ids(await store.get_records(wanted)) == ["c", "a"]
            with refused(ConflictError, "'b'"):
                await store.add_records([record("d"), record("b")])
            page = await store.list_records(
                ListQuery(filter=RecordFilter(scope=ScopeFilter(), now=NOW))
            )
            assert ids(page) == ["a", "b", "c"]

    async def test_a_record_made_invalid_by_hand_stays_so_whatever_links_do(self) -> None:
        """Only what a link did is undone with the link."""
        async with self.memory() as memory:
            await add_memories(memory, ["a", "b"])
            await memory._parts.store.update_record(  # noqa: SLF001 - the protocol's own verb
                RecordFilter(scope=ScopeFilter(), now=NOW, ids=("b",)),
                RecordChanges(status=RecordStatus.INVALID, invalidation_reason="found to be wrong"),
                now=NOW,
            )
            link = await memory.link_records("a", "b", "supersedes")
            await memory.delete_record_link(link.id)
            found = await memory.get_memory("b")
            assert (found.status.value, found.invalidation_reason) == (
                "invalid",
                "found to be wrong",
            )
            assert found.invalidated_at == NOW


class ProfileRules(StoreRules):
    """Profiles of users and agents."""

    async def test_a_user_and_an_agent_may_have_the_same_id(self) -> None:
        """Each has one profile, which is changed and deleted on its own."""
        async with self.memory() as memory:
            await memory.add_user("x", "Collects lanterns.", metadata={"k": 1})
            await memory.add_agent("x", "Answers politely.")
            assert (await memory.get_user("x")).content == "Collects lanterns."
            assert (await memory.get_agent("x")).content == "Answers politely."
            with refused(ConflictError, "'x'", "update_user"):
                await memory.add_user("x", "again")
            changed = await memory.update_user("x", information="Collects stamps.")
            assert (changed.content, dict(changed.metadata)) == ("Collects stamps.", {"k": 1})
            await memory.delete_user("x")
            with refused(NotFoundError, "'x'"):
                await memory.get_user("x")
            assert (await memory.get_agent("x")).record_type == "agent_profile"
            for call in (memory.delete_user, memory.get_user):
                with refused(NotFoundError, "'x'"):
                    await call("x")
            with refused(ValidationError, "`information`"):
                await memory.update_agent("x")

    async def test_a_search_finds_the_profile_of_its_user_only(self) -> None:
        """A profile belongs to its user and to nobody else."""
        async with self.memory() as memory:
            await memory.add_user("u1", "Collects lanterns.")
            await memory.add_user("u2", "Collects lanterns too.")
            await memory.add_agent("u1", "Sells lanterns.")
            (hit,) = await memory.search("lanterns", user_id="u1")
            assert isinstance(hit.record, ScopedRecord)
            assert (hit.record.record_type, hit.record.user_id) == ("user_profile", "u1")
            (agent,) = await memory.store.search("lanterns", agent_id="u1")
            assert agent.record.record_type == "agent_profile"
            await memory.update_user("u1", information="Collects stamps.")
            assert await memory.search("lanterns", user_id="u1") == []

    async def test_profiles_are_listed_in_pages(self) -> None:
        """Users and agents apart, with a metadata filter."""
        async with self.memory() as memory:
            for index in range(5):
                await memory.add_user(f"u{index}", "somebody", metadata={"n": index})
            await memory.add_agent("a0", "some agent")
            page = await memory.list_users(limit=3)
            users = [item.user_id for item in page]
            page = await memory.list_users(limit=3, cursor=page.next_cursor)
            assert [*users, *(item.user_id for item in page)] == [f"u{i}" for i in range(5)]
            assert [item.agent_id for item in await memory.list_agents()] == ["a0"]
            few = await memory.list_users(metadata_filter={"n": {"$lt": 2}}, descending=True)
            assert [item.user_id for item in few] == ["u1", "u0"]

    async def test_deleting_a_user_with_cascade_leaves_nothing_of_theirs(self) -> None:
        """Threads, messages, memories, images and the profile; others keep everything."""
        async with self.memory() as memory:
            for user in ("u1", "u2"):
                await memory.add_user(user, "somebody")
                thread = await memory.create_thread(user_id=user, agent_id="a1")
                await thread.add_messages([{"role": "user", "content": "hello"}] * 2)
                await memory.add_memory("a note", user_id=user)
                await thread.add_image(PNG, description="a lantern")
            deletion = await memory.delete_user("u1", cascade=True)
            assert dict(deletion.counts) == {
                "image": 1,
                "memory": 1,
                "message": 2,
                "thread": 1,
                "user_profile": 1,
            }
            assert (await memory.stats()).records == {
                "image": 1,
                "memory": 1,
                "message": 2,
                "user_profile": 1,
            }
            await memory.delete_user("u2", cascade=False)
            assert (await memory.stats()).records == {"image": 1, "memory": 1, "message": 2}
            assert (await memory.delete_agent("a1")).counts["thread"] == 1
            assert (await memory.stats()).records == {"memory": 1}


class ImageRules(StoreRules):
    """Images as records with a file."""

    async def test_an_image_is_found_by_its_description_and_its_file_only_on_request(self) -> None:
        """Bytes come back exactly, and only where they were asked for."""
        async with self.memory() as memory:
            thread = await memory.create_thread(user_id=USER)
            name = await thread.add_image(PNG, description="A red lantern.", metadata={"k": 1})
            (hit,) = await memory.search("lantern", user_id=USER)
            assert (hit.id, hit.record.record_type) == (name, "image")
            found = await thread.get_image(name)
            assert (found.content, dict(found.metadata)) == ("A red lantern.", {"k": 1})
            assert (found.image.mime_type, found.image.width, found.image.height) == (
                "image/png",
                2,
                1,
            )
            assert (found.image.size_bytes, found.image.data) == (len(PNG), None)
            assert (await memory.get_image(name, include_bytes=True)).image.data == PNG
            (listed,) = await memory.list_images(user_id=USER)
            assert listed.image.data is None
            (whole,) = await thread.list_images(include_bytes=True)
            assert whole.image.data == PNG

    async def test_an_image_can_be_replaced_described_anew_and_deleted(self) -> None:
        """What is not given stays; with the image goes its file."""
        other = small_png(5, 4)
        async with self.memory() as memory:
            name = await memory.add_image(PNG, description="A red lantern.", user_id=USER)
            changed = await memory.update_image(name, image=other)
            assert (changed.content, changed.image.width) == ("A red lantern.", 5)
            await memory.update_image(name, description="A blue kite.", user_id=USER)
            assert ids(await memory.search("kite", user_id=USER)) == [name]
            assert await memory.search("lantern", user_id=USER) == []
            assert (await memory.get_image(name, include_bytes=True)).image.data == other
            with refused(NotFoundError):
                await memory.update_image(name, description="x", user_id="u2")
            with refused(ValidationError, "`description`"):
                await memory.update_image(name)
            with refused(NotFoundError):
                await memory.delete_image(name, user_id="u2")
            assert (await memory.delete_image(name)).counts["image"] == 1
            with refused(NotFoundError):
                await memory.get_image(name)

    async def test_an_image_is_never_an_end_of_a_link(self) -> None:
        """Images are results, and no vertices of the graph."""
        async with self.memory() as memory:
            name = await memory.add_image(PNG, description="A lantern.", user_id=USER)
            await add_memories(memory, ["a"])
            for source, target in ((name, "a"), ("a", name)):
                with refused(NotFoundError):
                    await memory.link_records(source, target, "supports")

    async def test_what_is_no_image_is_refused(self) -> None:
        """Checked before anything is stored; a description is required."""
        async with self.memory() as memory:
            for bad in (b"", b"GIF89a", PNG[:-1], PNG + b"x", "text", None):
                with refused(ValidationError, "`image`"):
                    await memory.add_image(bad, description="x", user_id=USER)  # type: ignore[arg-type]
            with refused(ValidationError, "`description`"):
                await memory.add_image(PNG, description=" ", user_id=USER)
            with refused(ValidationError, "`mime_type`"):
                await memory.add_image(PNG, description="x", user_id=USER, mime_type="image/jpeg")
            with refused(ValidationError, "`user_id`"):
                await memory.add_image(PNG, description="x")
            assert (await memory.stats()).records == {}
