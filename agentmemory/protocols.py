"""What a replaceable part must do, and the plain values it hands back.

May import: outbox, requests, results, records, messages, scope, errors. Anything that has the
methods meets a protocol; nothing needs to inherit from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, runtime_checkable

from agentmemory.layering import LayerStore
from agentmemory.outbox import JobStore
from agentmemory.records import ImageContent, RecordRelation, ScopedRecord, ThreadRecord
from agentmemory.requests import (
    Candidate,
    CandidateQuery,
    Deletion,
    Erasure,
    Expansion,
    Expectation,
    Fused,
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

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    FloatMatrix = npt.NDArray[np.float32]
    FloatVector = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderFingerprint:
    """What makes two vectors comparable; a database holds vectors of one fingerprint only.

    Args:
        model: The model's name, with its provider.
        dimension: Length of each vector.
        normalized: Whether vectors have unit length.
        query_prefix: Text put before each query.
        document_prefix: Text put before each stored text.
    """

    model: str
    dimension: int
    normalized: bool = True
    query_prefix: str = ""
    document_prefix: str = ""


@runtime_checkable
class IEmbedder(Protocol):
    """Turns text into vectors."""

    async def embed(self, texts: Sequence[str], *, is_query: bool = False) -> FloatMatrix:
        """Return one float32 row per text, in order: shape `(len(texts), dimension)`."""
        ...

    async def fingerprint(self) -> EmbedderFingerprint:
        """Say what its vectors are; may ask the model once."""
        ...


class TextPart(TypedDict):
    """A piece of text in a chat message."""

    type: Literal["text"]
    text: str


class ImagePart(TypedDict):
    """An image in a chat message: base64 bytes and their MIME type."""

    type: Literal["image"]
    data: str
    mime_type: str


class ChatMessage(TypedDict):
    """One turn handed to a language model."""

    role: Literal["system", "user", "assistant"]
    content: str | Sequence[TextPart | ImagePart]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUsage:
    """What one model call cost.

    Args:
        input_tokens: Tokens read; 0 if the provider did not say.
        output_tokens: Tokens written; 0 if the provider did not say.
        calls: Requests that were sent, retries included.
        latency_s: Seconds from the call to the answer, waits included.
        cost: In the currency of the price table; None without one.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    calls: int = 1
    latency_s: float = 0.0
    cost: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmResponse:
    """A language model's answer.

    Args:
        text: The answer as text.
        value: The parsed and validated value when a JSON schema was asked for, else None.
        rejected: Items of the answer that did not meet the schema, as they were.
        usage: What the call cost.
    """

    text: str
    value: Any = None
    rejected: tuple[Any, ...] = ()
    usage: ModelUsage = field(default_factory=ModelUsage)


@runtime_checkable
class ILlm(Protocol):
    """Generates text, or a value of a JSON schema."""

    async def generate(
        self,
        prompt: str | Sequence[ChatMessage],
        *,
        response_json_schema: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
    ) -> LlmResponse:
        """Answer the prompt.

        Raises:
            ModelError: The model failed; `BadModelOutput` if a schema was asked for and the
                answer could not be made to fit it.
        """
        ...


@dataclass(frozen=True, slots=True)
class RerankResult:
    """The relevance of the document at `index`; greater is better, the scale is the model's."""

    index: int
    relevance_score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankResponse:
    """A reranker's answer, best first."""

    results: tuple[RerankResult, ...]
    usage: ModelUsage = field(default_factory=ModelUsage)


@runtime_checkable
class IReranker(Protocol):
    """Scores documents against a query."""

    async def rerank(self, query: str, documents: Sequence[str]) -> RerankResponse:
        """Score each document; indexes point into `documents`."""
        ...


@runtime_checkable
class TokenCounter(Protocol):
    """Counts the tokens a text would cost in a prompt."""

    def count(self, text: str) -> int:
        """Return the number of tokens, at least 0."""
        ...


@runtime_checkable
class Clock(Protocol):
    """Tells the time, so that tests can hold it still."""

    def now(self) -> datetime:
        """Return the current time, aware, in UTC."""
        ...


@runtime_checkable
class IFusion(Protocol):
    """Turns the scores of both arms into one."""

    def fuse(self, candidates: Sequence[Candidate]) -> list[Fused]:
        """Score every candidate and return them best first."""
        ...


