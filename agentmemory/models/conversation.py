"""What is asked of a language model and what it answers, before and after any wire form.

May import: schema of this room, protocols, checks, errors.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from agentmemory.checks import check_choice, check_list
from agentmemory.errors import ValidationError
from agentmemory.models.inputs import check_visible
from agentmemory.models.providers import Rung
from agentmemory.protocols import ChatMessage, ImagePart, TextPart

Finish: TypeAlias = Literal["stop", "length", "refused", "other"]

_ROLES: Final = ("system", "user", "assistant")
_IMAGES: Final = ("image/png", "image/jpeg", "image/webp", "image/gif")


@dataclass(frozen=True, slots=True)
class Shape:
    """The JSON an answer shall have.

    Args:
        schema: The schema to send; its root is an object.
        rung: The way to ask for it.
        strict: Whether the schema is of the subset that strict modes accept.
        in_prompt: Whether the messages show the schema too.
    """

    schema: Mapping[str, Any]
    rung: Rung
    strict: bool
    in_prompt: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Everything that one request to a language model says.

    Args:
        model: The model's name as its provider knows it.
        messages: The conversation, at least one message.
        max_tokens: Most tokens to write; None leaves it to the model.
        temperature: None leaves it to the model.
        reasoning_effort: How long to think, in the provider's words.
        shape: The JSON to answer with; None for text.
        stream: Whether the answer comes in pieces.
        extra_body: What goes into the request as it is.
    """

    model: str
    messages: Sequence[ChatMessage]
    max_tokens: int | None = None
    temperature: float | None = None
    reasoning_effort: str | None = None
    shape: Shape | None = None
    stream: bool = False
    extra_body: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a model wrote.

    Args:
        text: The text, or the arguments of the tool it was told to call.
        finish: Why it stopped.
        model: The model that answered, if it says so.
    """

    text: str
    finish: Finish = "stop"
    model: str | None = None


def check_prompt(prompt: Any) -> list[ChatMessage]:
    """Turn a prompt into messages.

    Args:
        prompt: Text, which becomes one message of the user, or messages.

    Raises:
        ValidationError: Not text or messages; an unknown role or part; an image that is not base64
            or of a type that models do not read.
    """
    if isinstance(prompt, str):
        return [{"role": "user", "content": check_visible(prompt, argument="prompt")}]
    items = check_list(prompt, argument="prompt", of="messages")
    if not items:
        raise ValidationError("`prompt` has no messages; at least one is needed", argument="prompt")
    return [_checked_message(item) for item in items]


def with_schema_shown(
    messages: Sequence[ChatMessage], schema: Mapping[str, Any]
) -> list[ChatMessage]:
    """Add to the last message of the user what JSON is wanted."""
    shown = json.dumps(schema, ensure_ascii=False, indent=1)
    note: TextPart = {
        "type": "text",
        "text": "Answer with one JSON value and nothing else: no fence, no comment. "
        f"It must fit this JSON schema:\n{shown}",
    }
    result = list(messages)
    for place in range(len(result) - 1, -1, -1):
        message = result[place]
        if message["role"] == "user":
            result[place] = {"role": "user", "content": [*parts_of(message), note]}
            return result
    return [*result, {"role": "user", "content": note["text"]}]


def parts_of(message: ChatMessage) -> list[TextPart | ImagePart]:
    """Return the content of a message as parts."""
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def text_of(message: ChatMessage) -> str:
    """Return the text of a message, without its images."""
    return "\n".join(part["text"] for part in parts_of(message) if part["type"] == "text")


def has_images(messages: Sequence[ChatMessage]) -> bool:
    """Say whether any message holds an image."""
    return any(part["type"] == "image" for message in messages for part in parts_of(message))


def for_shape(question: Question) -> Question:
    """Show the schema in the messages where the shape says so."""
    shape = question.shape
    if shape is None or not shape.in_prompt:
        return question
    return replace(question, messages=with_schema_shown(question.messages, shape.schema))


def _checked_message(message: Any) -> ChatMessage:
    if not isinstance(message, Mapping) or not {"role", "content"} <= message.keys():
        raise ValidationError(
            f"`prompt` holds {type(message).__name__}; accepted are mappings with 'role' and "
            "'content'",
            argument="prompt",
        )
    role = check_choice(message["role"], argument="prompt", choices=_ROLES)
    content = message["content"]
    if not isinstance(content, str):
        content = [
            _checked_part(part)
            for part in check_list(content, argument="prompt", of="text and image parts")
        ]
    result: ChatMessage = {"role": role, "content": content}  # type: ignore[typeddict-item]
    return result


def _checked_part(part: Any) -> TextPart | ImagePart:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind == "text" and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if kind == "image" and isinstance(part.get("data"), str):
        mime_type = check_choice(part.get("mime_type"), argument="prompt", choices=_IMAGES)
        try:
            base64.b64decode(part["data"], validate=True)
        except (binascii.Error, ValueError):
            raise ValidationError(
                "`prompt` holds an image whose 'data' is not base64", argument="prompt"
            ) from None
        return {"type": "image", "data": part["data"], "mime_type": mime_type}
    raise ValidationError(
        f"`prompt` holds a part of type {kind!r}; accepted are 'text' with 'text' and 'image' "
        "with 'data' (base64) and 'mime_type'",
        argument="prompt",
    )
