"""Nobody sees another's memory: a random history over users whose ids look alike, on every path."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from agentmemory import (
    AsyncAgentMemory,
    ConflictError,
    NotFoundError,
    ScopedRecord,
    ScopeError,
    SearchResult,
)
from agentmemory.testing import HashEmbedder
from agentmemory.testing.conformance.lists import PNG

# Alike under case folding, normalisation, trimming, LIKE patterns and prefixes.
USERS = ("ann", "Ann", "ann ", "an", "a%n", "ann\u0301", None)
THREE = st.lists(st.sampled_from(USERS), min_size=3, max_size=3, unique=True)
WORDS = ("lantern", "kite", "ferry", "orchard")
AGENTS = st.sampled_from(("a1", "A1", None))
PICK = st.integers(0, 10**6)

STEPS = 30
EXAMPLES = 40


def secret_of(user: str | None) -> str:
    """Return the word that stands in every record of a user and in nobody else's."""
    return f"mark{USERS.index(user)}"


class Isolation(RuleBasedStateMachine):
    """Several users write and link as they like; each only ever sees what is marked as theirs."""

    steps = 0
    loop: asyncio.AbstractEventLoop
    memory: AsyncAgentMemory

    @initialize(users=THREE)
    def open(self, users: list[str | None]) -> None:
        self.loop = asyncio.new_event_loop()
        self.memory = self.new_memory()
        self.users = users
        self.owner: dict[str, str | None] = {}
        self.threads: dict[str, str | None] = {}
        self.memories: list[str] = []
        self.links: dict[str, str | None] = {}
        self.images: list[str] = []
        self.count = 0

    def new_memory(self) -> AsyncAgentMemory:
        """Return a memory with nothing in it; other stores override it."""
        return AsyncAgentMemory(":memory:", embedder=HashEmbedder(16))

    def teardown(self) -> None:
        if hasattr(self, "memory"):
            self.run(self.memory.close())
            self.loop.close()

    def run(self, awaitable: Any) -> Any:
        return self.loop.run_until_complete(awaitable)

    def user(self, pick: int) -> str | None:
        return self.users[pick % len(self.users)]

    def text(self, user: str | None) -> str:
        self.count += 1
        word = WORDS[self.count % len(WORDS)]
        return f"{word} {secret_of(user)} number {self.count}"

    def mine(self, user: str | None, kept: list[str]) -> list[str]:
        return [name for name in kept if self.owner.get(name) == user]

    def check(self, user: str | None, item: Any) -> None:
        """Look into a record or a result, and into all that hangs below it."""
        record = item.record if isinstance(item, SearchResult) else item
        assert isinstance(record, ScopedRecord)
        assert record.user_id == user, (user, record)
        assert secret_of(user) in record.content, (user, record)
        foreign = {secret_of(other) for other in self.users if other != user}
        assert not any(word in repr(item) for word in foreign), (user, item)
        if isinstance(item, SearchResult):
            assert not any(word in item.formatted_content for word in foreign)
            for relation, child in item.linked_results:
                assert self.links.get(relation.id) == user
                self.check(user, child)

    @rule(pick=PICK, agent=AGENTS)
    def make_thread(self, pick: int, agent: str | None) -> None:
        user = self.user(pick)
        thread = self.run(self.memory.create_thread(user_id=user, agent_id=agent))
        self.threads[thread.thread_id] = user

    @precondition(lambda self: self.threads)
    @rule(pick=PICK, count=st.integers(1, 3))
    def talk(self, pick: int, count: int) -> None:
        name = sorted(self.threads)[pick % len(self.threads)]
        user = self.threads[name]
        thread = self.run(self.memory.get_thread(name, user_id=user))
        texts = [self.text(user) for _ in range(count)]
        made = self.run(
            thread.add_messages(
                [{"role": "user", "content": text, "name": secret_of(user)} for text in texts]
            )
        )
        self.owner.update(dict.fromkeys(made, user))

    @rule(pick=PICK, agent=AGENTS, kind=st.sampled_from(("memory", "fact", "preference")))
    def remember(self, pick: int, agent: str | None, kind: Any) -> None:
        user = self.user(pick)
        name = self.run(
            self.memory.add_memory(self.text(user), user_id=user, agent_id=agent, memory_type=kind)
        )
        self.owner[name] = user
        self.memories.append(name)

    @rule(pick=PICK)
    def add_image(self, pick: int) -> None:
        user = self.user(pick)
        name = self.run(self.memory.add_image(PNG, description=self.text(user), user_id=user))
        self.owner[name] = user
        self.images.append(name)

    @rule(pick=PICK)
    def introduce(self, pick: int) -> None:
        user = self.user(pick)
        if user is None:
            return
        try:
            self.run(self.memory.add_user(user, self.text(user)))
        except ConflictError:
            self.check(user, self.run(self.memory.get_user(user)))

    @precondition(lambda self: len(self.memories) > 1)
    @rule(
        one=PICK,
        two=PICK,
        kind=st.sampled_from(("supersedes", "duplicates", "supports", "depends_on", "resembles")),
        scoped=st.booleans(),
    )
    def link(self, one: int, two: int, kind: str, scoped: bool) -> None:
        source = self.memories[one % len(self.memories)]
        target = self.memories[two % len(self.memories)]
        if source == target:
            return
        owner = self.owner[source]
        scope: Any = {"user_id": owner} if scoped else {}
        try:
            made = self.run(self.memory.link_records(source, target, kind, **scope))
        except (NotFoundError, ScopeError):
            assert owner != self.owner[target]
        except ConflictError:
            assert owner == self.owner[target]
        else:
            assert owner == self.owner[target]
            self.links[made.id] = owner

    @precondition(lambda self: self.threads)
    @rule(pick=PICK, other=PICK)
    def write_into_a_thread_of_somebody_else(self, pick: int, other: int) -> None:
        name = sorted(self.threads)[pick % len(self.threads)]
        user = self.user(other)
        if user == self.threads[name]:
            return
        try:
            self.run(self.memory.add_memory(self.text(user), user_id=user, thread_id=name))
        except NotFoundError:
            return
        raise AssertionError("a memory was written into the thread of another user")

    @precondition(lambda self: self.owner)
    @rule(pick=PICK, other=PICK)
    def reach_for_a_record_of_somebody_else(self, pick: int, other: int) -> None:
        name = sorted(self.owner)[pick % len(self.owner)]
        user = self.user(other)
        if user == self.owner[name]:
            return
        calls = (
            lambda: self.memory.store.get(name, user_id=user),
            lambda: self.memory.get_memory(name, user_id=user),
            lambda: self.memory.update_memory(name, content="stolen", user_id=user),
            lambda: self.memory.delete_memory(name, user_id=user),
            lambda: self.memory.get_image(name, include_bytes=True, user_id=user),
            lambda: self.memory.update_image(name, description="stolen", user_id=user),
            lambda: self.memory.delete_image(name, user_id=user),
        )
        for call in calls:
            try:
                self.run(call())
            except NotFoundError:
                continue
            raise AssertionError(f"{name} of {self.owner[name]!r} was open to {user!r}")

    @precondition(lambda self: self.links)
    @rule(pick=PICK, other=PICK)
    def reach_for_a_link_of_somebody_else(self, pick: int, other: int) -> None:
        name = sorted(self.links)[pick % len(self.links)]
        user = self.user(other)
        if user == self.links[name]:
            return
        for call in (
            lambda: self.memory.update_record_link(name, metadata={"k": 1}, user_id=user),
            lambda: self.memory.delete_record_link(name, user_id=user),
        ):
            try:
                self.run(call())
            except NotFoundError:
                continue
            raise AssertionError(f"link {name} was open to {user!r}")

    @precondition(lambda self: self.memories)
    @rule(pick=PICK)
    def delete_one(self, pick: int) -> None:
        name = self.memories.pop(pick % len(self.memories))
        user = self.owner.pop(name)
        self.run(self.memory.delete_memory(name, user_id=user))

    @rule(pick=PICK)
    def forget_one(self, pick: int) -> None:
        if pick % 5:
            return
        user = self.user(pick // 5)
        self.run(self.memory.forget(user_id=user))
        gone = {name for name, owner in self.owner.items() if owner == user}
        self.owner = {name: owner for name, owner in self.owner.items() if name not in gone}
        self.memories = [name for name in self.memories if name not in gone]
        self.images = [name for name in self.images if name not in gone]
        self.threads = {name: owner for name, owner in self.threads.items() if owner != user}

    @rule(pick=PICK, word=st.sampled_from((*WORDS, "number")), foreign=PICK, hops=st.integers(0, 3))
    def search(self, pick: int, word: str, foreign: int, hops: int) -> None:
        user = self.user(pick)
        # Asking for another user's mark by name must not help.
        query = f"{word} {secret_of(self.user(foreign))}"
        hits = self.run(self.memory.search(query, user_id=user, max_results=100, num_hops=hops))
        for hit in hits:
            self.check(user, hit)
        note(f"{user!r}: {len(hits)} hits")

    @rule(pick=PICK, agent=AGENTS)
    def search_the_store(self, pick: int, agent: str | None) -> None:
        user = self.user(pick)
        hits = self.run(
            self.memory.store.search(
                "number", user_id=user, agent_id=agent, exact_agent_match=False, num_hops=2
            )
        )
        for hit in hits:
            self.check(user, hit)

    @precondition(lambda self: self.threads)
    @rule(pick=PICK, foreign=PICK)
    def ask_a_thread(self, pick: int, foreign: int) -> None:
        name = sorted(self.threads)[pick % len(self.threads)]
        user = self.threads[name]
        thread = self.run(self.memory.get_thread(name))
        mark = secret_of(self.user(foreign))
        for hit in self.run(thread.search(f"number {mark}", num_hops=2)):
            self.check(user, hit)
        for item in (*self.run(thread.get_messages()), *self.run(thread.list_memories())):
            self.check(user, item)
        card = self.run(
            thread.get_context_card(
                query=f"number {mark}", max_relevant_results=20, max_recent_messages=5
            )
        )
        texts = (card.content, self.run(thread.get_summary()).content)
        for other in self.users:
            if other != user:
                assert not any(secret_of(other) in text for text in texts)

    @invariant()
    def lists_show_exactly_what_is_ones_own(self) -> None:
        if not hasattr(self, "memory"):
            return
        type(self).steps += 1
        if self.count % 4:
            return
        for user in self.users:
            memories = self.run(self.memory.list_memories(user_id=user, limit=1000))
            assert sorted(item.id for item in memories) == sorted(self.mine(user, self.memories))
            messages = self.run(self.memory.list_messages(user_id=user, limit=1000))
            images = self.run(self.memory.list_images(user_id=user, limit=1000))
            assert sorted(item.id for item in images) == sorted(self.mine(user, self.images))
            for item in (*memories, *messages, *images):
                self.check(user, item)
            threads = self.run(self.memory.list_threads(user_id=user))
            assert {item.id for item in threads} == {
                name for name, owner in self.threads.items() if owner == user
            }
            for relation in self.run(self.memory.list_record_links(user_id=user, limit=1000)):
                assert self.links[relation.id] == user


def run_isolation(machine: type[Isolation], *, examples: int, steps: int) -> None:
    """Run a machine through histories that are the same each time."""
    machine.steps = 0
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=STEPS,
            derandomize=True,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )
    assert machine.steps >= steps


def test_nobody_ever_sees_anothers_memory() -> None:
    run_isolation(Isolation, examples=EXAMPLES, steps=500)
