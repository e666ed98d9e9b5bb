"""Deletes on an Oracle store, with everything that was derived from what goes.

A delete is one transaction: it locks the threads whose messages go, gathers and locks the records,
looks what else that touches, removes all of it and rewrites what others held of it. Only expired
records go in batches, for nobody expects them to go together. May import requests, gone, settling,
indexing, embedder, writes and below.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from agentmemory.errors import NotFoundError
from agentmemory.outbox import renewals
from agentmemory.requests import Deletion, Expectation, RecordFilter
from agentmemory.scope import ScopeFilter
from agentmemory.stores.index_fields import TokenMemo
from agentmemory.stores.lifecycle import LinkGraph, Node
from agentmemory.stores.oracle import gone
from agentmemory.stores.oracle.embedder import Claim
from agentmemory.stores.oracle.indexing import (
    drop_vectors,
    from_row,
    held_vectors,
    index_anew,
    put_vectors,
    read_sources,
)
from agentmemory.stores.oracle.lists import in_parts
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.settling import (
    changes,
    heads,
    heads_of,
    load_dependants,
    load_dependencies,
    lock_nodes,
    review_records,
)
from agentmemory.stores.oracle.statement import Statement, Transaction
from agentmemory.stores.oracle.trips import Rows, Trip
from agentmemory.stores.oracle.writes import (
    check_expectations,
    insert_jobs,
    lock_expected,
    no_thread,
)

if TYPE_CHECKING:
    from agentmemory.requests import FloatVector

EXPIRED_BATCH: Final = 1000
"""How many expired records go in one transaction."""


class Removal:
    """Takes away what was gathered, and rewrites what others held of it.

    Args:
        t: The store's tables.
        now: The time of the change.
        vectors: New vectors of survivors by record id.
        derived: Whether memories that came from what goes follow it; not when it expired, for a
            memory may outlive the talk it came from.
    """

    deletion: Deletion
    """What was removed, once `run` has returned."""

    def __init__(
        self,
        t: Tables,
        now: datetime,
        *,
        vectors: Mapping[str, FloatVector] | None = None,
        derived: bool = True,
    ) -> None:
        self._t = t
        self._now = now
        self._vectors = vectors or {}
        self._derived = derived
        self.records: Rows = []
        """Seq and id of some of the records that go."""
        self.threads: Rows = []
        """Ids of some of the threads that go."""

    async def run(self, transaction: Transaction) -> Trip:
        """Do everything but the last trip, which is returned."""
        t = self._t
        trip = Trip()
        counted = _ask_counts(t, trip)
        before, after = (trip.add(gone.neighbours(t, side)) for side in ("before", "after"))
        freed = trip.add(gone.freed(t))
        orphans = trip.add(gone.orphans(t))
        partly = trip.add(gone.partly(t)) if self._derived else []
        self.records = trip.add(gone.sample(t))
        self.threads = trip.add(gone.sample_threads(t))
        await trip.run(transaction)
        counts = _counts(counted)
        marked, statements = await self._marks(transaction, dict(orphans), dict(partly))
        counts["review"] = marked

        freed_seqs = [row[0] for row in freed]
        stale_seqs = {row[0] for row in after}
        touched = sorted(stale_seqs | {row[0] for row in before})
        counts["reindexed"] = len(touched)
        for statement in (*statements, *gone.delete_all(t)):
            trip.add(statement)
        nodes = trip.add(*in_parts(partial(lock_nodes, t), freed_seqs))
        latest = trip.add(*in_parts(partial(heads, t), freed_seqs))
        sources = trip.add(*in_parts(partial(read_sources, t), touched))
        held = trip.add(*in_parts(partial(held_vectors, t), sorted(stale_seqs)))
        await trip.run(transaction)

        if nodes:
            graph = LinkGraph()
            for row in nodes:
                graph.add(Node(*row))
            await load_dependants(transaction, t, graph, freed_seqs)
            await load_dependencies(transaction, t, graph)
            graph.settle(heads_of(freed_seqs, latest))
            for statement in changes(t, graph, self._now):
                trip.add(statement)
        survivors = [from_row(row) for row in sources]
        for statement in (
            *in_parts(partial(drop_vectors, t), sorted(stale_seqs)),
            *index_anew(t, survivors, TokenMemo()),
            *put_vectors(t, self._vectors),
            *gone.clear(t),
        ):
            trip.add(statement)
        lacking = renewals([row[0] for row in held if row[0] not in self._vectors])
        if lacking:
            trip.add(insert_jobs(t, lacking, self._now))
        self.deletion = Deletion(
            counts=_nonzero(counts),
            stale=tuple(
                survivor.id
                for survivor in survivors
                if survivor.seq in stale_seqs and survivor.id not in self._vectors
            ),
        )
        return trip

    async def _marks(
        self, transaction: Transaction, orphans: Mapping[int, str], partly: Mapping[int, str]
    ) -> tuple[int, list[Statement]]:
        """Return how many survivors are marked for review, and the statements that do it."""
        if not (orphans or partly):
            return 0, []
        t = self._t
        trip = Trip()
        nodes = trip.add(*in_parts(partial(lock_nodes, t), sorted({*orphans, *partly})))
        await trip.run(transaction)
        graph = LinkGraph()
        for row in nodes:
            graph.add(Node(*row))
        marked = 0
        if orphans:
            await load_dependants(transaction, t, graph, orphans)
            going = trip.add(*in_parts(partial(gone.among, t), graph.nodes))
            await trip.run(transaction)
            there = {seq: cause for seq, cause in orphans.items() if seq in graph.nodes}
            marked = graph.orphan(there, {row[0] for row in going})
        for seq, cause in partly.items():
            if seq in graph.nodes:
                marked += 1
                graph.nodes[seq].review_reason = f"came partly from {cause}, which was deleted"
        statements = changes(t, graph, self._now)
        return marked, [*statements, gone.delete_named(t)] if partly else statements


async def remove_records(
    transaction: Transaction,
    t: Tables,
    record_filter: RecordFilter,
    *,
    claim: Claim,
    expects: Sequence[Expectation] = (),
    vectors: Mapping[str, FloatVector] | None = None,
) -> tuple[Removal, Trip]:
    """Delete what the filter lets through and rewrite what others held of it.

    Returns:
        What was removed, and the last trip of the work, which is still to be made.
    """
    trip = Trip()
    tied = claim.ask(trip)
    trip.add(gone.lock_talks(t, record_filter))
    revisions = trip.add(lock_expected(t, expects)) if expects else []
    _start(t, trip, gone.add_filtered(t, record_filter))
    trip.add(gone.lock(t), gone.keep_changed(t, record_filter))
    counts = _ask_derived(t, trip, any_source=False)
    await trip.run(transaction)
    await claim.check(transaction, tied)
    check_expectations(expects, revisions)
    await _gather_derived(transaction, t, counts, any_source=False)
    removal = Removal(t, record_filter.now, vectors=vectors)
    return removal, await removal.run(transaction)


async def remove_expired(
    transaction: Transaction, t: Tables, record_filter: RecordFilter
) -> tuple[Removal, Trip]:
    """Delete one batch of expired records; what came from them stays."""
    trip = Trip()
    trip.add(*gone.clear(t), gone.add_expired(t, record_filter, EXPIRED_BATCH))
    trip.add(gone.lock_gathered_talks(t), gone.lock(t), gone.keep_changed(t, record_filter))
    await trip.run(transaction)
    removal = Removal(t, record_filter.now, derived=False)
    return removal, await removal.run(transaction)


async def retire_derived(
    transaction: Transaction, t: Tables, message_ids: Iterable[str], now: datetime
) -> tuple[Removal, Trip]:
    """Delete what came from some messages alone; mark for review what came partly from them.

    The messages themselves stay: they say something else now.
    """
    ids = list(message_ids)
    trip = Trip()
    _start(t, trip, gone.add_derived_alone(t, ids))
    trip.add(gone.lock(t))
    partly = trip.add(gone.touched(t, ids))
    await trip.run(transaction)
    reason = "came partly from a message that was changed"
    if partly:
        trip.add(review_records(t, dict.fromkeys((row[0] for row in partly), reason)))
        await trip.run(transaction)
    removal = Removal(t, now)
    return removal, await removal.run(transaction)


async def remove_thread(
    transaction: Transaction, t: Tables, thread_id: str, now: datetime
) -> tuple[Removal, Trip]:
    """Delete a thread, every record in it and what came from its messages alone.

    Raises:
        NotFoundError: There is none.
    """
    trip = Trip()
    _start(t, trip, gone.add_thread(t, thread_id))
    found = trip.add(gone.lock_threads(t))
    trip.add(gone.add_of_threads(t), gone.lock(t))
    counts = _ask_derived(t, trip, any_source=False)
    await trip.run(transaction)
    if not found:
        raise NotFoundError(no_thread(thread_id))
    await _gather_derived(transaction, t, counts, any_source=False)
    removal = Removal(t, now)
    return removal, await removal.run(transaction)


async def remove_scope(
    transaction: Transaction, t: Tables, scope: ScopeFilter, now: datetime, *, any_source: bool
) -> tuple[Removal, Trip]:
    """Delete every thread and record of a scope, whatever its status, tier or expiry.

    Args:
        transaction: One that writes.
        t: The store's tables.
        scope: Its exact dimensions bound what goes.
        now: The time of the change.
        any_source: Whether a memory that came from a deleted message goes although it came from
            others too.
    """
    trip = Trip()
    _start(t, trip, *_threads_of(t, scope))
    trip.add(gone.lock_threads(t), gone.lock_scope_talks(t, scope))
    trip.add(gone.add_scope(t, scope), gone.add_of_threads(t), gone.lock(t))
    counts = _ask_derived(t, trip, any_source=any_source)
    await trip.run(transaction)
    await _gather_derived(transaction, t, counts, any_source=any_source)
    removal = Removal(t, now)
    return removal, await removal.run(transaction)


async def count_scope(
    transaction: Transaction, t: Tables, scope: ScopeFilter, *, any_source: bool
) -> Deletion:
    """Count what `remove_scope` would remove, and change and lock nothing."""
    trip = Trip()
    _start(t, trip, *_threads_of(t, scope))
    trip.add(gone.add_scope(t, scope), gone.add_of_threads(t))
    counts = _ask_derived(t, trip, any_source=any_source, locked=False)
    await trip.run(transaction)
    await _gather_derived(transaction, t, counts, any_source=any_source, locked=False)
    counted = _ask_counts(t, trip)
    trip.add(*gone.clear(t))
    await trip.finish(transaction)
    return Deletion(counts=_nonzero(_counts(counted)))


def _threads_of(t: Tables, scope: ScopeFilter) -> tuple[Statement, ...]:
    """Return what gathers the threads of a scope; a thread is never "without a thread"."""
    if scope.thread.exact and scope.thread.value is None:
        return ()
    return (gone.add_threads(t, scope),)


def _start(t: Tables, trip: Trip, *statements: Statement) -> None:
    trip.add(*gone.clear(t), *statements)


def _ask_derived(
    t: Tables, trip: Trip, *, any_source: bool, locked: bool = True
) -> tuple[Rows, Rows]:
    """Gather what came from what goes, twice, and count after each time.

    Memories come from messages, and rarely anything comes from memories: the second time finds
    nothing, mostly, and both counts are the same.
    """
    counts = []
    for _ in range(2):
        trip.add(gone.add_derived(t, any_source=any_source))
        if locked:
            trip.add(gone.lock(t))
        counts.append(trip.add(gone.count(t)))
    return counts[0], counts[1]


async def _gather_derived(
    transaction: Transaction,
    t: Tables,
    counts: tuple[Rows, Rows],
    *,
    any_source: bool,
    locked: bool = True,
) -> None:
    """Gather on until nothing is added."""
    while counts[0] != counts[1]:
        trip = Trip()
        counts = _ask_derived(t, trip, any_source=any_source, locked=locked)
        await trip.run(transaction)


def _ask_counts(t: Tables, trip: Trip) -> tuple[Rows, dict[str, Rows]]:
    types = trip.add(gone.count_types(t))
    return types, {kind: trip.add(statement) for kind, statement in gone.counts(t).items()}


def _counts(counted: tuple[Rows, dict[str, Rows]]) -> Counter[str]:
    types, others = counted
    counts: Counter[str] = Counter(dict(types))
    counts.update({kind: rows[0][0] for kind, rows in others.items()})
    return counts


def _nonzero(counts: Counter[str]) -> dict[str, int]:
    return {kind: count for kind, count in sorted(counts.items()) if count}
