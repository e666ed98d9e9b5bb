"""From the messages of a job to what it brings: memories, their links, and what they replace.

One model call for each batch, or none: without a model the phrases of users are looked at. May
import the other modules of this room, retrieval, models, protocols and below.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agentmemory.errors import BadModelOutput, NotFoundError
from agentmemory.extraction.detector import detect
from agentmemory.extraction.duplicates import is_near_duplicate
from agentmemory.extraction.evidence import trust_of, without_memory
from agentmemory.extraction.prompts import (
    LINK_SCHEMA,
    MEMORY_AND_LINK_SCHEMA,
    MEMORY_SCHEMA,
    extraction_prompt,
    link_prompt,
)
from agentmemory.extraction.reading import (
    Draft,
    Reading,
    Rejection,
    read_answer,
    read_links,
    relation_of,
    renumbered,
    to_record,
)
from agentmemory.extraction.shortening import pieces, shortened
from agentmemory.extraction_config import (
    ExtractionSettings,
    MemoryExtractionImageContext,
    MemoryLinkExtractionMode,
    settings_from,
)
from agentmemory.models.schema import MisfitError, fit
from agentmemory.protocols import ChatMessage, Clock, ILlm, ImagePart, MemoryStore, TokenCounter
from agentmemory.records import MEMORY_TYPES, RecordRelation, ScopedRecord, ThreadRecord
from agentmemory.requests import (
    MAX_LIST_LIMIT,
    Expectation,
    Job,
    JobDraft,
    JobOutcome,
    JobState,
    ListQuery,
    RecordFilter,
)
from agentmemory.retrieval.request import SearchRequest
from agentmemory.retrieval.search import Searcher
from agentmemory.retrieval.vectorizer import Passage, Vectorizer
from agentmemory.scope import DimensionMatch, ScopeFilter
from agentmemory.telemetry import Event, emit
from agentmemory.text.redaction import redact_secrets

EXTRACT: Final = "extract"
"""Kind of the jobs that a language model is needed for."""

DETECT: Final = "detect"
"""Kind of the jobs that are done without one."""

SUMMARIZE: Final = "summarize"

RELATED: Final = 12
"""How many stored memories a model is offered for linking."""

_LONGEST_QUERY: Final = 600
_MOST_IMAGES: Final = 4
_OVERHEAD: Final = 2000
"""Tokens that instructions and tags may take besides the messages."""


@dataclass(slots=True)
class _Batch:
    """What is known while a job is worked on."""

    thread: ThreadRecord
    settings: ExtractionSettings
    messages: list[ScopedRecord]

    @property
    def memories(self) -> ScopeFilter:
        """Where memories of this thread's user and agent are."""
        return ScopeFilter(
            user=DimensionMatch(exact=True, value=self.thread.user_id),
            agent=DimensionMatch(exact=True, value=self.thread.agent_id),
            thread=DimensionMatch(exact=False, value=self.thread.id),
        )


