"""Summaries: incremental, stored once, never stale after an edit, and cards that show them."""

from __future__ import annotations

import anyio
import anyio.lowlevel

from agentmemory import MemoryExtractionConfig
from agentmemory.context.summarizer import MAX_TOPICS, merged_topics
from agentmemory.errors import ModelUnavailableError
from agentmemory.telemetry import Event, subscribe
from agentmemory.testing import ScriptedLlm
from tests.extraction.conftest import answer, memory_with, user

QUIET = MemoryExtractionConfig(extract_memories=False)


def summary(text, *topics):
    return {"summary": text, "topics": list(topics)}


async def test_a_summary_is_made_once_and_then_of_itself_and_the_new_messages():
    llm = ScriptedLlm(summary("A.", "one"), summary("A and B.", "two", "one"))
    async with memory_with(llm, memory_extraction_config=QUIET) as memory:
        thread = await memory.create_thread(user_id="u")
        await thread.add_messages([user("alpha")])
        for _ in range(2):
            found = await thread.get_summary()
            assert (found.content, found.topics) == ("A.", ("one",))
        await thread.add_messages([user("second")])
        found = await thread.get_summary()
        assert (found.content, found.topics) == ("A and B.", ("one", "two"))
    assert len(llm.calls) == 2
    assert "alpha" in llm.calls[0].text
    assert "alpha" not in llm.calls[1].text
    assert "<summary>A.</summary>" in llm.calls[1].text


async def test_the_summary_may_leave_out_the_last_messages_and_a_later_one_stays():
    llm = ScriptedLlm(summary("all"), summary("but the last"), summary("but the last two"))
    async with memory_with(llm, memory_extraction_config=QUIET) as memory:
        thread = await memory.create_thread(user_id="u")
        await thread.add_messages([user(text) for text in ("alpha", "second", "third")])
        assert (await thread.get_summary()).content == "all"
        assert (await thread.get_summary(except_last=1)).content == "but the last"
        assert "third" not in llm.calls[1].text
        assert (await thread.get_summary()).content == "all"
        assert (await thread.get_summary(except_last=3)).content == ""
    assert len(llm.calls) == 2


async def test_a_summary_up_to_a_message_is_the_base_of_the_next():
    llm = ScriptedLlm(summary("one"), summary("two"))
    async with memory_with(llm, memory_extraction_config=QUIET) as memory:
        thread = await memory.create_thread(user_id="u")
        await thread.add_messages([user("alpha"), user("second")])
        assert (await thread.get_summary(except_last=1)).content == "one"
        assert (await thread.get_summary()).content == "two"
    assert "alpha" not in llm.calls[1].text


async def test_an_edited_or_deleted_message_makes_the_summary_anew():
    llm = ScriptedLlm(summary("cats"), summary("dogs"), summary("none"))
    async with memory_with(llm, memory_extraction_config=QUIET) as memory:
        thread = await memory.create_thread(user_id="u")
        first, _ = await thread.add_messages([user("I have a cat"), user("yes")])
        assert (await thread.get_summary()).content == "cats"
        await thread.update_message(first, content="I have a dog")
        assert (await thread.get_summary()).content == "dogs"
        assert "cat" not in llm.calls[1].text
        await thread.delete_message(first)
        assert (await thread.get_summary()).content == "none"
        assert "dog" not in llm.calls[2].text


async def test_a_message_changed_while_the_model_writes_is_not_in_the_stored_summary():
    asked, go = anyio.Event(), anyio.Event()

    async def respond(call):
        if "a cat" in call.text:
            asked.set()
            await go.wait()
            return summary("cats")
        return summary("dogs")

    async with memory_with(ScriptedLlm(default=respond), memory_extraction_config=QUIET) as memory:
        thread = await memory.create_thread(user_id="u")
        (name,) = await thread.add_messages([user("I have a cat")])
        found = []

        async def ask():
            found.append(await thread.get_summary())

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            with anyio.fail_after(10):
                await asked.wait()
            await thread.update_message(name, content="I have a dog")
            go.set()
        assert found[0].content == "dogs"