@runtime_checkable
class AnswersTogether(Protocol):
    """A store that answers several searches with one query in a single round trip."""

    async def candidates_together(
        self, queries: Sequence[CandidateQuery]
    ) -> list[tuple[Candidate, ...]]:
        """Return what `MemoryStore.candidates` returns for each query.

        Args:
            queries: They share terms, vector and actor terms; filters and pools differ.
        """
        ...


@runtime_checkable
class RemembersActors(Protocol):
    """A store that looks for the speakers of a scope on the round trip of a search.

    So that a query need not wait for them: it is read with those that are remembered, and once
    more in the rare case that it names one who was not.
    """

    def remembered_actors(self, record_filter: RecordFilter) -> tuple[str, ...]:
        """Return the speakers that the last search of the scope found; empty without one."""
        ...


@runtime_checkable
class ISearchConfig(Protocol):
    """What happens to the results of a search after they were found."""

    @property
    def kind(self) -> str:
        """The word a thread stores it under."""
        ...


class OracleConnection(Protocol):
    """A pool or a connection of python-oracledb, of its asyncio classes or its blocking ones.

    The classes themselves are the driver's; this names what tells them from other things.
    """

    @property
    def dsn(self) -> str:
        """Where it leads to."""
        ...

    @property
    def username(self) -> str:
        """Who is logged in."""
        ...


