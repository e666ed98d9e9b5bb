"""A turn of a conversation as a caller hands it over; may import errors and checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from agentmemory.checks import (
    check_id,
    check_list,
    check_optional_id,
    check_optional_time,
    check_text,
)
from agentmemory.errors import ValidationError

_DICT_KEYS: Final = frozenset({"role", "content", "name", "timestamp", "metadata", "id"})
MAX_ROLE_BYTES: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message.

    Args:
        role: Who speaks, as chat models name it: "user", "assistant", "system", "tool", ….
        content: What was said. A list of OpenAI-style text parts is joined by line breaks.
        name: The speaker's name, matched apart from the content when searching.
        timestamp: When it was said: an aware datetime or ISO-8601 text with an offset.
            Default: the time of writing.
        metadata: JSON-like values of the caller's own.
        id: The caller's id, 1 to 128 bytes. Default: a new UUIDv7.

    Raises:
        ValidationError: A field is not as described.
    """

    role: str
    content: str
    name: str | None = None
    timestamp: datetime | None = None
    metadata: Mapping[str, Any] | None = None
    id: str | None = None

    def __post_init__(self) -> None:
        role = check_text(self.role, argument="role")
        if len(role.encode("utf-8")) > MAX_ROLE_BYTES:
            msg = f"`role` is longer than {MAX_ROLE_BYTES} bytes: {role!r}"
            raise ValidationError(msg, argument="role")
        object.__setattr__(self, "content", _content_text(self.content))
        check_optional_id(self.name, argument="name")
        object.__setattr__(
            self, "timestamp", check_optional_time(self.timestamp, argument="timestamp")
        )
        if self.metadata is not None and not isinstance(self.metadata, Mapping):
            msg = f"`metadata` must be a mapping, not {type(self.metadata).__name__}"
            raise ValidationError(msg, argument="metadata")
        if self.id is not None:
            check_id(self.id, argument="id")


def _content_text(content: Any) -> str:
    if isinstance(content, Sequence) and not isinstance(content, str | bytes):
        if not content:
            msg = "`content` is an empty list; text or a list of text parts is accepted"
            raise ValidationError(msg, argument="content")
        parts = []
        for index, part in enumerate(content):
            if not isinstance(part, Mapping) or part.get("type") not in ("text", "input_text"):
                msg = (
                    f"`content[{index}]` is not a text part: {part!r}; accepted: "
                    "{'type': 'text', 'text': …}; store images with `add_image`"
                )
                raise ValidationError(msg, argument="content")
            parts.append(check_text(part.get("text"), argument=f"content[{index}].text"))
        return "\n".join(parts)
    return check_text(content, argument="content")


def to_messages(messages: Any) -> tuple[Message, ...]:
    """Turn OpenAI-style dicts and `Message` objects into messages; the input stays as it is.

    Raises:
        ValidationError: Not a list; an item is neither a dict nor a `Message`; a dict has an
            unknown key or lacks `role` or `content`; two items have the same id.
    """
    items = check_list(messages, argument="messages", of="messages")
    result: list[Message] = []
    seen: set[str] = set()
    for index, item in enumerate(items):
        place = f"messages[{index}]"
        message = item if isinstance(item, Message) else _from_mapping(item, place)
        if message.id is not None:
            if message.id in seen:
                msg = f"`{place}.id` {message.id!r} stands twice in one call"
                raise ValidationError(msg, argument="messages")
            seen.add(message.id)
        result.append(message)
    return tuple(result)


def _from_mapping(item: Any, place: str) -> Message:
    if not isinstance(item, Mapping):
        msg = f"`{place}` must be a dict or a Message, not {type(item).__name__}: {item!r}"
        raise ValidationError(msg, argument="messages")
    unknown = [key for key in item if key not in _DICT_KEYS]
    if unknown:
        msg = (
            f"`{place}` has unknown keys {sorted(map(str, unknown))!r}; "
            f"accepted: {', '.join(sorted(_DICT_KEYS))}"
        )
        raise ValidationError(msg, argument="messages")
    missing = [key for key in ("role", "content") if key not in item]
    if missing:
        msg = f"`{place}` lacks {missing!r}; a message needs `role` and `content`"
        raise ValidationError(msg, argument="messages")
    try:
        return Message(**item)
    except ValidationError as error:
        raise ValidationError(f"{place}: {error}", argument=error.argument) from None
