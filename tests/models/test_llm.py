"""`Llm` over real sockets, in each wire form."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest

from agentmemory.errors import (
    BadModelOutput,
    ClosedError,
    ConfigurationError,
    ModelRequestError,
    ModelUnavailableError,
    ValidationError,
)
from agentmemory.models import Llm, ModelPrice
from agentmemory.models.providers import ApiType
from agentmemory.protocols import ChatMessage, ILlm
from agentmemory.testing import FakeServer, Fault

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
FORMS: tuple[ApiType, ...] = ("chat_completions", "responses", "messages")
MEMORIES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "memories": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "text": {"type": "string", "minLength": 1},
                    "type": {"enum": ["fact", "preference"]},
                },
                "required": ["text", "type"],
            },
        }
    },
    "required": ["memories"],
}
VEGETARIAN = {"memories": [{"text": "User is vegetarian.", "type": "preference"}]}


@pytest.mark.parametrize("form", FORMS)
async def test_text_comes_back_with_what_it_cost(form: ApiType) -> None:
    async with (
        FakeServer(answer="Three quiet words.") as server,
        Llm(
            "small",
            api_base=server.base_url,
            api_type=form,
            prices={"small": ModelPrice(input_per_million=1e6, output_per_million=2e6, per_call=5)},
        ) as llm,
    ):
        response = await llm.generate("Say three words.", max_tokens=50)
    assert response.text == "Three quiet words."
    assert (response.value, response.rejected) == (None, ())
    usage = response.usage
    assert (usage.input_tokens, usage.output_tokens, usage.calls) == (7, 3, 1)
    assert usage.cost == 7 * 1 + 3 * 2 + 5
    assert usage.latency_s > 0
    assert isinstance(llm, ILlm)


async def test_chat_completions_carry_the_conversation_and_the_settings() -> None:
    messages: list[ChatMessage] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "assistant", "content": "Hello."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image", "data": PIXEL, "mime_type": "image/png"},
            ],
        },
    ]
    async with (
        FakeServer() as server,
        Llm(
            "vllm/tiny/one",
            api_base=server.base_url,
            api_key="key-1",
            temperature=0.5,
            reasoning_effort="low",
            max_tokens=9,
            extra_body={"seed": 3},
            extra_headers={"X-Team": "memory"},
        ) as llm,
    ):
        await llm.generate(messages)
    (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer key-1"
    assert request.headers["x-team"] == "memory"
    assert request.json == {
        "model": "tiny/one",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {
                        "type": "image_url",
                        "image_url": {"url": f"data:image/png;base64,{PIXEL}"},
                    },
                ],
            },
        ],
        "max_tokens": 9,
        "temperature": 0.5,
        "reasoning_effort": "low",
        "seed": 3,
    }


async def test_responses_carry_typed_parts_and_store_nothing() -> None:
    async with (
        FakeServer() as server,
        Llm("small", api_base=server.base_url, api_type="responses", reasoning_effort="low") as llm,
    ):
        await llm.generate(
            [
                {"role": "assistant", "content": "Hello."},
                {
                    "role": "user",
                    "content": [{"type": "image", "data": PIXEL, "mime_type": "image/jpeg"}],
                },
            ],
            max_tokens=5,
        )
    (request,) = server.requests
    assert request.path == "/v1/responses"
    assert request.json == {
        "model": "small",
        "input": [
            {"role": "assistant", "content": [{"type": "output_text", "text": "Hello."}]},
            {
                "role": "user",
                "content": [
                    {"type": "input_image", "image_url": f"data:image/jpeg;base64,{PIXEL}"}
                ],
            },
        ],
        "store": False,
        "max_output_tokens": 5,
        "reasoning": {"effort": "low"},
    }


async def test_messages_carry_system_text_apart_and_the_key_in_their_own_header() -> None:
    async with (
        FakeServer() as server,
        Llm("anthropic/claude-small", api_base=server.base_url, api_key="key-2") as llm,
    ):
        await llm.generate(
            [
                {"role": "system", "content": "Be brief."},
                {
                    "role": "user",
                    "content": [{"type": "image", "data": PIXEL, "mime_type": "image/webp"}],
                },
            ]
        )
        await llm.generate([{"role": "system", "content": "Only this."}])
    first, second = server.requests
    assert first.path == "/v1/messages"
    assert first.headers["x-api-key"] == "key-2"
    assert first.headers["anthropic-version"] == "2023-06-01"
    assert "authorization" not in first.headers
    source = {"type": "base64", "media_type": "image/webp", "data": PIXEL}
    assert first.json == {
        "model": "claude-small",
        "messages": [{"role": "user", "content": [{"type": "image", "source": source}]}],
        "max_tokens": 8192,
        "system": "Be brief.",
    }
    assert second.json["messages"] == [{"role": "user", "content": "Only this."}]


@pytest.mark.parametrize(
    ("version", "path", "query"),
    [
        (None, "/openai/v1/chat/completions", ""),
        (
            "2024-10-21",
            "/openai/deployments/my%2Fmodel/chat/completions",
            "api-version=2024-10-21",
        ),
    ],
)
async def test_azure_has_two_forms_of_address(version: str | None, path: str, query: str) -> None:
    async with (
        FakeServer() as server,
        Llm("azure/my/model", api_base=server.url, api_key="key-3", api_version=version) as llm,
    ):
        await llm.generate("Hi")
    (request,) = server.requests
    assert (request.path, request.query) == (path, query)
    assert request.headers["api-key"] == "key-3"


@pytest.mark.parametrize("form", FORMS)
async def test_a_schema_is_asked_for_in_the_strict_mode_of_the_form(form: ApiType) -> None:
    async with (
        FakeServer(answer=json.dumps(VEGETARIAN)) as server,
        Llm("openai/gpt-small", api_base=server.base_url, api_type=form) as llm,
    ):
        response = await llm.generate("Extract.", response_json_schema=MEMORIES)
    assert response.value == VEGETARIAN
    body = server.requests[0].json
    wanted = {
        "chat_completions": lambda: body["response_format"]["json_schema"],
        "responses": lambda: body["text"]["format"],
        "messages": lambda: body["output_config"]["format"],
    }[form]()
    item = wanted["schema"]["properties"]["memories"]["items"]
    assert item["additionalProperties"] is False
    assert "minLength" not in item["properties"]["text"]
    assert wanted.get("strict", True) is True


@pytest.mark.parametrize("form", FORMS)
async def test_an_endpoint_without_a_json_mode_is_asked_in_the_next_best_way(form: ApiType) -> None:
    refuses = ["json_schema", "json_object"]
    for last in ("tool", "prompt"):
        async with (
            FakeServer(answer=json.dumps(VEGETARIAN), refuses=refuses) as server,
            Llm("small", api_base=server.base_url, api_type=form) as llm,
        ):
            first = await llm.generate("Extract.", response_json_schema=MEMORIES)
            tried = len(server.requests)
            second = await llm.generate("Extract.", response_json_schema=MEMORIES)
        assert first.value == second.value == VEGETARIAN
        assert len(server.requests) == tried + 1, "what works is remembered"
        body = server.requests[-1].json
        assert bool(body.get("tools")) is (last == "tool")
        assert ("JSON schema" in json.dumps(body)) is (last == "prompt")
        refuses.append("tool")


async def test_a_refusal_that_no_way_of_asking_changes_is_told() -> None:
    async with FakeServer() as server, Llm("small", api_base=server.base_url) as llm:
        server.script(*[Fault.status(400, message="no such parameter: seed")] * 4)
        with pytest.raises(ModelRequestError, match="no such parameter") as caught:
            await llm.generate("Extract.", response_json_schema=MEMORIES)
        assert caught.value.status == 400
        assert caught.value.request_id == "req-4"
        server.script(VEGETARIAN)
        again = await llm.generate("Extract.", response_json_schema=MEMORIES)
    assert again.value == VEGETARIAN
    assert server.requests[-1].json["response_format"]["type"] == "json_schema"


async def test_a_schema_without_an_object_at_its_root_is_wrapped_and_unwrapped() -> None:
    schema = {"type": "array", "items": {"type": "integer"}}
    async with FakeServer() as server, Llm("small", api_base=server.base_url) as llm:
        server.script({"value": [1, 2]}, [3, 4], {"value": []})
        values = [
            (await llm.generate("Numbers?", response_json_schema=schema)).value for _ in range(3)
        ]
    assert values == [[1, 2], [3, 4], []]
    assert server.requests[0].json["response_format"]["json_schema"]["schema"]["type"] == "object"


async def test_items_that_do_not_fit_are_left_out_and_handed_over() -> None:
    bad = {"text": "x", "type": "critical"}
    async with FakeServer() as server, Llm("small", api_base=server.base_url) as llm:
        server.script({"memories": [*VEGETARIAN["memories"], bad]})
        response = await llm.generate("Extract.", response_json_schema=MEMORIES)
    assert response.value == VEGETARIAN
    assert response.rejected == (bad,)
    assert response.usage.calls == 1


async def test_an_answer_that_does_not_fit_is_asked_for_once_more_with_the_reason() -> None:
    async with FakeServer() as server, Llm("small", api_base=server.base_url) as llm:
        server.script("I could not find anything.", VEGETARIAN)
        response = await llm.generate("Extract.", response_json_schema=MEMORIES)
    assert response.value == VEGETARIAN
    assert response.usage.calls == 2
    assert response.usage.output_tokens > 5, "both answers count"
    *_, echo, reason = server.requests[1].json["messages"]
    assert echo == {"role": "assistant", "content": "I could not find anything."}
    assert "the answer holds no JSON value" in json.dumps(reason)


async def test_two_answers_that_do_not_fit_are_an_error_with_the_raw_text() -> None:
    async with (
        FakeServer(answer="Nothing, sorry.") as server,
        Llm("small", api_base=server.base_url) as llm,
    ):
        with pytest.raises(BadModelOutput, match="holds no JSON value") as caught:
            await llm.generate("Extract.", response_json_schema=MEMORIES)
    assert caught.value.raw == "Nothing, sorry."
    assert "Nothing" not in str(caught.value)
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("form", "text", "finish"),
    [
        *((form, "", "length") for form in FORMS),
        *((form, "  ", "stop") for form in FORMS),
        ("chat_completions", "No.", "content_filter"),
        ("messages", "No.", "refusal"),
    ],
)
async def test_no_text_is_an_error_and_not_an_empty_answer(
    form: ApiType, text: str, finish: str
) -> None:
    async with (
        FakeServer(answer=text, finish=finish) as server,
        Llm("small", api_base=server.base_url, api_type=form) as llm,
    ):
        with pytest.raises(BadModelOutput, match="gave no answer"):
            await llm.generate("Hi")


@pytest.mark.parametrize("form", FORMS)
async def test_text_streams_piece_by_piece(form: ApiType) -> None:
    async with (
        FakeServer(answer="Tides follow the moon. 潮汐。") as server,
        Llm("small", api_base=server.base_url, api_type=form) as llm,
        llm.stream("Tell me about tides.") as stream,
    ):
        pieces = [piece async for piece in stream]
    assert "".join(pieces) == "Tides follow the moon. 潮汐。"
    assert len(pieces) > 2
    assert stream.usage.input_tokens == 7
    assert stream.usage.output_tokens >= 5
    assert server.requests[0].json["stream"] is True


async def test_a_stream_that_is_left_early_frees_its_turn() -> None:
    async with (
        FakeServer(answer="one two three four") as server,
        Llm("small", api_base=server.base_url, max_concurrent_requests=1) as llm,
    ):
        for _ in range(3):
            async with llm.stream("Count.") as stream:
                async for piece in stream:
                    assert piece.strip() == "one"
                    break
        assert (await llm.generate("Hi")).text == "one two three four"
    assert server.most_open_connections <= 2


async def test_a_stream_that_is_cut_is_an_error() -> None:
    async with FakeServer(answer="one two three") as server:
        server.script(Fault.cut(after=2))
        async with Llm("small", api_base=server.base_url) as llm:
            heard: list[str] = []
            with pytest.raises(ModelUnavailableError):
                async with llm.stream("Count.") as stream:
                    async for piece in stream:
                        heard.append(piece)  # noqa: PERF401 - what came before the cut counts
    assert heard == ["one "]


@pytest.mark.parametrize(
    ("form", "event"),
    [
        ("chat_completions", {"error": {"message": "upstream failed"}}),
        ("responses", {"type": "error", "message": "upstream failed"}),
        ("responses", {"type": "response.failed", "response": {"status": "failed"}}),
        ("messages", {"type": "error", "error": {"type": "overloaded_error", "message": "x"}}),
    ],
)
async def test_a_failure_that_a_stream_tells_is_an_error(form: ApiType, event: Any) -> None:
    body = f"data: {json.dumps(event)}\n\n".encode()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with Llm("small", api_base=f"http://127.0.0.1:{port}/v1", api_type=form) as llm:
            with pytest.raises(ModelUnavailableError):
                async with llm.stream("Hi") as stream:
                    assert [piece async for piece in stream] == []


async def test_a_stream_is_tried_again_until_it_begins(no_waits: list[float]) -> None:
    async with FakeServer(answer="one") as server:
        server.script(Fault.status(503), Fault.cut())
        async with (
            Llm("small", api_base=server.base_url) as llm,
            llm.stream("Count.") as stream,
        ):
            assert [piece async for piece in stream] == ["one"]
    assert stream.usage.calls == 3
    assert len(no_waits) == 2


async def test_odd_text_reaches_the_model() -> None:
    async with (
        FakeServer(answer="\U0001f600 ok") as server,
        Llm("small", api_base=server.base_url) as llm,
    ):
        assert (await llm.generate("a\ud800b \x00 \U0001f600")).text == "\U0001f600 ok"
    assert server.requests[0].json["messages"][0]["content"] == "a?b \x00 \U0001f600"


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        [],
        3,
        ["Hi"],
        [{"role": "user"}],
        [{"role": "tool", "content": "x"}],
        [{"role": "user", "content": 3}],
        [{"role": "user", "content": [{"type": "audio"}]}],
        [{"role": "user", "content": [{"type": "image", "data": "?", "mime_type": "image/png"}]}],
        [{"role": "user", "content": [{"type": "image", "data": PIXEL, "mime_type": "image/bmp"}]}],
    ],
)
async def test_what_is_no_prompt_is_refused(prompt: Any) -> None:
    async with Llm("small", api_base="http://127.0.0.1:9/v1") as llm:
        with pytest.raises(ValidationError, match="`prompt`"):
            await llm.generate(prompt)


async def test_images_are_refused_where_they_cannot_be_seen() -> None:
    image: ChatMessage = {
        "role": "user",
        "content": [{"type": "image", "data": PIXEL, "mime_type": "image/png"}],
    }
    async with Llm("small", api_base="http://127.0.0.1:9/v1", supports_vision=False) as llm:
        with pytest.raises(ConfigurationError, match="`supports_vision`"):
            await llm.generate([image])


async def test_after_close_every_call_is_refused() -> None:
    async with FakeServer() as server:
        llm = Llm("small", api_base=server.base_url)
        await llm.generate("Hi")
        await llm.aclose()
        await llm.aclose()
        with pytest.raises(ClosedError):
            await llm.generate("Hi")
        with pytest.raises(ClosedError):
            async with llm.stream("Hi"):
                pass


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"api_base": "ftp://host/v1"}, "`api_base`"),
        ({"api_base": "not an address"}, "`api_base`"),
        ({"api_base": "http://[::1"}, "`api_base`"),
        ({"api_key": "two words"}, "`api_key`"),
        ({"api_key": "ключ"}, "`api_key`"),
        ({"api_type": "grpc"}, "`api_type`"),
        ({"api_version": "2024-10-21"}, "`api_version`"),
        ({"max_attempts": 0}, "`max_attempts`"),
        ({"max_concurrent_requests": True}, "`max_concurrent_requests`"),
        ({"total_timeout": -1}, "`total_timeout`"),
        ({"proxy": "localhost:3128"}, "`proxy`"),
        ({"ca_file": b"bytes"}, "`ca_file`"),
        ({"key_file": "-----BEGIN PRIVATE KEY-----\nabc"}, "`key_file`"),
        ({"key_file": __file__}, "`cert_file`"),
        ({"extra_headers": {"a b": "c"}}, "`extra_headers`"),
        ({"extra_headers": {"a": "c\nd"}}, "`extra_headers`"),
        ({"extra_body": {"a": object()}}, "`extra_body`"),
        ({"timeout": 3}, "`timeout`"),
        ({"max_tokens": 0}, "`max_tokens`"),
        ({"temperature": "hot"}, "`temperature`"),
    ],
)
def test_options_that_cannot_work_are_refused_by_name(options: Any, named: str) -> None:
    with pytest.raises((ConfigurationError, ValidationError), match=named):
        Llm("small", **{"api_base": "http://127.0.0.1:9/v1", **options})


def test_a_model_needs_an_address_and_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("AZURE_OPENAI_ENDPOINT", raising=False)
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        Llm("openai/gpt-small")
    with pytest.raises(ConfigurationError, match="AZURE_OPENAI_ENDPOINT"):
        Llm("azure/gpt-small", api_key="k")
    with pytest.raises(ConfigurationError, match="`api_base`"):
        Llm("gpt-small")
    with pytest.raises(ConfigurationError, match="anthropic, azure"):
        Llm("nobody/gpt-small")
    monkeypatch.setenv("OPENAI_API_KEY", " key-4\n")
    assert repr(Llm("openai/gpt-small")) == "Llm(model='openai/gpt-small')"


async def test_a_key_of_the_environment_is_not_sent_to_another_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key-5")
    async with FakeServer() as server:
        async with Llm("openai/gpt-small", api_base=server.base_url) as llm:
            await llm.generate("Hi")
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        async with Llm("openai/gpt-small") as llm:
            await llm.generate("Hi")
    first, second = server.requests
    assert "authorization" not in first.headers
    assert second.headers["authorization"] == "Bearer key-5"


def test_building_a_client_imports_nothing_that_only_calls_need() -> None:
    code = (
        "import sys\n"
        "from agentmemory.models import Embedder, Llm, Reranker\n"
        "for build in (Llm, Embedder, Reranker): build('cohere/x', api_key='k')\n"
        "heavy = {'httpx', 'httpcore', 'numpy', 'orjson', 'tenacity', 'oracledb', 'apsw', 'tiktoken'}\n"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == "[]"