class MemoryStore(JobStore, LayerStore, Protocol):
    """Keeps threads, records and everything derived from them.

    One method is one unit of work: a single transaction in a single round trip. A write and
    the index rows and jobs it causes are one transaction. Every method may raise `StoreError`
    and, once closed, `ClosedError`. A store enforces the scope of a `RecordFilter` itself, on
    every path.
    """

    @property
    def store_id(self) -> str:
        """The id that tells apart several stores in one database."""
        ...

    async def open(self) -> None:
        """Connect, and check, create or migrate the schema as the policy says."""
        ...

    async def close(self) -> None:
        """Let go of the database; may be called twice."""
        ...

    async def claim_embedder(self, fingerprint: EmbedderFingerprint) -> None:
        """Tie the store to an embedder, or check that it is the one it is tied to.

        Raises:
            EmbedderMismatchError: The stored vectors are another embedder's.
        """
        ...

    async def replace_embedder(self, fingerprint: EmbedderFingerprint) -> None:
        """Drop every vector and tie the store to another embedder."""
        ...

    async def stats(self, now: datetime) -> StoreStats:
        """Count what is stored."""
        ...

    async def add_thread(self, thread: ThreadRecord) -> ThreadRecord:
        """Store a new thread.

        Raises:
            ConflictError: The id is taken.
        """
        ...

    async def get_thread(self, thread_id: str) -> ThreadRecord:
        """Return a thread.

        Raises:
            NotFoundError: There is none.
        """
        ...

    async def update_thread(
        self, thread_id: str, changes: ThreadChanges, *, now: datetime
    ) -> ThreadRecord:
        """Change what `changes` names of a thread.

        Raises:
            NotFoundError: There is none.
        """
        ...

    async def delete_thread(self, thread_id: str, *, now: datetime) -> Deletion:
        """Delete a thread and every record in it."""
        ...

    async def list_threads(self, query: ThreadQuery) -> Page[ThreadRecord]:
        """Return one page of threads."""
        ...

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
        """Store new records, their index rows, links and jobs; all or nothing.

        Args:
            records: Complete but for `seq`, which the store assigns in this order.
            vectors: Unit vectors by record id.
            tail: What the writer saw as the last message when it made the vectors.
            jobs: Background work to store with them.
            links: Links from or to the new records.
            link_filter: What both ends of those links have to pass; None for any record.
            images: The files of new image records by record id.

        Raises:
            ConflictError: An id is taken, or a user or agent has a profile already.
            StaleReadError: The tail has moved.
            NotFoundError: A record names a thread that does not exist or is another user's.
        """
        ...

    async def list_records(self, query: ListQuery) -> Page[ScopedRecord]:
        """Return one page of records; pages never skip or repeat a record."""
        ...

    async def get_records(self, record_filter: RecordFilter) -> tuple[ScopedRecord, ...]:
        """Return the records of `record_filter.ids` that the filter lets through, in that order."""
        ...

    async def get_images(
        self, ids: Sequence[str], *, include_bytes: bool
    ) -> Mapping[str, ImageContent]:
        """Return what is stored of images by record id; the files only if asked for.

        The ids come from records that were read under a scope.
        """
        ...

    async def neighbourhood(self, record_filter: RecordFilter) -> Neighbourhood:
        """Return the message of `record_filter.ids` with the turns around it in its thread.

        Raises:
            NotFoundError: No such record in that scope.
        """
        ...

    async def thread_tail(self, thread_id: str) -> ScopedRecord | None:
        """Return the last message of a thread, or None."""
        ...

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
        """Change what `changes` names of the record of `record_filter.ids`.

        A vector that the change makes stale and that `vectors` does not renew is dropped.

        Raises:
            NotFoundError: No such record in that scope.
            StaleReadError: An expectation does not hold any more.
        """
        ...

    async def delete_records(
        self,
        record_filter: RecordFilter,
        *,
        expects: Sequence[Expectation] = (),
        vectors: Mapping[str, FloatVector] | None = None,
    ) -> Deletion:
        """Delete the records the filter lets through, with all that was derived from them.

        A memory that came from deleted messages alone goes too; one that came partly from them
        stays and is marked for review. Nothing is deleted unless the filter has ids or an exact
        dimension of the scope.

        Raises:
            ScopeError: The filter has neither.
            StaleReadError: An expectation does not hold any more.
        """
        ...

    async def purge_expired(self, now: datetime) -> Deletion:
        """Delete every record that expired at or before a time; what came from it stays."""
        ...

    async def delete_scope(
        self, scope: ScopeFilter, *, now: datetime, dry_run: bool = False
    ) -> Deletion:
        """Delete every thread and record of a scope, whatever its status, tier or expiry.

        Raises:
            ScopeError: No dimension is exact.
        """
        ...

    async def erase_scope(self, scope: ScopeFilter, *, now: datetime) -> Erasure:
        """Delete as `delete_scope`, with every memory that came from what goes, without a trace.

        Raises:
            ScopeError: No dimension is exact.
        """
        ...

    async def put_vectors(
        self, vectors: Mapping[str, FloatVector], *, expects: Sequence[Expectation] = ()
    ) -> None:
        """Renew vectors of stored records.

        Raises:
            StaleReadError: An expectation does not hold any more.
        """
        ...

    async def add_link(
        self, link: RecordRelation, *, record_filter: RecordFilter, now: datetime
    ) -> RecordRelation:
        """Store a link between two memory-like records that the filter lets through.

        Lifecycle links make the record they end at invalid.

        Raises:
            NotFoundError: An end is no memory of that scope.
            ConflictError: The id is taken, the same link exists, or both ends are one record.
            ScopeError: The ends belong to different users.
        """
        ...

    async def update_link(
        self, link_id: str, changes: LinkChanges, *, record_filter: RecordFilter, now: datetime
    ) -> RecordRelation:
        """Change what `changes` names of a link.

        Raises:
            NotFoundError: No such link between records of that scope.
            ConflictError: A link with the same ends and the new type exists.
        """
        ...

    async def delete_link(
        self, link_id: str, *, record_filter: RecordFilter, now: datetime
    ) -> None:
        """Delete a link; a record that no other lifecycle link ends at is valid again.

        Raises:
            NotFoundError: No such link between records of that scope.
        """
        ...

    async def list_links(self, query: LinkQuery) -> Page[RecordRelation]:
        """Return one page of links in the order they were made."""
        ...

    async def expand(self, query: Expansion) -> Mapping[str, tuple[LinkedNode, ...]]:
        """Return the shortest-path tree of each root, nearest first, ties by age of the link."""
        ...

    async def vectors(self, record_ids: Sequence[str]) -> Mapping[str, FloatVector]:
        """Return the unit vectors of the records that have one."""
        ...

    async def candidates(self, query: CandidateQuery) -> tuple[Candidate, ...]:
        """Run both arms of a search and return the union, each with the scores of both."""
        ...

    async def actors(self, record_filter: RecordFilter) -> tuple[str, ...]:
        """Return the names of the speakers in a scope, sorted."""
        ...
