"""Events and spans."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agentmemory import telemetry
from agentmemory.errors import ModelTimeoutError
from agentmemory.telemetry import Event, emit, memory_span, span, subscribe


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return exporter


@pytest.fixture
def events() -> Iterator[list[Event]]:
    heard: list[Event] = []
    with subscribe(heard.append):
        yield heard


def test_listeners_hear_events_until_they_leave() -> None:
    heard: list[Event] = []
    subscription = subscribe(heard.append)
    emit(Event(name="one"))
    subscription.cancel()
    subscription.cancel()
    emit(Event(name="two"))
    assert [event.name for event in heard] == ["one"]


def test_a_listener_that_fails_hurts_nobody(
    events: list[Event], caplog: pytest.LogCaptureFixture
) -> None:
    def fail(event: Event) -> None:
        raise RuntimeError("broken listener")

    with subscribe(fail):
        emit(Event(name="one"))
    assert [event.name for event in events] == ["one"]
    assert "a telemetry listener failed on 'one'" in caplog.text


def test_warnings_reach_the_log_with_their_facts(caplog: pytest.LogCaptureFixture) -> None:
    emit(Event(name="rerank.skipped", message="no answer", level="warning", attributes={"n": 3}))
    assert caplog.record_tuples == [
        ("agentmemory", logging.WARNING, "rerank.skipped: no answer n=3")
    ]


def test_an_operation_becomes_a_span_and_an_event(
    exporter: InMemorySpanExporter, events: list[Event]
) -> None:
    with memory_span("search_memory", store_id="main", conversation_id="t1") as current:
        current.set(telemetry.MEMORY_RECORD_COUNT, 4)
        current.set(telemetry.RESPONSE_MODEL, None)
    (finished,) = exporter.get_finished_spans()
    expected = {
        "gen_ai.operation.name": "search_memory",
        "gen_ai.provider.name": "agentmemory",
        "gen_ai.memory.store.id": "main",
        "gen_ai.conversation.id": "t1",
        "gen_ai.memory.record.count": 4,
    }
    assert finished.name == "search_memory"
    assert finished.kind is trace.SpanKind.CLIENT
    assert dict(finished.attributes or {}) == expected
    (event,) = events
    assert (event.name, event.attributes) == ("search_memory", expected)
    assert event.duration_s is not None


def test_a_failure_is_told_by_its_kind_and_never_by_its_text(
    exporter: InMemorySpanExporter, events: list[Event]
) -> None:
    with pytest.raises(ModelTimeoutError), span("chat"):
        raise ModelTimeoutError("a secret text")
    with pytest.raises(asyncio.CancelledError), span("chat"):
        raise asyncio.CancelledError
    timed_out, cancelled = exporter.get_finished_spans()
    assert timed_out.attributes == {"error.type": "model_timeout"}
    assert cancelled.attributes == {"error.type": "CancelledError"}
    assert timed_out.status.status_code is trace.StatusCode.ERROR
    assert not timed_out.events
    assert "secret" not in timed_out.to_json() + repr(events)


def test_content_is_recorded_only_when_asked_for(
    events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = telemetry.MEMORY_QUERY_TEXT
    monkeypatch.delenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", raising=False)

    def record() -> bool:
        with span("search_memory") as current:
            current.set_content(name, "quiet restaurants")
        return name in events[-1].attributes

    assert not record()
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "True")
    assert record()
    try:
        telemetry.capture_content(False)
        assert not record()
        telemetry.capture_content(True)
        assert record()
    finally:
        telemetry.capture_content(None)


def test_spans_nest(exporter: InMemorySpanExporter) -> None:
    with span("outer"), span("inner"):
        pass
    inner, outer = exporter.get_finished_spans()
    assert inner.parent is not None
    assert inner.parent.span_id == outer.context.span_id


def test_it_works_without_opentelemetry_and_does_not_import_it() -> None:
    code = (
        "import sys; from agentmemory import telemetry as t; heard = []; t.subscribe(heard.append)\n"
        "with t.span('chat') as s: s.set('a', 1)\n"
        "print(heard[0].name, 'opentelemetry' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == "chat False"
