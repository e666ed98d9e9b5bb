"""Deadlines, attempts, permits, connections, proxies and certificates, over real sockets."""

from __future__ import annotations

import asyncio
import gc
import ssl
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from agentmemory.errors import (
    AuthenticationError,
    BadModelOutput,
    ConfigurationError,
    ContextLengthError,
    ModelError,
    ModelRequestError,
    ModelTimeoutError,
    ModelUnavailableError,
    RateLimitedError,
)
from agentmemory.models import Embedder, Llm
from agentmemory.models.faults import fault_of_exception, fault_of_status, retry_after_of
from agentmemory.models.http import Waits
from agentmemory.models.secrets import Redactor
from agentmemory.telemetry import Event
from agentmemory.testing import FakeServer, Fault
from tests.models.certificates import Certificates

NOBODY = Redactor([])


def llm_of(server: FakeServer, **options: Any) -> Llm:
    return Llm("small", api_base=server.base_url, **options)


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
async def test_statuses_that_may_pass_are_tried_again(status: int, no_waits: list[float]) -> None:
    async with FakeServer() as server, llm_of(server) as llm:
        server.script(Fault.status(status), Fault.status(status), "back again")
        response = await llm.generate("Hi")
    assert response.text == "back again"
    assert response.usage.calls == 3
    assert len(no_waits) == 2


@pytest.mark.parametrize(
    ("status", "error", "retryable"),
    [
        (400, ModelRequestError, False),
        (401, AuthenticationError, False),
        (403, AuthenticationError, False),
        (404, ModelRequestError, False),
        (422, ModelRequestError, False),
        (307, ModelRequestError, False),
    ],
)
async def test_other_statuses_are_told_at_once(
    status: int, error: type[ModelError], retryable: bool, no_waits: list[float]
) -> None:
    async with FakeServer() as server, llm_of(server) as llm:
        server.script(Fault.status(status, message="what was wrong"))
        with pytest.raises(error, match="what was wrong") as caught:
            await llm.generate("Hi")
        assert len(server.requests) == 1
    assert type(caught.value) is error
    assert caught.value.status == status
    assert caught.value.request_id == "req-1"
    assert caught.value.retryable is retryable
    assert no_waits == []


@pytest.mark.parametrize(
    ("status", "error"),
    [(429, RateLimitedError), (503, ModelUnavailableError), (409, ModelRequestError)],
)
async def test_attempts_are_counted_and_then_the_last_error_is_told(
    status: int, error: type[ModelError], no_waits: list[float], events: list[Event]
) -> None:
    async with FakeServer() as server, llm_of(server, max_attempts=3) as llm:
        server.script(*[Fault.status(status)] * 9)
        with pytest.raises(error) as caught:
            await llm.generate("Hi")
        assert len(server.requests) == 3
    assert caught.value.retryable
    assert len(no_waits) == 2
    retries = [event for event in events if event.name == "model.retry"]
    assert [event.attributes["attempt"] for event in retries] == [1, 2]
    (call,) = [event for event in events if event.name == "model.chat"]
    assert call.attributes["agentmemory.model.calls"] == 3
    assert call.attributes["agentmemory.model.retries"] == 2
    assert call.attributes["error.type"] == error.code


async def test_waits_grow_with_full_jitter(no_waits: list[float]) -> None:
    async with FakeServer() as server, llm_of(server, max_attempts=9) as llm:
        for _ in range(5):
            server.script(*[Fault.status(500)] * 8)
            await llm.generate("Hi")
    assert len(no_waits) == 40
    for number, wait in enumerate(no_waits):
        assert 0 <= wait <= min(20.0, 0.5 * 2 ** (number % 8))
    assert len(set(no_waits)) == 40
    assert max(no_waits) > 2


@pytest.mark.parametrize("status", [429, 503])
async def test_the_wait_that_the_provider_asks_for_is_kept(
    status: int, no_waits: list[float]
) -> None:
    async with FakeServer() as server, llm_of(server) as llm:
        server.script(Fault.status(status, retry_after=7))
        await llm.generate("Hi")
    assert no_waits == [7.0]


async def test_a_wait_longer_than_the_deadline_is_told_at_once(no_waits: list[float]) -> None:
    async with FakeServer() as server, llm_of(server, total_timeout=60) as llm:
        server.script(Fault.status(429, retry_after=61))
        with pytest.raises(RateLimitedError) as caught:
            await llm.generate("Hi")
    assert caught.value.retry_after == 61
    assert no_waits == []


