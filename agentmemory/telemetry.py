"""Events and spans: how the library tells what it does.

May import: errors, and OpenTelemetry only where the program already did. Two ways lead out of
here, and neither costs anything while nobody looks:

- **Events.** `emit` hands an `Event` to every listener of `subscribe` and to the logger
  `agentmemory`. A listener that fails is logged and otherwise ignored.
- **Spans.** `span` measures an operation. It opens an OpenTelemetry span if the program uses
  OpenTelemetry, and emits an event of the same name and attributes when the operation ends.

Names follow the OpenTelemetry conventions for generative AI (v0.1.0) where those have a name.
Content (queries, prompts, memories) is recorded only after `capture_content(True)`, or with
`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true` in the environment. Text of errors is
never recorded on spans, only their kind.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias

from agentmemory.errors import AgentMemoryError

if TYPE_CHECKING:
    from opentelemetry.trace import Span as OpenTelemetrySpan
    from opentelemetry.trace import Tracer

AttributeValue: TypeAlias = str | bool | int | float | Sequence[str]
Level: TypeAlias = Literal["debug", "info", "warning", "error"]
MemoryOperation: TypeAlias = Literal[
    "create_memory",
    "update_memory",
    "upsert_memory",
    "delete_memory",
    "search_memory",
    "create_memory_store",
    "delete_memory_store",
]

OPERATION_NAME: Final = "gen_ai.operation.name"
PROVIDER_NAME: Final = "gen_ai.provider.name"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
EMBEDDING_DIMENSION: Final = "gen_ai.embeddings.dimension.count"
RETRIEVAL_TOP_K: Final = "gen_ai.retrieval.top_k"
MEMORY_STORE_ID: Final = "gen_ai.memory.store.id"
MEMORY_RECORD_ID: Final = "gen_ai.memory.record.id"
MEMORY_RECORD_COUNT: Final = "gen_ai.memory.record.count"
MEMORY_QUERY_TEXT: Final = "gen_ai.memory.query.text"
MEMORY_RECORDS: Final = "gen_ai.memory.records"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
ERROR_TYPE: Final = "error.type"

CALLS: Final = "agentmemory.model.calls"
"""Requests sent for one operation, retries included."""
RETRIES: Final = "agentmemory.model.retries"
TEXTS: Final = "agentmemory.model.texts"
"""Texts that were to be embedded or ranked."""
CACHED: Final = "agentmemory.model.cached"
"""How many of them were found in the cache."""
COST: Final = "agentmemory.model.cost"
"""In the currency of the price table."""

_LEVELS: Final[Mapping[str, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_logger = logging.getLogger("agentmemory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened.

    Args:
        name: What happened, such as `"search_memory"` or `"model.retry"`.
        message: One sentence for people, without content; empty for ended operations.
        level: How much it matters; a warning means that something optional was left out.
        attributes: Facts about it.
        duration_s: How long it took, in seconds; None if it took no time.
    """

    name: str
    message: str = ""
    level: Level = "info"
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    duration_s: float | None = None


Listener: TypeAlias = Callable[[Event], None]


