"""What the fake server says, in the words of each provider.

May import: hash_embedder of this room. Nothing here does input or output.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from agentmemory.testing.hash_embedder import HashEmbedder

if TYPE_CHECKING:
    import asyncio

RerankForm: TypeAlias = Literal["cohere", "jina", "voyage", "tei", "vllm"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that goes wrong with one request; made by the class methods."""

    kind: Literal["status", "cut", "slow", "invalid_json", "wrong_count", "context_length"]
    code: int = 200
    retry_after: str | None = None
    message: str = "scripted fault"
    after: int | None = None
    until: float | asyncio.Event = 0.0
    by: int = 0

    @classmethod
    def status(
        cls,
        code: int,
        *,
        retry_after: float | str | None = None,
        message: str = "scripted fault",
    ) -> Self:
        """Answer with an error status, with `Retry-After` if given."""
        wait = None if retry_after is None else str(retry_after)
        return cls(kind="status", code=code, retry_after=wait, message=message)

    @classmethod
    def cut(cls, *, after: int | None = None) -> Self:
        """Cut the connection, before the answer or after so many bytes of its body."""
        return cls(kind="cut", after=after)

    @classmethod
    def slow(cls, until: float | asyncio.Event) -> Self:
        """Answer only after so many seconds, or when the event is set."""
        return cls(kind="slow", until=until)

    @classmethod
    def invalid_json(cls) -> Self:
        """Answer with status 200 and something that is not JSON."""
        return cls(kind="invalid_json")

    @classmethod
    def wrong_count(cls, by: int = -1) -> Self:
        """Leave vectors or scores out of the answer, or add some."""
        return cls(kind="wrong_count", by=by)

    @classmethod
    def context_length(cls) -> Self:
        """Refuse the input as too long."""
        return cls(kind="context_length")


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeRequest:
    """A request that the server got.

    Args:
        method: The method.
        path: The path, without the query.
        query: The query, as it was sent.
        headers: The headers, names in lower case.
        json: The decoded body.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    json: Any


def error_body(path: str, code: int, message: str, kind: str) -> Any:
    """Return an error in the words of whoever serves the path."""
    if path.endswith("/messages"):
        return {"type": "error", "error": {"type": kind, "message": message}}
    if path.endswith("/rerank") and code in {413, 422, 424}:
        return {"error": message, "error_type": "Validation"}
    return {"error": {"message": message, "type": "invalid_request_error", "code": kind}}


def chat_answer(request: FakeRequest, text: str, finish: str) -> Any:
    """Answer in the form of chat completions."""
    body = request.json
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if body.get("tools"):
        name = body["tools"][0]["function"]["name"]
        call = {"id": "call-1", "type": "function", "function": {"name": name, "arguments": text}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return {
        "id": "chat-1",
        "object": "chat.completion",
        "model": body.get("model"),
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 7, "completion_tokens": words(text)},
    }


def responses_answer(request: FakeRequest, text: str, finish: str) -> Any:
    """Answer in the form of responses."""
    body = request.json
    thinking: dict[str, Any] = {"type": "reasoning", "id": "r-1", "summary": []}
    item: dict[str, Any]
    if body.get("tools"):
        item = {"type": "function_call", "name": body["tools"][0]["name"], "arguments": text}
    else:
        part = {"type": "output_text", "text": text, "annotations": []}
        item = {"type": "message", "role": "assistant", "content": [part]}
    cut = finish == "length"
    return {
        "id": "resp-1",
        "object": "response",
        "model": body.get("model"),
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "error": None,
        "output": [thinking, item],
        "usage": {"input_tokens": 7, "output_tokens": words(text)},
    }


def messages_answer(request: FakeRequest, text: str, finish: str) -> Any:
    """Answer in the form of Anthropic's messages."""
    body = request.json
    block: dict[str, Any] = {"type": "text", "text": text}
    if body.get("tools"):
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        block = {"type": "tool_use", "id": "t-1", "name": body["tools"][0]["name"], "input": value}
    return {
        "id": "msg-1",
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": [{"type": "thinking", "thinking": "…", "signature": "s"}, block],
        "stop_reason": {"length": "max_tokens", "stop": "end_turn"}.get(finish, finish),
        "usage": {"input_tokens": 4, "cache_read_input_tokens": 3, "output_tokens": words(text)},
    }