def test_waits_are_read_in_every_notation() -> None:
    now = datetime(2026, 5, 1, tzinfo=UTC)
    later = format_datetime(now + timedelta(seconds=90), usegmt=True)
    assert retry_after_of({"retry-after": "1.5"}) == 1.5
    assert retry_after_of({"retry-after-ms": "250", "retry-after": "9"}) == 0.25
    assert retry_after_of({"retry-after": later}, now=now) == 90
    assert retry_after_of({"retry-after": later}, now=now + timedelta(days=1)) == 0
    assert retry_after_of({"retry-after": "soon"}) is None
    assert retry_after_of({"retry-after-ms": "x"}) is None
    assert retry_after_of({}) is None


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, {"error": {"code": "context_length_exceeded", "message": "too big"}}),
        (400, {"error": {"message": "This model's maximum context length is 8192 tokens."}}),
        (400, {"type": "error", "error": {"message": "prompt is too long: 210000 tokens"}}),
        (400, {"error": {"message": "the request exceeds the available context size"}}),
        (400, {"error": "the input length exceeds the context length"}),
        (400, {"message": "Too many tokens: overall 20000 in batch"}),
        (413, {"error": "Input validation error: `inputs` must have less than 512 tokens."}),
        (400, [{"error": {"message": "exceeds the maximum number of tokens allowed"}}]),
        (500, {"error": {"message": "input is larger than the context window"}}),
        (422, "Please reduce the length of the messages."),
    ],
)
def test_texts_that_are_too_long_are_recognised(status: int, body: Any) -> None:
    fault = fault_of_status(status, {}, body, model="small", redactor=NOBODY)
    assert isinstance(fault.error, ContextLengthError)
    assert not fault.may_retry


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "max_tokens is not a known parameter"}},
        {"error": {"message": "temperature must be at most 2"}},
        {"error": {"message": "model not found"}},
        "<html>context length</html>",
    ],
)
def test_other_refusals_are_not_taken_for_length(body: Any) -> None:
    fault = fault_of_status(400, {}, body, model="small", redactor=NOBODY)
    assert type(fault.error) is ModelRequestError


async def test_a_text_that_is_too_long_is_not_tried_again(no_waits: list[float]) -> None:
    async with FakeServer() as server, llm_of(server) as llm:
        server.script(Fault.context_length())
        with pytest.raises(ContextLengthError):
            await llm.generate("Hi", response_json_schema={"type": "object"})
        assert len(server.requests) == 1
    assert no_waits == []


async def test_a_spent_quota_is_not_tried_again() -> None:
    async with FakeServer() as server, llm_of(server) as llm:
        server.script(Fault.status(429, message="You exceeded your current quota"))
        with pytest.raises(RateLimitedError) as caught:
            await llm.generate("Hi")
        assert len(server.requests) == 1
    assert not caught.value.retryable


@pytest.mark.parametrize("after", [None, 0, 10])
async def test_a_cut_connection_is_tried_again(after: int | None, no_waits: list[float]) -> None:
    async with FakeServer(answer="whole") as server, llm_of(server) as llm:
        server.script(Fault.cut(after=after))
        assert (await llm.generate("Hi")).text == "whole"
    assert len(no_waits) == 1


async def test_an_address_where_nobody_listens_is_tried_again_and_then_told(
    no_waits: list[float], unused_tcp_port: int
) -> None:
    async with Llm("small", api_base=f"http://127.0.0.1:{unused_tcp_port}/v1") as llm:
        with pytest.raises(ModelUnavailableError) as caught:
            await llm.generate("Hi")
    assert isinstance(caught.value.__cause__, httpx.ConnectError)
    assert caught.value.retryable
    assert len(no_waits) == 3


