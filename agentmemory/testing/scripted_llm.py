"""A language model that says what it was told to say.

May import: models, protocols, errors.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from agentmemory.errors import BadModelOutput, UsageError
from agentmemory.models.conversation import Answer, check_prompt, text_of
from agentmemory.models.schema import check_schema
from agentmemory.models.strict import with_object_root
from agentmemory.models.structured import ask_for_value
from agentmemory.protocols import ChatMessage, LlmResponse, ModelUsage

Scripted: TypeAlias = str | Mapping[str, Any] | Sequence[Any] | Exception
Responder: TypeAlias = Callable[["ScriptedCall"], Scripted | Awaitable[Scripted]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedCall:
    """One request that a `ScriptedLlm` got; a re-ask is a request of its own.

    Args:
        messages: The conversation.
        schema: The schema that was asked for, if any.
        max_tokens: The limit that was asked for, if any.
    """

    messages: tuple[ChatMessage, ...]
    schema: Mapping[str, Any] | None
    max_tokens: int | None

    @property
    def text(self) -> str:
        """All text of the conversation."""
        return "\n".join(map(text_of, self.messages))


class ScriptedLlm:
    """Answers from a script, and reads, mends and re-asks as `Llm` does.

    Args:
        *answers: What to answer, in order: text as the model would write it, a JSON value, an
            exception to raise, or a function of the `ScriptedCall` that gives one of these, async
            or not.
        default: What to answer when the script is over; without it that is an error.
    """

    def __init__(
        self, *answers: Scripted | Responder, default: Scripted | Responder | None = None
    ) -> None:
        self._answers = list(answers)
        self._default = default
        self.calls: list[ScriptedCall] = []
        """Every request so far."""

    def __repr__(self) -> str:
        return f"ScriptedLlm({len(self._answers)} answers left)"

    async def generate(
        self,
        prompt: str | Sequence[ChatMessage],
        *,
        response_json_schema: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
    ) -> LlmResponse:
        """Answer with what comes next in the script.

        Raises:
            UsageError: The script is over.
            BadModelOutput: A schema was asked for and two answers of the script do not fit it, or
                none was and the answer is empty.
            Exception: What the script says.
        """
        messages = check_prompt(prompt)
        schema = None if response_json_schema is None else check_schema(response_json_schema)
        before = len(self.calls)
        read = written = 0

        async def ask(conversation: Sequence[ChatMessage]) -> Answer:
            nonlocal read, written
            call = ScriptedCall(messages=tuple(conversation), schema=schema, max_tokens=max_tokens)
            self.calls.append(call)
            text = await self._next(call)
            read, written = read + _tokens(call.text), written + _tokens(text)
            return Answer(text=text)

        if schema is None:
            response = LlmResponse(text=(await ask(messages)).text)
            if not response.text.strip():
                raise BadModelOutput("testing/scripted: the model gave no answer", raw="")
        else:
            rooted, wrapped = with_object_root(schema)
            shaped = await ask_for_value(
                ask, messages, rooted, model="testing/scripted", wrapped=wrapped
            )
            response = LlmResponse(text=shaped.text, value=shaped.value, rejected=shaped.rejected)
        usage = ModelUsage(input_tokens=read, output_tokens=written, calls=len(self.calls) - before)
        return LlmResponse(
            text=response.text, value=response.value, rejected=response.rejected, usage=usage
        )

    async def _next(self, call: ScriptedCall) -> str:
        if self._answers:
            given: Any = self._answers.pop(0)
        elif self._default is not None:
            given = self._default
        else:
            raise UsageError(
                f"the script of `ScriptedLlm` is over at request {len(self.calls)}; give it more "
                "answers, or a `default`"
            )
        if callable(given):
            given = given(call)
            if inspect.isawaitable(given):
                given = await given
        if isinstance(given, Exception):
            raise given
        return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)


def _tokens(text: str) -> int:
    return len(text.split())
