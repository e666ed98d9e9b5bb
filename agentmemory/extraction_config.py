"""How memories are drawn out of conversations; may import scope, checks and errors.

What a call leaves out is taken from its thread, what the thread leaves out from the client, and
the rest from `DEFAULT_EXTRACTION`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, TypeVar

from agentmemory.checks import check_bool, check_int, check_list, check_number, check_text
from agentmemory.errors import ValidationError
from agentmemory.scope import NOT_SET_MARKER, NotSet

E = TypeVar("E", bound=enum.StrEnum)


class ExtractionMode(enum.StrEnum):
    """When messages are worked on."""

    BACKGROUND = "background"
    """After they were stored, by a worker."""
    INLINE = "inline"
    """Before `add_messages` returns; a failure is raised, and tried again in the background."""

    @classmethod
    def _missing_(cls, value: object) -> ExtractionMode | None:
        return _in_any_case(cls, value)


class MemoryLinkExtractionMode(enum.StrEnum):
    """How new memories are linked to those that are there."""

    DURING_EXTRACTION = "during_extraction"
    """In the answer that gives the memories."""
    POST_EXTRACTION = "post_extraction"
    """With a model call of its own, once the memories are known."""
    DISABLED = "disabled"
    """Not at all."""

    @classmethod
    def _missing_(cls, value: object) -> MemoryLinkExtractionMode | None:
        return _in_any_case(cls, value)


class MemoryExtractionImageContext(enum.StrEnum):
    """What the model is shown of a thread's images."""

    DISABLED = "disabled"
    """Nothing."""
    CAPTION = "caption"
    """Their descriptions."""
    IMAGE = "image"
    """The images and their descriptions."""

    @classmethod
    def _missing_(cls, value: object) -> MemoryExtractionImageContext | None:
        return _in_any_case(cls, value)


class BackgroundExtractionQueueFullBehavior(enum.StrEnum):
    """What `add_messages` does while too much work is waiting.

    The queue is in the database, so work is never dropped: what differs is who waits.
    """

    WAIT = "wait"
    """Wait for room up to the timeout, then store the messages and their work all the same."""
    WAIT_THEN_DROP = "wait_then_drop"
    """The same; the name other products use."""
    WAIT_THEN_RAISE = "wait_then_raise"
    """Wait for room up to the timeout, then raise `WaitTimeoutError`; nothing is stored."""
    DROP = "drop"
    """Do not wait: store the messages and their work at once."""

    @classmethod
    def _missing_(cls, value: object) -> BackgroundExtractionQueueFullBehavior | None:
        return _in_any_case(cls, value)


def _in_any_case(cls: type[E], value: object) -> E | None:
    wanted = str(value).casefold()
    return next((member for member in cls if member.value == wanted), None)


