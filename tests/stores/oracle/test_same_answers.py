"""The same random history in an SQLite store and in an Oracle store gives the same answers."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import pytest

from agentmemory import AsyncAgentMemory
from agentmemory.config import MemorySearchConfig
from agentmemory.errors import AgentMemoryError
from agentmemory.protocols import EmbedderFingerprint
from agentmemory.results import SearchResult
from agentmemory.stores.oracle.store import OracleStore
from agentmemory.stores.sqlite.store import SqliteStore
from agentmemory.testing import FrozenClock
from agentmemory.testing.conformance.lists import PNG
from tests.support.oracle.store import WITH_STORE, make_store_template, new_pool, oracle_server

if TYPE_CHECKING:
    from agentmemory.protocols import FloatMatrix

STEPS = 120
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
USERS = ("ann", "ben")
WORDS = (
    *("kite", "wind", "river", "harbour", "lantern", "orchard", "café", "v2.3.1", "c++"),
    *("user_name", "Zürich", "凧を揚げる", "認証", "coffee", "budget", "Monday", "the", "a"),
)
LINKS = ("supports", "supersedes", "duplicates", "depends_on", "contradicts", "resembles")
WHOLE = MemorySearchConfig(candidate_pool=1000)
"""Both arms bring all there is: which part of more they bring is the database's own choice."""

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_FLOAT = re.compile(r"\d+\.\d{5,}")

Call = Callable[[AsyncAgentMemory], Awaitable[Any]]


class WordVectors:
    """Embeds a text as the sum of its words' vectors, so that hardly two cosines are equal."""

    def __init__(self, dimension: int = 24) -> None:
        self._dimension = dimension

    async def embed(self, texts: Sequence[str], *, is_query: bool = False) -> FloatMatrix:
        rows = [np.sum([self._word(word) for word in text.split()], axis=0) for text in texts]
        norms = [np.linalg.norm(row) for row in rows]
        return np.array(
            [row / norm for row, norm in zip(rows, norms, strict=True)], dtype=np.float32
        )

    async def fingerprint(self) -> EmbedderFingerprint:
        return EmbedderFingerprint(model="word vectors", dimension=self._dimension)

    def _word(self, word: str) -> Any:
        return np.random.default_rng(crc32(word.encode())).normal(size=self._dimension)