class Subscription:
    """A listener's place on the bus; ends with `cancel()` or at the end of a `with` block."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.cancel()

    def cancel(self) -> None:
        """Hear nothing from now on; a second call does nothing."""
        _bus.remove(self)

    def hear(self, event: Event) -> None:
        """Hand one event to the listener."""
        try:
            self._listener(event)
        except Exception:
            _logger.exception("a telemetry listener failed on %r", event.name)


class _Bus:
    """Who listens, and whether content may be told."""

    def __init__(self) -> None:
        # Replaced as a whole and never changed in place, so that emitting needs no lock.
        self.subscriptions: tuple[Subscription, ...] = ()
        self.content: bool | None = None
        self.tracer: tuple[Any, Tracer] | None = None

    def add(self, subscription: Subscription) -> None:
        self.subscriptions = (*self.subscriptions, subscription)

    def remove(self, subscription: Subscription) -> None:
        self.subscriptions = tuple(one for one in self.subscriptions if one is not subscription)


_bus = _Bus()


def subscribe(listener: Listener) -> Subscription:
    """Have every event handed to `listener`, in the thread it happens in.

    Args:
        listener: Is called with each event and should return soon; what it raises is logged.

    Returns:
        The subscription; keep it to end it.
    """
    subscription = Subscription(listener)
    _bus.add(subscription)
    return subscription


def emit(event: Event) -> None:
    """Tell listeners and the logger `agentmemory` what happened."""
    for subscription in _bus.subscriptions:
        subscription.hear(event)
    level = _LEVELS[event.level]
    if _logger.isEnabledFor(level):
        facts = " ".join(f"{name}={value!r}" for name, value in event.attributes.items())
        took = "" if event.duration_s is None else f" {event.duration_s * 1000:.1f} ms"
        message = f": {event.message}" if event.message else ""
        _logger.log(level, "%s%s%s %s", event.name, took, message, facts)


def capture_content(allowed: bool | None) -> None:  # noqa: FBT001 - the one thing it decides
    """Allow or forbid content on events and spans, for the whole process.

    Args:
        allowed: None goes back to what the environment says.
    """
    _bus.content = allowed


def content_is_captured() -> bool:
    """Say whether content may be put on events and spans."""
    if _bus.content is not None:
        return _bus.content
    value = os.environ.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "")
    return value.strip().lower() in {"true", "1", "span_only", "span_and_event"}


class Span:
    """A running operation; collects the facts that its span and its event will carry."""

    __slots__ = ("_attributes", "_other")

    def __init__(
        self, attributes: dict[str, AttributeValue], other: OpenTelemetrySpan | None
    ) -> None:
        self._attributes = attributes
        self._other = other

    @property
    def attributes(self) -> Mapping[str, AttributeValue]:
        """What was collected so far."""
        return self._attributes

    def set(self, name: str, value: AttributeValue | None) -> None:
        """Record a fact that is not content; None records nothing."""
        if value is None:
            return
        self._attributes[name] = value
        if self._other is not None:
            self._other.set_attribute(name, value)

    def set_content(self, name: str, value: AttributeValue | None) -> None:
        """Record content, if content may be recorded."""
        if content_is_captured():
            self.set(name, value)


@contextmanager
def span(
    name: str,
    attributes: Mapping[str, AttributeValue | None] | None = None,
    *,
    event: str | None = None,
    level: Level = "debug",
    client: bool = False,
) -> Generator[Span]:
    """Measure an operation.

    Args:
        name: Name of the OpenTelemetry span.
        attributes: What is known before it starts; values of None are left out.
        event: Name of the event at the end; default as `name`.
        level: Level of that event; an operation that fails keeps it, for its error is raised.
        client: Whether the operation calls another system (span kind CLIENT, else INTERNAL).

    Yields:
        The span, for facts that become known on the way.
    """
    known = {key: value for key, value in (attributes or {}).items() if value is not None}
    started = time.perf_counter()
    with _open_telemetry(name, known, client=client) as other:
        current = Span(known, other)
        try:
            yield current
        except BaseException as error:
            current.set(ERROR_TYPE, _kind_of(error))
            if other is not None:
                _mark_failed(other)
            raise
        finally:
            if _bus.subscriptions or _logger.isEnabledFor(_LEVELS[level]):
                took = time.perf_counter() - started
                emit(Event(name=event or name, level=level, attributes=known, duration_s=took))


def memory_span(
    operation: MemoryOperation,
    *,
    store_id: str | None = None,
    record_id: str | None = None,
    record_count: int | None = None,
    conversation_id: str | None = None,
) -> AbstractContextManager[Span]:
    """Measure an operation on memories, under the names of the conventions.

    Args:
        operation: What is done.
        store_id: The `memory_store_id` of the client.
        record_id: The record, if it is about one.
        record_count: How many records, if that is known before.
        conversation_id: The thread.

    Returns:
        A context manager that yields the `Span`.
    """
    return span(
        operation,
        {
            OPERATION_NAME: operation,
            PROVIDER_NAME: "agentmemory",
            MEMORY_STORE_ID: store_id,
            MEMORY_RECORD_ID: record_id,
            MEMORY_RECORD_COUNT: record_count,
            CONVERSATION_ID: conversation_id,
        },
        client=True,
    )


def _kind_of(error: BaseException) -> str:
    return error.code if isinstance(error, AgentMemoryError) else type(error).__qualname__


@contextmanager
def _open_telemetry(
    name: str, attributes: Mapping[str, AttributeValue], *, client: bool
) -> Generator[OpenTelemetrySpan | None]:
    # Whoever collects spans has imported the API already; importing it for nobody costs start-up.
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None:
        yield None
        return
    provider = trace.get_tracer_provider()
    if _bus.tracer is None or _bus.tracer[0] is not provider:
        _bus.tracer = (provider, trace.get_tracer("agentmemory"))
    kind = trace.SpanKind.CLIENT if client else trace.SpanKind.INTERNAL
    with _bus.tracer[1].start_as_current_span(
        name,
        kind=kind,
        attributes=dict(attributes),
        # Both would put the text of the error on the span.
        record_exception=False,
        set_status_on_exception=False,
    ) as other:
        yield other


def _mark_failed(other: OpenTelemetrySpan) -> None:
    from opentelemetry.trace import Status, StatusCode

    other.set_status(Status(StatusCode.ERROR))
