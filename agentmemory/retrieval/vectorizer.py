"""Vectors of queries and records: what is embedded, and what happens when that fails.

One vector stands for a record. A message's vector is the mean of its own text's and of its text
behind the end of the turn before it, so that "Yes, on Friday" is found by what it answers; the
speaker's name is left out, for it is matched apart. May import stores, models, text and below;
numpy when first used.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import anyio

from agentmemory.errors import ConfigurationError, ModelError, ModelTimeoutError
from agentmemory.protocols import EmbedderFingerprint, IEmbedder, MemoryStore
from agentmemory.telemetry import Event, emit

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from agentmemory.requests import FloatVector

A = TypeVar("A")

CONTEXT_CHARS: Final = 100
"""How much of the end of the turn before a message is embedded with it."""

EMBED_DEADLINE_S: Final = 60.0
"""Seconds one call to the embedder may take, its own retries included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A text to be embedded, with the turn before it if it is a message that has one."""

    id: str
    content: str
    previous: str | None = None


class Vectorizer:
    """Makes vectors for one store, and keeps two embedders from mixing there.

    Args:
        embedder: The embedder; None when search is lexical only.
        store: The store whose vectors it makes.
        deadline_s: Seconds one call to the embedder may take.
    """

    def __init__(
        self,
        embedder: IEmbedder | None,
        store: MemoryStore,
        *,
        deadline_s: float = EMBED_DEADLINE_S,
    ) -> None:
        self._embedder = embedder
        self._store = store
        self._deadline_s = deadline_s
        self._claimed: EmbedderFingerprint | None = None

    @property
    def is_available(self) -> bool:
        """Whether there is an embedder at all."""
        return self._embedder is not None

    async def query_vector(self, text: str, *, is_query: bool = True) -> FloatVector | None:
        """Embed a query; None without an embedder or for a text without meaning to it.

        Args:
            text: The query, or a passage that might answer it.
            is_query: Whether it is the query itself; a passage is embedded as records are.

        Raises:
            ModelError: The embedder failed.
            EmbedderMismatchError: The stored vectors are another embedder's.
        """
        matrix = await self._embed([text], is_query=is_query)
        if matrix is None:
            return None
        vector = _unit(matrix)[0]
        return vector if vector.any() else None

    async def record_vectors(self, passages: Sequence[Passage]) -> dict[str, FloatVector] | None:
        """Embed records for storing; None without an embedder.

        A failing embedder loses no data: the failure is told as the event
        `embedding.skipped`, and the records are stored without vectors until `reembed`.

        Raises:
            EmbedderMismatchError: The stored vectors are another embedder's.
        """
        if self._embedder is None or not passages:
            return None
        texts = [passage.content for passage in passages]
        in_context = [
            (index, f"{passage.previous[-CONTEXT_CHARS:]}\n{passage.content}")
            for index, passage in enumerate(passages)
            if passage.previous
        ]
        try:
            matrix = await self._embed([*texts, *(text for _, text in in_context)])
        except ModelError as error:
            emit(
                Event(
                    name="embedding.skipped",
                    message=f"stored {len(passages)} records without vectors: {error}; "
                    "`reembed` adds them",
                    level="warning",
                    attributes={"error.type": error.code, "records": len(passages)},
                )
            )
            return None
        if matrix is None:
            return None
        unit = _unit(matrix)
        own = unit[: len(texts)].copy()
        for place, (index, _) in enumerate(in_context, start=len(texts)):
            own[index] += unit[place]
        own = _unit(own)
        return {passage.id: own[index] for index, passage in enumerate(passages)}

    async def _embed(
        self, texts: Sequence[str], *, is_query: bool = False
    ) -> npt.NDArray[np.float32] | None:
        embedder = self._embedder
        if embedder is None:
            return None
        fingerprint = self._claimed or await self._claim(embedder)
        matrix = await self._ask(lambda: embedder.embed(texts, is_query=is_query))
        return _checked(matrix, len(texts), fingerprint.dimension)

    async def _claim(self, embedder: IEmbedder) -> EmbedderFingerprint:
        fingerprint = await self._ask(embedder.fingerprint)
        await self._store.claim_embedder(fingerprint)
        self._claimed = fingerprint
        return fingerprint

    async def _ask(self, question: Callable[[], Awaitable[A]]) -> A:
        """Ask the embedder alone: a store that fails is not to be taken for a model that does."""
        try:
            with anyio.fail_after(self._deadline_s):
                return await question()
        except (ModelError, ConfigurationError):
            raise
        except TimeoutError as error:
            msg = f"the embedder did not answer within {self._deadline_s:g} s"
            raise ModelTimeoutError(msg) from error
        except Exception as error:
            msg = f"the embedder failed: {type(error).__name__}: {error}"
            raise ModelError(msg) from error

    async def replace_embedder(self) -> None:
        """Drop all vectors of another embedder and tie the store to this one."""
        if self._embedder is None:
            msg = "`embedder` is None: there is nothing to make vectors with"
            raise ConfigurationError(msg)
        fingerprint = await self._ask(self._embedder.fingerprint)
        await self._store.replace_embedder(fingerprint)
        self._claimed = fingerprint

    async def fits_store(self) -> bool:
        """Tell whether the stored vectors are this embedder's, tying an empty store to it."""
        if self._embedder is None:
            return False
        try:
            await self._claim(self._embedder)
        except ConfigurationError:
            return False
        return True


def _checked(
    matrix: npt.NDArray[np.float32], count: int, dimension: int | None
) -> npt.NDArray[np.float32]:
    """Refuse what would become a NaN or a missing vector later."""
    import numpy as np

    try:
        array = np.asarray(matrix, dtype=np.float32)
    except (TypeError, ValueError) as error:
        msg = f"the embedder returned no array of numbers: {type(matrix).__name__}"
        raise ModelError(msg) from error
    if array.ndim != 2 or array.shape[0] != count:
        msg = f"the embedder returned an array of shape {array.shape} for {count} texts"
        raise ModelError(msg)
    if count and dimension is not None and array.shape[1] != dimension:
        msg = f"the embedder returned vectors of {array.shape[1]} numbers instead of {dimension}"
        raise ModelError(msg)
    if not np.isfinite(array).all():
        msg = "the embedder returned a vector with NaN or infinity in it"
        raise ModelError(msg)
    return array


def _unit(matrix: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Scale rows to unit length; a zero row (empty text) stays zero and never becomes NaN."""
    import numpy as np

    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    scaled: npt.NDArray[np.float32] = np.divide(
        matrix, lengths, out=np.zeros_like(matrix), where=lengths > 0
    )
    return scaled


def passages_of(items: Sequence[tuple[str, str]], previous: str | None) -> tuple[Passage, ...]:
    """Return the passages of consecutive messages: pairs of id and text, and the turn before."""
    passages = []
    for record_id, content in items:
        passages.append(Passage(id=record_id, content=content, previous=previous))
        previous = content
    return tuple(passages)
