"""Units of work: what callers hand a store, and the raw answers it hands back.

A store answers each of these in one round trip. May import records, scope and errors.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar

from agentmemory.records import (
    RECORD_TYPES,
    Layer,
    RecordRelation,
    RecordStatus,
    RecordType,
    ScopedRecord,
    Tier,
)
from agentmemory.scope import NOT_SET_MARKER, NotSet, OptionalId, ScopeFilter

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    FloatVector = npt.NDArray[np.float32]

T = TypeVar("T")

MAX_LIST_LIMIT: Final = 1000
"""Most items one page may hold."""


@dataclass(frozen=True, slots=True)
class QueryTerm:
    """One analysed word of a query; `prefix` matches every token that starts with it."""

    text: str
    prefix: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFilter:
    """Which records may be seen at all; applied before anything is ranked.

    Args:
        scope: The resolved scope.
        now: Records that expired at or before this time do not exist.
        record_types: Only these types; None for all.
        include_invalid: Whether records with status `invalid` are seen.
        metadata: A metadata filter in the caller's form, already validated; None for all.
        tiers: Only these tiers; None for all but `archived` and `deprecated`.
        layers: Only memories of these layers; None for all, with a layer and without.
        event_after: Effective time (event time, else creation) at or after this.
        event_before: Effective time before this.
        created_after: Stored at or after this.
        created_before: Stored before this.
        valid_at: True at this time: `valid_from <= t < valid_to`, open ends allowed.
        known_at: Stored at or before this time.
        ids: Only these ids; None for all.
        exclude_ids: Not these ids.
        only_expired: Only records that do not exist any more because they expired.
    """

    scope: ScopeFilter
    now: datetime
    record_types: tuple[RecordType, ...] | None = None
    include_invalid: bool = True
    metadata: Mapping[str, Any] | None = None
    tiers: tuple[Tier, ...] | None = None
    layers: tuple[Layer, ...] | None = None
    event_after: datetime | None = None
    event_before: datetime | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    valid_at: datetime | None = None
    known_at: datetime | None = None
    ids: tuple[str, ...] | None = None
    exclude_ids: tuple[str, ...] = ()
    only_expired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateQuery:
    """What the two arms of a search look for.

    Args:
        filter: Which records take part.
        pool: How many records each arm brings, best first.
        terms: Words for the lexical arm; empty switches it off.
        vector: The query's unit vector for the vector arm; None switches it off.
        actor_terms: Words of the query that may name a speaker.
        with_vectors: Whether the candidates' vectors will be needed; a store that has them at
            hand brings them along, any other is asked for them then.
    """

    filter: RecordFilter
    pool: int
    terms: tuple[QueryTerm, ...] = ()
    vector: FloatVector | None = None
    actor_terms: frozenset[str] = frozenset()
    with_vectors: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A record that an arm brought, with what both arms say of it.

    Args:
        record: The record.
        lexical: BM25 of its best chunk, 0.0 when no word matches; None without a lexical arm.
        cosine: Cosine similarity to the query; None without a vector arm or a stored vector.
        lexical_rank: Its place in the lexical arm, from 1; None if that arm did not bring it.
        vector_rank: Its place in the vector arm, from 1; None if that arm did not bring it.
        actor_match: Whether the query names its speaker or, if it is no message, somebody it is
            about.
        scope_matches: How many preferred (not exact) dimensions of the scope it matches.
        vector: Its unit vector, if it was brought along.
    """

    record: ScopedRecord
    lexical: float | None = None
    cosine: float | None = None
    lexical_rank: int | None = None
    vector_rank: int | None = None
    actor_match: bool = False
    scope_matches: int = 0
    vector: FloatVector | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fused:
    """A candidate with its fused score, 0.0 to 1.0, and how it came about."""

    candidate: Candidate
    score: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What a writer has seen; the write is refused with `ConflictError` if it changed.

    Args:
        record_id: The record that was read.
        revision: Its revision then; None if it must not exist.
    """

    record_id: str
    revision: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadTail:
    """The last message of a thread as a writer saw it; None if there was none."""

    thread_id: str
    last_message_id: str | None
    last_revision: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDraft:
    """Background work to be stored together with what causes it.

    Args:
        id: Unique in its store; makes enqueueing idempotent.
        kind: What is to be done.
        thread_id: Jobs of one thread run in order.
        payload: JSON-like values for the worker.
    """

    id: str
    kind: str
    thread_id: str | None
    payload: Mapping[str, Any] = field(default_factory=dict)


class JobState(enum.StrEnum):
    """Where a job is on its way."""

    READY = "ready"
    LEASED = "leased"
    DEAD = "dead"
    HELD = "held"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Stored background work.

    Args:
        id: Unique in its store.
        kind: What is to be done.
        thread_id: Jobs of one thread run in order.
        payload: JSON-like values for the worker.
        state: Ready, leased to a worker, dead after too many failures, or held: no work of its
            own but a note of what the next job of the thread has to take along.
        attempts: How often a worker took it.
        deaths: How many of these workers were silent until their lease ran out, as those are
            whose process died; 0 where a store does not count it.
        run_after: Not before this time.
        lease_owner: Who works on it, if somebody does.
        lease_until: When others may take it over.
        last_error: Why it failed the last time.
        created_at: When it was stored.
    """

    id: str
    kind: str
    thread_id: str | None
    payload: Mapping[str, Any]
    state: JobState
    attempts: int
    deaths: int = 0
    run_after: datetime
    lease_owner: str | None = None
    lease_until: datetime | None = None
    last_error: str | None = None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """What a job brought; stored in the transaction that takes the job away.

    Args:
        records: New records.
        vectors: Unit vectors by record id.
        links: Links from or to the new records; one with an end that is gone is left out.
        jobs: Background work that follows.
        expects: What the job has read; nothing is stored if it has changed.
        more_sources: Messages that say again what a stored record says, by the record's id.
        retired_sources: Messages whose derived memories the new records replace: those that
            came from them alone go, those that came partly from them are marked for review.
        held: Messages of the job's thread that wait for more to come, all of them; they take
            the place of those held before. None leaves these as they are.
    """

    records: tuple[ScopedRecord, ...] = ()
    vectors: Mapping[str, FloatVector] | None = None
    links: tuple[RecordRelation, ...] = ()
    jobs: tuple[JobDraft, ...] = ()
    expects: tuple[Expectation, ...] = ()
    more_sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    retired_sources: tuple[str, ...] = ()
    held: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSummary:
    """A summary of a thread up to one of its messages.

    Args:
        thread_id: The thread.
        revision: Grows with every summary and is never used twice; 0 before it is stored.
        content: The text.
        topics: What the thread is about, in order.
        covers_seq: The last message it covers, by `seq`.
        created_at: When it was stored.
    """

    thread_id: str
    revision: int
    content: str
    topics: tuple[str, ...]
    covers_seq: int
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordChanges:
    """New values for fields of one record; what is `NOT_SET_MARKER` stays as it is."""

    content: str | NotSet = NOT_SET_MARKER
    metadata: Mapping[str, Any] | NotSet = NOT_SET_MARKER
    status: RecordStatus | NotSet = NOT_SET_MARKER
    invalidation_reason: str | None | NotSet = NOT_SET_MARKER
    review_reason: str | None | NotSet = NOT_SET_MARKER
    compressed: str | None | NotSet = NOT_SET_MARKER
    tier: Tier | NotSet = NOT_SET_MARKER
    layer: Any = NOT_SET_MARKER
    tags: tuple[str, ...] | NotSet = NOT_SET_MARKER
    confidence: float | NotSet = NOT_SET_MARKER
    stability: Any = NOT_SET_MARKER
    trust: str | None | NotSet = NOT_SET_MARKER
    event_time: datetime | None | NotSet = NOT_SET_MARKER
    valid_from: datetime | None | NotSet = NOT_SET_MARKER
    valid_to: datetime | None | NotSet = NOT_SET_MARKER
    expires_at: datetime | None | NotSet = NOT_SET_MARKER
    sources: tuple[str, ...] | NotSet = NOT_SET_MARKER


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadChanges:
    """New values for fields of one thread; what is `NOT_SET_MARKER` stays as it is."""

    metadata: Mapping[str, Any] | NotSet = NOT_SET_MARKER
    config: Mapping[str, Any] | NotSet = NOT_SET_MARKER


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """What a delete removed.

    Args:
        counts: Rows removed by kind ("message", "fact", "link", "thread", …); zeros left out.
        stale: Ids of surviving messages whose vector was dropped because a neighbour went. Work
            that renews these vectors is stored in the same transaction.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    stale: tuple[str, ...] = ()

    @property
    def records(self) -> int:
        """How many records were removed."""
        return sum(self.counts.get(kind, 0) for kind in RECORD_TYPES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidualScan:
    """What a search of the database for what was deleted found.

    Args:
        probes: How many samples of it were looked for.
        bytes_scanned: How much of the file was read; 0 for a store that asks its tables instead.
        residues: The samples that were found although nothing that is alive holds them.
        log_emptied: Whether the write-ahead log could be emptied; not while another process or
            a long reader holds on to it.
        unsearched: Where the database may keep copies that the store cannot look at, such as
            backups; how long is for its administrator to set. Empty for SQLite.
    """

    probes: int = 0
    bytes_scanned: int = 0
    residues: tuple[str, ...] = ()
    log_emptied: bool = True
    unsearched: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetReceipt:
    """What `forget` removed, and how it was checked.

    Args:
        counts: Rows removed by kind ("message", "fact", "link", "thread", …), zeros left out;
            for a dry run, what would be removed. "review" counts memories that stay and were
            marked, for something they rest on is gone.
        dry_run: Whether nothing was changed.
        rebuilt: What was made anew: "text_index", "file", and how many messages got new index
            rows ("reindexed") and vectors ("reembedded") because a neighbour went.
        scan: The search for what is left; None for a dry run and for a SQLite store in memory.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    dry_run: bool = False
    rebuilt: Mapping[str, int] = field(default_factory=dict)
    scan: ResidualScan | None = None

    @property
    def records(self) -> int:
        """How many records were removed, or would be."""
        return sum(self.counts.get(kind, 0) for kind in RECORD_TYPES)

    @property
    def is_clean(self) -> bool:
        """Whether a search found nothing of what was removed, where it could look at all."""
        return self.scan is not None and self.scan.log_emptied and not self.scan.residues


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """What a store erased.

    Args:
        deletion: What was removed.
        rebuilt: As in `ForgetReceipt`.
        scan: As in `ForgetReceipt`.
    """

    deletion: Deletion
    rebuilt: Mapping[str, int] = field(default_factory=dict)
    scan: ResidualScan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """Something a database can do or cannot.

    Args:
        name: Stable, as "text_index".
        available: Whether it can.
        detail: What that means for the store, in words.
    """

    name: str
    available: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStats:
    """What a store holds.

    Args:
        records: Number of unexpired records by type; types without records are left out.
        threads: Number of threads.
        chunks: Number of index chunks.
        vectors: Number of vectors.
        links: Number of links.
        jobs: Number of jobs by state.
        size_bytes: Size of the database; None if it cannot be told.
        schema_version: Version of the schema.
        embedder: Name of the embedder the vectors come from; None without vectors.
        capabilities: What the database can do, where that differs between databases.
    """

    records: Mapping[str, int]
    threads: int
    chunks: int
    vectors: int
    links: int
    jobs: Mapping[str, int]
    size_bytes: int | None
    schema_version: int
    embedder: str | None
    capabilities: tuple[Capability, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadQuery:
    """One page of a listing of threads.

    Args:
        user_id: Only threads of this user (None: without a user); omitted for all.
        agent_id: Likewise for the agent.
        metadata: A metadata filter in the caller's form, already validated; None for all.
        limit: Most threads on the page.
        descending: Newest first.
        after: The cursor of the page before; None for the first page.
    """

    user_id: OptionalId = NOT_SET_MARKER
    agent_id: OptionalId = NOT_SET_MARKER
    metadata: Mapping[str, Any] | None = None
    limit: int = 100
    descending: bool = False
    after: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbourhood:
    """A message with the turns around it in its thread."""

    record: ScopedRecord
    previous: ScopedRecord | None = None
    following: ScopedRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """What is linked to the direct results of a search.

    Args:
        filter: Which records may be reached; its status never filters linked memories.
        roots: Ids of the memory-like direct results.
        hops: How far to go, 1 to 5.
        limit: Most records reached from one root, over all hops.
    """

    filter: RecordFilter
    roots: tuple[str, ...]
    hops: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedNode:
    """A record reached from a root, by the link it was reached through.

    Args:
        parent_id: The record one step nearer to the root.
        relation: The link, in its stored direction.
        record: The record reached.
    """

    parent_id: str
    relation: RecordRelation
    record: ScopedRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkChanges:
    """New values for fields of one link; what is `NOT_SET_MARKER` stays as it is."""

    relation_type: str | NotSet = NOT_SET_MARKER
    opposite_relation_type: str | NotSet = NOT_SET_MARKER
    timestamp: datetime | None | NotSet = NOT_SET_MARKER
    metadata: Mapping[str, Any] | NotSet = NOT_SET_MARKER


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkQuery:
    """One page of a listing of links.

    Args:
        filter: Which records count; both ends of a link have to pass.
        record_id: Only links that start or end here; None for all.
        relation_types: Only these types; None for all.
        ids: Only these links; None for all.
        limit: Most links on the page.
        after: The cursor of the page before; None for the first page.
    """

    filter: RecordFilter
    record_id: str | None = None
    relation_types: tuple[str, ...] | None = None
    ids: tuple[str, ...] | None = None
    limit: int = 100
    after: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """One page of a listing.

    Args:
        filter: Which records are listed.
        limit: Most records on the page.
        order: "created" (order of writing) or "event" (effective time, then writing).
        descending: Newest first.
        after: The cursor of the page before; None for the first page.
    """

    filter: RecordFilter
    limit: int = 100
    order: Literal["created", "event"] = "created"
    descending: bool = False
    after: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Sequence[T], Generic[T]):
    """One page of a listing; a sequence of its items.

    Args:
        items: The items, in order.
        next_cursor: Pass as `cursor` to get the page that follows; None on the last one.
    """

    items: tuple[T, ...]
    next_cursor: str | None = None

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: Any) -> Any:
        return self.items[index]