async def test_what_is_no_json_is_told_with_its_text() -> None:
    async with FakeServer() as server, llm_of(server) as llm:
        server.script(Fault.invalid_json())
        with pytest.raises(BadModelOutput, match="not JSON") as caught:
            await llm.generate("Hi")
        assert len(server.requests) == 1
    assert caught.value.raw == '{"choices": [{"message": {'
    assert caught.value.request_id == "req-1"


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (b'{"error": {"code": 429, "message": "slow down"}}', RateLimitedError),
        (b'{"error": {"message": "upstream failed"}}', ModelUnavailableError),
        (b'{"object": "list"}', BadModelOutput),
        (b"[]", BadModelOutput),
        (b'{"choices": []}', BadModelOutput),
    ],
)
async def test_success_that_is_none_is_an_error(
    reply: bytes, error: type[ModelError], no_waits: list[float]
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {len(reply)}\r\n\r\n"
        writer.write(head.encode() + reply)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with Llm("small", api_base=f"http://127.0.0.1:{port}/v1") as llm:
            with pytest.raises(error):
                await llm.generate("Hi")


async def test_an_answer_that_stays_out_ends_at_the_read_deadline_and_is_not_asked_again() -> None:
    never = asyncio.Event()
    async with FakeServer() as server, llm_of(server, read_timeout=0.05) as llm:
        server.script(Fault.slow(never))
        with pytest.raises(ModelTimeoutError, match="no answer in time") as caught:
            await llm.generate("Hi")
        assert len(server.requests) == 1
    assert isinstance(caught.value.__cause__, httpx.ReadTimeout)
    assert isinstance(caught.value, TimeoutError)


async def test_the_total_deadline_covers_attempts_and_waits() -> None:
    never = asyncio.Event()
    async with FakeServer() as server, llm_of(server, total_timeout=0.3) as llm:
        server.script(Fault.status(503, retry_after=0.01), Fault.slow(never))
        with pytest.raises(ModelTimeoutError, match=r"`total_timeout` of 0\.3 s"):
            await llm.generate("Hi")
        assert len(server.requests) == 2


@pytest.mark.parametrize("kind", [httpx.ConnectTimeout, httpx.PoolTimeout])
def test_a_connection_that_takes_too_long_may_be_tried_again(kind: Any) -> None:
    fault = fault_of_exception(kind("late"), model="small", redactor=NOBODY)
    assert isinstance(fault.error, ModelTimeoutError)
    assert fault.may_retry


async def test_a_call_that_waits_lets_others_have_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resting, rested = anyio.Event(), anyio.Event()

    async def rest(seconds: float) -> None:
        resting.set()
        await rested.wait()

    monkeypatch.setattr(Waits, "sleep", staticmethod(rest))
    answers: list[str] = []
    async with FakeServer() as server, llm_of(server, max_concurrent_requests=1) as llm:
        server.script(Fault.status(503), "second", "first")

        async def first() -> None:
            answers.append((await llm.generate("first")).text)

        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(first)
                await resting.wait()
                answers.append((await llm.generate("second")).text)
                rested.set()
    assert answers == ["second", "first"]
    assert server.most_active_requests == 1


@pytest.mark.parametrize("how", ["scope", "task"])
async def test_cancelling_ends_the_call_at_once_and_frees_its_turn(how: str) -> None:
    never = asyncio.Event()
    async with FakeServer() as server, llm_of(server, max_concurrent_requests=1) as llm:
        server.script(Fault.slow(never))
        with anyio.fail_after(10):
            if how == "scope":
                async with anyio.create_task_group() as group:
                    group.start_soon(llm.generate, "Hi")
                    await server.arrived(1)
                    group.cancel_scope.cancel()
            else:
                async with asyncio.TaskGroup() as tasks:
                    task = tasks.create_task(llm.generate("Hi"))
                    await server.arrived(1)
                    task.cancel()
                assert task.cancelled()
            assert (await llm.generate("Hi")).text == "ok"


async def test_cancelling_a_call_that_waits_for_its_turn_takes_no_turn(
    no_waits: list[float],
) -> None:
    gate = asyncio.Event()
    async with FakeServer() as server, llm_of(server, max_concurrent_requests=1) as llm:
        server.script(Fault.slow(gate))
        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(llm.generate, "first")
                await server.arrived(1)
                async with asyncio.TaskGroup() as tasks:
                    waiting = tasks.create_task(llm.generate("second"))
                    await anyio.wait_all_tasks_blocked()
                    waiting.cancel()
                gate.set()
            await llm.generate("third")
    assert [request.json["messages"][0]["content"] for request in server.requests] == [
        "first",
        "third",
    ]


async def test_connections_are_kept_and_used_again() -> None:
    async with FakeServer() as server, llm_of(server) as llm:
        for _ in range(5):
            await llm.generate("Hi")
        assert server.connections == 1


async def test_many_calls_at_once_keep_to_the_limit() -> None:
    async with (
        FakeServer() as server,
        Embedder("small", api_base=server.base_url, max_concurrent_requests=16) as embedder,
    ):
        shapes: list[Any] = []

        async def embed(number: int) -> None:
            rows = await embedder.embed([f"text {number} {place}" for place in range(10)])
            shapes.append(rows.shape)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for number in range(200):
                    group.start_soon(embed, number)
    assert shapes == [(10, 8)] * 200
    assert len(server.requests) == 200
    assert server.connections <= 16
    assert server.most_active_requests <= 16


# The connections of a loop that ended without `aclose` can only be dropped.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_client_serves_one_event_loop_after_another() -> None:
    clients: dict[str, Llm] = {}

    async def ask() -> str:
        async with FakeServer(answer="still here") as server:
            monkey.setenv("http_proxy", server.url)
            llm = clients.setdefault("one", Llm("small", api_base="http://models.example/v1"))
            return (await llm.generate("Hi")).text

    with pytest.MonkeyPatch.context() as monkey:
        assert [asyncio.run(ask()) for _ in range(3)] == ["still here"] * 3
    assert len(clients["one"]._http._lanes) == 1
    clients.clear()
    gc.collect()


async def test_a_proxy_carries_the_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    target = "http://models.example/v1"
    async with FakeServer(answer="through the proxy") as proxy:
        with_login = proxy.url.replace("http://", "http://user:word@")
        async with Llm("small", api_base=target, proxy=with_login) as llm:
            assert (await llm.generate("Hi")).text == "through the proxy"
        assert proxy.requests[0].headers["host"] == "models.example"
        assert proxy.requests[0].headers["proxy-authorization"].startswith("Basic ")
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        async with Llm("small", api_base=target) as llm:
            assert (await llm.generate("Hi")).text == "through the proxy"
        monkeypatch.setenv("http_proxy", proxy.url.removeprefix("http://"))
        async with Llm("small", api_base=target) as llm:
            assert (await llm.generate("Hi")).text == "through the proxy"


async def test_proxies_of_the_environment_can_be_left_aside(
    monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
) -> None:
    async with FakeServer() as server:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{unused_tcp_port}")
        async with llm_of(server, trust_env=False) as llm:
            assert (await llm.generate("Hi")).text == "ok"
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        async with llm_of(server) as llm:
            assert (await llm.generate("Hi")).text == "ok"


async def test_an_own_authority_and_a_client_certificate_are_accepted(tmp_path: Path) -> None:
    made = Certificates(tmp_path)
    async with FakeServer(tls=made.server_context(ask_client=True)) as server:
        async with llm_of(
            server,
            ca_file=made.authority,
            cert_file=made.client,
            key_file=made.client_key,
            key_password=made.password,
        ) as llm:
            assert (await llm.generate("Hi")).text == "ok"
        async with llm_of(server, ca_file=made.authority, max_attempts=1) as llm:
            with pytest.raises(ModelUnavailableError):
                await llm.generate("Hi")


async def test_a_server_that_nobody_vouches_for_is_refused_without_further_attempts(
    tmp_path: Path, no_waits: list[float]
) -> None:
    made = Certificates(tmp_path)
    async with FakeServer(tls=made.server_context()) as server, llm_of(server) as llm:
        with pytest.raises(ModelUnavailableError, match="`ca_file`") as caught:
            await llm.generate("Hi")
    assert not caught.value.retryable
    assert no_waits == []


async def test_files_that_hold_no_certificate_are_told_by_name(tmp_path: Path) -> None:
    made = Certificates(tmp_path)
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    async with FakeServer(tls=made.server_context()) as server:
        for options, name in (
            ({"ca_file": empty}, "`ca_file`"),
            ({"ca_file": tmp_path / "none.pem"}, "`ca_file`"),
            ({"cert_file": empty}, "`cert_file`"),
            ({"cert_file": made.client, "key_file": made.client_key}, "`key_password`"),
            (
                {"cert_file": made.client, "key_file": made.client_key, "key_password": "no"},
                "`key_password`",
            ),
        ):
            async with llm_of(server, **options) as llm:
                with pytest.raises(ConfigurationError, match=name):
                    await llm.generate("Hi")


async def test_tls_of_the_environment_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Certificates(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(made.authority))
    async with FakeServer(tls=made.server_context()) as server, llm_of(server) as llm:
        assert (await llm.generate("Hi")).text == "ok"
    assert isinstance(made.server_context(), ssl.SSLContext)
