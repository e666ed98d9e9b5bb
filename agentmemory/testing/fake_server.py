"""An HTTP server that plays model providers, over real sockets and in this process.

May import: the other modules of this room, errors. It speaks chat completions, responses,
Anthropic messages, embeddings and reranking, and does what goes wrong with them on demand.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import urllib.parse
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeAlias

import anyio

from agentmemory.errors import UsageError
from agentmemory.testing.fake_wire import (
    FakeRequest,
    Fault,
    RerankForm,
    chat_answer,
    embedding_answer,
    error_body,
    messages_answer,
    rerank_answer,
    responses_answer,
    stream_events,
    texts_of,
)

__all__ = ["FakeRequest", "FakeServer", "Fault"]

ScriptItem: TypeAlias = Fault | str | Mapping[str, Any] | Sequence[Any]
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 429: "Too Many Requests"}
_LLM_FORMS: dict[str, Callable[[FakeRequest, str, str], Any]] = {
    "/chat/completions": chat_answer,
    "/responses": responses_answer,
    "/messages": messages_answer,
}


@dataclass(frozen=True, slots=True)
class _Refusal(Exception):  # noqa: N818 - an answer of the server, no error of the program
    code: int
    message: str
    kind: str
    retry_after: str | None = None


class _CutConnection(Exception):  # noqa: N818 - same
    pass


class FakeServer:
    """A server on a free port of 127.0.0.1; use it as an async context manager.

    Args:
        answer: What language models say when the script is over: text, or a function of the
            request that gives it.
        finish: Why they stop, in the words of chat completions.
        dimension: Length of vectors for which no length is asked.
        rerank_form: The provider whose reranker it plays.
        api_key: The key to insist on; None takes any.
        refuses: Features to refuse with 400: `"json_schema"`, `"json_object"`, `"tool"`,
            `"base64"`, `"dimensions"`, `"stream_options"`.
        bad_texts: Texts to refuse with 400 in embedding requests.
        max_text_length: Characters above which a text is too long for its context.
        max_batch_items: Texts above which a request is too large (413).
        tls: Settings to speak TLS with.
    """

    def __init__(
        self,
        *,
        answer: str | Callable[[FakeRequest], str] = "ok",
        finish: str = "stop",
        dimension: int = 8,
        rerank_form: RerankForm = "cohere",
        api_key: str | None = None,
        refuses: Sequence[str] = (),
        bad_texts: Sequence[str] = (),
        max_text_length: int | None = None,
        max_batch_items: int | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.answer = answer
        self.finish = finish
        self.dimension = dimension
        self.rerank_form: RerankForm = rerank_form
        self.api_key = api_key
        self.refuses = set(refuses)
        self.bad_texts = set(bad_texts)
        self.max_text_length = max_text_length
        self.max_batch_items = max_batch_items
        self.requests: list[FakeRequest] = []
        """Every request so far."""
        self.connections = 0
        """Connections that were opened so far."""
        self.open_connections = 0
        self.most_open_connections = 0
        self.most_active_requests = 0
        """The most requests that were being answered at the same time."""
        self._active = 0
        self._script: deque[ScriptItem] = deque()
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._handlers: set[asyncio.Task[Any]] = set()
        self._arrival = asyncio.Condition()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.close()
        for handler in self._handlers:
            handler.cancel()
        if self._handlers:
            with anyio.CancelScope(shield=True):
                await asyncio.wait(self._handlers)

    @property
    def url(self) -> str:
        """The address, without a path."""
        if self._server is None:
            raise UsageError("the server runs only inside `async with`")
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    @property
    def base_url(self) -> str:
        """The address as `api_base` wants it, ending in `/v1`."""
        return f"{self.url}/v1"

    def script(self, *items: ScriptItem) -> None:
        """Say what happens to the next requests, one item for each.

        Args:
            *items: A fault; or what a language model says, as text or as a value that is sent as
                JSON. A fault that only delays or miscounts is followed by the usual answer.
        """
        self._script.extend(items)

    async def arrived(self, count: int) -> None:
        """Wait until so many requests have come in, all together."""
        async with self._arrival:
            await self._arrival.wait_for(lambda: len(self.requests) >= count)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._handlers.add(task)
            task.add_done_callback(self._handlers.discard)
        self.connections += 1
        self.open_connections += 1
        self.most_open_connections = max(self.most_open_connections, self.open_connections)
        try:
            while (request := await _read_request(reader)) is not None:
                await self._note(request)
                self._active += 1
                self.most_active_requests = max(self.most_active_requests, self._active)
                try:
                    await self._respond(request, writer)
                finally:
                    self._active -= 1
        except (_CutConnection, ConnectionError):
            writer.transport.abort()
        except asyncio.CancelledError:
            # The server is closing; the stream's own callback must not see it as a failure.
            writer.transport.abort()
        finally:
            self.open_connections -= 1
            writer.close()

    async def _note(self, request: FakeRequest) -> None:
        async with self._arrival:
            self.requests.append(request)
            self._arrival.notify_all()

    async def _respond(self, request: FakeRequest, writer: asyncio.StreamWriter) -> None:
        item = self._script.popleft() if self._script else None
        fault = item if isinstance(item, Fault) else None
        retry_after: str | None = None
        try:
            if fault is not None:
                await self._misbehave(fault)
            self._check(request)
            if isinstance(request.json, dict) and request.json.get("stream"):
                await self._stream(request, self._said(item, request), fault, writer)
                return
            code, answer = 200, await self._answer(request, item, fault)
        except _Refusal as refusal:
            code, retry_after = refusal.code, refusal.retry_after
            answer = error_body(request.path, code, refusal.message, refusal.kind)
        body = json.dumps(answer, ensure_ascii=False).encode()
        if fault is not None and fault.kind == "invalid_json":
            body = b'{"choices": [{"message": {'
        head = self._head(code, f"content-length: {len(body)}", retry_after)
        if fault is not None and fault.kind == "cut" and fault.after is not None:
            writer.write(head + body[: fault.after])
            await writer.drain()
            raise _CutConnection
        writer.write(head + body)
        await writer.drain()

    async def _misbehave(self, fault: Fault) -> None:
        if fault.kind == "status":
            kind = "rate_limit_exceeded" if fault.code == 429 else "scripted"
            raise _Refusal(fault.code, fault.message, kind, fault.retry_after)
        if fault.kind == "context_length":
            message = "This model's maximum context length is 8192 tokens."
            raise _Refusal(400, message, "context_length_exceeded")
        if fault.kind == "cut" and fault.after is None:
            raise _CutConnection
        if fault.kind == "slow":
            if isinstance(fault.until, asyncio.Event):
                await fault.until.wait()
            else:
                await asyncio.sleep(fault.until)

    def _check(self, request: FakeRequest) -> None:
        if self.api_key is not None:
            given = {
                request.headers.get("authorization", "").removeprefix("Bearer "),
                request.headers.get("x-api-key", ""),
                request.headers.get("api-key", ""),
            }
            if self.api_key not in given:
                shown = next(filter(None, given), "none")
                raise _Refusal(401, f"Incorrect API key provided: {shown}", "invalid_api_key")
        body = request.json
        if request.method != "POST" or not isinstance(body, dict):
            raise _Refusal(404, "no such route", "not_found")
        for feature in sorted(self.refuses & _features(body)):
            raise _Refusal(400, f"{feature} is not supported", "unsupported_parameter")
        texts = texts_of(body) if request.path.endswith(("/embeddings", "/embed")) else []
        documents = body.get("documents") or body.get("texts") or []
        count = max(len(texts), len(documents))
        if self.max_batch_items is not None and count > self.max_batch_items:
            message = f"batch size {count} > maximum allowed batch size {self.max_batch_items}"
            raise _Refusal(413, message, "validation")
        longest = max(map(len, texts), default=0)
        if self.max_text_length is not None and longest > self.max_text_length:
            message = f"This model's maximum context length is {self.max_text_length} tokens."
            raise _Refusal(400, message, "context_length_exceeded")
        if self.bad_texts.intersection(texts):
            raise _Refusal(400, "'$.input' is invalid", "invalid_request_error")

    async def _answer(
        self, request: FakeRequest, item: ScriptItem | None, fault: Fault | None
    ) -> Any:
        by = fault.by if fault is not None and fault.kind == "wrong_count" else 0
        for suffix, say in _LLM_FORMS.items():
            if request.path.endswith(suffix):
                return say(request, self._said(item, request), self.finish)
        if request.path.endswith(("/embeddings", "/embed")):
            return await embedding_answer(request, self.dimension, by)
        if request.path.endswith("/rerank"):
            return rerank_answer(request, self.rerank_form, by)
        raise _Refusal(404, "no such route", "not_found")

    def _said(self, item: ScriptItem | None, request: FakeRequest) -> str:
        if item is None or isinstance(item, Fault):
            return self.answer if isinstance(self.answer, str) else self.answer(request)
        return item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)

    async def _stream(
        self, request: FakeRequest, text: str, fault: Fault | None, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(self._head(200, "content-type: text/event-stream", None, chunked=True))
        for number, event in enumerate(stream_events(request, text)):
            if fault is not None and fault.kind == "cut" and number == fault.after:
                await writer.drain()
                raise _CutConnection
            data = event.encode()
            writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    def _head(
        self, code: int, line: str, retry_after: str | None, *, chunked: bool = False
    ) -> bytes:
        lines = [f"HTTP/1.1 {code} {_REASONS.get(code, 'Status')}", line]
        lines.append(f"x-request-id: req-{len(self.requests)}")
        if chunked:
            lines.append("transfer-encoding: chunked")
        if retry_after is not None:
            lines.append(f"retry-after: {retry_after}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _features(body: Mapping[str, Any]) -> set[str]:
    wanted = body.get("response_format") or (body.get("text") or {}).get("format") or {}
    wanted = wanted or (body.get("output_config") or {}).get("format") or {}
    found = {str(wanted.get("type")), str(body.get("encoding_format"))}
    found |= {"tool"} if body.get("tools") else set()
    return found | (body.keys() & {"dimensions", "stream_options", "schema"})


async def _read_request(reader: asyncio.StreamReader) -> FakeRequest | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines if line)
    }
    # A proxy is asked with the whole address; this one plays the server behind it as well.
    parts = urllib.parse.urlsplit(target)
    try:
        content = await reader.readexactly(int(headers.get("content-length", "0")))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    try:
        body = json.loads(content) if content else None
    except ValueError:
        body = None
    return FakeRequest(
        method=method, path=parts.path, query=parts.query, headers=headers, json=body
    )
