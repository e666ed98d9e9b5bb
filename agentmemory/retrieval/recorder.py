"""Writes records so that retrieval finds them: vectors made before, neighbours seen alike.

A message's vector rests on the turn before it, which another writer may change between the
reading, the embedding and the writing. Writers of one process take turns on a thread; against
other processes each write carries what was seen, and when that has changed it is read and
embedded again. May import stores, models, text and below.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeVar
from weakref import WeakValueDictionary

import anyio

from agentmemory.errors import (
    EmbedderMismatchError,
    ModelUnavailableError,
    NotFoundError,
    StaleReadError,
)
from agentmemory.outbox import renewals
from agentmemory.protocols import Clock, MemoryStore
from agentmemory.records import ImageContent, RecordRelation, ScopedRecord, Tier
from agentmemory.requests import (
    Deletion,
    Expectation,
    Job,
    JobDraft,
    JobOutcome,
    ListQuery,
    Neighbourhood,
    RecordChanges,
    RecordFilter,
    ThreadTail,
)
from agentmemory.retrieval.vectorizer import Passage, Vectorizer, passages_of
from agentmemory.scope import NOT_SET_MARKER, ScopeFilter

if TYPE_CHECKING:
    from agentmemory.requests import FloatVector

R = TypeVar("R")

ATTEMPTS: Final = 8
"""How often a write is tried anew when what it rests on changes meanwhile."""

_REEMBED_BATCH: Final = 128


class Recorder:
    """Adds, changes and deletes records of one store.

    Args:
        store: The store.
        vectorizer: Makes the vectors.
        clock: Tells the time of each change.
    """

    def __init__(self, store: MemoryStore, vectorizer: Vectorizer, clock: Clock) -> None:
        self._store = store
        self._vectorizer = vectorizer
        self._clock = clock
        self.wake: Callable[[], None] = _nobody
        """Has the work of the outbox done now; there is none before a client sets it."""
        self._turns: WeakValueDictionary[str | None, anyio.Lock] = WeakValueDictionary()

    def _turn(self, thread_id: str | None) -> anyio.Lock:
        """Return the lock that lets one writer at a time work on a thread."""
        return self._turns.setdefault(thread_id, anyio.Lock())

    async def add_messages(
        self, thread_id: str, records: Sequence[ScopedRecord], *, jobs: Sequence[JobDraft] = ()
    ) -> tuple[ScopedRecord, ...]:
        """Append messages to a thread."""
        if not records:
            return ()
        if not self._vectorizer.is_available:
            return await self._store.add_records(records, jobs=jobs)
        pairs = [(record.id, record.content) for record in records]

        async def attempt() -> tuple[ScopedRecord, ...]:
            tail = await self._store.thread_tail(thread_id)
            seen = ThreadTail(
                thread_id=thread_id,
                last_message_id=None if tail is None else tail.id,
                last_revision=None if tail is None else tail.revision,
            )
            vectors = await self._vectorizer.record_vectors(
                passages_of(pairs, None if tail is None else tail.content)
            )
            return await self._store.add_records(
                records, vectors=vectors, tail=None if vectors is None else seen, jobs=jobs
            )

        async with self._turn(thread_id):
            try:
                return await self._until_unchanged(attempt)
            except StaleReadError:
                # Other processes write without a pause: storing comes first, vectors follow.
                ids = [record.id for record in records]
                follow_up = (*jobs, *renewals(ids))
                with self._followed_up():
                    stored = await self._store.add_records(records, jobs=follow_up)
                    await self.refresh(ids)
                return stored

    async def add_memories(
        self,
        records: Sequence[ScopedRecord],
        *,
        jobs: Sequence[JobDraft] = (),
        links: Sequence[RecordRelation] = (),
        link_filter: RecordFilter | None = None,
        images: Mapping[str, ImageContent] | None = None,
    ) -> tuple[ScopedRecord, ...]:
        """Add records that stand alone, with links from or to them and the files of images."""
        return await self._store.add_records(
            records,
            vectors=await self.vectors_of(records),
            jobs=jobs,
            links=links,
            link_filter=link_filter,
            images=images,
        )

    async def vectors_of(self, records: Sequence[ScopedRecord]) -> dict[str, FloatVector] | None:
        """Return the vectors of records that stand alone; None without an embedder."""
        return await self._vectorizer.record_vectors(
            [Passage(id=record.id, content=record.content) for record in records]
        )

    async def update(
        self,
        record_filter: RecordFilter,
        changes: RecordChanges,
        *,
        jobs: Sequence[JobDraft] = (),
        image: ImageContent | None = None,
    ) -> ScopedRecord:
        """Change one record, and what its neighbours hold of it."""
        now = self._clock.now()
        if changes.content is NOT_SET_MARKER or not self._vectorizer.is_available:
            return await self._store.update_record(
                record_filter, changes, now=now, jobs=jobs, image=image
            )
        content = str(changes.content)
        first = await self._store.neighbourhood(record_filter)

        async def attempt() -> ScopedRecord:
            seen = await self._store.neighbourhood(record_filter)
            passages = [
                Passage(
                    id=seen.record.id,
                    content=content,
                    previous=None if seen.previous is None else seen.previous.content,
                )
            ]
            if seen.following is not None:
                passages.append(
                    Passage(id=seen.following.id, content=seen.following.content, previous=content)
                )
            vectors = await self._vectorizer.record_vectors(passages)
            return await self._store.update_record(
                record_filter,
                changes,
                now=now,
                expects=_expectations(seen),
                vectors=vectors,
                jobs=jobs,
                image=image,
            )

        async with self._turn(first.record.thread_id):
            return await self._until_unchanged(attempt)

    async def delete(self, record_filter: RecordFilter) -> Deletion:
        """Delete records; vectors that rested on them are made anew.

        Of a single message the vector that rests on it is renewed in the same write, so that
        whoever is cancelled on the way leaves no message without one.
        """

        async def remove() -> Deletion:
            deletion = None
            if self._vectorizer.is_available and len(record_filter.ids or ()) == 1:
                deletion = await self._delete_one(record_filter)
            return deletion or await self._store.delete_records(record_filter)

        return await self._removed(remove)

    async def _removed(self, remove: Callable[[], Awaitable[Deletion]]) -> Deletion:
        """Delete, and make the vectors anew that rested on what went.

        Work that does it was stored with the deletion, for when this does not come to an end.
        """
        with self._followed_up():
            deletion = await remove()
            await self.refresh(deletion.stale)
        return deletion

    @contextlib.contextmanager
    def _followed_up(self) -> Generator[None, None, None]:
        """Have the outbox looked at if what is done here does not come to its end."""
        ended = False
        try:
            yield
            ended = True
        finally:
            if not ended and self._vectorizer.is_available:
                self.wake()

    async def _delete_one(self, record_filter: RecordFilter) -> Deletion | None:
        """Delete one record and renew the vector after it; None if that cannot go together."""

        async def attempt() -> Deletion:
            seen = await self._store.neighbourhood(record_filter)
            vectors = None
            if seen.following is not None:
                after = replace(seen, record=seen.following)
                vectors = await self._vectorizer.record_vectors([_passage(after)])
            return await self._store.delete_records(
                record_filter, expects=_expectations(seen), vectors=vectors
            )

        try:
            first = await self._store.neighbourhood(record_filter)
            async with self._turn(first.record.thread_id):
                return await self._until_unchanged(attempt)
        except (NotFoundError, StaleReadError, EmbedderMismatchError):
            # What stands in the way of a vector does not stand in the way of a delete.
            return None

    async def delete_scope(self, scope: ScopeFilter) -> Deletion:
        """Delete all that belongs to a scope; vectors that rested on it are made anew."""
        return await self._removed(lambda: self._store.delete_scope(scope, now=self._clock.now()))

    async def purge_expired(self) -> Deletion:
        """Delete every record whose time to live is over."""
        return await self._removed(lambda: self._store.purge_expired(self._clock.now()))

    async def refresh(self, message_ids: Sequence[str]) -> int:
        """Make the vectors of messages anew from what stands around them now.

        A message that is gone by then, or whose neighbours keep changing, is left out.

        Returns:
            How many have a new vector.
        """
        if not self._vectorizer.is_available or not message_ids:
            return 0
        try:
            return await self._refresh_all(message_ids)
        finally:
            # The work that was stored for this sees what is left to be done.
            self.wake()

    async def _refresh_all(self, message_ids: Sequence[str]) -> int:
        return sum([await self._refresh_one(message_id) for message_id in message_ids])

    async def _refresh_one(self, message_id: str) -> bool:
        everywhere = RecordFilter(scope=ScopeFilter(), now=self._clock.now(), ids=(message_id,))

        async def attempt() -> bool:
            if not await self._store.get_records(everywhere):
                return False
            seen = await self._store.neighbourhood(everywhere)
            vectors = await self._vectorizer.record_vectors([_passage(seen)])
            if not vectors:
                return False
            await self._store.put_vectors(vectors, expects=_expectations(seen))
            return True

        try:
            return await self._until_unchanged(attempt)
        except StaleReadError:
            return False

    async def renew(self, job: Job) -> JobOutcome:
        """Do the work that a write left behind: make the vectors that are not there yet.

        Raises:
            ModelUnavailableError: Some could not be made; it is worth another try.
        """
        ids = job.payload["messages"]
        try:
            await self._refresh_all(await self._without_vector(ids))
        except EmbedderMismatchError as error:
            msg = "the vectors of this store are another embedder's"
            raise ModelUnavailableError(msg) from error
        left = await self._without_vector(ids)
        if left:
            msg = f"{len(left)} of {len(ids)} messages are without their vector still"
            raise ModelUnavailableError(msg)
        return JobOutcome()

    async def _without_vector(self, message_ids: Sequence[str]) -> list[str]:
        everywhere = replace(_everything(self._clock.now()), ids=tuple(message_ids))
        found = await self._store.get_records(everywhere)
        held = await self._store.vectors([record.id for record in found])
        return [record.id for record in found if record.id not in held]

    async def reembed(self, progress: Callable[[int], None] | None = None) -> int:
        """Make the vectors of every record anew, replacing another embedder's.

        Searches stay possible meanwhile; records without a vector yet are found by words.

        Args:
            progress: Called with the number of records done so far.

        Returns:
            How many records have a new vector.
        """
        if not await self._vectorizer.fits_store():
            await self._vectorizer.replace_embedder()
        done = 0
        after: str | None = None
        last: dict[str, ScopedRecord] = {}
        while True:
            page = await self._store.list_records(
                ListQuery(filter=_everything(self._clock.now()), limit=_REEMBED_BATCH, after=after)
            )
            done += await self._reembed_page(page.items, last)
            if progress is not None:
                progress(done)
            if page.next_cursor is None:
                return done
            after = page.next_cursor

    async def _reembed_page(
        self, records: Sequence[ScopedRecord], last: dict[str, ScopedRecord]
    ) -> int:
        passages = []
        expects: dict[str, Expectation] = {}
        for record in records:
            previous = None
            if record.record_type == "message" and record.thread_id is not None:
                previous = last.get(record.thread_id)
                last[record.thread_id] = record
            for seen in (record, previous):
                if seen is not None:
                    expects[seen.id] = Expectation(record_id=seen.id, revision=seen.revision)
            passages.append(
                Passage(
                    id=record.id,
                    content=record.content,
                    previous=None if previous is None else previous.content,
                )
            )
        vectors = await self._vectorizer.record_vectors(passages)
        if not vectors:
            return 0
        try:
            await self._store.put_vectors(vectors, expects=tuple(expects.values()))
        except StaleReadError:
            # Somebody changed one of the page's records: each is looked at by itself.
            await self.refresh([record.id for record in records])
        return len(vectors)

    async def _until_unchanged(self, attempt: Callable[[], Awaitable[R]]) -> R:
        for _ in range(ATTEMPTS - 1):
            try:
                return await attempt()
            except StaleReadError:
                continue
        return await attempt()


def _nobody() -> None:
    """Wake nobody."""


def _everything(now: datetime) -> RecordFilter:
    return RecordFilter(scope=ScopeFilter(), now=now, tiers=tuple(Tier))


def _passage(seen: Neighbourhood) -> Passage:
    return Passage(
        id=seen.record.id,
        content=seen.record.content,
        previous=None if seen.previous is None else seen.previous.content,
    )


def _expectations(seen: Neighbourhood) -> tuple[Expectation, ...]:
    around = (seen.record, seen.previous, seen.following)
    return tuple(
        Expectation(record_id=record.id, revision=record.revision)
        for record in around
        if record is not None
    )
