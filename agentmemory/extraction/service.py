"""What a client needs of this room: which jobs go with a write, and the worker that does them.

May import the other modules of this room and what they may import.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from agentmemory.extraction.detector import detect
from agentmemory.extraction.extractor import DETECT, EXTRACT, SUMMARIZE, Extractor
from agentmemory.extraction.worker import Handler, Worker
from agentmemory.extraction_config import (
    BackgroundExtractionQueueFullBehavior,
    ExtractionMode,
    ExtractionSettings,
    MemoryExtractionConfig,
    settings_from,
    to_stored,
)
from agentmemory.outbox import RENEW_VECTORS
from agentmemory.protocols import Clock, ILlm, MemoryStore, TokenCounter
from agentmemory.records import ScopedRecord, ThreadRecord, new_id
from agentmemory.requests import JobDraft
from agentmemory.retrieval.search import Searcher
from agentmemory.retrieval.vectorizer import Vectorizer

THREAD_KEY: Final = "memory_extraction_config"
"""Where a thread keeps its configuration."""


def stored_extraction(config: MemoryExtractionConfig | None) -> dict[str, Any]:
    """Return what a thread stores of its configuration."""
    return {} if config is None else {THREAD_KEY: to_stored(config)}


class Plan:
    """What a write of messages brings with it.

    Args:
        thread_id: The thread.
        settings: How memories are drawn out of the messages.
        jobs: The work to store with them.
    """

    def __init__(
        self, thread_id: str, settings: ExtractionSettings, jobs: Sequence[JobDraft]
    ) -> None:
        self.thread_id = thread_id
        self.settings = settings
        self.jobs = tuple(jobs)


class Extraction:
    """Draws memories out of the messages of one store.

    Args:
        store: The store.
        searcher: Finds related memories.
        vectorizer: Makes the vectors of new memories.
        counter: Measures prompts.
        clock: Tells the time.
        llm: The language model; None for the detector of phrases.
        config: What holds where neither call nor thread say anything.
        summarize: Does the jobs that renew summaries; None without a language model.
        renew: Does the jobs that renew vectors; None without an embedder.
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
        config: MemoryExtractionConfig | None,
        summarize: Handler | None,
        renew: Handler | None,
    ) -> None:
        self._store = store
        self._llm = llm
        self._config = config
        extractor = Extractor(store, searcher, vectorizer, counter=counter, clock=clock, llm=llm)
        handlers: dict[str, Handler] = {}
        if llm is None:
            handlers[DETECT] = extractor.work
        else:
            handlers[EXTRACT] = handlers[DETECT] = extractor.work
        if summarize is not None:
            handlers[SUMMARIZE] = summarize
        if renew is not None:
            handlers[RENEW_VECTORS] = renew
        self._kinds = tuple(handlers)
        self.worker = Worker(store, clock, handlers, follow_ups=(SUMMARIZE,))

    async def resume(self) -> None:
        """Go on with what was left when a process ended; called once the store is open."""
        count, _ = await self._store.open_jobs(kinds=self._kinds)
        if count or self._llm is not None:
            self.worker.wake()

    def settings(
        self, thread: ThreadRecord, call: MemoryExtractionConfig | None = None
    ) -> ExtractionSettings:
        """Return how memories are drawn out of a thread's messages."""
        return settings_from(self._merged(thread, call))

    def _merged(self, thread: ThreadRecord, call: MemoryExtractionConfig | None) -> dict[str, Any]:
        stored: Mapping[str, Any] = thread.config.get(THREAD_KEY) or {}
        config = MemoryExtractionConfig(**stored).over(self._config)
        return to_stored(config if call is None else call.over(config))

    def plan(
        self,
        thread: ThreadRecord,
        messages: Sequence[ScopedRecord],
        call: MemoryExtractionConfig | None = None,
    ) -> Plan:
        """Say what work goes with new messages."""
        merged = self._merged(thread, call)
        settings = settings_from(merged)
        if self._llm is None:
            wanted = settings.extract_memories and settings.detect_instructions
            messages = [message for message in messages if wanted and detect([message])]
        if not messages or not settings.extract_memories:
            return Plan(thread.id, settings, ())
        return Plan(
            thread.id, settings, [self._job(thread, [item.id for item in messages], merged)]
        )

    def plan_edit(self, thread: ThreadRecord, message_id: str) -> Plan:
        """Say what work goes with a new text of a message: its memories are made anew."""
        merged = self._merged(thread, None)
        job = self._job(thread, [message_id], merged, retire=[message_id])
        return Plan(thread.id, settings_from(merged), [job])

    def _job(
        self,
        thread: ThreadRecord,
        message_ids: Sequence[str],
        settings: Mapping[str, Any],
        retire: Sequence[str] = (),
    ) -> JobDraft:
        payload: dict[str, Any] = {"messages": list(message_ids), "settings": dict(settings)}
        if retire:
            payload["retire"] = list(retire)
        return JobDraft(
            id=new_id(),
            kind=DETECT if self._llm is None else EXTRACT,
            thread_id=thread.id,
            payload=payload,
        )

    async def make_room(self, plan: Plan) -> None:
        """Wait, as the plan's settings say, while too much work is waiting.

        Raises:
            WaitTimeoutError: There is no room, and the settings make that an error.
        """
        behavior = plan.settings.background_extraction_queue_full_behavior
        if plan.jobs and behavior is not BackgroundExtractionQueueFullBehavior.DROP:
            await self.worker.make_room(
                plan.settings.background_extraction_queue_put_timeout_seconds,
                must=behavior is BackgroundExtractionQueueFullBehavior.WAIT_THEN_RAISE,
            )

    async def go_on(self, plan: Plan) -> None:
        """Have stored work done: now in the background, or inline before this returns.

        Raises:
            AgentMemoryError: Inline, what the work failed with.
        """
        if not plan.jobs:
            return
        self.worker.wake()
        if plan.settings.extraction_mode is ExtractionMode.INLINE:
            for job in plan.jobs:
                await self.worker.finish(job.id, thread_id=plan.thread_id)
