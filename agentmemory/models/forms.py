"""The wire forms of language models: chat completions, responses, Anthropic messages.

May import: conversation, providers and accounting of this room, protocols, errors. A form turns a
`Question` into the JSON of a request and the JSON of an answer into an `Answer`; it sends nothing.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from agentmemory.errors import BadModelOutput, ModelUnavailableError
from agentmemory.models.accounting import Meter
from agentmemory.models.conversation import Answer, Finish, Question, parts_of, text_of
from agentmemory.models.providers import ApiType, Provider
from agentmemory.protocols import ChatMessage

_SHAPE_NAME: Final = "answer"
_TOOL_NOTE: Final = "Hand over the answer."
_RAW_KEPT: Final = 20_000
_FINISHES: Final[Mapping[str, Finish]] = {
    "stop": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "stop",
    "tool_calls": "stop",
    "completed": "stop",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_context_window_exceeded": "length",
    "content_filter": "refused",
    "refusal": "refused",
}


class LlmForm(ABC):
    """How to ask and how to read the answer.

    Args:
        provider: The habits of who is asked.
    """

    path: ClassVar[str]

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    @abstractmethod
    def payload(self, question: Question) -> dict[str, Any]:
        """Return the JSON of the request."""

    @abstractmethod
    def answer(self, data: Any, meter: Meter) -> Answer:
        """Read the JSON of an answer and count its tokens.

        Raises:
            BadModelOutput: It is no answer of this form.
        """

    @abstractmethod
    def piece(self, event: Any, meter: Meter) -> str:
        """Return the text that one event of a stream brings, often none, and count its tokens.

        Raises:
            ModelUnavailableError: The event says that the model failed.
        """


class ChatCompletions(LlmForm):
    """The form of OpenAI's chat completions, which most endpoints speak."""

    path = "/chat/completions"

    def payload(self, question: Question) -> dict[str, Any]:
        """Return the JSON of the request."""
        result: dict[str, Any] = {
            "model": question.model,
            "messages": [_chat_message(message) for message in question.messages],
        }
        _put(result, self._provider.max_tokens_field, question.max_tokens)
        _put(result, "temperature", question.temperature)
        _put(result, "reasoning_effort", question.reasoning_effort)
        if question.stream:
            result["stream"] = True
            if self._provider.stream_usage:
                result["stream_options"] = {"include_usage": True}
        shape = question.shape
        if shape is not None and shape.rung == "json_schema":
            wanted = {"name": _SHAPE_NAME, "strict": shape.strict, "schema": shape.schema}
            result["response_format"] = {"type": "json_schema", "json_schema": wanted}
        elif shape is not None and shape.rung == "json_object":
            result["response_format"] = {"type": "json_object", "schema": shape.schema}
        elif shape is not None and shape.rung == "tool":
            tool = {"name": _SHAPE_NAME, "description": _TOOL_NOTE, "parameters": shape.schema}
            result["tools"] = [{"type": "function", "function": tool}]
            result["tool_choice"] = {"type": "function", "function": {"name": _SHAPE_NAME}}
        return {**result, **question.extra_body}

    def answer(self, data: Any, meter: Meter) -> Answer:
        """Read the JSON of an answer and count its tokens."""
        choice = _first(data, "choices")
        message = choice.get("message") if choice is not None else None
        if choice is None or not isinstance(message, Mapping):
            raise _not_this_form(data)
        _count_chat(data, meter)
        text = _chat_text(message.get("content"))
        call = _first(message, "tool_calls")
        if call is not None and isinstance(call.get("function"), Mapping):
            text = _arguments(call["function"].get("arguments")) or text
        finish = _finish(choice.get("finish_reason"))
        if message.get("refusal") and not text:
            text, finish = str(message["refusal"]), "refused"
        return Answer(text=text, finish=finish, model=_model(data))

    def piece(self, event: Any, meter: Meter) -> str:
        """Return the text that one event of a stream brings."""
        _count_chat(event, meter)
        choice = _first(event, "choices")
        delta = choice.get("delta") if choice is not None else None
        return _chat_text(delta.get("content")) if isinstance(delta, Mapping) else ""


