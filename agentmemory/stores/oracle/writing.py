"""Methods of the Oracle store that write threads, records, vectors and links.

Each is one unit of work that may be run again. When a commit got no answer, the store looks by id
whether it took effect. May import the other modules of this folder but the store itself.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from anyio import to_thread

from agentmemory.errors import ConflictError, NotFoundError, ScopeError, StoreError
from agentmemory.records import ImageContent, RecordRelation, ScopedRecord, ThreadRecord, Tier
from agentmemory.requests import (
    Deletion,
    Erasure,
    Expansion,
    Expectation,
    JobDraft,
    LinkChanges,
    LinkedNode,
    LinkQuery,
    Page,
    RecordChanges,
    RecordFilter,
    ThreadChanges,
    ThreadTail,
)
from agentmemory.scope import ScopeFilter
from agentmemory.stores.oracle import deletes, erasure
from agentmemory.stores.oracle.embedder import OracleEmbedderClaim
from agentmemory.stores.oracle.expansion import expand
from agentmemory.stores.oracle.images import image_from_row, read_images
from agentmemory.stores.oracle.indexing import Draft, draft, put_vectors
from agentmemory.stores.oracle.links import (
    change_link,
    has_values,
    insert_link,
    link_from_row,
    list_links,
    page_of_links,
    read_link_by_id,
    remove_link,
)
from agentmemory.stores.oracle.rows import record_from_row, thread_from_row
from agentmemory.stores.oracle.search_indexes import SearchIndexes
from agentmemory.stores.oracle.statement import Statement, Transaction
from agentmemory.stores.oracle.trips import Trip
from agentmemory.stores.oracle.updates import change_record, change_thread, took_effect
from agentmemory.stores.oracle.writes import (
    NewRecords,
    check_expectations,
    insert_thread,
    lock_expected,
    no_thread,
    read_thread,
    read_written,
    taken_jobs,
)

if TYPE_CHECKING:
    from agentmemory.requests import FloatVector

T = TypeVar("T")

Work = Callable[[Transaction], Awaitable[T]]
Settled = Callable[[Transaction], Awaitable[T | None]]
Removing = Callable[[Transaction], Awaitable[tuple[deletes.Removal, Trip]]]

_LARGE_CHARS: Final = 20_000
"""How much text is analysed without a thread: some milliseconds' worth."""

_EVERY_TIER: Final = tuple(Tier)

_logger = logging.getLogger("agentmemory")


class OracleUnits(OracleEmbedderClaim):
    """Units of work of an Oracle store that write."""

    async def _write(
        self, work: Work[T], settled: Settled[T], *, timeout_s: float | None = None
    ) -> T:
        """Run a unit of work, once more if somebody took the same id at the same time.

        What neither of the two saw when it looked shows when it looks again, and then the error
        says what is taken.
        """
        try:
            return await self._engine.write(work, timeout_s=timeout_s, settled=settled)
        except ConflictError as error:
            # An error of ours, about what was read, has no cause.
            if error.__cause__ is None:
                raise
        return await self._engine.write(work, timeout_s=timeout_s, settled=settled)


