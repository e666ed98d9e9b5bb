"""A value of a schema from a model that only writes text: read, mend, ask once more, give up.

May import: the schema and conversation modules of this room, text, protocols, errors.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agentmemory.errors import BadModelOutput, ContextLengthError, ValidationError
from agentmemory.models.conversation import Answer
from agentmemory.models.schema import Fitted, MisfitError, fit
from agentmemory.models.strict import unwrapped
from agentmemory.protocols import ChatMessage
from agentmemory.telemetry import Event, emit
from agentmemory.text.json_repair import parse_json

_LONGEST_ECHO: Final = 8_000

Ask = Callable[[Sequence[ChatMessage]], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Shaped:
    """A value that fits its schema, the answer it was found in, and whether that was cut off."""

    text: str
    value: Any
    rejected: tuple[Any, ...]
    cut: bool = False


async def ask_for_value(
    ask: Ask,
    messages: Sequence[ChatMessage],
    schema: Mapping[str, Any],
    *,
    model: str,
    wrapped: bool = False,
) -> Shaped:
    """Ask for a value; if the answer holds none, show the model why and ask once more.

    Args:
        ask: Sends messages and returns the answer.
        messages: The conversation.
        schema: A checked schema.
        model: The model's name, for errors and events.
        wrapped: Whether the schema is one that `with_object_root` put around another.

    Returns:
        The value. Items of its lists that do not fit are left out and handed over beside it.

    Raises:
        BadModelOutput: The second answer holds no value either; `.raw` is what the model wrote.
    """
    first = await ask(messages)
    try:
        return _told(_read(first, schema, wrapped=wrapped), model)
    except MisfitError as misfit:
        reason = str(misfit)
    emit(
        Event(
            name="model.reask",
            message="the answer did not fit, asking once more",
            attributes={"gen_ai.request.model": model, "reason": reason},
        )
    )
    again: list[ChatMessage] = [
        *messages,
        {"role": "assistant", "content": first.text[:_LONGEST_ECHO].strip() or "(no answer)"},
        {
            "role": "user",
            "content": f"That answer cannot be used: {reason}. Answer the request again, with "
            "the JSON value alone.",
        },
    ]
    try:
        second = await ask(again)
    except ContextLengthError as error:
        raise BadModelOutput(f"{model}: {reason}", raw=first.text) from error
    try:
        return _told(_read(second, schema, wrapped=wrapped), model)
    except MisfitError as misfit:
        raise BadModelOutput(
            f"{model}: {misfit}; before, when first asked: {reason}", raw=second.text
        ) from None


def _read(answer: Answer, schema: Mapping[str, Any], *, wrapped: bool) -> Shaped:
    if answer.finish == "refused":
        raise MisfitError("the model refused to answer")
    if not answer.text.strip():
        why = ", it reached its limit of tokens before" if answer.finish == "length" else ""
        raise MisfitError(f"the answer is empty{why}")
    try:
        value = parse_json(answer.text)
    except ValidationError:
        raise MisfitError("the answer holds no JSON value") from None
    try:
        fitted = _fit_either(value, schema, wrapped=wrapped)
    except MisfitError as misfit:
        why = "; it was cut off at the limit of tokens" if answer.finish == "length" else ""
        raise MisfitError(f"{misfit}{why}") from None
    return Shaped(answer.text, fitted.value, fitted.rejected, cut=answer.finish == "length")


def _fit_either(value: Any, schema: Mapping[str, Any], *, wrapped: bool) -> Fitted:
    if not wrapped:
        return fit(value, schema)
    try:
        fitted = fit(value, schema)
    except MisfitError:
        # The model gave the value itself, without the object that was put around it for its sake.
        fitted = fit({"value": value}, schema)
    return Fitted(unwrapped(fitted.value), fitted.rejected, fitted.problems)


def _told(shaped: Shaped, model: str) -> Shaped:
    if shaped.rejected:
        emit(
            Event(
                name="model.items_rejected",
                message="items of an answer did not fit the schema and were left out",
                level="warning",
                attributes={"gen_ai.request.model": model, "count": len(shaped.rejected)},
            )
        )
    if shaped.cut:
        tell_cut(model)
    return shaped


def tell_cut(model: str) -> None:
    """Warn that an answer was cut off at the limit of tokens, so that its end is missing."""
    emit(
        Event(
            name="model.answer_cut",
            message="an answer was cut off at its limit of tokens",
            level="warning",
            attributes={"gen_ai.request.model": model},
        )
    )
