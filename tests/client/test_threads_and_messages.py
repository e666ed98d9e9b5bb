"""Threads and messages through the async client."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from agentmemory import ConflictError, Message, NotFoundError
from tests.client.conftest import hybrid, lexical

FIRST = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)


async def test_messages_come_back_in_the_order_they_were_added() -> None:
    async with lexical() as memory:
        thread = await memory.create_thread(user_id="u1", agent_id="a1")
        ids = await thread.add_messages(
            [
                {"role": "user", "content": "I am vegetarian. Dinner on Friday?"},
                Message(
                    role="assistant",
                    content="Gladly. For how many?",
                    name="Ava",
                    timestamp=FIRST,
                    metadata={"channel": "chat"},
                    id="m-2",
                ),
            ]
        )
        page = await thread.get_messages()
        assert [message.id for message in page] == ids
        assert ids[1] == "m-2"
        second = page[1]
        assert (second.role, second.actor, second.content) == (
            "assistant",
            "Ava",
            "Gladly. For how many?",
        )
        assert second.timestamp == "2026-03-01T09:30:00Z"
        assert second.metadata == {"channel": "chat"}
        assert (second.user_id, second.agent_id, second.thread_id) == (
            "u1",
            "a1",
            thread.thread_id,
        )
        assert page.next_cursor is None


async def test_pages_neither_skip_nor_repeat_while_others_write() -> None:
    async with lexical() as memory:
        thread = await memory.create_thread(user_id="u1")
        await thread.add_messages([{"role": "user", "content": f"note {i}"} for i in range(7)])
        seen: list[str] = []
        cursor = None
        while True:
            page = await thread.get_messages(limit=3, cursor=cursor)
            seen.extend(message.content for message in page)
            cursor = page.next_cursor
            if cursor is None:
                break
            await thread.add_messages([{"role": "user", "content": f"late {len(seen)}"}])
        assert seen == [*(f"note {i}" for i in range(7)), "late 3", "late 6"]


async def test_a_thread_reopens_with_its_scope_and_metadata(path: Path) -> None:
    async with lexical(path) as memory:
        await memory.create_thread(
            thread_id="t1", user_id="u1", agent_id="a1", metadata={"topic": "dinner"}
        )
    async with lexical(path) as memory:
        thread = await memory.get_thread("t1")
        assert (thread.user_id, thread.agent_id, dict(thread.metadata)) == (
            "u1",
            "a1",
            {"topic": "dinner"},
        )
        changed = await memory.update_thread("t1", metadata={"topic": "lunch"})
        assert dict(changed.metadata) == {"topic": "lunch"}


async def test_a_thread_of_another_scope_is_not_found() -> None:
    async with lexical() as memory:
        await memory.create_thread(thread_id="t1", user_id="u1")
        for wrong in ({"user_id": "u2"}, {"user_id": None}, {"agent_id": "a1"}):
            with pytest.raises(NotFoundError):
                await memory.get_thread("t1", **wrong)
            with pytest.raises(NotFoundError):
                await memory.delete_thread("t1", **wrong)
        assert (await memory.get_thread("t1", user_id="u1", agent_id=None)).thread_id == "t1"


async def test_a_thread_never_reaches_a_message_of_another_thread() -> None:
    async with lexical() as memory:
        mine = await memory.create_thread(user_id="u1")
        other = await memory.create_thread(user_id="u1")
        (message_id,) = await other.add_messages([{"role": "user", "content": "secret"}])
        with pytest.raises(NotFoundError):
            await mine.get_message(message_id)
        with pytest.raises(NotFoundError):
            await mine.update_message(message_id, content="overwritten")
        with pytest.raises(NotFoundError):
            await mine.delete_message(message_id)
        assert (await other.get_message(message_id)).content == "secret"


async def test_threads_are_listed_by_user() -> None:
    async with lexical() as memory:
        for index in range(5):
            await memory.create_thread(thread_id=f"t{index}", user_id=f"u{index % 2}")
        page = await memory.list_threads(user_id="u0", limit=2)
        rest = await memory.list_threads(user_id="u0", limit=2, cursor=page.next_cursor)
        assert [thread.id for thread in (*page, *rest)] == ["t0", "t2", "t4"]
        newest = await memory.list_threads(user_id="u0", descending=True)
        assert [thread.id for thread in newest] == ["t4", "t2", "t0"]


async def test_deleting_a_thread_removes_what_is_in_it_and_nothing_else() -> None:
    async with hybrid() as memory:
        gone = await memory.create_thread(user_id="u1")
        kept = await memory.create_thread(user_id="u1")
        for thread in (gone, kept):
            await thread.add_messages([{"role": "user", "content": "the harbour at dawn"}] * 2)
            await thread.add_memory("Likes harbours.", memory_type="preference")
        deletion = await memory.delete_thread(gone.thread_id)
        assert deletion.counts == {"message": 2, "preference": 1, "thread": 1}
        hits = await memory.search("harbour", user_id="u1")
        assert {hit.record.thread_id for hit in hits} == {kept.thread_id}  # type: ignore[attr-defined]
        stats = await memory.stats()
        assert (stats.threads, stats.vectors, dict(stats.records)) == (
            1,
            3,
            {"message": 2, "preference": 1},
        )
        with pytest.raises(NotFoundError):
            await gone.add_messages([{"role": "user", "content": "too late"}])


async def test_ids_are_unique_in_a_store_and_a_clash_writes_nothing() -> None:
    async with lexical() as memory:
        thread = await memory.create_thread(thread_id="t1", user_id="u1")
        await thread.add_messages([{"role": "user", "content": "one", "id": "m1"}])
        with pytest.raises(ConflictError, match="m1"):
            await thread.add_messages(
                [
                    {"role": "user", "content": "two", "id": "m2"},
                    {"role": "user", "content": "again", "id": "m1"},
                ]
            )
        with pytest.raises(ConflictError, match="t1"):
            await memory.create_thread(thread_id="t1", user_id="u2")
        assert [message.id for message in await thread.get_messages()] == ["m1"]
        assert (await memory.get_thread("t1")).user_id == "u1"


async def test_the_callers_messages_stay_as_they_are() -> None:
    async with lexical() as memory:
        thread = await memory.create_thread(user_id="u1")
        given = [{"role": "user", "content": "hello", "metadata": {"a": [1]}}]
        before = [dict(item) for item in given]
        await thread.add_messages(given)
        assert given == before


async def test_no_messages_is_no_work() -> None:
    async with lexical() as memory:
        thread = await memory.create_thread(user_id="u1")
        assert await thread.add_messages([]) == []
