"""Context cards by their rules; no language model takes part."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest

from agentmemory import AsyncAgentMemory, AsyncThread, SearchResultFormatConfig
from agentmemory.stores.sqlite.store import SqliteStore
from agentmemory.testing import FrozenClock, HashEmbedder
from tests.client.conftest import hybrid, lexical


@asynccontextmanager
async def dinner(**options: Any) -> AsyncIterator[tuple[AsyncAgentMemory, AsyncThread]]:
    """A thread about a dinner, with memories of every type and another thread beside it."""
    async with hybrid(":memory:", **options) as memory:
        other = await memory.create_thread(user_id="u1", agent_id="a1")
        await other.add_messages([{"role": "user", "content": "dinner in the other thread"}])
        thread = await memory.create_thread(user_id="u1", agent_id="a1")
        await thread.add_messages(
            [
                {"role": "user", "content": "I need vegetarian dinner ideas for Friday."},
                {"role": "assistant", "content": "I can compare concise dinner options."},
                {"role": "user", "content": "Somewhere quiet for dinner, please."},
            ]
        )
        for index in range(4):
            await other.add_memory(f"Dinner fact {index}.", memory_type="fact")
        await other.add_memory("Prefers vegetarian dinner.", memory_type="preference")
        await other.add_memory("Offer concise dinner tips.", memory_type="guideline")
        await other.add_memory("Planning a dinner for Friday.", memory_type="memory")
        await memory.add_memory("Another user's dinner.", user_id="u2")
        yield memory, thread


async def test_minima_come_first_and_the_rest_is_filled_from_memories() -> None:
    async with dinner() as (_, thread):
        card = await thread.get_context_card(
            max_relevant_results=6,
            min_relevant_results_by_type={"preference": 1, "guideline": 1, "message": 1},
        )
        types = [hit.record.record_type for hit in card.relevant_results]
        assert types[:3] == ["preference", "guideline", "message"]
        assert len(types) == 6
        assert set(types[3:]) <= {"memory", "fact", "guideline", "preference"}
        assert len({hit.id for hit in card.relevant_results}) == 6


async def test_minima_are_best_effort() -> None:
    async with lexical() as memory:
        thread = await memory.create_thread(user_id="u1")
        await thread.add_messages([{"role": "user", "content": "dinner?"}])
        await thread.add_memory("Dinner is at eight.", memory_type="fact")
        card = await thread.get_context_card(min_relevant_results_by_type={"guideline": 3})
        assert [hit.content for hit in card.relevant_results] == ["Dinner is at eight."]


async def test_the_maximum_defaults_to_five_and_grows_to_the_sum_of_the_minima() -> None:
    async with dinner() as (_, thread):
        assert len((await thread.get_context_card()).relevant_results) == 5
        card = await thread.get_context_card(
            min_relevant_results_by_type={"fact": 4, "preference": 1, "guideline": 1, "memory": 1}
        )
        assert len(card.relevant_results) == 7
        card = await thread.get_context_card(max_relevant_results=0)
        assert card.relevant_results == ()
        assert "relevant_information" not in card.content


async def test_messages_come_from_this_thread_only_and_the_question_itself_is_left_out() -> None:
    async with dinner() as (_, thread):
        card = await thread.get_context_card(
            max_relevant_results=20, min_relevant_results_by_type={"message": 10}
        )
        found = {h.content for h in card.relevant_results if h.record.record_type == "message"}
        assert found == {
            "I need vegetarian dinner ideas for Friday.",
            "I can compare concise dinner options.",
        }
        assert all("Another user" not in hit.content for hit in card.relevant_results)


async def test_the_question_is_the_latest_user_message_unless_given() -> None:
    async with dinner() as (_, thread):
        assert (await thread.get_context_card()).explain.query == (
            "Somewhere quiet for dinner, please."
        )
        card = await thread.get_context_card(query="vegetarian")
        assert card.explain.query == "vegetarian"
        assert "vegetarian" in card.relevant_results[0].content


async def test_all_searches_share_one_embedding() -> None:
    embedder = HashEmbedder()
    async with AsyncAgentMemory(":memory:", embedder=embedder) as memory:
        thread = await memory.create_thread(user_id="u1")
        await thread.add_messages([{"role": "user", "content": "dinner?"}])
        before = len(embedder.calls)
        await thread.get_context_card(
            min_relevant_results_by_type={
                "memory": 1,
                "fact": 1,
                "guideline": 1,
                "preference": 1,
                "message": 1,
            }
        )
        assert len(embedder.calls) == before + 1


class ApartStore:
    """A SQLite store that answers one search at a time and counts how many run at once."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.running = 0
        self.most = 0
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        if name == "candidates_together":
            raise AttributeError(name)
        return getattr(self._store, name)

    async def candidates(self, query: Any) -> Any:
        """Count, and pass on."""
        self.running += 1
        self.asked += 1
        self.most = max(self.most, self.running)
        await anyio.lowlevel.checkpoint()
        try:
            return await self._store.candidates(query)
        finally:
            self.running -= 1


