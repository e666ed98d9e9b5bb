"""`ScriptedLlm`, and the fake server where other tests do not show it."""

from __future__ import annotations

import asyncio

import pytest

from agentmemory.errors import BadModelOutput, ModelTimeoutError, UsageError
from agentmemory.models import Llm
from agentmemory.protocols import ILlm
from agentmemory.testing import FakeServer, ScriptedCall, ScriptedLlm

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


async def test_answers_come_in_order_and_calls_are_kept() -> None:
    llm = ScriptedLlm("one two", {"a": 1}, default="the rest")
    first = await llm.generate("Hi there", max_tokens=5)
    second = await llm.generate(
        [{"role": "system", "content": "Count."}, {"role": "user", "content": "Go."}],
        response_json_schema=SCHEMA,
    )
    third = await llm.generate("More")
    assert (first.text, second.value, third.text) == ("one two", {"a": 1}, "the rest")
    assert (first.usage.input_tokens, first.usage.output_tokens, first.usage.calls) == (2, 2, 1)
    assert [call.text for call in llm.calls] == ["Hi there", "Count.\nGo.", "More"]
    assert llm.calls[0] == ScriptedCall(
        messages=({"role": "user", "content": "Hi there"},), schema=None, max_tokens=5
    )
    assert llm.calls[1].schema == SCHEMA
    assert isinstance(llm, ILlm)


async def test_a_script_holds_functions_and_failures() -> None:
    async def later(call: ScriptedCall) -> str:
        await asyncio.sleep(0)
        return call.text.upper()

    llm = ScriptedLlm(lambda call: call.text[::-1], later, ModelTimeoutError("late"), "")
    assert (await llm.generate("abc")).text == "cba"
    assert (await llm.generate("abc")).text == "ABC"
    with pytest.raises(ModelTimeoutError, match="late"):
        await llm.generate("abc")
    with pytest.raises(BadModelOutput):
        await llm.generate("abc")


async def test_a_script_that_is_over_is_told() -> None:
    with pytest.raises(UsageError, match="over at request 1"):
        await ScriptedLlm().generate("Hi")


async def test_a_value_of_another_root_is_wrapped_for_the_model_only() -> None:
    llm = ScriptedLlm([1, 2], {"value": [3]})
    schema = {"type": "array", "items": {"type": "integer"}}
    assert (await llm.generate("Numbers", response_json_schema=schema)).value == [1, 2]
    assert (await llm.generate("Numbers", response_json_schema=schema)).value == [3]


async def test_the_fake_server_knows_its_routes_and_answers_by_function() -> None:
    with pytest.raises(UsageError):
        _ = FakeServer().url
    async with FakeServer(answer=lambda request: request.json["messages"][0]["content"]) as server:
        async with Llm("small", api_base=server.base_url) as llm:
            assert (await llm.generate("echo")).text == "echo"
        reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.split(":")[-1]))
        for request in (b"GET /v1/models", b"POST /v1/other"):
            writer.write(request + b" HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}")
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 404")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
        writer.write(b"POST /v1/cut HTTP/1.1\r\ncontent-length: 9\r\n\r\n{}")
        writer.close()
        await writer.wait_closed()
    assert server.open_connections == 0
