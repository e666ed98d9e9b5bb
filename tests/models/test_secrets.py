"""A key in any option shows nowhere."""

from __future__ import annotations

import asyncio
import copy
import logging
import pickle
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agentmemory.errors import AgentMemoryError, ConfigurationError
from agentmemory.models import Embedder, Llm, Reranker
from agentmemory.models.secrets import Redactor, Secret
from agentmemory.telemetry import Event
from agentmemory.testing import FakeServer, Fault

KEY = "sk-planted-7f3a9c"


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return exporter


def reachable(value: Any, depth: int = 6) -> Iterator[str]:
    """Yield the repr of an object and of what its attributes hold."""
    yield repr(value)
    yield str(value)
    if depth and type(value).__module__.startswith("agentmemory"):
        names = {*getattr(value, "__dict__", {}), *getattr(type(value), "__slots__", ())}
        for name in names - {"_value"}:
            yield from reachable(getattr(value, name), depth - 1)
    elif isinstance(value, list | tuple | set):
        for item in value:
            yield from reachable(item, depth - 1)


def told(error: BaseException) -> str:
    lines = "".join(traceback.format_exception(error))
    chain: BaseException | None = error
    while chain is not None:
        lines += repr(chain) + str(chain) + repr(chain.args) + repr(vars(chain))
        chain = chain.__cause__ or chain.__context__
    return lines


PLANTED: list[dict[str, Any]] = [
    {"api_key": KEY},
    {"api_base": "http://user:{key}@{host}/v1"},
    {"api_base": "http://{key}@{host}/v1"},
    {"api_base": "http://{host}/v1?key={key}"},
    {"extra_headers": {"x-secret": KEY}},
    {"extra_headers": {"authorization": f"Bearer {KEY}"}},
    {"extra_body": {"nested": [{"token": KEY}]}},
    {"proxy": "http://user:{key}@{host}"},
    {"key_password": KEY},
]


@pytest.mark.parametrize("planted", PLANTED, ids=[str(one) for one in PLANTED])
@pytest.mark.parametrize("build", [Llm, Embedder, Reranker])
async def test_a_planted_key_shows_in_no_log_repr_error_or_span(
    planted: dict[str, Any],
    build: Any,
    exporter: InMemorySpanExporter,
    events: list[Event],
    caplog: pytest.LogCaptureFixture,
    no_waits: list[float],
) -> None:
    caplog.set_level(logging.DEBUG)
    seen: list[str] = []

    async def call(client: Any) -> Any:
        if isinstance(client, Llm):
            return await client.generate("Hi")
        if isinstance(client, Embedder):
            return await client.embed(["Hi"])
        return await client.rerank("Hi", ["Hi"])

    async with FakeServer() as server:
        host = server.url.removeprefix("http://")
        options = {
            name: value.format(key=KEY, host=host) if isinstance(value, str) else value
            for name, value in planted.items()
        }
        options = {"api_base": server.base_url, "read_timeout": 0.2, **options}
        client = build("small", **options)
        seen += reachable(client)
        await call(client)
        for fault in (
            Fault.status(401, message=f"Incorrect API key provided: {KEY}"),
            Fault.status(400, message=f"bad header Basic {KEY}, body {KEY}"),
            Fault.status(404, message=KEY),
            *[Fault.status(429, message=f"slow down {KEY}")] * 4,
            *[Fault.cut()] * 4,
            Fault.invalid_json(),
            Fault.slow(asyncio.Event()),
        ):
            server.script(fault)
        for _ in range(7):
            with pytest.raises(AgentMemoryError) as caught:
                await call(client)
            seen.append(told(caught.value))
        seen += reachable(client)
        await client.aclose()
        assert (
            any(KEY in str(request) for request in server.requests)
            or planted == {"key_password": KEY}
            or "user" in str(planted)
            or "@" in str(planted)
        ), "the key was sent"
    seen += [record.getMessage() for record in caplog.records]
    seen += [str(record.__dict__) for record in caplog.records]
    seen += [span.to_json() for span in exporter.get_finished_spans()]
    seen += list(map(repr, events))
    assert exporter.get_finished_spans()
    assert caplog.records
    for text in seen:
        assert KEY not in text


@pytest.mark.parametrize(
    "options",
    [
        {"api_key": f"{KEY} {KEY}"},
        {"api_key": f"{KEY}\n{KEY}"},
        {"api_base": KEY},
        {"api_base": f"ftp://{KEY}@host"},
        {"api_base": f"http://{KEY}:x:y:z@[::1"},
        {"proxy": KEY},
        {"proxy": f"gopher://{KEY}@host"},
        {"extra_headers": {"a": f"{KEY}\n"}},
        {"extra_headers": {f"{KEY} ": "a"}},
        {"extra_body": {"a": {KEY}}},
        {"extra_body": KEY},
        {"key_file": f"-----BEGIN\n{KEY}"},
        {"cert_file": KEY.encode()},
        {"ca_file": f"{KEY}\n"},
    ],
)
def test_a_key_in_the_wrong_place_is_refused_without_being_shown(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Llm("small", **{"api_base": "http://127.0.0.1:9/v1", **options})
    assert KEY not in told(caught.value)


async def test_a_key_in_place_of_a_file_is_not_shown(tmp_path: Path) -> None:
    async with Llm("small", api_base="https://127.0.0.1:9/v1", ca_file=KEY) as llm:
        with pytest.raises(ConfigurationError) as caught:
            await llm.generate("Hi")
    assert KEY not in told(caught.value)


def test_a_secret_shows_only_when_revealed() -> None:
    secret = Secret(KEY)
    assert KEY not in f"{secret} {secret!r} {secret!s}"
    assert secret.reveal() == KEY
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            leak(secret)


def test_longer_secrets_are_masked_first_and_short_ones_left_alone() -> None:
    redactor = Redactor(["abcd", "abcdef", "the"])
    assert redactor.scrub("abcdef abcd the") == "*** *** the"
    error = ValueError("abcdef", 3)
    error.__cause__ = OSError("abcd")
    redactor.scrub_error(error)
    assert error.args == ("***", 3)
    assert error.__cause__.args == ("***",)
