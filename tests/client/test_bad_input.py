"""Bad input gives a typed error that names the argument, and nothing is written."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from agentmemory import (
    AsyncAgentMemory,
    ClosedError,
    ConfigurationError,
    FilterError,
    SchemaPolicy,
    Scope,
    ScopeError,
    SearchScope,
    StoreError,
    ValidationError,
)
from tests.client.conftest import hybrid, lexical

Call = Callable[[Any, Any], Awaitable[Any]]
NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001 - the fault that is tested


def message(**fields: Any) -> list[dict[str, Any]]:
    """One message with some fields set otherwise."""
    return [{"role": "user", "content": "hello", **fields}]


WRITES: list[tuple[str, str, Call]] = [
    ("empty content", "content", lambda m, t: t.add_messages(message(content=""))),
    ("blank content", "content", lambda m, t: t.add_messages(message(content=" \n"))),
    ("content None", "content", lambda m, t: t.add_messages(message(content=None))),
    ("content bytes", "content", lambda m, t: t.add_messages(message(content=b"x"))),
    ("content number", "content", lambda m, t: t.add_messages(message(content=7))),
    ("content empty list", "content", lambda m, t: t.add_messages(message(content=[]))),
    (
        "image part",
        "content",
        lambda m, t: t.add_messages(message(content=[{"type": "image_url", "image_url": "x"}])),
    ),
    ("NUL", "content", lambda m, t: t.add_messages(message(content="a\x00b"))),
    ("lone surrogate", "content", lambda m, t: t.add_messages(message(content="a\ud800b"))),
    ("naive time", "timestamp", lambda m, t: t.add_messages(message(timestamp=NAIVE))),
    (
        "naive text time",
        "timestamp",
        lambda m, t: t.add_messages(message(timestamp="2026-01-01T00:00:00")),
    ),
    ("no time", "timestamp", lambda m, t: t.add_messages(message(timestamp="soon"))),
    ("long id", "id", lambda m, t: t.add_messages(message(id="é" * 65))),
    ("empty id", "id", lambda m, t: t.add_messages(message(id=""))),
    ("number id", "id", lambda m, t: t.add_messages(message(id=5))),
    ("long role", "role", lambda m, t: t.add_messages(message(role="r" * 31))),
    ("no role", "messages", lambda m, t: t.add_messages([{"content": "x"}])),
    ("unknown key", "messages", lambda m, t: t.add_messages(message(tool_calls=[]))),
    ("a bare dict", "messages", lambda m, t: t.add_messages(message()[0])),
    ("a bare string", "messages", lambda m, t: t.add_messages("hello")),
    ("not a message", "messages", lambda m, t: t.add_messages([7])),
    (
        "doubled id",
        "messages",
        lambda m, t: t.add_messages([*message(id="a"), *message(id="a")]),
    ),
    ("metadata list", "metadata", lambda m, t: t.add_messages(message(metadata=[1]))),
    (
        "metadata NaN",
        "metadata",
        lambda m, t: t.add_messages(message(metadata={"a": float("nan")})),
    ),
    ("metadata $key", "metadata", lambda m, t: t.add_messages(message(metadata={"$a": 1}))),
    ("metadata object", "metadata", lambda m, t: t.add_messages(message(metadata={"a": object()}))),
    ("memory empty", "content", lambda m, t: t.add_memory("")),
    ("memory type", "memory_type", lambda m, t: t.add_memory("x", memory_type="message")),
    ("memory naive", "timestamp", lambda m, t: t.add_memory("x", timestamp=NAIVE)),
    ("memory id", "memory_id", lambda m, t: t.add_memory("x", memory_id="i" * 129)),
    ("memory stability", "stability", lambda m, t: t.add_memory("x", stability="rock")),
    ("memory no user", "user_id", lambda m, t: m.add_memory("x")),
    ("memory bad user", "user_id", lambda m, t: m.add_memory("x", user_id="")),
    ("thread bad user", "user_id", lambda m, t: m.create_thread(user_id="u" * 129)),
    ("thread bad id", "thread_id", lambda m, t: m.create_thread(thread_id="")),
    (
        "thread concurrency",
        "context_card_type_search_concurrency",
        lambda m, t: m.create_thread(context_card_type_search_concurrency=0),
    ),
    ("update nothing", "content", lambda m, t: t.update_message("m0")),
    ("update empty", "content", lambda m, t: t.update_message("m0", content="")),
    ("update naive", "timestamp", lambda m, t: t.update_message("m0", timestamp=NAIVE)),
]

READS: list[tuple[str, str, Call]] = [
    ("blank query", "query", lambda m, t: m.search(" ", user_id="u1")),
    ("query None", "query", lambda m, t: m.search(None, user_id="u1")),
    ("no user", "user_id", lambda m, t: m.search("x")),
    (
        "inexact user",
        "exact_user_match",
        lambda m, t: m.search("x", user_id="u", exact_user_match=False),
    ),
    (
        "exact without id",
        "exact_agent_match",
        lambda m, t: m.search("x", user_id="u", exact_agent_match=True),
    ),
    ("scope and ids", "scope", lambda m, t: m.search("x", user_id="u", scope=Scope(user_id="u"))),
    ("scope without user", "user_id", lambda m, t: m.search("x", scope=SearchScope(agent_id="a"))),
    ("scope as dict", "scope", lambda m, t: m.search("x", scope={"user_id": "u"})),
    ("no results", "max_results", lambda m, t: m.search("x", user_id="u1", max_results=0)),
    ("many results", "max_results", lambda m, t: m.search("x", user_id="u1", max_results=1001)),
    ("bool results", "max_results", lambda m, t: m.search("x", user_id="u1", max_results=True)),
    (
        "unknown type",
        "record_types",
        lambda m, t: m.search("x", user_id="u1", record_types=["memo"]),
    ),
    ("bare type", "record_types", lambda m, t: m.search("x", user_id="u1", record_types="message")),
    ("no types", "record_types", lambda m, t: m.search("x", user_id="u1", record_types=[])),
    ("bare tier", "tiers", lambda m, t: m.search("x", user_id="u1", tiers="archived")),
    ("no tiers", "tiers", lambda m, t: t.search("x", tiers=[])),
    ("unknown tier", "tiers", lambda m, t: m.store.search("x", tiers=["hot", "frozen"])),
    ("tier None", "tiers", lambda m, t: t.search("x", tiers=[None])),
    (
        "bad filter",
        "metadata_filter",
        lambda m, t: m.search("x", user_id="u1", metadata_filter={"a": {"$regex": "b"}}),
    ),
    (
        "filter no dict",
        "metadata_filter",
        lambda m, t: m.search("x", user_id="u1", metadata_filter="a"),
    ),
    ("budget text", "token_budget", lambda m, t: m.search("x", user_id="u1", token_budget="9")),
    (
        "negative minimum",
        "min_relevant_results_by_type['fact']",
        lambda m, t: t.get_context_card(min_relevant_results_by_type={"fact": -1}),
    ),
    (
        "unknown minimum",
        "min_relevant_results_by_type",
        lambda m, t: t.get_context_card(min_relevant_results_by_type={"image": 1}),
    ),
    (
        "minima above maximum",
        "min_relevant_results_by_type",
        lambda m, t: t.get_context_card(
            max_relevant_results=2, min_relevant_results_by_type={"fact": 2, "message": 1}
        ),
    ),
    (
        "negative maximum",
        "max_relevant_results",
        lambda m, t: t.get_context_card(max_relevant_results=-1),
    ),
    (
        "recent and except",
        "max_recent_messages",
        lambda m, t: t.get_context_card(max_recent_messages=3, except_last_messages=2),
    ),
    (
        "negative except",
        "except_last_messages",
        lambda m, t: t.get_context_card(except_last_messages=-1),
    ),
    ("list no user", "user_id", lambda m, t: m.list_memories()),
    ("list threads no user", "user_id", lambda m, t: m.list_threads()),
    ("list limit", "limit", lambda m, t: m.list_memories(user_id="u1", limit=0)),
    ("list cursor", "cursor", lambda m, t: m.list_memories(user_id="u1", cursor="!!")),
    ("list order", "order", lambda m, t: m.list_memories(user_id="u1", order="size")),
    (
        "list type",
        "record_types",
        lambda m, t: m.list_memories(user_id="u1", record_types=["message"]),
    ),
]


@pytest.mark.parametrize(("argument", "call"), [c[1:] for c in WRITES], ids=[c[0] for c in WRITES])
async def test_a_bad_write_names_the_argument_and_writes_nothing(argument: str, call: Call) -> None:
    async with hybrid() as memory:
        thread = await memory.create_thread(user_id="u1")
        await thread.add_messages([{"role": "user", "content": "kept", "id": "m0"}])
        before = await memory.stats()
        with pytest.raises(ValidationError) as caught:
            await call(memory, thread)
        assert caught.value.argument == argument
        assert argument.split("[", maxsplit=1)[0] in str(caught.value)
        assert await memory.stats() == before


@pytest.mark.parametrize(("argument", "call"), [c[1:] for c in READS], ids=[c[0] for c in READS])
async def test_a_bad_read_names_the_argument(argument: str, call: Call) -> None:
    async with hybrid() as memory:
        thread = await memory.create_thread(user_id="u1")
        await thread.add_messages([{"role": "user", "content": "kept"}])
        with pytest.raises(ValidationError) as caught:
            await call(memory, thread)
        assert caught.value.argument == argument
        assert f"`{argument}" in str(caught.value)


async def test_an_unknown_keyword_is_refused_by_name() -> None:
    async with lexical() as memory:
        thread: Any = await memory.create_thread(user_id="u1")
        loose: Any = memory
        client: Any = AsyncAgentMemory
        for call in (
            lambda: loose.create_thread(nickname="x"),
            lambda: loose.search("x", user_id="u1", top_k=3),
            lambda: thread.add_messages([], nickname="x"),
            lambda: thread.get_context_card(nickname="x"),
            lambda: client(":memory:", nickname="x"),
        ):
            with pytest.raises(TypeError, match=r"nickname|top_k"):
                await call()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "connection"),
        ({"connection": ""}, "connection"),
        ({"connection": 7}, "connection"),
        ({"connection": "redis://x"}, "connection"),
        ({"connection": ":memory:", "memory_store_id": "1x"}, "memory_store_id"),
        ({"connection": ":memory:", "memory_store_id": "x" * 17}, "memory_store_id"),
        ({"connection": ":memory:", "memory_store_id": "a;b"}, "memory_store_id"),
        ({"connection": ":memory:", "schema_policy": "maybe"}, "schema_policy"),
        ({"connection": ":memory:", "search_strategy": "magic"}, "search_strategy"),
        (
            {"connection": ":memory:", "search_strategy": "vector", "embedder": None},
            "search_strategy",
        ),
        ({"connection": ":memory:", "embedder": "nowhere/model"}, "embedder"),
        ({"connection": ":memory:", "embedder": 7}, "embedder"),
        ({"connection": ":memory:", "store": object()}, "store"),
    ],
)
def test_options_that_cannot_work_are_refused_by_name(options: dict[str, Any], named: str) -> None:
    with pytest.raises((ConfigurationError, ValidationError), match=f"`{named}`"):
        AsyncAgentMemory(**options)


async def test_a_file_that_is_not_ours_is_refused_and_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("just some notes, long enough to be looked at as a database header " * 9)
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    for path in (text, other):
        content = path.read_bytes()
        with pytest.raises(StoreError, match=path.name):
            async with lexical(path):
                pass
        assert path.read_bytes() == content


async def test_a_file_of_a_newer_version_is_refused_and_left_alone(path: Path) -> None:
    async with lexical(path) as memory:
        await memory.create_thread(user_id="u1")
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE agentmemory_store SET schema_version = 99")
    connection.close()
    for policy in (SchemaPolicy.CREATE_IF_NECESSARY, SchemaPolicy.RECREATE):
        with pytest.raises(StoreError, match="99"):
            async with lexical(path, schema_policy=policy):
                pass


@pytest.mark.parametrize("place", ["missing/memory.db", ""])
async def test_a_path_that_cannot_be_opened_is_named(tmp_path: Path, place: str) -> None:
    with pytest.raises(StoreError, match=tmp_path.name):
        async with lexical(tmp_path / place):
            pass


async def test_every_call_after_close_says_so() -> None:
    memory = lexical()
    thread = await memory.create_thread(user_id="u1")
    await memory.close()
    await memory.close()
    calls: list[Callable[[], Awaitable[Any]]] = [
        memory.create_thread,
        lambda: memory.get_thread("t"),
        lambda: memory.search("x", user_id="u1"),
        lambda: memory.store.search("x"),
        lambda: memory.add_memory("x", user_id="u1"),
        lambda: memory.list_memories(user_id="u1"),
        memory.stats,
        memory.reembed,
        lambda: thread.add_messages([{"role": "user", "content": "x"}]),
        lambda: thread.search("x"),
        thread.get_context_card,
        thread.get_summary,
    ]
    for call in calls:
        with pytest.raises(ClosedError):
            await call()


def test_scope_errors_and_filter_errors_are_validation_errors() -> None:
    assert issubclass(ScopeError, ValidationError)
    assert issubclass(FilterError, ValidationError)
    assert issubclass(ValidationError, ValueError)