async def test_writers_side_by_side_leave_one_summary_of_everything():
    count = 0

    async def respond(call):
        nonlocal count
        count += 1
        await anyio.lowlevel.checkpoint()
        return summary(f"version {count}")

    async with memory_with(ScriptedLlm(default=respond), memory_extraction_config=QUIET) as memory:
        thread = await memory.create_thread(user_id="u")
        await thread.add_messages([user("alpha")])
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(thread.get_summary)
        before = count
        await thread.get_summary()
        assert count == before


async def test_a_failing_model_leaves_the_last_summary_and_the_transcript_of_the_rest():
    heard: list[Event] = []
    llm = ScriptedLlm(summary("A."), default=ModelUnavailableError("down"))
    with subscribe(heard.append):
        async with memory_with(llm, memory_extraction_config=QUIET) as memory:
            thread = await memory.create_thread(user_id="u")
            await thread.add_messages([user("alpha")])
            await thread.get_summary()
            await thread.add_messages([user("second")])
            content = (await thread.get_summary()).content
            assert content.startswith("A.\n")
            assert content.endswith("second")
    assert any(event.name == "summary.not_renewed" for event in heard)


async def test_a_summary_keeps_to_its_budget():
    long = " ".join(f"Sentence {number} says something." for number in range(100))
    llm = ScriptedLlm(summary(long))
    async with memory_with(llm, memory_extraction_config=QUIET) as memory:
        thread = await memory.create_thread(user_id="u")
        await thread.add_messages([user("alpha")])
        found = await thread.get_summary(token_budget=50)
        assert memory._parts.counter.count(found.content) <= 50
        assert found.content.startswith("Sentence 0 says something.")


async def test_a_huge_message_is_shortened_for_the_model_and_stays_as_it_is():
    text = "START " + "word " * 40_000 + "END"
    llm = ScriptedLlm(summary("long"))
    async with memory_with(llm, memory_extraction_config=QUIET) as memory:
        thread = await memory.create_thread(user_id="u")
        (name,) = await thread.add_messages([user(text)])
        await thread.get_summary()
        assert (await thread.get_message(name)).content == text
    shown = llm.calls[0].text
    assert "START" in shown
    assert "END" in shown
    assert "[…]" in shown
    assert len(shown) < len(text) / 2


async def test_the_worker_renews_a_summary_that_is_due_and_no_other():
    def respond(call):
        return summary("so far") if "running summary" in call.text else answer()

    llm = ScriptedLlm(default=respond)
    config = MemoryExtractionConfig(context_summary_update_frequency=3)
    async with memory_with(llm, memory_extraction_config=config) as memory:
        thread = await memory.create_thread(user_id="u")
        kinds = []
        for number in range(4):
            await thread.add_messages([user(f"message {number}")])
            await thread.wait_for_memory_extraction(10)
            kinds.append(sum("running summary" in call.text for call in llm.calls))
        assert kinds == [0, 0, 1, 1]
        assert "so far" in llm.calls[-1].text  # what came before is shown to the extraction


async def test_by_default_a_batch_costs_one_call_and_a_summary_one_more():
    def respond(call):
        return summary("so far") if "running summary" in call.text else answer()

    llm = ScriptedLlm(default=respond)
    async with memory_with(llm) as memory:
        thread = await memory.create_thread(user_id="u")
        for number in range(12):
            await thread.add_messages([user(f"m {number}"), user(f"n {number}")])
        await thread.wait_for_memory_extraction(20)
        await thread.get_context_card()
    summaries = sum("running summary" in call.text for call in llm.calls)
    assert 1 <= summaries <= 2
    assert len(llm.calls) == 12 + summaries


def test_topics_keep_their_order_and_wording():
    assert merged_topics(("Pizza", "dinner"), ["wine", "DINNER ", "pizza", "wine"]) == (
        "Pizza",
        "dinner",
        "wine",
    )
    assert merged_topics(("old",), ["new", " "]) == ("new",)
    assert len(merged_topics((), [str(number) for number in range(20)])) == MAX_TOPICS
