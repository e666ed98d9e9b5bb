"""A deterministic embedder without a model.

May import: protocols, checks; numpy when first used.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentmemory.checks import check_int
from agentmemory.protocols import EmbedderFingerprint

if TYPE_CHECKING:
    from agentmemory.protocols import FloatMatrix

_TOKEN = re.compile(r"[぀-ヿ㐀-䶿一-鿿가-힯]|[^\W_]+")
_PLACES_PER_TOKEN = 4


class HashEmbedder:
    """Embeds text by hashing its words; texts with words in common get close vectors.

    Each lower-cased word (each character of Chinese, Japanese and Korean) adds +1 or -1 at four
    places of the vector, both taken from its BLAKE2b hash; the sum is scaled to unit length
    (feature hashing: Weinberger et al., 2009). The same on every machine and in every process.

    Args:
        dimension: Length of the vectors, 1 or more.
        model: The name its fingerprint carries, to play embedders that do not match.

    Raises:
        ValidationError: `dimension` is not a positive int.
    """

    def __init__(self, dimension: int = 64, *, model: str = "testing/hash") -> None:
        check_int(dimension, argument="dimension", minimum=1)
        self._fingerprint = EmbedderFingerprint(model=model, dimension=dimension)
        self.calls: list[tuple[tuple[str, ...], bool]] = []
        """Every call so far: its texts, and whether they were queries."""

    def __repr__(self) -> str:
        return f"HashEmbedder(dimension={self._fingerprint.dimension})"

    async def embed(self, texts: Sequence[str], *, is_query: bool = False) -> FloatMatrix:
        """Embed texts.

        Args:
            texts: The texts.
            is_query: Is recorded in `calls` and makes no other difference.

        Returns:
            Float32 rows of unit length, shape `(len(texts), dimension)`; zero rows for texts
            without words.
        """
        import numpy as np

        self.calls.append((tuple(texts), is_query))
        dimension = self._fingerprint.dimension
        rows = np.zeros((len(texts), dimension), dtype=np.float32)
        for number, text in enumerate(texts):
            row = rows[number]
            for token in _TOKEN.findall(text.lower()):
                digest = hashlib.blake2b(token.encode("utf-8", "replace"), digest_size=20).digest()
                for start in range(0, 5 * _PLACES_PER_TOKEN, 5):
                    place = int.from_bytes(digest[start : start + 4], "little") % dimension
                    row[place] += 1.0 if digest[start + 4] & 1 else -1.0
            length = float(np.sqrt(row @ row))
            if length > 0:
                rows[number] = row / length
        return rows

    async def fingerprint(self) -> EmbedderFingerprint:
        """Say what the vectors are."""
        return self._fingerprint
