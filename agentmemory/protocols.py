"""What a replaceable part must do, and the plain values it hands back.

May import: requests, results, records, messages, scope, errors. Anything that has the methods
meets a protocol; nothing needs to inherit from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    FloatMatrix = npt.NDArray[np.float32]


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
