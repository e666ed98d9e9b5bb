"""The SQLite store: one file, no server; the default.

Each method is one hop into a thread that owns a connection and runs one transaction there.
May import the other modules of this folder, protocols and what lies below.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import orjson
from anyio import to_thread

from agentmemory.config import SchemaPolicy
from agentmemory.errors import (
    NotFoundError,
    ScopeError,
    StoreUnavailableError,
)
from agentmemory.layering import OutcomeWrite, OutcomeWritten
from agentmemory.records import (
    ImageContent,
    RecordRelation,
    ScopedRecord,
    ThreadRecord,
    Tier,
)
from agentmemory.requests import (
    Candidate,
    CandidateQuery,
    Deletion,
    Erasure,
    Expansion,
    Expectation,
    JobDraft,
    LinkChanges,
    LinkedNode,
    LinkQuery,
    ListQuery,
    Neighbourhood,
    Page,
    RecordChanges,
    RecordFilter,
    StoreStats,
    ThreadChanges,
    ThreadQuery,
    ThreadTail,
)
from agentmemory.scope import ScopeFilter
from agentmemory.stores.index_fields import index_fingerprint
from agentmemory.stores.sqlite import deletes, erasure, writes
from agentmemory.stores.sqlite.analysis import analysed_changes, analysed_records
from agentmemory.stores.sqlite.connection import MEMORY
from agentmemory.stores.sqlite.engine import SqliteEngine
from agentmemory.stores.sqlite.expansion import expand
from agentmemory.stores.sqlite.images import read_images
from agentmemory.stores.sqlite.indexing import neighbour, reindex
from agentmemory.stores.sqlite.layers import SqliteLayers
from agentmemory.stores.sqlite.links import (
    change_link,
    insert_link,
    page_of_links,
    remove_link,
)
from agentmemory.stores.sqlite.listing import page_of_records, page_of_threads
from agentmemory.stores.sqlite.outbox import SqliteOutbox
from agentmemory.stores.sqlite.outcomes import write_outcome
from agentmemory.stores.sqlite.query import fetch_all, fetch_one, fetch_value
from agentmemory.stores.sqlite.rows import record_from_row, record_select, to_micros
from agentmemory.stores.sqlite.schema import (
    DEFAULT_STORE_ID,
    SCHEMA_VERSION,
    Tables,
    check_policy,
    check_store_id,
    examine,
    prepare,
)
from agentmemory.stores.sqlite.search import fetch_records, find_candidates, list_actors
from agentmemory.stores.sqlite.term_counts import TermCounts
from agentmemory.stores.sqlite.vector_rows import put_vectors
from agentmemory.stores.sqlite.vectors import VectorIndex, read_vectors
from agentmemory.stores.sqlite.where import record_where

if TYPE_CHECKING:
    import apsw

    from agentmemory.requests import FloatVector

_REINDEX_TIMEOUT_S: Final = 3600.0
"""Seconds the index of a large store may take to be made anew by a newer release."""


class SqliteStore(SqliteLayers, SqliteOutbox):
    """A `MemoryStore` in one SQLite file.

    Args:
        path: The file; `":memory:"` for one that lives as long as the store.
        memory_store_id: Tells apart several stores in one file: a letter, then letters,
            digits or underscores, at most 16. Default "DEFAULT".
        schema_policy: What opening may do. Default `CREATE_IF_NECESSARY`.
        durability: "normal": acknowledged writes survive the death of the process. "full":
            they survive a power loss too.
        readers: Connections that read side by side.
        busy_timeout_s: Seconds to wait for other processes' locks.
        operation_timeout_s: Seconds an operation may take, waiting included.

    Raises:
        ValidationError: `memory_store_id` is malformed.
        ConfigurationError: `schema_policy` is none.
    """

    def __init__(
        self,
        path: str,
        *,
        memory_store_id: str = DEFAULT_STORE_ID,
        schema_policy: SchemaPolicy = SchemaPolicy.CREATE_IF_NECESSARY,
        durability: Literal["normal", "full"] = "normal",
        readers: int = 2,
        busy_timeout_s: float = 10.0,
        operation_timeout_s: float = 60.0,
    ) -> None:
        self._store_id = check_store_id(memory_store_id)
        self._policy = check_policy(schema_policy)
        self._path = path
        self._t = Tables(self._store_id)
        self._vectors = VectorIndex(self._t)
        self._counts = TermCounts(self._t)
        self._closed = False
        # The engine's threads hold it: what held the store could not be collected.
        admit = partial(_admit, store_id=self._store_id, policy=self._policy, path=path)
        self._new_engine = partial(
            SqliteEngine,
            path,
            readers=readers,
            busy_timeout_s=busy_timeout_s,
            operation_timeout_s=operation_timeout_s,
            durability=durability,
            admit=None if self._policy is SchemaPolicy.NO_CHECK else admit,
        )
        self._engine = self._new_engine()

    @property
    def store_id(self) -> str:
        """The id that tells apart several stores in one file."""
        return self._store_id

    @property
    def path(self) -> str:
        """The file's path, or ":memory:"."""
        return self._path

    async def open(self) -> None:
        """Open the file and check, create or migrate the schema; after a failure, call it again."""
        if self._policy is SchemaPolicy.REQUIRE_EXISTING and self._path != ":memory:":
            await to_thread.run_sync(self._require_file)
        await self._engine.open()
        if self._policy is SchemaPolicy.NO_CHECK:
            return
        try:
            if not await self._engine.read(self._is_current):
                await self._engine.write(
                    lambda connection: prepare(
                        connection, self._store_id, self._policy, path=self._path
                    )
                )
            if not await self._engine.read(self._is_indexed):
                await self._engine.write(self._index_anew, timeout_s=_REINDEX_TIMEOUT_S)
        except BaseException:
            try:
                await self._engine.close()
            finally:
                if not self._closed:
                    self._engine = self._new_engine()
            raise

    def _is_current(self, connection: apsw.Connection) -> bool:
        """Tell whether there is nothing to create, so that opening needs no write lock."""
        if self._policy is SchemaPolicy.RECREATE:
            return False
        _, version = examine(connection, self._store_id, self._policy, path=self._path)
        return version == SCHEMA_VERSION

    def _is_indexed(self, connection: apsw.Connection) -> bool:
        """Tell whether the text index was made as this release makes and asks it."""
        sql = f"SELECT value FROM {self._t.meta} WHERE key = 'index'"
        return bool(fetch_value(connection, sql) == index_fingerprint())

    def _index_anew(self, connection: apsw.Connection) -> None:
        seqs = [row[0] for row in fetch_all(connection, f"SELECT seq FROM {self._t.record}")]
        reindex(connection, self._t, seqs)
        connection.execute(
            f"INSERT INTO {self._t.meta} (key, value) VALUES ('index', ?) "
            f"ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (index_fingerprint(),),
        )

    def _require_file(self) -> None:
        if not Path(self._path).exists():
            msg = f"there is no database {self._path!r}, and `schema_policy` is REQUIRE_EXISTING"
            raise StoreUnavailableError(msg)

    async def close(self) -> None:
        """Close the file; may be called twice."""
        self._closed = True
        await self._engine.close()

    async def stats(self, now: datetime) -> StoreStats:
        """Count what is stored."""

        def work(connection: apsw.Connection) -> StoreStats:
            t = self._t

            def count(table: str) -> int:
                return int(fetch_value(connection, f"SELECT count(*) FROM {table}"))

            records = fetch_all(
                connection,
                f"SELECT record_type, count(*) FROM {t.record} "
                f"WHERE expires_at IS NULL OR expires_at > ? GROUP BY record_type ORDER BY 1",
                (to_micros(now),),
            )
            jobs = fetch_all(
                connection, f"SELECT state, count(*) FROM {t.job} GROUP BY state ORDER BY 1"
            )
            size = fetch_value(
                connection, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
            )
            embedder = fetch_one(connection, f"SELECT value FROM {t.meta} WHERE key = 'embedder'")
            return StoreStats(
                records=dict(records),
                threads=count(t.thread),
                chunks=count(t.chunk),
                vectors=count(t.vector),
                links=count(t.link),
                jobs=dict(jobs),
                size_bytes=int(size),
                schema_version=SCHEMA_VERSION,
                embedder=None if embedder is None else orjson.loads(embedder[0])["model"],
            )

        return await self._engine.read(work)

    async def add_thread(self, thread: ThreadRecord) -> ThreadRecord:
        """Store a new thread."""
        return await self._engine.write(lambda c: writes.insert_thread(c, self._t, thread))

    async def get_thread(self, thread_id: str) -> ThreadRecord:
        """Return a thread."""
        return await self._engine.read(lambda c: writes.read_thread(c, self._t, thread_id))

    async def update_thread(
        self, thread_id: str, changes: ThreadChanges, *, now: datetime
    ) -> ThreadRecord:
        """Change what `changes` names of a thread."""
        return await self._engine.write(
            lambda c: writes.change_thread(c, self._t, thread_id, changes, now)
        )

    async def delete_thread(self, thread_id: str, *, now: datetime) -> Deletion:
        """Delete a thread and every record in it."""
        return await self._engine.write(lambda c: self._remove_thread(c, thread_id, now))

    def _remove_thread(
        self, connection: apsw.Connection, thread_id: str, now: datetime
    ) -> Deletion:
        writes.read_thread(connection, self._t, thread_id)
        return deletes.remove_thread(connection, self._t, thread_id, now)

    async def list_threads(self, query: ThreadQuery) -> Page[ThreadRecord]:
        """Return one page of threads."""
        return await self._engine.read(lambda c: page_of_threads(c, self._t, query))

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
        rows = await analysed_records(records)
        return await self._write_vectors(
            vectors,
            lambda c: writes.insert_records(
                c,
                self._t,
                records,
                rows=rows,
                vectors=vectors,
                tail=tail,
                jobs=jobs,
                links=links,
                link_filter=link_filter,
                images=images,
                now=now,
            ),
        )

    async def write_outcome(self, outcome: OutcomeWrite, *, now: datetime) -> OutcomeWritten:
        """Remember how an operation went and adjust what it rested on, in one transaction."""
        rows = await analysed_records((outcome.record,))
        return await self._write_vectors(
            outcome.vectors, lambda c: write_outcome(c, self._t, outcome, rows=rows, now=now)
        )

    async def list_records(self, query: ListQuery) -> Page[ScopedRecord]:
        """Return one page of records."""
        return await self._engine.read(lambda c: page_of_records(c, self._t, query))

    async def get_records(self, record_filter: RecordFilter) -> tuple[ScopedRecord, ...]:
        """Return the records of `record_filter.ids` that the filter lets through."""
        where = record_where(record_filter)

        def work(connection: apsw.Connection) -> tuple[ScopedRecord, ...]:
            rows = connection.execute(
                f"SELECT {record_select(self._t)} FROM {self._t.record} r WHERE {where.sql}",
                where.binds,
            )
            found = {record.id: record for record in map(record_from_row, rows)}
            return tuple(found[name] for name in record_filter.ids or () if name in found)

        return await self._engine.read(work)

    async def get_images(
        self, ids: Sequence[str], *, include_bytes: bool
    ) -> Mapping[str, ImageContent]:
        """Return what is stored of images by record id; the files only if asked for."""
        return await self._engine.read(
            lambda c: read_images(c, self._t, ids, include_bytes=include_bytes)
        )

    async def neighbourhood(self, record_filter: RecordFilter) -> Neighbourhood:
        """Return a message with the turns around it in its thread."""
        where = record_where(record_filter)

        def work(connection: apsw.Connection) -> Neighbourhood:
            row = fetch_one(
                connection,
                f"SELECT {record_select(self._t)} FROM {self._t.record} r WHERE {where.sql}",
                where.binds,
            )
            if row is None:
                raise NotFoundError(writes.missing(record_filter))
            record = record_from_row(row)
            return Neighbourhood(
                record=record,
                previous=self._neighbour(connection, record, -1),
                following=self._neighbour(connection, record, 1),
            )

        return await self._engine.read(work)

    def _neighbour(
        self, connection: apsw.Connection, record: ScopedRecord, step: int
    ) -> ScopedRecord | None:
        if record.record_type != "message":
            return None
        seq = neighbour(connection, self._t, record.thread_id, record.seq, step)
        return None if seq is None else fetch_records(connection, self._t, (seq,))[0]

    async def thread_tail(self, thread_id: str) -> ScopedRecord | None:
        """Return the last message of a thread, or None."""

        def work(connection: apsw.Connection) -> ScopedRecord | None:
            seq = neighbour(connection, self._t, thread_id, 2**62, -1)
            return None if seq is None else fetch_records(connection, self._t, (seq,))[0]

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
        index = await analysed_changes(changes)
        return await self._write_vectors(
            vectors,
            lambda c: writes.change_record(
                c,
                self._t,
                record_filter,
                changes,
                index=index,
                now=now,
                expects=expects,
                vectors=vectors,
                jobs=jobs,
                image=image,
            ),
        )

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

        def work(connection: apsw.Connection) -> Deletion:
            writes.check_expectations(connection, self._t, expects)
            return deletes.remove_records(connection, self._t, record_filter, vectors=vectors)

        return await self._write_vectors(vectors, work)

    async def purge_expired(self, now: datetime) -> Deletion:
        """Delete every record that expired at or before a time."""
        expired = RecordFilter(scope=ScopeFilter(), now=now, tiers=tuple(Tier), only_expired=True)
        return await self._engine.write(
            lambda c: deletes.remove_records(c, self._t, expired, derived=False)
        )

    async def delete_scope(
        self, scope: ScopeFilter, *, now: datetime, dry_run: bool = False
    ) -> Deletion:
        """Delete every thread and record of a scope."""
        _check_bounded(scope)
        return await self._engine.write(
            lambda c: deletes.remove_scope(
                c, self._t, scope, now, any_source=False, dry_run=dry_run
            ),
            timeout_s=math.inf,
        )

    async def erase_scope(self, scope: ScopeFilter, *, now: datetime) -> Erasure:
        """Delete every thread and record of a scope, and let nothing of it stay in the file."""
        _check_bounded(scope)

        def work(connection: apsw.Connection) -> tuple[tuple[bytes, ...], Deletion]:
            deletes.gather_scope(connection, self._t, scope, any_source=True)
            probes = erasure.sample(connection, self._t)
            deletion = deletes.remove_scope(
                connection, self._t, scope, now, any_source=True, dry_run=False
            )
            erasure.merge_segments(connection, self._t)
            erasure.note_erasure(connection, self._t, scope, now, deletion)
            return probes, deletion

        probes, deletion = await self._engine.write(work, timeout_s=math.inf)
        rebuilt = {"text_index": 1, "reindexed": deletion.counts.get("reindexed", 0)}
        if self._path == MEMORY:
            return Erasure(deletion=deletion, rebuilt=rebuilt)
        await self._engine.maintain(erasure.rebuild_file, timeout_s=math.inf)
        log_emptied = await self._engine.checkpoint(timeout_s=math.inf)
        alive = await self._engine.read(
            lambda c: erasure.still_alive(c, self._t, probes), timeout_s=math.inf
        )
        sought = [probe for probe in probes if probe not in alive]
        scan = await to_thread.run_sync(
            lambda: erasure.scan(self._engine.path, sought, log_emptied=log_emptied)
        )
        return Erasure(deletion=deletion, rebuilt={**rebuilt, "file": 1}, scan=scan)

    async def put_vectors(
        self, vectors: Mapping[str, FloatVector], *, expects: Sequence[Expectation] = ()
    ) -> None:
        """Renew vectors of stored records."""

        def work(connection: apsw.Connection) -> None:
            writes.check_expectations(connection, self._t, expects)
            put_vectors(connection, self._t, vectors)

        await self._write_vectors(vectors, work)

    async def add_link(
        self, link: RecordRelation, *, record_filter: RecordFilter, now: datetime
    ) -> RecordRelation:
        """Store a link between two memory-like records that the filter lets through."""
        return await self._engine.write(lambda c: insert_link(c, self._t, link, record_filter, now))

    async def update_link(
        self, link_id: str, changes: LinkChanges, *, record_filter: RecordFilter, now: datetime
    ) -> RecordRelation:
        """Change what `changes` names of a link."""
        return await self._engine.write(
            lambda c: change_link(c, self._t, link_id, changes, record_filter, now)
        )

    async def delete_link(
        self, link_id: str, *, record_filter: RecordFilter, now: datetime
    ) -> None:
        """Delete a link and restore what it alone kept invalid."""
        await self._engine.write(lambda c: remove_link(c, self._t, link_id, record_filter, now))

    async def list_links(self, query: LinkQuery) -> Page[RecordRelation]:
        """Return one page of links."""
        return await self._engine.read(lambda c: page_of_links(c, self._t, query))

    async def expand(self, query: Expansion) -> Mapping[str, tuple[LinkedNode, ...]]:
        """Return what is linked to each root, nearest first."""
        return await self._engine.read(lambda c: expand(c, self._t, query))

    async def vectors(self, record_ids: Sequence[str]) -> Mapping[str, FloatVector]:
        """Return the unit vectors of the records that have one."""
        return await self._engine.read(lambda c: read_vectors(c, self._t, record_ids))

    async def candidates(self, query: CandidateQuery) -> tuple[Candidate, ...]:
        """Run both arms of a search and return the union, each with the scores of both."""
        return (await self.candidates_together((query,)))[0]

    async def candidates_together(
        self, queries: Sequence[CandidateQuery]
    ) -> list[tuple[Candidate, ...]]:
        """Answer queries that share their words and vector in one hop, as apart."""

        def work(connection: apsw.Connection) -> list[tuple[Candidate, ...]]:
            if queries[0].vector is not None:
                self._check_embedder(connection)
            counts = self._counts.at(connection)
            return find_candidates(connection, self._t, counts, self._vectors, queries)

        return await self._engine.read(work)

    async def actors(self, record_filter: RecordFilter) -> tuple[str, ...]:
        """Return the names of the speakers in a scope, sorted."""
        return await self._engine.read(lambda c: list_actors(c, self._t, record_filter.scope))


def _admit(connection: apsw.Connection, *, store_id: str, policy: SchemaPolicy, path: str) -> None:
    examine(connection, store_id, policy, path=path)


def _check_bounded(scope: ScopeFilter) -> None:
    if scope.is_unbounded:
        msg = "a delete without a scope would empty the store; give a user, an agent or a thread"
        raise ScopeError(msg, argument="scope")
