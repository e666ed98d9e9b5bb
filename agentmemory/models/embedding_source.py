"""Vectors from an endpoint: batches, wire forms, and one bad text told from its neighbours.

May import: the other modules of this room, protocols, telemetry, errors; numpy when first used.
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import anyio.to_thread

from agentmemory.errors import BadModelOutput, ContextLengthError, ModelError, ModelRequestError
from agentmemory.models.accounting import Meter
from agentmemory.models.fan_out import run_all
from agentmemory.models.http import HttpClient
from agentmemory.models.providers import EmbeddingForm, Target
from agentmemory.telemetry import Event, emit

if TYPE_CHECKING:
    from agentmemory.protocols import FloatMatrix

OnTooLong: TypeAlias = Literal["truncate", "error"]

_SPLITS: Final = frozenset({400, 413, 422})
_BYTES_PER_TOKEN: Final = 3
_SHRINK: Final = 0.7
_MOST_SHRINKS: Final = 16
_SMALL: Final = 32
_RAW_KEPT: Final = 2_000
_PARAMETER = re.compile(r"encoding_format|base64|encoding format", re.IGNORECASE)


class HttpEmbeddings:
    """Asks one endpoint for vectors.

    Args:
        target: The model.
        http: The connection to it.
        dimensions: Length to ask for; None leaves it to the model.
        max_batch_items: Texts per request.
        max_batch_tokens: Tokens per request, as estimated from the bytes of the texts.
        on_too_long: What to do with a text that the model refuses as too long.
        extra_body: What goes into each request as it is.
    """

    def __init__(
        self,
        target: Target,
        http: HttpClient,
        *,
        dimensions: int | None,
        max_batch_items: int,
        max_batch_tokens: int,
        on_too_long: OnTooLong,
        extra_body: Mapping[str, Any],
    ) -> None:
        self._target = target
        self._http = http
        self._form: EmbeddingForm = target.provider.embedding_form
        self._path = "/embed" if self._form == "cohere" else "/embeddings"
        self._dimensions = dimensions
        self._max_batch_items = max_batch_items
        self._max_batch_tokens = max_batch_tokens
        self._on_too_long = on_too_long
        self._extra_body = extra_body
        self._base64 = target.provider.base64
        self._proved = False

    async def fetch(
        self, texts: Sequence[str], *, is_query: bool, meter: Meter
    ) -> tuple[dict[int, Any], dict[int, ModelRequestError]]:
        """Embed texts.

        Args:
            texts: The texts, none of them blank.
            is_query: Whether they are queries, for models that tell them apart.
            meter: Counts requests and tokens.

        Returns:
            The vectors by the places of their texts, and the errors of the texts that were refused.

        Raises:
            ModelError: The endpoint failed for a reason that is not in the texts.
        """
        rows: dict[int, Any] = {}
        refused: dict[int, ModelRequestError] = {}

        async def embed(places: Sequence[int]) -> None:
            part = [texts[place] for place in places]
            try:
                vectors = await self._request(part, is_query=is_query, meter=meter)
            except (ModelRequestError, BadModelOutput) as error:
                if not _is_about_the_input(error):
                    raise
                await isolate(places, error)
                return
            rows.update(zip(places, vectors, strict=True))

        async def isolate(places: Sequence[int], error: ModelError) -> None:
            if len(places) == 1:
                text = texts[places[0]]
                row = await self._alone(text, error, is_query=is_query, meter=meter)
                if isinstance(row, ModelRequestError):
                    refused[places[0]] = row
                else:
                    rows[places[0]] = row
                return
            if not self._proved and not isinstance(error, ContextLengthError):
                await self._prove(error, is_query=is_query, meter=meter)
            middle = len(places) // 2
            await run_all(
                functools.partial(embed, half) for half in (places[:middle], places[middle:])
            )

        await run_all(functools.partial(embed, batch) for batch in self._batches(texts))
        return rows, refused

    def _batches(self, texts: Sequence[str]) -> Iterator[Sequence[int]]:
        batch: list[int] = []
        tokens = 0
        for place, text in enumerate(texts):
            cost = len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN + 1
            full = len(batch) >= self._max_batch_items or tokens + cost > self._max_batch_tokens
            if batch and full:
                yield batch
                batch, tokens = [], 0
            batch.append(place)
            tokens += cost
        if batch:
            yield batch

    async def _prove(self, error: ModelError, *, is_query: bool, meter: Meter) -> None:
        """Find out whether the endpoint takes anything before looking for the text at fault."""
        try:
            await self._request(["a"], is_query=is_query, meter=meter)
        except (ModelRequestError, BadModelOutput):
            raise error from None

    async def _alone(self, text: str, error: ModelError, *, is_query: bool, meter: Meter) -> Any:
        """Deal with a text that was refused without company: shorten it, or give it up."""
        if isinstance(error, BadModelOutput):
            raise error
        length = len(text)
        for _ in range(_MOST_SHRINKS):
            if self._on_too_long == "error" or not isinstance(error, ContextLengthError):
                break
            length = int(length * _SHRINK)
            if not text[:length].strip():
                break
            try:
                row = (await self._request([text[:length]], is_query=is_query, meter=meter))[0]
            except ModelRequestError as again:
                if not _is_about_the_input(again):
                    raise
                error = again
                continue
            facts = {"gen_ai.request.model": self._target.name}
            message = f"a text of {len(text)} characters was embedded by its first {length}"
            emit(
                Event(
                    name="model.input_truncated", message=message, level="warning", attributes=facts
                )
            )
            return row
        return error

    async def _request(self, texts: Sequence[str], *, is_query: bool, meter: Meter) -> FloatMatrix:
        used_base64 = self._base64
        try:
            payload = self._payload(texts, is_query=is_query, base64=used_base64)
            reply = await self._http.post(self._path, payload, meter)
        except ModelRequestError as error:
            if not used_base64 or not _PARAMETER.search(str(error)):
                raise
            self._base64 = False
            payload = self._payload(texts, is_query=is_query, base64=False)
            reply = await self._http.post(self._path, payload, meter)
        meter.add_tokens(_tokens(reply.data))
        read = functools.partial(_matrix, reply.data, len(texts), self._target.name)
        if len(texts) > _SMALL:
            matrix = await anyio.to_thread.run_sync(read, abandon_on_cancel=True)
        else:
            matrix = read()
        self._proved = True
        return matrix

    def _payload(self, texts: Sequence[str], *, is_query: bool, base64: bool) -> dict[str, Any]:
        items = list(texts)
        model = self._target.model
        body: dict[str, Any]
        match self._form:
            case "cohere":
                kind = "search_query" if is_query else "search_document"
                body = {"model": model, "texts": items, "input_type": kind}
                body["embedding_types"] = ["float"]
            case "voyage":
                kind = "query" if is_query else "document"
                body = {"model": model, "input": items, "input_type": kind}
            case "jina":
                task = "retrieval.query" if is_query else "retrieval.passage"
                body = {"model": model, "input": items, "task": task}
            case _:
                body = {"model": model, "input": items}
        if self._dimensions is not None:
            name = "output_dimension" if self._form in {"cohere", "voyage"} else "dimensions"
            body[name] = self._dimensions
        if base64:
            body["encoding_format"] = "base64"
        return {**body, **self._extra_body}


def _is_about_the_input(error: ModelError) -> bool:
    return isinstance(error, BadModelOutput) or error.status in _SPLITS


def _matrix(data: Any, count: int, model: str) -> FloatMatrix:
    """Read the vectors of an answer, in the order of the texts."""
    import numpy as np

    def refuse(what: str) -> BadModelOutput:
        raw = json.dumps(data, ensure_ascii=False, default=str)[:_RAW_KEPT]
        return BadModelOutput(f"{model}: {what}", raw=raw)

    vectors = _vectors(data)
    if vectors is None:
        raise refuse("the answer holds no vectors")
    if len(vectors) != count:
        raise refuse(f"{len(vectors)} vectors came back for {count} texts")
    try:
        rows = [_row(vector) for vector in vectors]
        matrix = np.stack(rows) if rows else np.zeros((0, 0), dtype=np.float32)
    except (TypeError, ValueError, binascii.Error):
        raise refuse("the vectors are no numbers of one common length") from None
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise refuse("the vectors are empty or nested")
    if not np.isfinite(matrix).all():
        raise refuse("a vector holds NaN or infinity")
    return matrix


def _vectors(data: Any) -> list[Any] | None:
    if not isinstance(data, Mapping):
        return None
    found = data.get("embeddings")
    if isinstance(found, Mapping):
        found = found.get("float")
    if isinstance(found, list):
        return found
    items = data.get("data")
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        return None
    places = [item.get("index", place) for place, item in enumerate(items)]
    if sorted(map(str, places)) != sorted(map(str, range(len(items)))):
        return None
    ordered = sorted(zip(places, items, strict=True), key=lambda pair: int(pair[0]))
    return [item.get("embedding") for _, item in ordered]


def _row(vector: Any) -> Any:
    import numpy as np

    if isinstance(vector, str):
        return np.frombuffer(base64.b64decode(vector, validate=True), dtype="<f4").astype(
            np.float32
        )
    row = np.asarray(vector, dtype=np.float32)
    if row.ndim != 1:
        raise ValueError("a vector is a list of numbers")
    return row


def _tokens(data: Any) -> Any:
    if not isinstance(data, Mapping):
        return 0
    usage, meta = data.get("usage"), data.get("meta")
    if isinstance(usage, Mapping):
        return usage.get("prompt_tokens") or usage.get("total_tokens")
    billed = meta.get("billed_units") if isinstance(meta, Mapping) else None
    return billed.get("input_tokens") if isinstance(billed, Mapping) else 0