class Responses(LlmForm):
    """The form of OpenAI's responses; nothing is stored at the provider."""

    path = "/responses"

    def payload(self, question: Question) -> dict[str, Any]:
        """Return the JSON of the request."""
        result: dict[str, Any] = {
            "model": question.model,
            "input": [_responses_item(message) for message in question.messages],
            "store": False,
        }
        _put(result, "max_output_tokens", question.max_tokens)
        _put(result, "temperature", question.temperature)
        if question.reasoning_effort is not None:
            result["reasoning"] = {"effort": question.reasoning_effort}
        if question.stream:
            result["stream"] = True
        shape = question.shape
        if shape is not None and shape.rung == "json_schema":
            wanted = {"name": _SHAPE_NAME, "strict": shape.strict, "schema": shape.schema}
            result["text"] = {"format": {"type": "json_schema", **wanted}}
        elif shape is not None and shape.rung == "json_object":
            result["text"] = {"format": {"type": "json_object"}}
        elif shape is not None and shape.rung == "tool":
            tool = {"name": _SHAPE_NAME, "description": _TOOL_NOTE, "parameters": shape.schema}
            result["tools"] = [{"type": "function", **tool, "strict": shape.strict}]
            result["tool_choice"] = {"type": "function", "name": _SHAPE_NAME}
        return {**result, **question.extra_body}

    def answer(self, data: Any, meter: Meter) -> Answer:
        """Read the JSON of an answer and count its tokens."""
        items = data.get("output") if isinstance(data, Mapping) else None
        if not isinstance(items, list):
            raise _not_this_form(data)
        _count_parts(data.get("usage"), meter)
        text, refusal = "", ""
        for item in filter(_is_mapping, items):
            if item.get("type") == "function_call":
                text += _arguments(item.get("arguments"))
            for part in filter(_is_mapping, item.get("content") or ()):
                if part.get("type") == "output_text":
                    text += str(part.get("text") or "")
                elif part.get("type") == "refusal":
                    refusal += str(part.get("refusal") or "")
        details = data.get("incomplete_details")
        why = details.get("reason") if isinstance(details, Mapping) else data.get("status")
        finish = _finish(why)
        if refusal and not text:
            text, finish = refusal, "refused"
        return Answer(text=text, finish=finish, model=_model(data))

    def piece(self, event: Any, meter: Meter) -> str:
        """Return the text that one event of a stream brings."""
        if not isinstance(event, Mapping):
            return ""
        kind, response = event.get("type"), event.get("response")
        if isinstance(response, Mapping):
            if kind in {"response.completed", "response.incomplete"}:
                _count_parts(response.get("usage"), meter)
            elif kind == "response.failed":
                raise ModelUnavailableError("the model failed during its answer")
        elif kind == "error":
            raise ModelUnavailableError("the model failed during its answer")
        return str(event.get("delta") or "") if kind == "response.output_text.delta" else ""


class Messages(LlmForm):
    """The form of Anthropic's messages."""

    path = "/messages"
    default_max_tokens = 8192

    def payload(self, question: Question) -> dict[str, Any]:
        """Return the JSON of the request."""
        told = [text_of(one) for one in question.messages if one["role"] == "system"]
        said: list[ChatMessage] = [one for one in question.messages if one["role"] != "system"]
        if not said:
            # The form wants a turn of the user.
            said.append({"role": "user", "content": "\n\n".join(told)})
            told = []
        result: dict[str, Any] = {
            "model": question.model,
            "messages": [_anthropic_message(message) for message in said],
            "max_tokens": question.max_tokens or self.default_max_tokens,
        }
        if told:
            result["system"] = "\n\n".join(told)
        _put(result, "temperature", question.temperature)
        output: dict[str, Any] = {}
        _put(output, "effort", question.reasoning_effort)
        if question.stream:
            result["stream"] = True
        shape = question.shape
        if shape is not None and shape.rung == "json_schema":
            output["format"] = {"type": "json_schema", "schema": shape.schema}
        elif shape is not None and shape.rung == "tool":
            tool = {"name": _SHAPE_NAME, "description": _TOOL_NOTE, "input_schema": shape.schema}
            result["tools"] = [tool]
            result["tool_choice"] = {"type": "tool", "name": _SHAPE_NAME}
        if output:
            result["output_config"] = output
        return {**result, **question.extra_body}

    def answer(self, data: Any, meter: Meter) -> Answer:
        """Read the JSON of an answer and count its tokens."""
        blocks = data.get("content") if isinstance(data, Mapping) else None
        if not isinstance(blocks, list):
            raise _not_this_form(data)
        _count_parts(data.get("usage"), meter)
        text = ""
        for block in filter(_is_mapping, blocks):
            if block.get("type") == "text":
                text += str(block.get("text") or "")
            elif block.get("type") == "tool_use":
                text = _arguments(block.get("input"))
                break
        return Answer(text=text, finish=_finish(data.get("stop_reason")), model=_model(data))

    def piece(self, event: Any, meter: Meter) -> str:
        """Return the text that one event of a stream brings."""
        if not isinstance(event, Mapping):
            return ""
        kind = event.get("type")
        if kind == "message_start" and isinstance(event.get("message"), Mapping):
            usage = event["message"].get("usage")
            _count_parts({**usage, "output_tokens": 0} if _is_mapping(usage) else None, meter)
        elif kind == "message_delta":
            usage = event.get("usage")
            # Its count of the input repeats what the start of the message said.
            meter.add_tokens(0, usage.get("output_tokens") if isinstance(usage, Mapping) else 0)
        delta = event.get("delta")
        if kind == "content_block_delta" and isinstance(delta, Mapping):
            return str(delta.get("text") or "") if delta.get("type") == "text_delta" else ""
        return ""