def stream_events(request: FakeRequest, text: str) -> list[str]:
    """Return the text as server-sent events of the form that was asked."""
    pieces = re.findall(r"\s*\S+\s*", text) or [""]
    count = words(text)
    events: list[tuple[str, Any]]
    if request.path.endswith("/chat/completions"):
        chunk: dict[str, Any] = {"object": "chat.completion.chunk"}
        events = [
            ("", {**chunk, "choices": [{"index": 0, "delta": {"content": piece}}]})
            for piece in pieces
        ]
        events.append(("", {**chunk, "choices": [{"delta": {}, "finish_reason": "stop"}]}))
        if request.json.get("stream_options"):
            usage = {"prompt_tokens": 7, "completion_tokens": count}
            events.append(("", {**chunk, "choices": [], "usage": usage}))
        return [": keep-alive\n\n", *map(_event, events), "data: [DONE]\n\n"]
    if request.path.endswith("/responses"):
        events = [("", {"type": "response.output_text.delta", "delta": piece}) for piece in pieces]
        usage = {"input_tokens": 7, "output_tokens": count}
        events.append(("", {"type": "response.completed", "response": {"usage": usage}}))
        return list(map(_event, events))
    start = {"usage": {"input_tokens": 7, "output_tokens": 1}}
    events = [("message_start", {"type": "message_start", "message": start})]
    for piece in pieces:
        delta = {"type": "text_delta", "text": piece}
        events.append(("content_block_delta", {"type": "content_block_delta", "delta": delta}))
    usage = {"input_tokens": 7, "output_tokens": count}
    events.append(("message_delta", {"type": "message_delta", "usage": usage}))
    events.append(("message_stop", {"type": "message_stop"}))
    return list(map(_event, events))


async def embedding_answer(request: FakeRequest, dimension: int, by: int) -> Any:
    """Answer with hash embeddings, in the form of the path; `by` falsifies their number."""
    body = request.json
    texts = texts_of(body)
    dimension = body.get("dimensions") or body.get("output_dimension") or dimension
    rows = await HashEmbedder(dimension).embed(texts)
    vectors = [*rows[: len(texts) + min(by, 0)], *[rows[0]] * max(by, 0)]
    tokens = sum(map(words, texts))
    if request.path.endswith("/embed"):
        return {
            "id": "emb-1",
            "embeddings": {"float": [row.tolist() for row in vectors]},
            "meta": {"billed_units": {"input_tokens": tokens}},
        }
    encoded = body.get("encoding_format") == "base64"
    data = [
        {
            "object": "embedding",
            "index": index,
            "embedding": base64.b64encode(row.tobytes()).decode() if encoded else row.tolist(),
        }
        for index, row in enumerate(vectors)
    ]
    # Order is told by the index, not by the place.
    data.reverse()
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": body.get("model"), "usage": usage}


def rerank_answer(request: FakeRequest, form: RerankForm, by: int) -> Any:
    """Answer with the share of the query's words in each document, in the given form."""
    body = request.json
    wanted = set(body["query"].lower().split())
    documents: Sequence[str] = body.get("texts") or body.get("documents") or []
    scored = [
        (index, len(wanted & set(document.lower().split())) / max(len(wanted), 1))
        for index, document in enumerate(documents)
    ]
    scored.sort(key=lambda pair: -pair[1])
    scored = scored[: len(scored) + min(by, 0)]
    scored += [(len(documents) + extra, 1.0) for extra in range(max(by, 0))]
    tokens = words(body["query"]) + sum(map(words, documents))
    if form == "tei":
        return [{"index": index, "score": score} for index, score in scored]
    rows: list[dict[str, Any]] = [
        {"index": index, "relevance_score": score} for index, score in scored
    ]
    if form == "voyage":
        return {"object": "list", "data": rows, "usage": {"total_tokens": tokens}}
    if form == "cohere":
        return {"id": "rr-1", "results": rows, "meta": {"billed_units": {"search_units": 1}}}
    if form == "vllm":
        for row in rows[: len(documents)]:
            row["document"] = {"text": documents[row["index"]]}
    return {"model": body.get("model"), "results": rows, "usage": {"total_tokens": tokens}}


def texts_of(body: Any) -> list[str]:
    """Return the texts of an embedding request."""
    given = body.get("input", body.get("texts", []))
    return [given] if isinstance(given, str) else list(given)


def words(text: str) -> int:
    """Count words; the server's idea of tokens."""
    return len(text.split())


def _event(pair: tuple[str, Any]) -> str:
    name, data = pair
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n"
