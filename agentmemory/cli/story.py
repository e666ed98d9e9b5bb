"""The demo's story: a fictional conversation that ships here as `story.json`, stored and searched.

Every record of it has a fixed id, so that telling it again finds what is there, finishes what an
interrupted run left out, and touches nothing else. May import the client and below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from typing import Any, Literal

import orjson

from agentmemory.cli.database import DatabaseOptions, open_memory
from agentmemory.cli.screen import Progress
from agentmemory.cli.work import warm_up
from agentmemory.client import AsyncAgentMemory
from agentmemory.errors import ConflictError, NotFoundError
from agentmemory.protocols import IEmbedder
from agentmemory.records import Record
from agentmemory.results import ContextCard, SearchResult
from agentmemory.thread import AsyncThread


@dataclass(frozen=True, slots=True)
class Script:
    """The conversation as it ships: sessions, memories, the change, what to ask."""

    notice: str
    user_id: str
    agent_id: str
    sessions: tuple[Mapping[str, Any], ...]
    memories: tuple[Mapping[str, Any], ...]
    change: Mapping[str, str]
    searches: tuple[Mapping[str, Any], ...]
    card: Mapping[str, Any]

    def fact(self, side: Literal["before", "after"]) -> Mapping[str, Any]:
        """Return the fact that changed, before or after."""
        wanted = self.change[side]
        return next(item for item in self.memories if item["memory_id"] == wanted)


def load_script() -> Script:
    """Read the conversation from the package."""
    data = orjson.loads(files("agentmemory.cli").joinpath("story.json").read_bytes())
    return Script(
        notice=data["notice"],
        user_id=data["user_id"],
        agent_id=data["agent_id"],
        sessions=tuple(data["sessions"]),
        memories=tuple(data["memories"]),
        change=data["change"],
        searches=tuple(data["searches"]),
        card=data["card"],
    )


@dataclass(frozen=True, slots=True)
class Session:
    """One stored session: its thread, its title, when it began, how many messages it has."""

    thread_id: str
    title: str
    began: datetime
    messages: int


@dataclass(frozen=True, slots=True)
class Question:
    """One search of the story: what was asked, what it shows, what was found."""

    query: str
    shows: str
    results: tuple[SearchResult, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """What happened.

    Args:
        script: The conversation.
        database: What `--db` said, without a password.
        stays: Whether anything was left behind.
        told_before: Whether the database held the story already.
        embedder: Name of the model that compared meanings; None without one.
        sessions: The two sessions.
        memories: The memories after the change.
        questions: The searches.
        card: The context card of the second session.
    """

    script: Script
    database: str
    stays: bool
    told_before: bool
    embedder: str | None
    sessions: tuple[Session, ...]
    memories: tuple[Record, ...]
    questions: tuple[Question, ...]
    card: ContextCard


def is_there(options: DatabaseOptions) -> bool:
    """Tell whether there is a database already; an empty file is none, a server is one."""
    path = options.path
    return options.is_server or (
        path is not None and path.exists() and (not path.is_file() or path.stat().st_size > 0)
    )


async def tell(
    options: DatabaseOptions,
    embedder: IEmbedder | None,
    script: Script,
    progress: Progress,
    *,
    existed: bool,
    force: bool,
) -> Report:
    """Store the story where it is not stored yet, search it and make the card.

    Args:
        options: Which database.
        embedder: Compares meanings; None for words only.
        script: The story.
        progress: Is told what happens.
        existed: Whether there was a database before.
        force: Whether the story may join memories that are not its own.

    Raises:
        ConflictError: The database holds something else and `force` is not set.
    """
    # Without --force an existing file is opened in the way that never changes it.
    async with open_memory(options, embedder, create=force or not existed) as opened:
        memory = opened.memory
        told_before = await _is_told(memory, script)
        if existed and not told_before and not force:
            await _require_empty(memory, options.label)
        await warm_up(embedder, progress)
        threads = {
            session["thread_id"]: await _store_session(memory, script, session, progress)
            for session in script.sessions
        }
        memories = await _store_memories(memory, script, threads, progress)
        if embedder is not None and (await memory.stats()).vectors == 0:
            progress.stage("Making vectors, for the last time it was told without")
            await memory.reembed()
        progress.stage("Searching")
        questions = [
            Question(
                query=asked["query"],
                shows=asked["shows"],
                results=tuple(
                    await memory.search(
                        asked["query"], user_id=script.user_id, max_results=asked["hits"]
                    )
                ),
            )
            for asked in script.searches
        ]
        progress.stage("Building a context card")
        wish = dict(script.card)
        card = await threads[wish.pop("thread_id")].get_context_card(
            fallback_message_count=0, **wish
        )
        return Report(
            script=script,
            database=options.label,
            stays=options.is_server or options.path is not None,
            told_before=told_before,
            embedder=None if embedder is None else (await embedder.fingerprint()).model,
            sessions=tuple(_session(session) for session in script.sessions),
            memories=tuple(memories),
            questions=tuple(questions),
            card=card,
        )


async def _is_told(memory: AsyncAgentMemory, script: Script) -> bool:
    try:
        await _thread(memory, script, script.sessions[0])
    except NotFoundError:
        return False
    return True


async def _require_empty(memory: AsyncAgentMemory, database: str) -> None:
    stats = await memory.stats()
    held = sum(stats.records.values())
    if held or stats.threads:
        msg = (
            f"{database!r} exists and holds other memories (records: {held}, threads: "
            f"{stats.threads}); `--db PATH` makes the demo's own file elsewhere, `--force` adds "
            "the demo to them and keeps them"
        )
        raise ConflictError(msg)


async def _thread(
    memory: AsyncAgentMemory, script: Script, session: Mapping[str, Any]
) -> AsyncThread:
    return await memory.get_thread(
        session["thread_id"], user_id=script.user_id, agent_id=script.agent_id
    )


async def _store_session(
    memory: AsyncAgentMemory, script: Script, session: Mapping[str, Any], progress: Progress
) -> AsyncThread:
    progress.stage(f"Storing the conversation: {session['title']}")
    try:
        thread = await _thread(memory, script, session)
    except NotFoundError:
        thread = await memory.create_thread(
            thread_id=session["thread_id"],
            user_id=script.user_id,
            agent_id=script.agent_id,
            metadata={"title": session["title"], "fictional": True},
        )
    if not await thread.get_messages(limit=1):
        await thread.add_messages(
            [
                {**message, "id": f"{thread.thread_id}-{number:02}"}
                for number, message in enumerate(session["messages"], start=1)
            ]
        )
        # What the user says she likes is remembered before anything is searched.
        await thread.wait_for_memory_extraction()
    return thread


async def _store_memories(
    memory: AsyncAgentMemory,
    script: Script,
    threads: Mapping[str, AsyncThread],
    progress: Progress,
) -> list[Record]:
    progress.stage("Storing the memories")
    for item in script.memories:
        try:
            await memory.get_memory(item["memory_id"], user_id=script.user_id)
        except NotFoundError:
            wish = dict(item)
            await threads[wish.pop("session")].add_memory(wish.pop("content"), **wish)
    return [
        await memory.get_memory(item["memory_id"], user_id=script.user_id)
        for item in script.memories
    ]


def _session(session: Mapping[str, Any]) -> Session:
    messages = session["messages"]
    return Session(
        thread_id=session["thread_id"],
        title=session["title"],
        began=datetime.fromisoformat(messages[0]["timestamp"]),
        messages=len(messages),
    )
