"""Operations of an Oracle store that are cancelled at random: nothing is left behind.

Each operation is real, on an emulated database, and is cancelled after a random number of turns of
the event loop, by `task.cancel()` or by an anyio scope, which keeps cancelling. Several run at once
on fewer connections, so that some are cancelled while they wait for a connection or for a lock.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import anyio
import numpy as np
import pytest

from agentmemory.errors import (
    AgentMemoryError,
    ConflictError,
    NotFoundError,
    StaleReadError,
    StoreBusyError,
    StoreUnavailableError,
)
from agentmemory.records import LINK_TYPES, RecordRelation, ScopedRecord, ThreadRecord
from agentmemory.requests import (
    CandidateQuery,
    Expansion,
    JobDraft,
    ListQuery,
    QueryTerm,
    RecordChanges,
    RecordFilter,
)
from agentmemory.scope import DimensionMatch, ScopeFilter
from agentmemory.stores.oracle.store import OracleStore
from tests.support.oracle.faults import FaultKind, Faults
from tests.support.oracle.server import OracleServer
from tests.support.oracle.store import (
    WITH_STORE,
    database_of,
    make_store_template,
    new_blocking_pool,
    new_pool,
    oracle_server,
)

OPERATIONS = 10_000
WORKERS = 6
CONNECTIONS = 4
_FOREVER = 1_000_000
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
USERS = ("ann", "ben", "cleo")
WORDS = ("kite", "wind", "river", "harbour", "lantern", "orchard")

LINKS = ("supports", "duplicates", "supersedes", "depends_on")

EXPECTED = (ConflictError, NotFoundError, StaleReadError)
"""What operations that meet one another may say."""


def _scope(user: str) -> ScopeFilter:
    return ScopeFilter(user=DimensionMatch(True, user))


def _vector(random: Random) -> Any:
    vector = np.array([random.gauss(0, 1) for _ in range(8)], dtype=np.float32)
    return vector / np.linalg.norm(vector)


def _link(name: str, one: str, two: str, relation_type: str) -> RecordRelation:
    return RecordRelation(
        id=name,
        source_record_id=one,
        source_record_type="memory",
        target_record_id=two,
        target_record_type="memory",
        relation_type=relation_type,
        opposite_relation_type=LINK_TYPES[relation_type],
        created_at=NOW,
    )


class Storm:
    """What workers do to one store.

    Args:
        store: Open.
        random: Decides everything.
        faults: Where faults are planned; None for a sound database.
    """

    def __init__(self, store: OracleStore, random: Random, faults: Faults | None = None) -> None:
        self.store = store
        self.random = random
        self.faults = faults
        # Several faults may meet one operation, more than it is tried again for.
        troubles = () if faults is None else (StoreUnavailableError, StoreBusyError)
        self.expected = (*EXPECTED, *troubles)
        self.number = 0
        self.outcomes: Counter[str] = Counter()
        self.lengths: dict[str, float] = {}
        self.operations = (
            self.add,
            self.add,
            self.talk,
            self.update,
            self.link,
            self.delete,
            self.search,
            self.search,
            self.list,
            self.expand,
            self.renew_vectors,
            self.work,
        )

    def next(self) -> int:
        """Return a fresh number."""
        self.number += 1
        return self.number

    def some(self) -> str:
        """Return the id of a record that may be there."""
        return f"r{self.random.randint(max(1, self.number - 40), max(1, self.number))}"

    def record(self, user: str, **fields: Any) -> ScopedRecord:
        """Return a new record."""
        text = " ".join(self.random.choices(WORDS, k=6))
        return ScopedRecord(
            **{
                "id": f"r{self.next()}",
                "record_type": "memory",
                "user_id": user,
                "content": text,
                "created_at": NOW,
                "updated_at": NOW,
                **fields,
            }
        )

    def filter(self, user: str, **fields: Any) -> RecordFilter:
        """Return a filter of one user's records."""
        return RecordFilter(scope=_scope(user), now=NOW, **fields)

    async def add(self, user: str) -> None:
        """Add two memories with their vectors and a link between them."""
        one, two = self.record(user), self.record(user, metadata={"n": self.number})
        link = _link(f"l{self.number}", one.id, two.id, self.random.choice(LINKS))
        vectors = {one.id: _vector(self.random), two.id: _vector(self.random)}
        await self.store.add_records((one, two), vectors=vectors, links=(link,))

    async def talk(self, user: str) -> None:
        """Add two messages to the user's thread, and a job; nobody deletes them."""
        turns = tuple(
            self.record(
                user,
                id=f"m{self.next()}",
                record_type="message",
                thread_id=f"t-{user}",
                role="user",
                actor="Zoe",
            )
            for _ in range(2)
        )
        name = turns[1].id.replace("m", "j")
        job = JobDraft(id=name, kind="extract", thread_id=f"t-{user}")
        await self.store.add_records(turns, jobs=(job,))

    async def update(self, user: str) -> None:
        """Change a record."""
        await self.store.update_record(
            self.filter(user, ids=(self.some(),)),
            RecordChanges(content=" ".join(self.random.choices(WORDS, k=5))),
            now=NOW,
        )

    async def link(self, user: str) -> None:
        """Link two records."""
        one, two = self.some(), self.some()
        await self.store.add_link(
            _link(f"k{self.next()}", one, two, self.random.choice(LINKS)),
            record_filter=self.filter(user),
            now=NOW,
        )

    async def delete(self, user: str) -> None:
        """Delete records."""
        await self.store.delete_records(self.filter(user, ids=(self.some(), self.some())))

    async def search(self, user: str) -> None:
        """Search by words and by a vector."""
        terms = tuple(QueryTerm(text=word) for word in self.random.sample(WORDS, 2))
        await self.store.candidates(
            CandidateQuery(
                filter=self.filter(user), pool=10, terms=terms, vector=_vector(self.random)
            )
        )

    async def list(self, user: str) -> None:
        """List records."""
        await self.store.list_records(ListQuery(filter=self.filter(user), limit=10))

    async def expand(self, user: str) -> None:
        """Follow links."""
        await self.store.expand(
            Expansion(filter=self.filter(user), roots=(self.some(),), hops=2, limit=5)
        )

    async def renew_vectors(self, user: str) -> None:
        """Renew a vector."""
        await self.store.put_vectors({self.some(): _vector(self.random)})

    async def work(self, user: str) -> None:
        """Lease a job."""
        await self.store.claim_jobs(
            owner=f"worker {user}", now=NOW, lease_until=NOW + timedelta(seconds=1), limit=2
        )

    async def one(self) -> None:
        """Run one operation and cancel it at random."""
        if self.faults is not None and self.random.random() < 0.15:
            self.spoil(self.faults)
        operation = self.random.choice(self.operations)
        user = self.random.choice(USERS)
        name = operation.__name__
        usual = self.lengths.get(name)
        # Some are left alone, which tells how long the others would take.
        probe = usual is None or self.random.random() < 0.2
        steps = _FOREVER if usual is None or probe else self.random.randint(0, round(1.2 * usual))
        cancelled = _by_scope if self.random.random() < 0.5 else _by_task
        turns = await cancelled(operation(user), steps, self.tell)
        if probe:
            self.lengths[name] = turns if usual is None else (3 * usual + turns) / 4

    def tell(self, error: BaseException | None) -> None:
        """Count how an operation ended.

        Raises:
            BaseException: It may not end like that.
        """
        if error is None:
            self.outcomes["done"] += 1
        elif isinstance(error, asyncio.CancelledError):
            self.outcomes["cancelled"] += 1
        elif isinstance(error, self.expected):
            self.outcomes[type(error).__name__] += 1
        else:
            raise error

    def spoil(self, faults: Faults) -> None:
        """Have one of the next requests go wrong, if it is of the right kind."""
        faults.planned = [fault for fault in faults.planned if fault.seen < fault.at]
        kind = self.random.choice(
            (FaultKind.LOST_BEFORE, FaultKind.LOST_AFTER, FaultKind.ERROR, FaultKind.ERROR)
        )
        faults.add(
            kind,
            at=self.random.randint(1, 4),
            trip=self.random.choice((None, None, "commit"))
            if kind is not FaultKind.ERROR
            else None,
            statement=r"^\s*(UPDATE|INSERT|SELECT)" if kind is FaultKind.ERROR else None,
            code=self.random.choice((54, 60, 8177)),
        )


