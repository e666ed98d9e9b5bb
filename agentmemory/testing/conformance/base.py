"""What the rules of the conformance suite share; may import the library, and no test framework."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncGenerator, Generator, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from agentmemory.client import AsyncAgentMemory
from agentmemory.protocols import MemoryStore
from agentmemory.records import RecordType, ScopedRecord, Tier
from agentmemory.requests import RecordFilter
from agentmemory.results import SearchResult
from agentmemory.scope import ScopeFilter
from agentmemory.testing.frozen_clock import FrozenClock

NOW: Final = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
"""The time at which every rule starts."""

USER: Final = "u1"
EVERYWHERE: Final = RecordFilter(scope=ScopeFilter(), now=NOW, tiers=tuple(Tier))


class StoreRules:
    """Base of all rules; a subclass says what a new, empty store is."""

    clock: FrozenClock

    def new_store(self) -> MemoryStore:
        """Return a store that holds nothing and is not open yet; called once per test."""
        raise NotImplementedError

    def memory(self, **options: Any) -> AsyncAgentMemory:
        """Return a memory over a new store, whose clock stands still; words only by default."""
        self.clock = FrozenClock(NOW)
        options.setdefault("embedder", None)
        return AsyncAgentMemory(store=self.new_store(), clock=self.clock, **options)

    @contextlib.asynccontextmanager
    async def store(self) -> AsyncGenerator[MemoryStore]:
        """Give a new store, open."""
        store = self.new_store()
        await store.open()
        try:
            yield store
        finally:
            await store.close()


@contextlib.contextmanager
def refused(error: type[Exception], *words: str) -> Generator[None]:
    """Expect an error whose text holds some words."""
    text = None
    try:
        yield
    except error as raised:
        text = str(raised)
    if text is None:
        raise AssertionError(f"no {error.__name__} was raised")
    missing = [word for word in words if word not in text]
    assert not missing, f"{text} does not say {missing}"


def record(
    record_id: str, content: str = "kite", *, record_type: RecordType = "memory", **values: Any
) -> ScopedRecord:
    """Make a record of user `USER` as a client would."""
    given: dict[str, Any] = {
        "user_id": USER,
        "created_at": NOW,
        "updated_at": NOW,
        **values,
    }
    return ScopedRecord(id=record_id, record_type=record_type, content=content, **given)


def ids(results: Iterable[Any]) -> list[str]:
    """Return the ids of records or results in order."""
    return [item.id for item in results]


def tree(result: SearchResult) -> dict[str, Any]:
    """Return the ids below a result as nested dicts."""
    return {child.id: tree(child) for _, child in result.linked_results}


def reached(result: SearchResult) -> list[str]:
    """Return the ids below a result, a parent before its children."""
    found: list[str] = []
    for _, child in result.linked_results:
        found.append(child.id)
        found.extend(reached(child))
    return found


async def add_memories(
    memory: AsyncAgentMemory, names: Sequence[str], content: str = "note", **values: Any
) -> None:
    """Store memories whose ids are `names`, all of user `USER` unless told otherwise."""
    values.setdefault("user_id", USER)
    for name in names:
        await memory.add_memory(f"{content} {name}", memory_id=name, **values)


async def chain(memory: AsyncAgentMemory, names: Sequence[str], relation_type: str) -> list[str]:
    """Link each memory to the next and return the ids of the links."""
    made = []
    for source, target in itertools.pairwise(names):
        link = await memory.link_records(source, target, relation_type)
        made.append(link.id)
    return made


async def status_of(memory: AsyncAgentMemory, name: str) -> str:
    """Return the status of a memory."""
    return (await memory.get_memory(name)).status.value
