"""A query made ready for both arms: cleaned, analysed, rewritten if asked, embedded.

May import the pure stages of this room, models, text and below.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio

from agentmemory.config import SearchStrategy
from agentmemory.errors import ConfigurationError, ModelError, ModelTimeoutError
from agentmemory.requests import QueryTerm
from agentmemory.results import StageTrace
from agentmemory.retrieval.rewrite import hypothetical_answer, reason_to_keep
from agentmemory.retrieval.settings import SearchSettings
from agentmemory.retrieval.vectorizer import Vectorizer
from agentmemory.telemetry import Event, emit
from agentmemory.text.analyzer import analyze, analyze_query

if TYPE_CHECKING:
    from agentmemory.requests import FloatVector

_WORD: Final = re.compile(r"\S+")


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedQuery:
    """A query ready for both arms; one serves every search of a fan-out.

    Args:
        text: The query as it was asked.
        terms: Words for the lexical arm.
        vector: The unit vector to compare with; None without a vector arm.
        actor_terms: Words that may name a speaker.
        stages: What was done to it.
        notes: What went wrong or was left out on the way.
    """

    text: str
    terms: tuple[QueryTerm, ...] = ()
    vector: FloatVector | None = None
    actor_terms: frozenset[str] = frozenset()
    stages: tuple[StageTrace, ...] = ()
    notes: tuple[str, ...] = ()


MAX_QUERY_CHARS: Final = 10_000
"""How much of a query is looked for; a pasted document is searched by its beginning."""


async def prepare_query(
    query: str, *, actors: Collection[str], settings: SearchSettings, vectorizer: Vectorizer
) -> PreparedQuery:
    """Analyse, rewrite and embed a query; a failing model leaves the words and a note.

    Args:
        query: As it was asked.
        actors: The speakers of the scope; their names leave the query and are matched apart.
        settings: Which arms are used, and whether it is rewritten.
        vectorizer: Embeds it.

    Raises:
        ModelError: A model failed and the settings are strict.
        ConfigurationError: The vector arm alone is asked for, there is no embedder and the
            settings are strict.
        EmbedderMismatchError: The stored vectors are another embedder's.
    """
    whole, query = query, query[:MAX_QUERY_CHARS]
    named = named_actors(query, actors)
    reader = _Reader(settings, vectorizer)
    vector = None
    if settings.strategy is not SearchStrategy.KEYWORD:
        vector = await reader.vector(query, text_without_names(query, named))
    terms: tuple[QueryTerm, ...] = ()
    if settings.strategy is not SearchStrategy.VECTOR or reader.words_instead:
        terms = without_names(analyze_query(query), named)
    return PreparedQuery(
        text=whole,
        terms=terms,
        vector=vector,
        actor_terms=named,
        stages=tuple(reader.stages),
        notes=tuple(reader.notes),
    )


def named_actors(query: str, actors: Collection[str]) -> frozenset[str]:
    """Return the words of a query that name a speaker."""
    names = frozenset(token for actor in actors for token in analyze(actor))
    return names.intersection(analyze(query[:MAX_QUERY_CHARS])) if names else frozenset()


class _Reader:
    """Makes the vector of a query and keeps what there is to say about it."""

    def __init__(self, settings: SearchSettings, vectorizer: Vectorizer) -> None:
        self._settings = settings
        self._vectorizer = vectorizer
        self.stages: list[StageTrace] = []
        self.notes: list[str] = []
        self.words_instead = False

    async def vector(self, query: str, cleaned: str) -> FloatVector | None:
        """Return the vector of the cleaned query, or of an answer to the query as it was asked."""
        if not self._vectorizer.is_available:
            self._without_embedder()
            return None
        passage = None if self._settings.rewriter is None else await self._answer(query)
        deadline_s = self._settings.stage_deadline_s
        try:
            with anyio.fail_after(deadline_s):
                if passage is not None:
                    return await self._vectorizer.query_vector(passage, is_query=False)
                return await self._vectorizer.query_vector(cleaned)
        except ModelError as error:
            self._by_words(error)
        except TimeoutError:
            self._by_words(
                ModelTimeoutError(f"the embedder did not answer within {deadline_s:g} s")
            )
        return None

    def _without_embedder(self) -> None:
        if self._settings.strategy is not SearchStrategy.VECTOR:
            return
        if self._settings.strict:
            msg = "the strategy is VECTOR but there is no embedder; pass `embedder` to the client"
            raise ConfigurationError(msg)
        self.words_instead = True
        self.notes.append("searched by words only: there is no embedder")

    def _by_words(self, error: ModelError) -> None:
        if self._settings.strict:
            raise error
        self.words_instead = True
        self.notes.append(f"searched by words only: {error}")
        _tell("searched by words only, the query was not embedded", error)

    async def _answer(self, query: str) -> str | None:
        settings = self._settings
        assert settings.rewriter is not None  # noqa: S101 - the caller asked
        reason = reason_to_keep(query)
        if reason is not None:
            self.notes.append(f"rewrite skipped: {reason}")
            return None
        started = time.perf_counter()
        try:
            passage = await hypothetical_answer(
                settings.rewriter, query, deadline_s=settings.stage_deadline_s
            )
        except ModelError as error:
            if settings.strict:
                raise
            self.notes.append(f"rewrite left out: {error}")
            _tell("the query was not rewritten", error)
            return None
        self.stages.append(
            StageTrace(
                stage="rewrite",
                reason=f"the vector arm looked for {passage!r}",
                duration_s=time.perf_counter() - started,
            )
        )
        return passage


def _tell(what: str, error: ModelError) -> None:
    emit(
        Event(
            name="search.degraded",
            message=f"{what}: {error}",
            level="warning",
            attributes={"error.type": error.code},
        )
    )


def without_names(terms: tuple[QueryTerm, ...], names: frozenset[str]) -> tuple[QueryTerm, ...]:
    """Leave out words that name a speaker, unless nothing else is asked."""
    if not names:
        return terms
    return tuple(term for term in terms if term.text not in names) or terms


def text_without_names(text: str, names: frozenset[str]) -> str:
    """Leave words that name a speaker out of a text, unless nothing else is asked."""
    if not names:
        return text
    kept = [word for word in _WORD.findall(text) if names.isdisjoint(analyze(word))]
    return " ".join(kept) or text