MINIMA = {"memory": 1, "fact": 1, "guideline": 1, "preference": 1, "message": 1}


@pytest.mark.parametrize("limit", [1, 2, 5])
async def test_no_more_searches_run_at_once_than_the_handle_allows(limit: int) -> None:
    store = ApartStore(SqliteStore(":memory:"))
    async with AsyncAgentMemory(store=store, embedder=HashEmbedder()) as memory:
        created = await memory.create_thread(thread_id="t", user_id="u1")
        await created.add_messages([{"role": "user", "content": "dinner?"}])
        thread = await memory.get_thread("t", context_card_type_search_concurrency=limit)
        await thread.get_context_card(max_relevant_results=20, min_relevant_results_by_type=MINIMA)
        assert (store.asked, store.most) == (6, limit)


@pytest.mark.parametrize("minima", [None, MINIMA, {"fact": 4, "message": 2}])
async def test_searches_answered_together_give_the_card_of_separate_ones(minima: Any) -> None:
    cards = []
    for store in (SqliteStore(":memory:"), ApartStore(SqliteStore(":memory:"))):
        clock = FrozenClock(datetime(2026, 5, 4, tzinfo=UTC))
        memory = AsyncAgentMemory(store=store, embedder=HashEmbedder(), clock=clock)
        async with memory:
            thread = await memory.create_thread(user_id="u1")
            for index in range(40):
                kind = ("memory", "fact", "guideline", "preference")[index % 4]
                await thread.add_memory(
                    f"dinner note {index} about {kind} {'soup' if index % 3 else 'salad'}",
                    memory_type=kind,  # type: ignore[arg-type]
                    memory_id=f"m{index}",
                )
            await thread.add_messages(
                [
                    {"role": "user", "content": f"dinner turn {index} with soup", "id": f"t{index}"}
                    for index in range(30)
                ]
            )
            card = await thread.get_context_card(
                query="dinner with soup", min_relevant_results_by_type=minima
            )
            cards.append((card.content, [hit.explain for hit in card.relevant_results]))
    assert cards[0] == cards[1]


async def test_the_concurrency_does_not_change_the_card() -> None:
    async with dinner() as (memory, thread):
        narrow = await memory.get_thread(thread.thread_id, context_card_type_search_concurrency=1)
        minima = {"preference": 1, "guideline": 1, "fact": 2, "message": 1}
        wide_card = await thread.get_context_card(min_relevant_results_by_type=minima)
        narrow_card = await narrow.get_context_card(min_relevant_results_by_type=minima)
        assert wide_card.content == narrow_card.content


async def test_sections_stand_in_order_and_a_parser_reads_them() -> None:
    nasty = 'tags <b>&amp;</b> "quotes" ]]> \x07 line\nbreak\r\n  indented 🙂'
    async with lexical() as memory:
        thread = await memory.create_thread(user_id="u1")
        await thread.add_messages(
            [
                {"role": "user", "name": "Mira", "content": f"first {nasty}"},
                {"role": "assistant", "content": "second"},
                {"role": "user", "content": "third quotes?"},
            ]
        )
        await thread.add_memory(f"remembered {nasty}", memory_type="fact")
        card = await thread.get_context_card(max_recent_messages=2, max_relevant_results=1)
        root = ET.fromstring(card.content)
        assert root.tag == "context_card"
        assert [section.tag for section in root] == [
            "summary",
            "relevant_information",
            "recent_messages",
        ]
        fact = root.find("relevant_information/fact/content")
        assert fact is not None
        assert fact.text == f"remembered {nasty}".replace("\x07", "\ufffd")
        recent = [node.findtext("content") for node in root.iterfind("recent_messages/message")]
        assert recent == ["second", "third quotes?"]
        assert card.content == card.formatted_content == str(card)