FORMS: Final[Mapping[ApiType, type[LlmForm]]] = {
    "chat_completions": ChatCompletions,
    "responses": Responses,
    "messages": Messages,
}


def _chat_message(message: ChatMessage) -> dict[str, Any]:
    if isinstance(message["content"], str):
        return {"role": message["role"], "content": message["content"]}
    parts = [
        {"type": "text", "text": part["text"]}
        if part["type"] == "text"
        else {"type": "image_url", "image_url": {"url": _data_url(part)}}
        for part in parts_of(message)
    ]
    if all(part["type"] == "text" for part in parts):
        # Endpoints without vision often take plain text only.
        return {"role": message["role"], "content": text_of(message)}
    return {"role": message["role"], "content": parts}


def _responses_item(message: ChatMessage) -> dict[str, Any]:
    kind = "output_text" if message["role"] == "assistant" else "input_text"
    parts = [
        {"type": kind, "text": part["text"]}
        if part["type"] == "text"
        else {"type": "input_image", "image_url": _data_url(part)}
        for part in parts_of(message)
    ]
    return {"role": message["role"], "content": parts}


def _anthropic_message(message: ChatMessage) -> dict[str, Any]:
    if isinstance(message["content"], str):
        return {"role": message["role"], "content": message["content"]}
    parts: list[dict[str, Any]] = []
    for part in parts_of(message):
        if part["type"] == "text":
            parts.append({"type": "text", "text": part["text"]})
        else:
            source = {"type": "base64", "media_type": part["mime_type"], "data": part["data"]}
            parts.append({"type": "image", "source": source})
    return {"role": message["role"], "content": parts}


def _data_url(part: Mapping[str, Any]) -> str:
    return f"data:{part['mime_type']};base64,{part['data']}"


def _put(target: dict[str, Any], key: str, value: Any) -> None:
    if value is not None:
        target[key] = value


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _first(data: Any, key: str) -> Mapping[str, Any] | None:
    items = data.get(key) if isinstance(data, Mapping) else None
    first = items[0] if isinstance(items, list) and items else None
    return first if isinstance(first, Mapping) else None


def _chat_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return ""
    # Reasoning models interleave parts of thinking with those of text.
    return "".join(
        str(part.get("text") or "")
        for part in content
        if isinstance(part, Mapping) and part.get("type") in {"text", "output_text"}
    )


def _arguments(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _finish(reason: Any) -> Finish:
    return _FINISHES.get(str(reason), "other")


def _model(data: Mapping[str, Any]) -> str | None:
    model = data.get("model")
    return model if isinstance(model, str) and model else None


def _count_chat(data: Any, meter: Meter) -> None:
    usage = data.get("usage") if isinstance(data, Mapping) else None
    if isinstance(usage, Mapping):
        meter.add_tokens(usage.get("prompt_tokens"), usage.get("completion_tokens"))


def _count_parts(usage: Any, meter: Meter) -> None:
    if not isinstance(usage, Mapping):
        return
    meter.add_tokens(usage.get("input_tokens"), usage.get("output_tokens"))
    # Anthropic counts what came from its prompt cache apart.
    meter.add_tokens(usage.get("cache_read_input_tokens"))
    meter.add_tokens(usage.get("cache_creation_input_tokens"))


def _not_this_form(data: Any) -> BadModelOutput:
    raw = json.dumps(data, ensure_ascii=False, default=str)[:_RAW_KEPT]
    return BadModelOutput("the endpoint answered in another form than was asked for", raw=raw)