Tell = Callable[[BaseException | None], None]


async def _by_task(work: Any, steps: int, tell: Tell) -> int:
    task = asyncio.get_running_loop().create_task(work)
    turns = 0
    while turns < steps and not task.done():
        await asyncio.sleep(0)
        turns += 1
    task.cancel()
    await asyncio.wait((task,))
    tell(asyncio.CancelledError() if task.cancelled() else task.exception())
    return turns


async def _by_scope(work: Any, steps: int, tell: Tell) -> int:
    turns = 0
    over = False
    with anyio.CancelScope() as scope:

        async def run() -> None:
            nonlocal over
            try:
                await work
            except AgentMemoryError as error:
                tell(error)
            else:
                tell(None)
            over = True

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            while turns < steps and not over:
                await asyncio.sleep(0)
                turns += 1
            if not over:
                scope.cancel()
    if not over:
        tell(asyncio.CancelledError())
    return turns


CHECKS = {
    "records without a chunk": "SELECT count(*) FROM {s}default_record r WHERE NOT EXISTS "
    "(SELECT 1 FROM {s}default_chunk c WHERE c.record_seq = r.seq AND c.position = 0)",
    "chunks that differ from their record": "SELECT count(*) FROM {s}default_chunk c "
    "JOIN {s}default_record r ON r.seq = c.record_seq WHERE c.status <> r.status "
    "OR c.tier <> r.tier OR c.user_id <> r.user_id",
    "jobs without their messages": "SELECT count(*) FROM {s}default_job j WHERE NOT EXISTS "
    "(SELECT 1 FROM {s}default_record r WHERE r.id = replace(j.id, 'j', 'm'))",
    "halves of turns": "SELECT abs(count(*) - 2 * (SELECT count(*) FROM {s}default_job)) "
    "FROM {s}default_record WHERE record_type = 'message'",
    "rows of transactions": "SELECT count(*) FROM {s}default_gone__rows",
}
"""What must never be found, by what it would be."""