class OracleWriting(OracleUnits):
    """The part of an Oracle store that keeps threads and records."""

    _indexes: SearchIndexes

    async def add_thread(self, thread: ThreadRecord) -> ThreadRecord:
        """Store a new thread."""

        async def work(transaction: Transaction) -> ThreadRecord:
            if (await transaction.run(read_thread(self._t, thread.id)))[0]:
                msg = f"thread {thread.id!r} exists already; open it with `get_thread`"
                raise ConflictError(msg)
            await transaction.finish(insert_thread(self._t, thread))
            return thread

        async def settled(transaction: Transaction) -> ThreadRecord | None:
            (rows,) = await transaction.run(read_thread(self._t, thread.id))
            return (
                thread if rows and _is_same(thread_from_row(rows[0]), thread, "user_id") else None
            )

        return await self._write(work, settled)

    async def get_thread(self, thread_id: str) -> ThreadRecord:
        """Return a thread."""

        async def work(transaction: Transaction) -> ThreadRecord:
            (rows,) = await transaction.run(read_thread(self._t, thread_id))
            if not rows:
                raise NotFoundError(no_thread(thread_id))
            return thread_from_row(rows[0])

        return await self._engine.read(work)

    async def update_thread(
        self, thread_id: str, changes: ThreadChanges, *, now: datetime
    ) -> ThreadRecord:
        """Change what `changes` names of a thread."""

        async def settled(transaction: Transaction) -> ThreadRecord | None:
            (rows,) = await transaction.run(read_thread(self._t, thread_id))
            thread = thread_from_row(rows[0]) if rows else None
            return thread if thread is not None and took_effect(thread, changes, now) else None

        return await self._write(
            lambda transaction: change_thread(transaction, self._t, thread_id, changes, now),
            settled,
        )

    async def delete_thread(self, thread_id: str, *, now: datetime) -> Deletion:
        """Delete a thread and every record in it."""
        removal = await self._remove(
            lambda transaction: deletes.remove_thread(transaction, self._t, thread_id, now)
        )
        return removal.deletion

    async def add_records(
        self,
        records: Sequence[ScopedRecord],
        *,
        vectors: Mapping[str, FloatVector] | None = None,
        tail: ThreadTail | None = None,
        jobs: Sequence[JobDraft] = (),
        links: Sequence[RecordRelation] = (),
        link_filter: RecordFilter | None = None,
        images: Mapping[str, ImageContent] | None = None,
    ) -> tuple[ScopedRecord, ...]:
        """Store new records, their index rows and jobs; all or nothing."""
        now = max((record.created_at for record in records), default=datetime.now(UTC))
        everywhere = RecordFilter(scope=ScopeFilter(), now=now, tiers=_EVERY_TIER)
        ids = [record.id for record in records]
        drafts = await drafted(records)

        async def work(transaction: Transaction) -> tuple[ScopedRecord, ...]:
            trip = Trip()
            claim = self._claim(vectors)
            tied = claim.ask(trip)
            new = NewRecords(
                self._t,
                records,
                vectors=vectors,
                tail=tail,
                jobs=jobs,
                images=images,
                drafts=drafts,
            )
            new.ask(trip)
            await trip.run(transaction)
            await claim.check(transaction, tied)
            new.check()
            new.ask_long(trip)
            await trip.run(transaction)
            new.write(trip, now)
            if links:
                await trip.run(transaction)
                for link in links:
                    _, pending = await insert_link(
                        transaction, self._t, link, link_filter or everywhere, now
                    )
                    await pending.run(transaction)
            # Links may have changed them.
            linked = trip.add(read_written(self._t, ids)) if links and ids else []
            await trip.finish(transaction)
            return tuple(map(record_from_row, linked)) if linked else new.stored()

        async def settled(transaction: Transaction) -> tuple[ScopedRecord, ...] | None:
            if not ids:
                (rows,) = await transaction.run(taken_jobs(self._t, [job.id for job in jobs]))
                return () if jobs and {row[0] for row in rows} >= {job.id for job in jobs} else None
            (rows,) = await transaction.run(read_written(self._t, ids))
            stored = tuple(map(record_from_row, rows))
            found = {record.id: record for record in stored}
            same = all(
                record.id in found and _is_same(found[record.id], record, "content")
                for record in records
            )
            return stored if same else None

        return await self._write(work, settled)

    async def get_images(
        self, ids: Sequence[str], *, include_bytes: bool
    ) -> Mapping[str, ImageContent]:
        """Return what is stored of images by record id; the files only if asked for."""
        if not ids:
            return {}

        async def work(transaction: Transaction) -> Mapping[str, ImageContent]:
            (rows,) = await transaction.run(read_images(self._t, ids, include_bytes=include_bytes))
            return dict(map(image_from_row, rows))

        return await self._engine.read(work)

    async def update_record(
        self,
        record_filter: RecordFilter,
        changes: RecordChanges,
        *,
        now: datetime,
        expects: Sequence[Expectation] = (),
        vectors: Mapping[str, FloatVector] | None = None,
        jobs: Sequence[JobDraft] = (),
        image: ImageContent | None = None,
    ) -> ScopedRecord:
        """Change what `changes` names of one record."""

        async def work(transaction: Transaction) -> ScopedRecord:
            return await change_record(
                transaction,
                self._t,
                record_filter,
                changes,
                claim=self._claim(vectors),
                now=now,
                expects=expects,
                vectors=vectors,
                jobs=jobs,
                image=image,
            )

        async def settled(transaction: Transaction) -> ScopedRecord | None:
            (rows,) = await transaction.run(read_written(self._t, record_filter.ids or ()))
            record = record_from_row(rows[0]) if rows else None
            return record if record is not None and took_effect(record, changes, now) else None

        return await self._write(work, settled)

    async def delete_records(
        self,
        record_filter: RecordFilter,
        *,
        expects: Sequence[Expectation] = (),
        vectors: Mapping[str, FloatVector] | None = None,
    ) -> Deletion:
        """Delete the records the filter lets through, with all that was derived from them."""
        if record_filter.ids is None:
            _check_bounded(record_filter.scope)
        removal = await self._remove(
            lambda transaction: deletes.remove_records(
                transaction,
                self._t,
                record_filter,
                claim=self._claim(vectors),
                expects=expects,
                vectors=vectors,
            )
        )
        return removal.deletion

    async def purge_expired(self, now: datetime) -> Deletion:
        """Delete every record that expired at or before a time, a batch at a time."""
        expired = RecordFilter(scope=ScopeFilter(), now=now, tiers=_EVERY_TIER, only_expired=True)
        counts: Counter[str] = Counter()
        stale: dict[str, None] = {}
        while True:
            removal = await self._remove(
                lambda transaction: deletes.remove_expired(transaction, self._t, expired)
            )
            counts.update(removal.deletion.counts)
            stale.update(dict.fromkeys(removal.deletion.stale))
            if removal.deletion.records < deletes.EXPIRED_BATCH:
                return Deletion(counts=dict(sorted(counts.items())), stale=tuple(stale))

    async def delete_scope(
        self, scope: ScopeFilter, *, now: datetime, dry_run: bool = False
    ) -> Deletion:
        """Delete every thread and record of a scope."""
        _check_bounded(scope)
        if dry_run:
            return await self._count_scope(scope)
        removal = await self._remove(
            lambda transaction: deletes.remove_scope(
                transaction, self._t, scope, now, any_source=False
            ),
            timeout_s=math.inf,
        )
        return removal.deletion

    async def _count_scope(self, scope: ScopeFilter) -> Deletion:
        async def settled(_: Transaction) -> Deletion | None:
            # Nothing was changed: it is counted again.
            return None

        return await self._write(
            lambda transaction: deletes.count_scope(transaction, self._t, scope, any_source=False),
            settled,
            timeout_s=math.inf,
        )

    async def erase_scope(self, scope: ScopeFilter, *, now: datetime) -> Erasure:
        """Delete every thread and record of a scope, and see that nothing of it is left."""
        _check_bounded(scope)

        async def removing(transaction: Transaction) -> tuple[deletes.Removal, Trip]:
            removal, pending = await deletes.remove_scope(
                transaction, self._t, scope, now, any_source=True
            )
            pending.add(erasure.note_erasure(self._t, scope, now, removal.deletion))
            return removal, pending

        removal = await self._remove(removing, timeout_s=math.inf)
        optimized = self._indexes.text is not None and await self._optimize(
            erasure.optimize_text_index(self._t)
        )
        clean = optimized or self._indexes.text is None
        if self._indexes.hybrid is not None:
            clean = await self._optimize(erasure.optimize_hybrid_index(self._t)) and clean
        scan = await self._engine.read(
            lambda transaction: erasure.scan(
                transaction,
                self._t,
                removal.records,
                removal.threads,
                text_index=clean,
            ),
            timeout_s=math.inf,
        )
        rebuilt = {
            "text_index": int(optimized),
            "reindexed": removal.deletion.counts.get("reindexed", 0),
        }
        return Erasure(deletion=removal.deletion, rebuilt=rebuilt, scan=scan)

    async def _optimize(self, statement: Statement) -> bool:
        """Tell whether an index of texts could be rid of what no document holds any more."""

        async def work(transaction: Transaction) -> bool:
            await transaction.run(statement)
            return True

        async def settled(_: Transaction) -> bool | None:
            # To do it again does no harm.
            return None

        try:
            return await self._engine.write(work, timeout_s=math.inf, settled=settled)
        except StoreError as error:
            _logger.warning(
                "The text index could not be optimised, so it may still hold words of what was "
                "erased (%s); its owner can call CTX_DDL.OPTIMIZE_INDEX.",
                error,
            )
            return False

    async def put_vectors(
        self, vectors: Mapping[str, FloatVector], *, expects: Sequence[Expectation] = ()
    ) -> None:
        """Renew vectors of stored records."""

        async def work(transaction: Transaction) -> bool:
            trip = Trip()
            claim = self._claim(vectors)
            tied = claim.ask(trip)
            revisions = trip.add(lock_expected(self._t, expects)) if expects else []
            await trip.run(transaction)
            await claim.check(transaction, tied)
            check_expectations(expects, revisions)
            for statement in put_vectors(self._t, vectors):
                trip.add(statement)
            await trip.finish(transaction)
            return True

        async def settled(_: Transaction) -> bool | None:
            # To do it again does no harm, unless the records have changed, which is then seen.
            return None

        await self._write(work, settled)

    async def _remove(
        self, removing: Removing, *, timeout_s: float | None = None
    ) -> deletes.Removal:
        """Run a delete; without an answer to the commit, look whether what was to go is gone."""
        last: list[deletes.Removal] = []

        async def work(transaction: Transaction) -> deletes.Removal:
            removal, pending = await removing(transaction)
            last[:] = [removal]
            await pending.finish(transaction)
            return removal

        async def settled(transaction: Transaction) -> deletes.Removal | None:
            removal = last[0]
            threads = [row[0] for row in removal.threads]
            statements = erasure.find_residues(self._t, dict(removal.records), threads)
            looked = [statements[name] for name in ("record", "thread") if name in statements]
            left = await transaction.run(*looked) if looked else []
            return None if any(left) else removal

        return await self._write(work, settled, timeout_s=timeout_s)