class History:
    """Makes up what is done and asked; everything is drawn from one generator.

    Args:
        random: Decides.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self.number = 0
        self.threads: list[str] = []
        self.users: dict[str, str] = {}

    def fresh(self, kind: str) -> str:
        """Return a new id."""
        self.number += 1
        return f"{kind}{self.number}"

    def some(self, kind: str = "r") -> str:
        """Return an id that may have been given away."""
        return f"{kind}{self.random.randint(max(1, self.number - 60), max(1, self.number))}"

    def text(self, words: int = 8) -> str:
        """Return a sentence; a long one is indexed in several chunks."""
        count = self.random.choice((words, words, words, 400))
        return " ".join(self.random.choices(WORDS, k=count)) + f" {self.number}."

    def metadata(self) -> dict[str, Any]:
        """Return metadata that filters ask for."""
        return self.random.choice(
            (
                {},
                {"tier": self.random.choice(("gold", "silver"))},
                {"n": self.random.randint(-3, 3), "deep": {"list": [1, 2.5, "x", None]}},
            )
        )

    def maybe(self, **options: Any) -> dict[str, Any]:
        """Return some of the options."""
        return {name: value for name, value in options.items() if self.random.random() < 0.4}

    def step(self) -> Call:
        """Return something that changes the memory."""
        user = self.random.choice(USERS)
        kinds: list[Callable[[str], Call]] = [
            *[self.remember] * 5,
            *[self.talk] * 4,
            *[self.link] * 3,
            *[self.change] * 2,
            *(self.change_message, self.remove, self.remove_message, self.remove_link),
            *(self.introduce, self.picture, self.outcome, self.evict, self.pass_time),
            *(self.change_link, self.start, self.purge, self.doubt),
        ]
        if self.random.random() < 0.02:
            return self.forget(user)
        if not self.threads:
            return self.start(user)
        return self.random.choice(kinds)(user)

    def start(self, user: str) -> Call:
        name, metadata = self.fresh("t"), self.metadata()
        self.threads.append(name)
        self.users[name] = user
        return lambda memory: memory.create_thread(
            thread_id=name, user_id=user, agent_id="bot", metadata=metadata
        )

    def talk(self, user: str) -> Call:
        thread = self.random.choice(self.threads)
        messages = [
            {
                "id": self.fresh("m"),
                "role": self.random.choice(("user", "assistant")),
                "content": self.text(),
                **self.maybe(name=self.random.choice(("Zoe", "Bot", "Max Müller"))),
            }
            for _ in range(self.random.randint(1, 3))
        ]

        async def call(memory: AsyncAgentMemory) -> Any:
            return await (await memory.get_thread(thread)).add_messages(messages)

        return call

    def remember(self, user: str) -> Call:
        name, text = self.fresh("r"), self.text()
        options = self.maybe(
            agent_id="bot",
            memory_type=self.random.choice(("fact", "preference", "guideline")),
            metadata=self.metadata(),
            timestamp=NOW + timedelta(days=self.random.randint(-20, 5)),
            valid_from=NOW - timedelta(days=self.random.randint(0, 9)),
            valid_to=NOW + timedelta(days=self.random.randint(1, 9)),
            layer=self.random.choice(("critical", "rule", "context", "background")),
            tags=self.random.sample(("kite", "wind", "check"), 2),
        )
        # What expires needs no layer, and what has a layer does not expire here.
        if "layer" not in options:
            options |= self.maybe(ttl_days=self.random.choice((1, 4, 30)))
        return lambda memory: memory.add_memory(text, memory_id=name, user_id=user, **options)

    def change(self, user: str) -> Call:
        name = self.some()
        changes = self.maybe(
            content=self.text(), metadata=self.metadata(), tags=["wind"], valid_to=None
        ) or {"content": "changed"}
        return lambda memory: memory.update_memory(name, user_id=user, **changes)

    def change_message(self, user: str) -> Call:
        name, thread, text = self.some("m"), self.random.choice(self.threads), self.text()

        async def call(memory: AsyncAgentMemory) -> Any:
            return await (await memory.get_thread(thread)).update_message(name, content=text)

        return call

    def remove(self, user: str) -> Call:
        name = self.some()
        return lambda memory: memory.delete_memory(name, user_id=user)

    def remove_message(self, user: str) -> Call:
        name, thread = self.some("m"), self.random.choice(self.threads)

        async def call(memory: AsyncAgentMemory) -> Any:
            return await (await memory.get_thread(thread)).delete_message(name)

        return call

    def link(self, user: str) -> Call:
        name, one, two = self.fresh("l"), self.some(), self.some()
        kind, metadata = self.random.choice(LINKS), self.metadata()
        return lambda memory: memory.link_records(
            one, two, kind, relation_id=name, metadata=metadata, user_id=user
        )

    def change_link(self, user: str) -> Call:
        name, metadata = self.some("l"), self.metadata()
        return lambda memory: memory.update_record_link(name, metadata=metadata, user_id=user)

    def remove_link(self, user: str) -> Call:
        name = self.some("l")
        return lambda memory: memory.delete_record_link(name, user_id=user)

    def introduce(self, user: str) -> Call:
        text = self.text()
        return lambda memory: memory.add_user(user, text)

    def picture(self, user: str) -> Call:
        text = self.text()
        return lambda memory: memory.add_image(PNG, description=text, user_id=user)

    def outcome(self, user: str) -> Call:
        success = self.random.random() < 0.7
        return lambda memory: memory.record_outcome(
            "fly kite", rules=["wind"], success=success, user_id=user
        )

    def doubt(self, user: str) -> Call:
        name = self.some()
        return lambda memory: memory.lower_confidence(name, 0.3, user_id=user)

    def evict(self, user: str) -> Call:
        return lambda memory: memory.run_eviction(user_id=user)

    def purge(self, user: str) -> Call:
        return lambda memory: memory.purge_expired()

    def forget(self, user: str) -> Call:
        self.threads = [name for name in self.threads if self.users[name] != user]

        async def call(memory: AsyncAgentMemory) -> Any:
            receipt = await memory.forget(user_id=user)
            return dict(receipt.counts)

        return call

    def pass_time(self, user: str) -> Call:
        days = self.random.choice((0.1, 1, 3))

        async def call(memory: AsyncAgentMemory) -> None:
            clock = memory._parts.clock
            assert isinstance(clock, FrozenClock)
            clock.advance(days=days)

        return call

    def question(self) -> Call:
        """Return something that only reads."""
        user = self.random.choice(USERS)
        query = " ".join(self.random.choices((*WORDS, "Zoe", "Müller"), k=3))
        filters = self.maybe(
            metadata_filter=self.random.choice(
                ({"tier": "gold"}, {"n": {"$gte": 0}}, {"tier": {"$ne": "gold"}})
            ),
            include_invalid_results=False,
            event_before=NOW + timedelta(days=1),
            created_after=NOW,
        )
        scope = self.random.choice(({}, {"thread_id": self.random.choice(self.threads or ["t0"])}))
        kinds = self.random.choice((None, ["message"], ["fact", "memory"], ["preference"]))

        async def card(memory: AsyncAgentMemory) -> Any:
            thread = await memory.get_thread(self.threads[0])
            made = await thread.get_context_card(
                query=query,
                max_relevant_results=8,
                min_relevant_results_by_type={"fact": 1, "message": 2, "guideline": 1},
                max_recent_messages=2,
                include_profiles=True,
                layers=("critical", "rule"),
                search_config=WHOLE,
            )
            return made.content

        async def summary(memory: AsyncAgentMemory) -> Any:
            stats = await memory.stats()
            return (stats.records, stats.threads, stats.chunks, stats.vectors, stats.links)

        questions: list[Call] = [
            *[
                lambda memory: memory.search(
                    query,
                    user_id=user,
                    record_types=kinds,
                    max_results=20,
                    num_hops=2,
                    search_config=WHOLE,
                    **scope,
                    **filters,
                )
            ]
            * 4,
            lambda memory: _pages(
                lambda cursor: memory.list_memories(
                    user_id=user, limit=5, order="event", cursor=cursor, **filters
                )
            ),
            lambda memory: _pages(
                lambda cursor: memory.list_messages(
                    user_id=user, limit=7, descending=True, cursor=cursor
                )
            ),
            lambda memory: _pages(
                lambda cursor: memory.list_record_links(user_id=user, limit=6, cursor=cursor)
            ),
            lambda memory: memory.list_threads(user_id=user),
            lambda memory: memory.retrieve(query, user_id=user, count_hits=True),
            summary,
        ]
        if self.threads:
            questions.extend((card, card))
        return self.random.choice(questions)


async def _pages(page: Callable[[str | None], Awaitable[Any]]) -> list[Any]:
    items: list[Any] = []
    cursor = None
    while True:
        found = await page(cursor)
        items.extend(found)
        cursor = found.next_cursor
        if cursor is None:
            return items


def plain(value: Any) -> Any:
    """Return an answer without what may differ: ids that were made up, and the last digits."""
    if isinstance(value, list) and value and isinstance(value[0], SearchResult):
        return [_of_result(item) for item in value]
    text = _UUID.sub("<id>", repr(value))
    return _FLOAT.sub(lambda found: f"{float(found[0]):.4f}", text)


def _of_result(result: SearchResult) -> Any:
    linked = [
        (relation.id, _of_result(child)["record"]) for relation, child in result.linked_results
    ]
    return {
        "record": _UUID.sub("<id>", repr(result.record)),
        "score": pytest.approx(result.score, abs=1e-4),
        "distance": pytest.approx(result.distance, abs=1e-4),
        "linked": linked,
        "names": result.explain.notes,
    }


async def answer(memory: AsyncAgentMemory, call: Call) -> Any:
    """Return what a call gives, or the error it ends with, as it can be compared."""
    try:
        return plain(await call(memory))
    except AgentMemoryError as error:
        return type(error).__name__, _UUID.sub("<id>", str(error))


@pytest.mark.parametrize("seed", range(4))
async def test_a_random_history_is_the_same_in_both(seed):
    await make_store_template()
    with oracle_server(WITH_STORE) as server:
        pool = new_pool()
        sqlite = AsyncAgentMemory(
            store=SqliteStore(":memory:"), embedder=WordVectors(), clock=FrozenClock(NOW)
        )
        oracle = AsyncAgentMemory(
            store=OracleStore(pool), embedder=WordVectors(), clock=FrozenClock(NOW)
        )
        history = History(Random(seed))
        said: list[Any] = []
        async with sqlite, oracle:
            for number in range(STEPS):
                for call in (history.step(), history.question()):
                    expected, found = await answer(sqlite, call), await answer(oracle, call)
                    assert found == expected, (seed, number)
                    said.append(expected)
        await pool.close(force=True)
        await server.settle()
        server.check_clean()
    errors = [item for item in said if isinstance(item, tuple)]
    results = [item for item in said if isinstance(item, list) and item]
    assert len(results) > 6
    assert len(errors) < len(said) // 3