class Extractor:
    """Works on extraction jobs of one store; writes nothing itself.

    Args:
        store: The store.
        searcher: Finds related memories.
        vectorizer: Makes the vectors of new memories.
        counter: Measures prompts.
        clock: Tells the time.
        llm: The language model; None for the detector of phrases.
    """

    def __init__(
        self,
        store: MemoryStore,
        searcher: Searcher,
        vectorizer: Vectorizer,
        *,
        counter: TokenCounter,
        clock: Clock,
        llm: ILlm | None,
    ) -> None:
        self._store = store
        self._searcher = searcher
        self._vectorizer = vectorizer
        self._counter = counter
        self._clock = clock
        self._llm = llm

    async def work(self, job: Job) -> JobOutcome:
        """Return what a job brings.

        Raises:
            ModelError: The model failed.
        """
        assert job.thread_id is not None  # noqa: S101 - extraction jobs belong to a thread
        payload = job.payload
        settings = settings_from(payload.get("settings", {}))
        retired = tuple(payload.get("retire", ()))
        try:
            thread = await self._store.get_thread(job.thread_id)
        except NotFoundError:
            return JobOutcome()
        ids = tuple(dict.fromkeys((*await self._held(thread.id), *payload["messages"])))
        waits = self._llm is not None and not retired and settings.extract_memories
        if waits and len(ids) < settings.memory_extraction_frequency:
            return JobOutcome(held=ids)
        batch = _Batch(thread, settings, await self._messages(thread, ids))
        reading, stored = await self._read(batch)
        self._tell(job, reading.rejected)
        return await self._outcome(batch, reading, stored, retired)

    async def _held(self, thread_id: str) -> tuple[str, ...]:
        found = await self._store.list_jobs(thread_id=thread_id, states=[JobState.HELD])
        return tuple(name for job in found for name in job.payload["messages"])

    async def _messages(self, thread: ThreadRecord, ids: Sequence[str]) -> list[ScopedRecord]:
        found = await self._store.get_records(
            RecordFilter(
                scope=within(thread),
                now=self._clock.now(),
                record_types=("message",),
                ids=tuple(ids),
            )
        )
        return sorted(found, key=lambda record: record.seq)

    async def _read(self, batch: _Batch) -> tuple[Reading, list[ScopedRecord]]:
        if not batch.settings.extract_memories or not batch.messages:
            return Reading(), []
        if self._llm is None:
            return self._detected(batch), []
        shown = self._shown(batch)
        if not shown:
            return Reading(), []
        return await self._asked(self._llm, batch, shown)

    def _detected(self, batch: _Batch) -> Reading:
        reading = Reading()
        if not batch.settings.detect_instructions:
            return reading
        by_id = {record.id: record for record in batch.messages}
        for number, proposal in enumerate(detect(batch.messages), start=1):
            source = by_id[proposal.source]
            reading.drafts.append(
                Draft(
                    number=number,
                    memory_type=proposal.memory_type,
                    content=redact_secrets(proposal.content),
                    sources=(source,),
                    trust=trust_of(source),
                    confidence=proposal.confidence,
                    event_time=source.event_time,
                )
            )
        return reading

    def _shown(self, batch: _Batch) -> list[list[tuple[ScopedRecord, str]]]:
        """Cut the messages into groups that fit one call each; a long message into pieces."""
        limit = batch.settings.memory_extraction_token_limit
        room = max(limit - _OVERHEAD, limit // 2, 1) if limit > 0 else 0
        longest = batch.settings.max_message_token_length
        if room and (longest <= 0 or longest > room):
            longest = room
        groups: list[list[tuple[ScopedRecord, str]]] = []
        used = 0
        for record in batch.messages:
            text = redact_secrets(without_memory(record.content)).strip()
            if not text:
                continue
            for piece in pieces(text, longest, self._counter):
                size = self._counter.count(piece)
                if not groups or (room and used + size > room):
                    groups.append([])
                    used = 0
                groups[-1].append((record, piece))
                used += size
        return groups

    async def _asked(
        self, llm: ILlm, batch: _Batch, groups: Sequence[Sequence[tuple[ScopedRecord, str]]]
    ) -> tuple[Reading, list[ScopedRecord]]:
        mode = batch.settings.memory_link_extraction_mode
        during = mode is MemoryLinkExtractionMode.DURING_EXTRACTION
        stored = await self._related(batch) if during else []
        context = await self._context(batch)
        summary = await self._summary(batch)
        captions, images = await self._images(batch)
        whole = Reading()
        for group in groups:
            value, misfits = await ask(
                llm,
                extraction_prompt(
                    group,
                    settings=batch.settings,
                    context=context,
                    summary=summary,
                    stored=stored,
                    captions=captions,
                    images=images,
                    with_links=during and bool(stored),
                ),
                MEMORY_AND_LINK_SCHEMA if stored else MEMORY_SCHEMA,
            )
            reading = renumbered(
                read_answer(value, [record for record, _ in group], stored_count=len(stored)),
                len(whole.drafts) + 1,
            )
            whole.drafts.extend(reading.drafts)
            whole.links.extend(reading.links)
            whole.rejected.extend(reading.rejected)
            whole.rejected.extend(("not of the schema", item) for item in misfits)
        if mode is MemoryLinkExtractionMode.POST_EXTRACTION and whole.drafts:
            stored = await self._link_afterwards(llm, batch, whole)
        return whole, stored

    async def _link_afterwards(
        self, llm: ILlm, batch: _Batch, reading: Reading
    ) -> list[ScopedRecord]:
        query = "\n".join(draft.content for draft in reading.drafts)
        stored = await self._related(batch, query)
        if not stored:
            return []
        owner = (batch.thread.user_id, batch.thread.agent_id, batch.thread.id)
        records = [
            to_record(draft, owner=owner, inherit=False, now=self._clock.now())
            for draft in reading.drafts
        ]
        value, _ = await ask(
            llm, link_prompt(records, stored, settings=batch.settings), LINK_SCHEMA
        )
        read_links(value["links"], reading, stored_count=len(stored))
        return stored

    async def _related(self, batch: _Batch, query: str | None = None) -> list[ScopedRecord]:
        """Return the stored memories the batch is about, as many as the limit lets through."""
        text = query or "\n".join(
            without_memory(record.content)
            for record in batch.messages
            if trust_of(record) in ("user", "assistant")
        )
        text = text[-_LONGEST_QUERY:].strip()
        found = await self._search(batch, text, RELATED) if text else []
        limit = batch.settings.memory_link_extraction_token_limit
        kept: list[ScopedRecord] = []
        used = 0
        for record in found:
            used += self._counter.count(record.content)
            if 0 < limit < used:
                break
            kept.append(record)
        return kept

    async def _search(self, batch: _Batch, query: str, count: int) -> list[ScopedRecord]:
        results = await self._searcher.search(
            SearchRequest(
                query=query,
                scope=batch.memories,
                max_results=count,
                record_types=MEMORY_TYPES,
                include_invalid_results=False,
            )
        )
        return [result.record for result in results if isinstance(result.record, ScopedRecord)]

    async def _context(self, batch: _Batch) -> list[tuple[ScopedRecord, str]]:
        window = batch.settings.memory_extraction_window
        if window <= 0:
            return []
        first = batch.messages[0].seq
        known = {record.id for record in batch.messages}
        before: list[ScopedRecord] = []
        cursor: str | None = None
        while len(before) < window:
            page = await self._store.list_records(
                ListQuery(
                    filter=RecordFilter(
                        scope=within(batch.thread),
                        now=self._clock.now(),
                        record_types=("message",),
                    ),
                    limit=min(1000, window + len(known)),
                    descending=True,
                    after=cursor,
                )
            )
            before.extend(
                record for record in page.items if record.seq < first and record.id not in known
            )
            cursor = page.next_cursor
            if cursor is None:
                break
        limit = batch.settings.max_message_token_length
        room = batch.settings.memory_extraction_token_limit // 4
        if room > 0:
            each = max(room // window, 1)
            limit = min(limit, each) if limit > 0 else each
        return [
            (record, shortened(redact_secrets(text), limit, self._counter))
            for record in before[:window][::-1]
            if (text := without_memory(record.content).strip())
        ]

    async def _summary(self, batch: _Batch) -> str | None:
        if not batch.settings.enable_context_summary:
            return None
        found = await self._store.get_summary(batch.thread.id, before_seq=batch.messages[0].seq)
        return None if found is None else found.content

    async def _images(self, batch: _Batch) -> tuple[list[str], list[ImagePart]]:
        mode = batch.settings.memory_extraction_image_context
        if mode is MemoryExtractionImageContext.DISABLED:
            return [], []
        page = await self._store.list_records(
            ListQuery(
                filter=RecordFilter(
                    scope=within(batch.thread), now=self._clock.now(), record_types=("image",)
                ),
                limit=_MOST_IMAGES,
                descending=True,
            )
        )
        records = page.items[::-1]
        captions = [record.content for record in records if record.content]
        if mode is MemoryExtractionImageContext.CAPTION or not records:
            return captions, []
        ids = [record.id for record in records]
        contents = await self._store.get_images(ids, include_bytes=True)
        return captions, [
            ImagePart(
                type="image",
                data=base64.b64encode(contents[name].data or b"").decode(),
                mime_type=contents[name].mime_type,
            )
            for name in ids
            if name in contents
        ]

    async def _outcome(
        self,
        batch: _Batch,
        reading: Reading,
        stored: Sequence[ScopedRecord],
        retired: tuple[str, ...],
    ) -> JobOutcome:
        thread, settings, now = batch.thread, batch.settings, self._clock.now()
        owner = (thread.user_id, thread.agent_id, thread.id)
        records: dict[int, ScopedRecord] = {}
        more: dict[str, tuple[str, ...]] = {}
        for draft in reading.drafts:
            sources = tuple(record.id for record in draft.sources)
            same = await self._same(batch, draft, retired)
            if same is None:
                records[draft.number] = to_record(
                    draft,
                    owner=owner,
                    inherit=settings.memory_extraction_inherit_message_metadata,
                    now=now,
                )
            else:
                more[same.id] = tuple(dict.fromkeys((*more.get(same.id, ()), *sources)))
        vectors = await self._vectorizer.record_vectors(
            [Passage(id=record.id, content=record.content) for record in records.values()]
        )
        links: list[RecordRelation] = []
        for link in reading.links:
            if link.memory in records:
                relation = relation_of(link, records[link.memory], stored[link.stored - 1], now)
                if relation is not None:
                    links.append(relation)
        return JobOutcome(
            records=tuple(records.values()),
            vectors=vectors,
            links=tuple(links),
            jobs=await self._following(batch),
            expects=tuple(
                Expectation(record_id=record.id, revision=record.revision)
                for record in batch.messages
            ),
            more_sources=more,
            retired_sources=retired,
            held=(),
        )

    async def _same(
        self, batch: _Batch, draft: Draft, retired: tuple[str, ...]
    ) -> ScopedRecord | None:
        """Return the stored memory that says the same and that stays, if there is one."""
        for record in await self._search(batch, draft.content, 5):
            goes = bool(record.sources) and set(record.sources) <= set(retired)
            instructs = "guideline" in (record.record_type, draft.memory_type)
            if (
                not goes
                and (record.record_type == draft.memory_type or not instructs)
                and is_near_duplicate(record.content, draft.content)
            ):
                return record
        return None

    async def _following(self, batch: _Batch) -> tuple[JobDraft, ...]:
        """Return the job that renews the summary, if that is due."""
        if self._llm is None or not batch.settings.enable_context_summary or not batch.messages:
            return ()
        due = min(max(batch.settings.context_summary_update_frequency, 1), MAX_LIST_LIMIT)
        summary = await self._store.get_summary(batch.thread.id)
        page = await self._store.list_records(
            ListQuery(
                filter=RecordFilter(
                    scope=within(batch.thread), now=self._clock.now(), record_types=("message",)
                ),
                limit=due,
                descending=True,
            )
        )
        covered = 0 if summary is None else summary.covers_seq
        if sum(record.seq > covered for record in page.items) < due:
            return ()
        last = batch.messages[-1]
        return (
            JobDraft(
                id=f"{SUMMARIZE}:{last.id}:{last.revision}",
                kind=SUMMARIZE,
                thread_id=batch.thread.id,
                payload={"due": due},
            ),
        )

    def _tell(self, job: Job, rejected: Sequence[Rejection]) -> None:
        if rejected:
            reasons = sorted({reason for reason, _ in rejected})
            emit(
                Event(
                    name="extraction.rejected",
                    message="items of an answer were left out or changed",
                    level="warning",
                    attributes={"job": job.id, "count": len(rejected), "reasons": reasons},
                )
            )


def within(thread: ThreadRecord) -> ScopeFilter:
    """Return the scope of what is in a thread."""
    return ScopeFilter(
        user=DimensionMatch(exact=True, value=thread.user_id),
        thread=DimensionMatch(exact=True, value=thread.id),
    )


async def ask(
    llm: ILlm, prompt: Sequence[ChatMessage], schema: Mapping[str, Any]
) -> tuple[Any, tuple[Any, ...]]:
    """Return a model's value, held against the schema once more, and what did not fit.

    Any object with the method of `ILlm` may be the model, so that nothing is taken on trust.

    Raises:
        ModelError: The model failed; `BadModelOutput` for a value of another shape.
    """
    response = await llm.generate(prompt, response_json_schema=schema)
    try:
        fitted = fit(response.value, schema)
    except MisfitError as misfit:
        raise BadModelOutput(
            f"the model's value cannot be used: {misfit}", raw=response.text
        ) from None
    return fitted.value, (*response.rejected, *fitted.rejected)