class OracleLinks(OracleUnits):
    """The part of an Oracle store that keeps links between records."""

    async def add_link(
        self, link: RecordRelation, *, record_filter: RecordFilter, now: datetime
    ) -> RecordRelation:
        """Store a link between two memory-like records that the filter lets through."""

        async def work(transaction: Transaction) -> RecordRelation:
            stored, pending = await insert_link(transaction, self._t, link, record_filter, now)
            await pending.finish(transaction)
            return stored

        async def settled(transaction: Transaction) -> RecordRelation | None:
            stored = await self._link(transaction, link.id)
            ends = ("source_record_id", "target_record_id", "relation_type")
            return stored if stored is not None and _is_same(stored, link, *ends) else None

        return await self._write(work, settled)

    async def update_link(
        self, link_id: str, changes: LinkChanges, *, record_filter: RecordFilter, now: datetime
    ) -> RecordRelation:
        """Change what `changes` names of a link."""

        async def settled(transaction: Transaction) -> RecordRelation | None:
            stored = await self._link(transaction, link_id)
            return stored if stored is not None and has_values(stored, changes) else None

        return await self._write(
            lambda transaction: change_link(
                transaction, self._t, link_id, changes, record_filter, now
            ),
            settled,
        )

    async def delete_link(
        self, link_id: str, *, record_filter: RecordFilter, now: datetime
    ) -> None:
        """Delete a link and restore what it alone kept invalid."""

        async def work(transaction: Transaction) -> bool:
            await remove_link(transaction, self._t, link_id, record_filter, now)
            return True

        async def settled(transaction: Transaction) -> bool | None:
            return True if await self._link(transaction, link_id) is None else None

        await self._write(work, settled)

    async def list_links(self, query: LinkQuery) -> Page[RecordRelation]:
        """Return one page of links."""

        async def work(transaction: Transaction) -> Page[RecordRelation]:
            (rows,) = await transaction.run(list_links(self._t, query))
            return page_of_links(rows, query)

        return await self._engine.read(work)

    async def expand(self, query: Expansion) -> Mapping[str, tuple[LinkedNode, ...]]:
        """Return what is linked to each root, nearest first."""
        return await self._engine.read(lambda transaction: expand(transaction, self._t, query))

    async def _link(self, transaction: Transaction, link_id: str) -> RecordRelation | None:
        (rows,) = await transaction.run(read_link_by_id(self._t, link_id))
        return link_from_row(rows[0]) if rows else None


async def drafted(records: Sequence[ScopedRecord]) -> tuple[Draft, ...]:
    """Analyse new records before a transaction locks anything; large ones in a thread."""
    if sum(len(record.content) for record in records) < _LARGE_CHARS:
        return draft(records)
    return await to_thread.run_sync(draft, records)


def _is_same(stored: Any, given: Any, *names: str) -> bool:
    """Tell whether what is stored is what was given to be stored, and not another's."""
    return all(
        getattr(stored, name) == getattr(given, name) for name in ("id", "created_at", *names)
    )


def _check_bounded(scope: ScopeFilter) -> None:
    if scope.is_unbounded:
        msg = "a delete without a scope would empty the store; give a user, an agent or a thread"
        raise ScopeError(msg, argument="scope")