async def test_a_card_hides_ids_unless_asked() -> None:
    async with dinner() as (_, thread):
        plain = await thread.get_context_card()
        assert "<record_id>" not in plain.content
        assert "<status>" not in plain.content
        shown = await thread.get_context_card(
            format_config=SearchResultFormatConfig(show_record_id=True, show_status=True)
        )
        for hit in shown.relevant_results:
            assert f"<record_id>{hit.id}</record_id>" in shown.content
        assert "<status>valid</status>" in shown.content


async def test_the_last_messages_can_be_left_to_the_caller() -> None:
    async with dinner() as (_, thread):
        card = await thread.get_context_card(
            except_last_messages=2, min_relevant_results_by_type={"message": 5}
        )
        assert card.recent_messages == ()
        for text in ("I can compare concise dinner options.", "Somewhere quiet for dinner"):
            assert text not in card.content
        assert "I need vegetarian dinner ideas" in card.content
        both = await thread.get_context_card(except_last_messages=2, max_recent_messages=2)
        assert [message.content for message in both.recent_messages] == [
            "I can compare concise dinner options.",
            "Somewhere quiet for dinner, please.",
        ]


async def test_budgets_bound_the_relevant_section_in_rank_order() -> None:
    async with dinner() as (_, thread):
        everything = await thread.get_context_card(max_relevant_results=6)
        sizes = [len(hit.formatted_content) for hit in everything.relevant_results]
        assert len(sizes) == 6
        card = await thread.get_context_card(max_relevant_results=6, soft_token_budget=1)
        assert [hit.id for hit in card.relevant_results] == [everything.relevant_results[0].id]
        assert "5 relevant results left out" in card.explain.notes[0]
        assert (
            await thread.get_context_card(max_relevant_results=6, token_budget=1)
        ).relevant_results == ()


async def test_an_empty_thread_has_an_empty_card_unless_asked_something() -> None:
    async with lexical() as memory:
        thread = await memory.create_thread(user_id="u1")
        card = await thread.get_context_card()
        assert (card.content, card.relevant_results, card.recent_messages) == ("", (), ())
        await memory.add_memory("Dinner is at eight.", user_id="u1", agent_id="a1")
        card = await thread.get_context_card(query="dinner")
        assert card.relevant_results == ()
        await memory.add_memory("Dinner is at nine.", user_id="u1")
        card = await thread.get_context_card(query="dinner")
        assert [hit.content for hit in card.relevant_results] == ["Dinner is at nine."]


async def test_the_summary_is_the_transcript_of_the_last_messages() -> None:
    when = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
    async with lexical() as memory:
        thread = await memory.create_thread(user_id="u1")
        await thread.add_messages(
            [
                {"role": "user", "name": "Mira", "content": f"note {i}", "timestamp": when}
                for i in range(8)
            ]
        )
        summary = await thread.get_summary(except_last=2)
        assert summary.content.splitlines()[-1] == "Mira (2026-03-01T09:30:00Z): note 5"
        assert len(summary.content.splitlines()) == 6
        short = await thread.get_summary(token_budget=1)
        assert short.content == "Mira (2026-03-01T09:30:00Z): note 7"
        card = await thread.get_context_card(fallback_message_count=3, max_relevant_results=0)
        assert card.summary.splitlines() == [
            f"Mira (2026-03-01T09:30:00Z): note {i}" for i in (5, 6, 7)
        ]


async def test_a_card_writes_nothing() -> None:
    async with dinner() as (memory, thread):
        before = await memory.stats()
        first = await thread.get_context_card(max_recent_messages=2)
        second = await thread.get_context_card(max_recent_messages=2)
        assert first.content == second.content
        assert await memory.stats() == before


async def test_no_message_stands_twice_in_a_card() -> None:
    async with lexical() as memory:
        thread = await memory.create_thread(user_id="u1")
        await thread.add_messages(
            [
                {"role": "user", "content": "A quiet dinner on Friday, please."},
                {"role": "assistant", "content": "A dinner for how many?"},
                {"role": "user", "content": "Dinner for four."},
            ]
        )
        card = await thread.get_context_card(max_recent_messages=1)
        for message in await thread.get_messages():
            assert card.content.count(message.content) == 1, message.content
