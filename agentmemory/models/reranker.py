"""`Reranker`: scores of documents against a query, in the wire forms of five providers.

May import: the other modules of this room, protocols, telemetry, checks, errors.

What the forms differ in: Cohere, Jina, vLLM and most gateways answer with `results` of
`relevance_score`; Voyage with `data`; text-embeddings-inference (TEI) with a bare list of `score`.
Scores of one model can be compared with each other, and with nothing else.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self, Unpack, get_args

from agentmemory import telemetry
from agentmemory.checks import check_choice, check_int
from agentmemory.errors import BadModelOutput, ContextLengthError, ModelRequestError
from agentmemory.models.accounting import Meter, ModelPrice, price_of
from agentmemory.models.endpoint import Endpoint, HttpOptions
from agentmemory.models.fan_out import run_all
from agentmemory.models.http import HttpClient
from agentmemory.models.inputs import check_texts, check_visible
from agentmemory.models.providers import RerankForm, find_target
from agentmemory.protocols import RerankResponse, RerankResult
from agentmemory.telemetry import Event, emit, span

_RAW_KEPT: Final = 2_000
_TOO_MANY = re.compile(r"batch|too many|at most|maximum number|exceed", re.IGNORECASE)


class Reranker:
    """A model that scores documents against a query.

    Args:
        model: `"provider/name"`, or any name together with `api_base`.
        api_base: Where the API begins, as far as `/rerank`; default is the provider's.
        api_key: The key; default is the provider's environment variable. A key from the
            environment is not sent to an `api_base`.
        form: `"cohere"`, `"jina"`, `"voyage"`, `"tei"` or `"vllm"`; default is the provider's, and
            `"jina"`, which most gateways speak, for other endpoints.
        max_documents: Documents per request; default is what the provider takes. More are sent
            in several requests at the same time.
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
        form: RerankForm | None = None,
        max_documents: int | None = None,
        extra_body: Mapping[str, Any] | None = None,
        prices: Mapping[str, ModelPrice] | None = None,
        **http: Unpack[HttpOptions],
    ) -> None:
        target = find_target(model, api_base=api_base, api_key=api_key)
        habits = target.provider
        self._target = target
        self._form: RerankForm = form or habits.rerank_form
        check_choice(self._form, argument="form", choices=get_args(RerankForm))
        self._max_documents = (
            (32 if self._form == "tei" else habits.max_rerank_documents)
            if max_documents is None
            else check_int(max_documents, argument="max_documents", minimum=1)
        )
        self._price = price_of(prices, name=target.name, model=target.model)
        self._http = HttpClient(Endpoint(target, http, extra_body=extra_body))

    def __repr__(self) -> str:
        return f"Reranker(model={self._target.name!r}, form={self._form!r})"

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

    async def rerank(self, query: str, documents: Sequence[str]) -> RerankResponse:
        """Score documents.

        Args:
            query: What is sought.
            documents: The texts.

        Returns:
            A score for each document that has one, best first, equal ones in the given order.
            Blank documents are not sent and have none, as have those that the model refuses or
            leaves out of its answer.

        Raises:
            ValidationError: The query is blank, or `documents` are no strings.
            BadModelOutput: The answer scores none of the documents.
            ModelError: The model failed, or refused every document.
            ClosedError: After `aclose`.
        """
        check_visible(query, argument="query")
        texts = check_texts(documents, argument="documents")
        places = [place for place, text in enumerate(texts) if text.strip()]
        meter = Meter(self._price)
        scores: dict[int, float] = {}
        refused: list[ModelRequestError] = []

        async def score(part: Sequence[int]) -> None:
            try:
                found = await self._request(query, [texts[place] for place in part], meter)
            except ModelRequestError as error:
                if not _is_about_the_documents(error):
                    raise
                if len(part) == 1:
                    refused.append(error)
                    return
                middle = len(part) // 2
                await run_all(
                    functools.partial(score, half) for half in (part[:middle], part[middle:])
                )
                return
            scores.update({part[index]: value for index, value in found.items()})

        with self._span(len(places)) as current:
            try:
                await run_all(
                    functools.partial(score, places[start : start + self._max_documents])
                    for start in range(0, len(places), self._max_documents)
                )
            finally:
                meter.record(current)
            if refused and not scores:
                raise refused[0]
        if refused:
            emit(
                Event(
                    name="model.documents_refused",
                    message="the reranker refused some documents, they have no score",
                    level="warning",
                    attributes={
                        "gen_ai.request.model": self._target.name,
                        "count": len(refused),
                    },
                )
            )
        ordered = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))
        return RerankResponse(
            results=tuple(RerankResult(index, value) for index, value in ordered),
            usage=meter.usage(),
        )

    def _span(self, count: int) -> Any:
        endpoint = self._http.endpoint
        return span(
            f"rerank {self._target.model}",
            {
                telemetry.OPERATION_NAME: "rerank",
                telemetry.PROVIDER_NAME: self._target.provider.name,
                telemetry.REQUEST_MODEL: self._target.model,
                telemetry.SERVER_ADDRESS: endpoint.host,
                telemetry.SERVER_PORT: endpoint.port,
                telemetry.TEXTS: count,
            },
            event="model.rerank",
            client=True,
        )

    async def _request(self, query: str, documents: list[str], meter: Meter) -> dict[int, float]:
        payload = {**self._payload(query, documents), **self._http.endpoint.extra_body}
        reply = await self._http.post("/rerank", payload, meter)
        data = reply.data
        meter.add_tokens(_tokens(data))
        scores = _scores(data, len(documents))
        if not scores:
            raise BadModelOutput(
                f"{self._target.name}: the answer scores none of {len(documents)} documents",
                raw=json.dumps(data, ensure_ascii=False, default=str)[:_RAW_KEPT],
                request_id=reply.request_id,
            )
        return scores

    def _payload(self, query: str, documents: list[str]) -> dict[str, Any]:
        model, count = self._target.model, len(documents)
        match self._form:
            case "tei":
                return {"query": query, "texts": documents, "raw_scores": False, "truncate": True}
            case "voyage":
                body = {"model": model, "query": query, "documents": documents, "top_k": count}
                return {**body, "return_documents": False, "truncation": True}
            case "jina":
                body = {"model": model, "query": query, "documents": documents, "top_n": count}
                return {**body, "return_documents": False}
            case _:
                return {"model": model, "query": query, "documents": documents, "top_n": count}


def _is_about_the_documents(error: ModelRequestError) -> bool:
    if isinstance(error, ContextLengthError) or error.status == 413:
        return True
    return error.status in {400, 422} and _TOO_MANY.search(str(error)) is not None


def _scores(data: Any, count: int) -> dict[int, float]:
    """Read scores of any form; rows without a place or a number are as if they were not there."""
    rows = data
    if isinstance(data, Mapping):
        rows = next((data[key] for key in ("results", "data", "rerank") if key in data), None)
    found: dict[int, float] = {}
    for row in rows if isinstance(rows, list) else ():
        if not isinstance(row, Mapping):
            continue
        index, value = row.get("index"), row.get("relevance_score", row.get("score"))
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < count:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if math.isfinite(value):
            found.setdefault(index, float(value))
    return found


def _tokens(data: Any) -> Any:
    usage = data.get("usage") if isinstance(data, Mapping) else None
    if isinstance(usage, Mapping):
        return usage.get("total_tokens") or usage.get("prompt_tokens")
    meta = data.get("meta") if isinstance(data, Mapping) else None
    tokens = meta.get("tokens") if isinstance(meta, Mapping) else None
    return tokens.get("input_tokens") if isinstance(tokens, Mapping) else 0
