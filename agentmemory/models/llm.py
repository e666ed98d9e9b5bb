"""`Llm`: a language model behind any of the three wire forms.

May import: the other modules of this room, protocols, telemetry, errors.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, Unpack

from agentmemory import telemetry
from agentmemory.checks import check_choice, check_int, check_number
from agentmemory.errors import BadModelOutput, ConfigurationError, ModelRequestError
from agentmemory.models.accounting import Meter, ModelPrice, price_of
from agentmemory.models.conversation import (
    Answer,
    Question,
    Shape,
    check_prompt,
    for_shape,
    has_images,
)
from agentmemory.models.endpoint import Endpoint, HttpOptions
from agentmemory.models.forms import FORMS
from agentmemory.models.http import HttpClient
from agentmemory.models.providers import ApiType, Rung, find_target
from agentmemory.models.schema import check_schema
from agentmemory.models.strict import strict_schema, with_object_root
from agentmemory.models.structured import ask_for_value, tell_cut
from agentmemory.protocols import ChatMessage, LlmResponse, ModelUsage
from agentmemory.telemetry import Event, emit, span

_FALLS_BACK = frozenset({400, 415, 422, 500, 501})


class TextStream:
    """The text of an answer, piece by piece; iterate over it once."""

    def __init__(self, pieces: AsyncIterator[str], meter: Meter) -> None:
        self._pieces = pieces
        self._meter = meter

    def __aiter__(self) -> AsyncIterator[str]:
        return self._pieces

    @property
    def usage(self) -> ModelUsage:
        """What the call cost so far; complete when the text is."""
        return self._meter.usage()


class Llm:
    """A language model.

    Args:
        model: `"provider/name"`; any name together with `api_base` for an endpoint that is
            compatible with OpenAI's.
        api_base: Where the API begins; default is the provider's.
        api_key: The key; default is the provider's environment variable. A key from the
            environment is not sent to an `api_base`.
        api_type: `"chat_completions"`, `"responses"` or `"messages"` (Anthropic's); default is the
            provider's.
        api_version: For Azure's dated API: `api-version` of each request; without it, its `v1`.
        temperature: Default is the model's own.
        max_tokens: Most tokens to write, for calls that do not say; default is the model's own.
        reasoning_effort: How long to think, in the provider's words.
        supports_vision: Whether images may be sent; False refuses them before they leave.
        extra_body: What goes into each request as it is.
        prices: What models cost, by name with or without provider.
        **http: See `HttpOptions`.

    Raises:
        ConfigurationError: The model has no address or no key, or an option is unusable.
        ValidationError: An option is out of its range.
    """

    def __init__(
        self,
        model: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        api_type: ApiType | None = None,
        api_version: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        reasoning_effort: str | None = None,
        supports_vision: bool = True,
        extra_body: Mapping[str, Any] | None = None,
        prices: Mapping[str, ModelPrice] | None = None,
        **http: Unpack[HttpOptions],
    ) -> None:
        target = find_target(model, api_base=api_base, api_key=api_key)
        provider = target.provider
        form = api_type or provider.api_type
        check_choice(form, argument="api_type", choices=tuple(FORMS))
        self._target = target
        self._form = FORMS[form](provider)
        self._rungs: tuple[Rung, ...] = tuple(
            rung for rung in provider.rungs if rung != "json_object" or form != "messages"
        )
        self._temperature = (
            None if temperature is None else check_number(temperature, argument="temperature")
        )
        self._max_tokens = (
            None if max_tokens is None else check_int(max_tokens, argument="max_tokens", minimum=1)
        )
        self._reasoning_effort = reasoning_effort
        self._supports_vision = supports_vision
        self._price = price_of(prices, name=target.name, model=target.model)
        headers = {"anthropic-version": "2023-06-01"} if form == "messages" else {}
        endpoint = Endpoint(
            target, http, headers=headers, api_version=api_version, extra_body=extra_body
        )
        self._http = HttpClient(endpoint)

    def __repr__(self) -> str:
        return f"Llm(model={self._target.name!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close its connections; calls after this raise `ClosedError`."""
        await self._http.aclose()

    async def generate(
        self,
        prompt: str | Sequence[ChatMessage],
        *,
        response_json_schema: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
    ) -> LlmResponse:
        """Answer a prompt with text, or with a value of a schema.

        A schema is asked for in the best way the endpoint knows: its JSON-schema mode, JSON mode,
        a tool call, the prompt alone. An answer that does not fit is mended if it has one sensible
        reading, then asked for once more. Items of lists that do not fit are left out.

        Args:
            prompt: Text, or messages with text and images.
            response_json_schema: The schema of the value; the subset that `models.schema` names.
            max_tokens: Most tokens to write; default is the model's setting.

        Returns:
            The answer; with a schema, `.value` and `.rejected` too.

        Raises:
            ValidationError: The prompt or the schema is none.
            ModelError: The model failed; `BadModelOutput` if it gave no text, or no value that
                fits the schema.
            ClosedError: After `aclose`.
        """
        messages = check_prompt(prompt)
        self._check_images(messages)
        if max_tokens is not None:
            check_int(max_tokens, argument="max_tokens", minimum=1)
        schema = None if response_json_schema is None else check_schema(response_json_schema)
        meter = Meter(self._price)
        with self._span(messages) as current:
            try:
                if schema is None:
                    response = await self._text(messages, max_tokens, meter, current)
                else:
                    response = await self._value(messages, schema, max_tokens, meter, current)
            finally:
                meter.record(current)
            current.set_content(telemetry.OUTPUT_MESSAGES, response.text)
        return replace(response, usage=meter.usage())

    @asynccontextmanager
    async def stream(
        self, prompt: str | Sequence[ChatMessage], *, max_tokens: int | None = None
    ) -> AsyncGenerator[TextStream]:
        """Answer a prompt with text that arrives piece by piece.

        ::

            async with llm.stream("Tell me about tides.") as text:
                async for piece in text:
                    print(piece, end="")

        Args:
            prompt: Text, or messages with text and images.
            max_tokens: Most tokens to write; default is the model's setting.

        Yields:
            The text; leaving the block early ends the answer.

        Raises:
            ValidationError: The prompt is none.
            ModelError: The model failed, before or during its answer.
            ClosedError: After `aclose`.
        """
        messages = check_prompt(prompt)
        self._check_images(messages)
        if max_tokens is not None:
            check_int(max_tokens, argument="max_tokens", minimum=1)
        question = replace(self._question(messages, max_tokens), stream=True)
        meter = Meter(self._price)
        async with AsyncExitStack() as stack:
            current = stack.enter_context(self._span(messages))
            stack.callback(meter.record, current)
            events = await stack.enter_async_context(
                self._http.stream(self._form.path, self._form.payload(question), meter)
            )
            pieces = await stack.enter_async_context(aclosing(self._pieces(events, meter)))
            yield TextStream(pieces, meter)

    async def _pieces(self, events: AsyncIterator[Any], meter: Meter) -> AsyncGenerator[str]:
        async for event in events:
            piece = self._form.piece(event, meter)
            if piece:
                yield piece

    async def _text(
        self,
        messages: Sequence[ChatMessage],
        max_tokens: int | None,
        meter: Meter,
        current: telemetry.Span,
    ) -> LlmResponse:
        answer = await self._send(self._question(messages, max_tokens), meter, current)
        if answer.finish == "refused" or not answer.text.strip():
            why = {"refused": "it refused", "length": "it reached its limit of tokens"}
            raise BadModelOutput(
                f"{self._target.name}: the model gave no answer"
                f" ({why.get(answer.finish, 'the text is empty')})",
                raw=answer.text,
            )
        if answer.finish == "length":
            tell_cut(self._target.name)
        return LlmResponse(text=answer.text)

    async def _value(
        self,
        messages: Sequence[ChatMessage],
        schema: Mapping[str, Any],
        max_tokens: int | None,
        meter: Meter,
        current: telemetry.Span,
    ) -> LlmResponse:
        rooted, wrapped = with_object_root(schema)
        question = self._question(messages, max_tokens)

        async def ask(conversation: Sequence[ChatMessage]) -> Answer:
            return await self._descend(
                replace(question, messages=conversation), rooted, meter, current
            )

        shaped = await ask_for_value(
            ask, messages, rooted, model=self._target.name, wrapped=wrapped
        )
        return LlmResponse(text=shaped.text, value=shaped.value, rejected=shaped.rejected)

    async def _descend(
        self,
        question: Question,
        schema: Mapping[str, Any],
        meter: Meter,
        current: telemetry.Span,
    ) -> Answer:
        """Ask in the best way; where the endpoint refuses that, in the next, and remember."""
        refused: ModelRequestError | None = None
        for rung in self._rungs:
            asked = for_shape(replace(question, shape=self._shape(schema, rung)))
            try:
                answer = await self._send(asked, meter, current)
            except ModelRequestError as error:
                # Other refusals are about the key, the name or the length: no rung changes them.
                if error.status not in _FALLS_BACK or error.code != "model_request":
                    raise
                refused = error
                continue
            if refused is not None:
                self._rungs = self._rungs[self._rungs.index(rung) :]
                emit(
                    Event(
                        name="model.structured_output_fallback",
                        message="the endpoint refuses a way to ask for JSON, taking the next",
                        attributes={"gen_ai.request.model": self._target.name, "rung": rung},
                    )
                )
            return answer
        if refused is None:
            raise ConfigurationError(f"`model` {self._target.name!r} has no way to ask for JSON")
        raise refused

    def _shape(self, schema: Mapping[str, Any], rung: Rung) -> Shape:
        provider = self._target.provider
        strict = (
            strict_schema(schema, bounds=provider.strict_bounds)
            if rung in {"json_schema", "tool"}
            else None
        )
        shown = rung in {"json_object", "prompt"} or (
            rung == "json_schema" and not provider.shows_schema
        )
        return Shape(strict or schema, rung, strict=strict is not None, in_prompt=shown)

    async def _send(self, question: Question, meter: Meter, current: telemetry.Span) -> Answer:
        reply = await self._http.post(self._form.path, self._form.payload(question), meter)
        answer = self._form.answer(reply.data, meter)
        current.set(telemetry.RESPONSE_MODEL, answer.model)
        current.set(telemetry.FINISH_REASONS, [answer.finish])
        return answer

    def _question(self, messages: Sequence[ChatMessage], max_tokens: int | None) -> Question:
        return Question(
            model=self._target.model,
            messages=messages,
            max_tokens=max_tokens or self._max_tokens,
            temperature=self._temperature,
            reasoning_effort=self._reasoning_effort,
            extra_body=self._http.endpoint.extra_body,
        )

    def _check_images(self, messages: Sequence[ChatMessage]) -> None:
        if not self._supports_vision and has_images(messages):
            raise ConfigurationError(
                f"`prompt` holds images, but `supports_vision` of {self._target.name} is False"
            )

    def _span(self, messages: Sequence[ChatMessage]) -> Any:
        endpoint = self._http.endpoint
        shown = (
            json.dumps(messages, ensure_ascii=False) if telemetry.content_is_captured() else None
        )
        return span(
            f"chat {self._target.model}",
            {
                telemetry.OPERATION_NAME: "chat",
                telemetry.PROVIDER_NAME: self._target.provider.name,
                telemetry.REQUEST_MODEL: self._target.model,
                telemetry.SERVER_ADDRESS: endpoint.host,
                telemetry.SERVER_PORT: endpoint.port,
                telemetry.INPUT_MESSAGES: shown,
            },
            event="model.chat",
            client=True,
        )