@pytest.fixture
async def server():
    await make_store_template()
    with oracle_server(WITH_STORE) as server:
        yield server


async def _wait_until_idle(server: OracleServer, pool: Any) -> None:
    with anyio.fail_after(10):
        while pool.busy:
            await anyio.sleep(0.01)
    await server.settle()


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("new_pool", "operations", "sound"),
    [
        pytest.param(new_pool, OPERATIONS, True, id="sound"),
        pytest.param(new_pool, OPERATIONS // 10, False, id="faults"),
        pytest.param(new_blocking_pool, OPERATIONS // 20, True, id="blocking"),
        pytest.param(new_blocking_pool, OPERATIONS // 20, False, id="blocking, faults"),
    ],
)
async def test_nothing_is_left_behind_by_what_was_cancelled_anywhere(
    server, new_pool, operations, sound
):
    pool = new_pool(min=1, max=CONNECTIONS)
    store = OracleStore(pool)
    await store.open()
    for user in USERS:
        await store.add_thread(
            ThreadRecord(
                id=f"t-{user}", user_id=user, agent_id=None, created_at=NOW, updated_at=NOW
            )
        )
    storm = Storm(store, Random(20260301), None if sound else server.faults)
    left = operations
    while left:
        batch = min(left, 500)
        left -= batch
        shares = iter(range(batch))

        async def worker(shares=shares) -> None:
            for _ in shares:
                await storm.one()

        async with anyio.create_task_group() as group:
            for _ in range(WORKERS):
                group.start_soon(worker)
        await _wait_until_idle(server, pool)
        assert pool.opened <= CONNECTIONS
        server.check_clean()
    assert storm.outcomes.total() == operations
    assert storm.outcomes["cancelled"] > operations // 4
    assert storm.outcomes["done"] > operations // 10
    assert sound or len(server.faults.came) > operations // 20
    server.faults.planned.clear()
    database = database_of(server)
    found = {name: database.run(sql.format(s="memory_app."))[0][0] for name, sql in CHECKS.items()}
    assert found == dict.fromkeys(CHECKS, 0)
    assert (await store.stats(NOW + timedelta(days=1))).records
    await store.close()
    closing = pool.close()
    if closing is not None:
        await closing
    await server.settle()
    assert not server.open_sessions


async def test_the_storm_itself_fails_on_an_error_that_is_none_of_the_expected(server):
    storm = Storm(OracleStore(pool := new_pool()), Random(1))

    async def fails() -> None:
        raise AgentMemoryError("boom")

    with pytest.raises(AgentMemoryError):
        await _by_task(fails(), 5, storm.tell)
    with pytest.raises(ExceptionGroup):
        await _by_scope(fails(), 5, storm.tell)
    assert not storm.outcomes
    await pool.close(force=True)