_FLAGS: Final = ("extract_memories", "detect_instructions", "enable_context_summary")
_COUNTS: Final = (
    "memory_extraction_window",
    "memory_extraction_frequency",
    "memory_extraction_token_limit",
    "memory_link_extraction_token_limit",
    "context_summary_update_frequency",
    "max_message_token_length",
)
_TEXTS: Final = (
    "memory_extraction_custom_instructions",
    "memory_link_extraction_custom_instructions",
)
_CHOICES: Final[Mapping[str, type[enum.StrEnum]]] = {
    "extraction_mode": ExtractionMode,
    "memory_extraction_image_context": MemoryExtractionImageContext,
    "memory_link_extraction_mode": MemoryLinkExtractionMode,
    "background_extraction_queue_full_behavior": BackgroundExtractionQueueFullBehavior,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryExtractionConfig:
    """How memories are drawn out of messages; what is left out comes from the next level.

    Args:
        extract_memories: Whether to do it at all; default True.
        detect_instructions: Whether, without a language model, standing instructions and
            preferences of users are found by their phrases; default True.
        extraction_mode: "background" (default) or "inline".
        memory_extraction_window: How many messages before the new ones the model is shown as
            context; not positive (default): none.
        memory_extraction_frequency: How many messages have to come together for one run; none is
            left out. Not positive (default): every call of `add_messages` is a run.
        memory_extraction_token_limit: Most tokens of messages in one model call, default 100000;
            more messages take more calls. Not positive: no limit.
        memory_extraction_custom_instructions: What else the model is told; default nothing.
        enable_context_summary: Whether the model is shown the summary of what came before;
            default True.
        context_summary_update_frequency: How many messages beyond the last summary make the
            worker write a new one, default 10; not positive: after every run.
        memory_extraction_inherit_message_metadata: True (default): a memory gets the metadata
            its own source messages agree on; a list: only these keys; False: nothing.
        memory_extraction_image_context: "disabled" (default), "caption" or "image".
        memory_link_extraction_mode: "during_extraction" (default), "post_extraction" or
            "disabled".
        memory_link_extraction_token_limit: Most tokens of stored memories that are offered for
            linking, default 100000; not positive: no limit.
        memory_link_extraction_custom_instructions: What else the model is told about links.
        background_extraction_queue_full_behavior: "wait" (default), "wait_then_raise",
            "wait_then_drop" or "drop".
        background_extraction_queue_put_timeout_seconds: How long to wait for room, default 300.
        max_message_token_length: Longest message a model is shown in one piece, default 15000;
            a longer one is read in pieces, or shortened in the middle where it is only context.
            Not positive: no limit.

    Raises:
        ValidationError: A field is not as described.
    """

    extract_memories: bool | NotSet = NOT_SET_MARKER
    detect_instructions: bool | NotSet = NOT_SET_MARKER
    extraction_mode: ExtractionMode | str | NotSet = NOT_SET_MARKER
    memory_extraction_window: int | NotSet = NOT_SET_MARKER
    memory_extraction_frequency: int | NotSet = NOT_SET_MARKER
    memory_extraction_token_limit: int | NotSet = NOT_SET_MARKER
    memory_extraction_custom_instructions: str | None | NotSet = NOT_SET_MARKER
    enable_context_summary: bool | NotSet = NOT_SET_MARKER
    context_summary_update_frequency: int | NotSet = NOT_SET_MARKER
    memory_extraction_inherit_message_metadata: bool | list[str] | NotSet = NOT_SET_MARKER
    memory_extraction_image_context: MemoryExtractionImageContext | str | NotSet = NOT_SET_MARKER
    memory_link_extraction_mode: MemoryLinkExtractionMode | str | NotSet = NOT_SET_MARKER
    memory_link_extraction_token_limit: int | NotSet = NOT_SET_MARKER
    memory_link_extraction_custom_instructions: str | None | NotSet = NOT_SET_MARKER
    background_extraction_queue_full_behavior: (
        BackgroundExtractionQueueFullBehavior | str | NotSet
    ) = NOT_SET_MARKER
    background_extraction_queue_put_timeout_seconds: float | NotSet = NOT_SET_MARKER
    max_message_token_length: int | NotSet = NOT_SET_MARKER

    def __post_init__(self) -> None:
        given = {
            field.name: value
            for field in fields(self)
            if (value := getattr(self, field.name)) is not NOT_SET_MARKER
        }
        for name, value in given.items():
            if name in _FLAGS:
                check_bool(value, argument=name)
            elif name in _COUNTS:
                check_int(value, argument=name)
            elif name in _TEXTS:
                if value is not None:
                    check_text(value, argument=name)
            elif name in _CHOICES:
                object.__setattr__(self, name, _choice(value, name, _CHOICES[name]))
            elif name == "background_extraction_queue_put_timeout_seconds":
                if check_number(value, argument=name) <= 0:
                    msg = f"`{name}` is {value!r}; accepted: a number of seconds above 0"
                    raise ValidationError(msg, argument=name)
            elif not isinstance(value, bool):
                keys = check_list(value, argument=name, of="metadata keys")
                object.__setattr__(self, name, [check_text(key, argument=name) for key in keys])

    def over(self, base: MemoryExtractionConfig | None) -> MemoryExtractionConfig:
        """Return this configuration with what it leaves out taken from `base`."""
        if base is None:
            return self
        return MemoryExtractionConfig(**{**to_stored(base), **to_stored(self)})


def _choice(value: Any, argument: str, kind: type[E]) -> E:
    try:
        return kind(value)
    except ValueError:
        accepted = ", ".join(repr(member.value) for member in kind)
        msg = f"`{argument}` is {value!r}; accepted: {accepted}"
        raise ValidationError(msg, argument=argument) from None


def to_stored(config: MemoryExtractionConfig) -> dict[str, Any]:
    """Return what a configuration sets, as JSON-like values."""
    return {
        name: value.value if isinstance(value, enum.StrEnum) else value
        for name, value in asdict(config).items()
        if value is not NOT_SET_MARKER
    }


def check_extraction_config(value: Any) -> MemoryExtractionConfig | None:
    """Accept a `MemoryExtractionConfig` or None.

    Raises:
        ValidationError: Anything else.
    """
    if value is None or isinstance(value, MemoryExtractionConfig):
        return value
    msg = f"`memory_extraction_config` is {value!r}; accepted: a MemoryExtractionConfig or None"
    raise ValidationError(msg, argument="memory_extraction_config")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionSettings:
    """A configuration without gaps; the fields are those of `MemoryExtractionConfig`."""

    extract_memories: bool = True
    detect_instructions: bool = True
    extraction_mode: ExtractionMode = ExtractionMode.BACKGROUND
    memory_extraction_window: int = -1
    memory_extraction_frequency: int = -1
    memory_extraction_token_limit: int = 100_000
    memory_extraction_custom_instructions: str | None = None
    enable_context_summary: bool = True
    context_summary_update_frequency: int = 10
    memory_extraction_inherit_message_metadata: bool | list[str] = True
    memory_extraction_image_context: MemoryExtractionImageContext = (
        MemoryExtractionImageContext.DISABLED
    )
    memory_link_extraction_mode: MemoryLinkExtractionMode = (
        MemoryLinkExtractionMode.DURING_EXTRACTION
    )
    memory_link_extraction_token_limit: int = 100_000
    memory_link_extraction_custom_instructions: str | None = None
    background_extraction_queue_full_behavior: BackgroundExtractionQueueFullBehavior = (
        BackgroundExtractionQueueFullBehavior.WAIT
    )
    background_extraction_queue_put_timeout_seconds: float = 300.0
    max_message_token_length: int = 15_000


DEFAULT_EXTRACTION: Final = ExtractionSettings()
"""What holds where nobody says anything else."""


def resolve_extraction(
    call: MemoryExtractionConfig | None,
    thread: Mapping[str, Any] | None,
    client: MemoryExtractionConfig | None,
) -> ExtractionSettings:
    """Fill every gap: the call's word counts most, then the thread's, then the client's."""
    stored = MemoryExtractionConfig(**thread) if thread else MemoryExtractionConfig()
    config = (call or MemoryExtractionConfig()).over(stored.over(client))
    return settings_from(to_stored(config))


def settings_from(stored: Mapping[str, Any]) -> ExtractionSettings:
    """Read settings back from JSON-like values."""
    checked = MemoryExtractionConfig(**stored)
    given = {
        field.name: value
        for field in fields(checked)
        if (value := getattr(checked, field.name)) is not NOT_SET_MARKER
    }
    return ExtractionSettings(**given)
