"""The embedders a benchmark can be run with, and a wrapper that times them."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agentmemory.errors import ConfigurationError
from agentmemory.protocols import EmbedderFingerprint, IEmbedder
from benchmarks.errors import BenchmarkError

if TYPE_CHECKING:
    from agentmemory.protocols import FloatMatrix

HASH_DIMENSION: Final = 256


class TimedEmbedder:
    """Passes everything on to an embedder and adds up how long it took.

    The time is what the caller waits, the hop into a worker thread included, so that the rest of
    an operation is its wall time less this.

    Args:
        inner: The embedder that does the work.
    """

    def __init__(self, inner: IEmbedder) -> None:
        self._inner = inner
        self._lap = 0.0
        self.seconds = 0.0
        """Spent in `embed` so far."""
        self.texts = 0
        """Embedded so far."""

    async def embed(self, texts: Sequence[str], *, is_query: bool = False) -> FloatMatrix:
        started = time.perf_counter()
        try:
            return await self._inner.embed(texts, is_query=is_query)
        finally:
            spent = time.perf_counter() - started
            self.seconds += spent
            self._lap += spent
            self.texts += len(texts)

    async def fingerprint(self) -> EmbedderFingerprint:
        return await self._inner.fingerprint()

    def lap(self) -> float:
        """Return the seconds spent since the last call of this method."""
        spent, self._lap = self._lap, 0.0
        return spent


def make_embedder(name: str) -> TimedEmbedder | None:
    """Turn a name from the command line into an embedder; None for `none`.

    Args:
        name: `local`, `none`, `hash` or `minilm:PATH`.

    Raises:
        BenchmarkError: The name is unknown, or what it needs is missing.
    """
    if name == "none":
        return None
    if name == "local":
        from agentmemory.models.resolve import resolve_embedder

        try:
            local = resolve_embedder("local")
        except ConfigurationError as error:
            raise BenchmarkError(f"{error} (or run with --embedder none)") from error
        if local is None:
            raise BenchmarkError("there is no local embedder")
        return TimedEmbedder(local)
    if name == "hash":
        from agentmemory.testing import HashEmbedder

        return TimedEmbedder(HashEmbedder(HASH_DIMENSION))
    kind, colon, path = name.partition(":")
    if kind == "minilm":
        if not colon or not path:
            raise BenchmarkError("--embedder minilm needs its weights: minilm:PATH")
        for package in ("tokenizers", "safetensors"):
            if importlib.util.find_spec(package) is None:
                raise BenchmarkError(f"--embedder minilm needs the package {package!r}")
        from benchmarks.minilm import MiniLMEmbedder

        return TimedEmbedder(MiniLMEmbedder(Path(path)))
    raise BenchmarkError(
        f"--embedder {name!r} is unknown; accepted: local, none, hash, minilm:PATH"
    )
