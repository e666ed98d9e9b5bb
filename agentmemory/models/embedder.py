"""`Embedder`: vectors of any provider, each text embedded once.

May import: the other modules of this room, protocols, telemetry, checks, errors; numpy when first
used, in a worker thread.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

import anyio
import anyio.to_thread

from agentmemory import telemetry
from agentmemory.checks import check_bool, check_choice, check_int, check_text
from agentmemory.errors import (
    BadModelOutput,
    ConfigurationError,
    InputRejectedError,
    ModelError,
    ModelRequestError,
)
from agentmemory.models.accounting import Meter, ModelPrice, price_of
from agentmemory.models.embedding_cache import EmbeddingCache, cache_key
from agentmemory.models.embedding_source import HttpEmbeddings, OnTooLong
from agentmemory.models.endpoint import Endpoint, HttpOptions
from agentmemory.models.http import HttpClient
from agentmemory.models.inputs import check_texts
from agentmemory.models.local import LocalEmbedder
from agentmemory.models.providers import find_target
from agentmemory.protocols import EmbedderFingerprint
from agentmemory.telemetry import span

if TYPE_CHECKING:
    from agentmemory.protocols import FloatMatrix


class _Pending:
    """A text that is being embedded; others who want it wait here."""

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.row: Any = None
        self.error: ModelError | None = None


_Inflight = dict[tuple[bool, str], _Pending]


class Embedder:
    """Embeds text by a model.

    Texts of one call are sent in batches, several at a time; equal texts, also of calls that run
    at the same time, are sent once. A blank text is a zero vector and is not sent. One text that
    the model refuses does not spoil the others.

    Args:
        model: `"provider/name"`, `"local/wordllama"`, or any name together with `api_base`.
        api_base: Where the API begins; default is the provider's.
        api_key: The key; default is the provider's environment variable. A key from the
            environment is not sent to an `api_base`.
        api_version: For Azure's dated API: `api-version` of each request.
        dimensions: Length of vectors to ask for; default is the model's own.
        normalize: Whether to scale vectors to unit length.
        query_prefix: Text to put before each query.
        document_prefix: Text to put before each stored text.
        max_batch_items: Texts per request; default is what the provider takes.
        max_batch_tokens: Estimated tokens per request; default is what the provider takes.
        on_too_long: `"truncate"` shortens a text until the model takes it, with a warning event;
            `"error"` treats it as refused.
        cache: A file to keep vectors in; see `models.embedding_cache`.
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
        api_version: str | None = None,
        dimensions: int | None = None,
        normalize: bool = True,
        query_prefix: str = "",
        document_prefix: str = "",
        max_batch_items: int | None = None,
        max_batch_tokens: int | None = None,
        on_too_long: OnTooLong = "truncate",
        cache: str | Path | None = None,
        extra_body: Mapping[str, Any] | None = None,
        prices: Mapping[str, ModelPrice] | None = None,
        **http: Unpack[HttpOptions],
    ) -> None:
        if dimensions is not None:
            check_int(dimensions, argument="dimensions", minimum=1)
        check_choice(on_too_long, argument="on_too_long", choices=("truncate", "error"))
        self._normalize = check_bool(normalize, argument="normalize")
        self._prefixes = {
            True: check_text(query_prefix, argument="query_prefix", allow_empty=True),
            False: check_text(document_prefix, argument="document_prefix", allow_empty=True),
        }
        self._cache = None if cache is None else EmbeddingCache(cache)
        self._inflight: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Inflight] = (
            weakref.WeakKeyDictionary()
        )
        self._http: HttpClient | None = None
        self._source: HttpEmbeddings | LocalEmbedder
        self._dimension = dimensions
        prefix, _, name = check_text(model, argument="model").strip().partition("/")
        if prefix == "local" and api_base is None:
            if api_key or api_version or extra_body or http or dimensions:
                raise ConfigurationError(
                    f"`model` {model!r} runs in this process; it takes no address, key, "
                    "`dimensions` or options of requests"
                )
            self._source = LocalEmbedder(name or "wordllama")
            self._name, self._provider, place = f"local/{name or 'wordllama'}", "local", ""
            self._dimension = 256
            self._price = None
        else:
            target = find_target(model, api_base=api_base, api_key=api_key)
            endpoint = Endpoint(target, http, api_version=api_version, extra_body=extra_body)
            self._http = HttpClient(endpoint)
            habits = target.provider
            self._source = HttpEmbeddings(
                target,
                self._http,
                dimensions=dimensions,
                max_batch_items=_batch(max_batch_items, "max_batch_items", habits.max_batch_items),
                max_batch_tokens=_batch(
                    max_batch_tokens, "max_batch_tokens", habits.max_batch_tokens
                ),
                on_too_long=on_too_long,
                extra_body=endpoint.extra_body,
            )
            self._name, self._provider, place = target.name, habits.name, endpoint.place
            self._price = price_of(prices, name=target.name, model=target.model)
        self._identity = (self._name, place, dimensions, self._normalize)

    def __repr__(self) -> str:
        return f"Embedder(model={self._name!r})"

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
        """Close its connections and its cache; calls after this raise `ClosedError`."""
        if self._http is not None:
            await self._http.aclose()
        if self._cache is not None:
            await anyio.to_thread.run_sync(self._cache.close)

    async def fingerprint(self) -> EmbedderFingerprint:
        """Say what its vectors are; asks the model once if their length is not known.

        Raises:
            ModelError: The model was asked and failed.
        """
        if self._dimension is None:
            await self.embed(["dimension"])
        return EmbedderFingerprint(
            model=self._name,
            dimension=self._dimension or 0,
            normalized=self._normalize,
            query_prefix=self._prefixes[True],
            document_prefix=self._prefixes[False],
        )

    async def embed(self, texts: Sequence[str], *, is_query: bool = False) -> FloatMatrix:
        """Embed texts.

        Args:
            texts: The texts, any number of any length.
            is_query: Whether they are queries rather than stored texts.

        Returns:
            Float32 rows in the order of the texts, shape `(len(texts), dimension)`; blank texts
            are zero rows.

        Raises:
            ValidationError: `texts` is one string, or holds something else than strings.
            InputRejectedError: The model refuses some of the texts; `.vectors` has the others.
            BadModelOutput: The answer has another number or length of vectors than expected.
            ModelError: The model failed.
            ClosedError: After `aclose`.
        """
        items = check_texts(texts, argument="texts")
        await _load_numpy()
        prefix = self._prefixes[is_query]
        wanted = list(dict.fromkeys(prefix + item for item in items if item.strip()))
        meter = Meter(self._price)
        with span(
            f"embeddings {self._name.partition('/')[2] or self._name}",
            {
                telemetry.OPERATION_NAME: "embeddings",
                telemetry.PROVIDER_NAME: self._provider,
                telemetry.REQUEST_MODEL: self._name,
                telemetry.TEXTS: len(items),
            },
            event="model.embeddings",
            client=True,
        ) as current:
            try:
                rows, refused = await self._rows(wanted, current, is_query=is_query, meter=meter)
            finally:
                meter.record(current)
            current.set(telemetry.EMBEDDING_DIMENSION, self._dimension)
        if self._dimension is None and items:
            # Only blank texts so far: the length of a zero vector must be asked for.
            await self.fingerprint()
        return self._matrix(items, prefix, rows, refused)

    async def _rows(
        self, wanted: list[str], current: telemetry.Span, *, is_query: bool, meter: Meter
    ) -> tuple[dict[str, Any], dict[str, ModelRequestError]]:
        rows: dict[str, Any] = {}
        refused: dict[str, ModelRequestError] = {}
        if self._cache is not None:
            rows = await self._cached(wanted, is_query=is_query)
            current.set(telemetry.CACHED, len(rows))
        inflight = self._inflight.setdefault(asyncio.get_running_loop(), {})
        while left := [text for text in wanted if text not in rows and text not in refused]:
            others = {
                text: inflight[is_query, text] for text in left if (is_query, text) in inflight
            }
            own = [text for text in left if text not in others]
            if own:
                new_rows, new_refused = await self._lead(
                    own, inflight, is_query=is_query, meter=meter
                )
                rows |= new_rows
                refused |= new_refused
            for text, pending in others.items():
                await pending.done.wait()
                if pending.row is not None:
                    rows[text] = pending.row
                elif isinstance(pending.error, ModelRequestError):
                    refused[text] = pending.error
                elif pending.error is not None:
                    raise pending.error
                # Else who asked for it was cancelled: the next round asks again.
        return rows, refused

    async def _lead(
        self, texts: list[str], inflight: _Inflight, *, is_query: bool, meter: Meter
    ) -> tuple[dict[str, Any], dict[str, ModelRequestError]]:
        """Embed texts that nobody else is embedding, and let others have the vectors too."""
        pending = {text: _Pending() for text in texts}
        inflight.update({(is_query, text): one for text, one in pending.items()})
        try:
            rows, refused = await self._fetch(texts, is_query=is_query, meter=meter)
            for text, row in rows.items():
                pending[text].row = row
            for text, error in refused.items():
                pending[text].error = error
        except ModelError as error:
            for one in pending.values():
                one.error = error
            raise
        finally:
            for text, one in pending.items():
                del inflight[is_query, text]
                one.done.set()
        if self._cache is not None and rows:
            await anyio.to_thread.run_sync(
                self._cache.put,
                {self._key(text, is_query=is_query): row.tobytes() for text, row in rows.items()},
            )
        return rows, refused

    async def _fetch(
        self, texts: list[str], *, is_query: bool, meter: Meter
    ) -> tuple[dict[str, Any], dict[str, ModelRequestError]]:
        if isinstance(self._source, LocalEmbedder):
            matrix = await self._source.embed(texts, is_query=is_query)
            return dict(zip(texts, matrix, strict=True)), {}
        by_place, errors = await self._source.fetch(texts, is_query=is_query, meter=meter)
        rows = {texts[place]: self._checked(row) for place, row in by_place.items()}
        return rows, {texts[place]: error for place, error in errors.items()}

    def _checked(self, row: Any) -> Any:
        import numpy as np

        if self._dimension is None:
            self._dimension = len(row)
        if len(row) != self._dimension:
            raise BadModelOutput(
                f"{self._name}: a vector of {len(row)} numbers came back where "
                f"{self._dimension} were expected",
                raw="",
            )
        length = float(np.linalg.norm(row)) if self._normalize else 0.0
        return row / np.float32(length) if length > 0 else row

    async def _cached(self, texts: list[str], *, is_query: bool) -> dict[str, Any]:
        import numpy as np

        if self._cache is None:
            return {}
        keys = {self._key(text, is_query=is_query): text for text in texts}
        found = await anyio.to_thread.run_sync(self._cache.get, list(keys))
        rows = {keys[key]: np.frombuffer(vector, dtype="<f4") for key, vector in found.items()}
        if rows and self._dimension is None:
            self._dimension = len(next(iter(rows.values())))
        return rows

    def _key(self, text: str, *, is_query: bool) -> bytes:
        return cache_key((*self._identity, is_query), text)

    def _matrix(
        self,
        items: list[str],
        prefix: str,
        rows: dict[str, Any],
        refused: dict[str, ModelRequestError],
    ) -> FloatMatrix:
        import numpy as np

        matrix = np.zeros((len(items), self._dimension or 0), dtype=np.float32)
        for place, item in enumerate(items):
            row = rows.get(prefix + item)
            if row is not None:
                matrix[place] = row
        bad = [place for place, item in enumerate(items) if prefix + item in refused]
        if bad:
            first = refused[prefix + items[bad[0]]]
            raise InputRejectedError(
                f"{len(bad)} of {len(items)} texts were refused, the first at place {bad[0]}: "
                f"{first}",
                indexes=tuple(bad),
                vectors=matrix,
                status=first.status,
                request_id=first.request_id,
            ) from first
        return matrix


async def _load_numpy() -> None:
    if "numpy" not in sys.modules:
        await anyio.to_thread.run_sync(importlib.import_module, "numpy")


def _batch(value: int | None, argument: str, default: int) -> int:
    return default if value is None else check_int(value, argument=argument, minimum=1)
