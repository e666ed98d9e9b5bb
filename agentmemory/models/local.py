"""An embedder that needs no key, no network and no download.

May import: inputs of this room, protocols, errors; numpy, tokenizers and safetensors when first
used. It reads the static word vectors that the `wordllama` wheel carries (256 dimensions, 16 MB)
with `safetensors` and `tokenizers` itself. It never imports `wordllama`: that import configures the
root logger, loads an HTTP client and looks for its tokenizer in a folder the wheel does not have,
to download it instead.
"""

from __future__ import annotations

import functools
import importlib.util
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio.to_thread

from agentmemory.errors import ConfigurationError
from agentmemory.models.inputs import check_texts
from agentmemory.protocols import EmbedderFingerprint

if TYPE_CHECKING:
    from agentmemory.protocols import FloatMatrix

DIMENSION: Final = 256
_WEIGHTS: Final = "weights/l2_supercat_256.safetensors"
_TOKENIZER: Final = "tokenizers/l2_supercat_tokenizer_config.json"
_NEEDED: Final = ("wordllama", "tokenizers", "safetensors")
_TEXTS_PER_SLICE: Final = 512
_TOKENS_PER_BLOCK: Final = 8192

_lock = threading.Lock()


class LocalEmbedder:
    """Embeds text with static word vectors, in a worker thread.

    A vector is the mean of the vectors of the text's word pieces, scaled to unit length. A text
    without any gets the zero vector. The model is read once per process, at the first call,
    and shared by every instance. Safe to use from several tasks, loops and threads.

    Args:
        model: `"wordllama"`, the only model there is.

    Raises:
        ConfigurationError: `model` is unknown, or the `local` extra is not installed.
    """

    def __init__(self, model: str = "wordllama") -> None:
        if model != "wordllama":
            raise ConfigurationError(
                f"`model` {model!r} is not a local embedder; accepted is 'wordllama'"
            )
        missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
        if missing:
            raise ConfigurationError(
                f"`model` 'local/{model}' needs {', '.join(missing)}, which is not installed; "
                'install the extra with: pip install -e ".[local]"'
            )
        self._fingerprint = EmbedderFingerprint(model=f"local/{model}", dimension=DIMENSION)

    def __repr__(self) -> str:
        return f"LocalEmbedder(model={self._fingerprint.model.removeprefix('local/')!r})"

    async def embed(
        self,
        texts: Sequence[str],
        *,
        is_query: bool = False,  # noqa: ARG002 - the protocol has it; static vectors do not care
    ) -> FloatMatrix:
        """Embed texts; queries and documents are treated alike.

        Args:
            texts: Texts of any length.
            is_query: Makes no difference to this model.

        Returns:
            Float32 rows of unit length, shape `(len(texts), 256)`; zero rows for texts without
            word pieces. A text's row does not depend on the texts beside it.

        Raises:
            ValidationError: `texts` is a single string or holds something else than strings.
            ConfigurationError: The installed `wordllama` does not carry the model.
        """
        items = check_texts(texts, argument="texts")
        # Abandoning the thread lets a cancelled caller go at once; the work it leaves behind is
        # pure and short.
        return await anyio.to_thread.run_sync(_embed, items, abandon_on_cancel=True)

    async def fingerprint(self) -> EmbedderFingerprint:
        """Say what the vectors are; loads nothing."""
        return self._fingerprint


class _WordVectors:
    """The vectors and the tokenizer, both read-only once built."""

    def __init__(self, folder: Path) -> None:
        import numpy as np
        from safetensors import safe_open
        from tokenizers import Tokenizer

        for name in (_WEIGHTS, _TOKENIZER):
            if not (folder / name).is_file():
                raise ConfigurationError(
                    f"the installed wordllama does not carry {name!r}; accepted is a release "
                    "that does, such as wordllama 0.4.0.post1"
                )
        with safe_open(folder / _WEIGHTS, framework="np") as tensors:
            self._vectors = tensors.get_tensor("embedding.weight").astype(np.float32)
        self._tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def embed(self, texts: list[str]) -> FloatMatrix:
        import numpy as np

        rows = np.zeros((len(texts), DIMENSION), dtype=np.float32)
        for start in range(0, len(texts), _TEXTS_PER_SLICE):
            part = [_encodable(text) for text in texts[start : start + _TEXTS_PER_SLICE]]
            encoded = self._tokenizer.encode_batch_fast(part, add_special_tokens=False)
            for offset, (text, pieces) in enumerate(zip(part, encoded, strict=True)):
                if text.strip():
                    self._add_up(pieces.ids, rows[start + offset])
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, np.newaxis]
        np.divide(rows, lengths, out=rows, where=lengths > 0)
        return rows

    def _add_up(self, ids: list[int], row: Any) -> None:
        # Blocks bound the memory of a text of a million pieces.
        for start in range(0, len(ids), _TOKENS_PER_BLOCK):
            block = ids[start : start + _TOKENS_PER_BLOCK]
            row += self._vectors.take(block, axis=0, mode="clip").sum(axis=0)
        # The mean, not the sum, keeps the squares of a long text far from overflow.
        row /= max(len(ids), 1)


def _encodable(text: str) -> str:
    # A lone surrogate has no UTF-8 form, and the tokenizer would refuse the whole batch.
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def _embed(texts: list[str]) -> FloatMatrix:
    return _load().embed(texts)


@functools.cache
def _read() -> _WordVectors:
    spec = importlib.util.find_spec("wordllama")
    if spec is None or spec.origin is None:
        raise ConfigurationError(
            'the `local` extra is no longer installed; install it with: pip install -e ".[local]"'
        )
    return _WordVectors(Path(spec.origin).parent)


def _load() -> _WordVectors:
    # The cache alone would let two threads that come first read the file twice.
    with _lock:
        return _read()
