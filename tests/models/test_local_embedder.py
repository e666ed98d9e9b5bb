"""The embedder of the `local` extra."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading

import anyio
import numpy as np
import pytest

from agentmemory.errors import ConfigurationError, ValidationError
from agentmemory.models import LocalEmbedder, local, resolve_embedder
from agentmemory.protocols import EmbedderFingerprint, IEmbedder


def run_alone(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.strip()


async def test_rows_have_unit_length_in_the_order_of_the_texts() -> None:
    embedder = LocalEmbedder()
    texts = ["I am vegetarian.", "The deployment failed on Friday.", "I eat no meat."]
    rows = await embedder.embed(texts)
    assert rows.shape == (3, 256)
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-6)
    assert rows[0] @ rows[2] > rows[0] @ rows[1]


async def test_a_text_has_the_same_vector_whatever_stands_beside_it() -> None:
    embedder = LocalEmbedder()
    texts = [f"note {number} about the harbour" for number in range(700)]
    together = await embedder.embed(texts)
    for place in (0, 511, 512, 699):
        alone = await embedder.embed([texts[place]], is_query=True)
        assert np.array_equal(alone[0], together[place])


@pytest.mark.parametrize("text", ["", "   ", "\n\t", "　"])
async def test_blank_text_is_a_zero_vector(text: str) -> None:
    rows = await LocalEmbedder().embed([text, "word"])
    assert not rows[0].any()
    assert rows[1].any()


@pytest.mark.parametrize("text", ["\x00", "\ud800", "a\udfffb", "\U0001f600", "</s><unk>", "é" * 9])
async def test_odd_text_is_a_finite_unit_vector(text: str) -> None:
    rows = await LocalEmbedder().embed([text])
    assert np.isfinite(rows).all()
    assert np.linalg.norm(rows[0]) == pytest.approx(1.0, abs=1e-5)


async def test_a_very_long_text_is_embedded_whole() -> None:
    word, other = "harbour ", "violin "
    rows = await LocalEmbedder().embed([word * 20_000 + other * 20_000, word + other, word])
    assert np.linalg.norm(rows[0]) == pytest.approx(1.0, abs=1e-4)
    assert rows[0] @ rows[1] > 0.98 > rows[0] @ rows[2]


async def test_no_texts_give_no_rows() -> None:
    assert (await LocalEmbedder().embed([])).shape == (0, 256)


async def test_one_string_instead_of_a_sequence_is_refused() -> None:
    with pytest.raises(ValidationError, match="`texts`"):
        await LocalEmbedder().embed("one string")


async def test_something_else_than_text_is_refused() -> None:
    with pytest.raises(ValidationError, match="`texts` holds 3"):
        await LocalEmbedder().embed(["a", 3])  # type: ignore[list-item]


async def test_it_says_what_its_vectors_are_without_loading_them() -> None:
    assert await LocalEmbedder().fingerprint() == EmbedderFingerprint(
        model="local/wordllama", dimension=256
    )


async def test_the_model_is_read_once_however_many_ask_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads: list[object] = []
    original = local._WordVectors.__init__

    def counted(self: local._WordVectors, folder: object) -> None:
        reads.append(folder)
        original(self, folder)  # type: ignore[arg-type]

    local._read.cache_clear()
    monkeypatch.setattr(local._WordVectors, "__init__", counted)
    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(LocalEmbedder().embed, [f"text {number}"])
    assert len(reads) == 1


async def test_loading_and_embedding_leave_the_event_loop_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop_thread = threading.get_ident()
    seen: list[int] = []
    original = local._embed

    def watched(texts: list[str]) -> object:
        seen.append(threading.get_ident())
        return original(texts)

    monkeypatch.setattr(local, "_embed", watched)
    await LocalEmbedder().embed(["text"])
    assert seen
    assert loop_thread not in seen


def test_it_loads_offline_and_brings_no_http_client_and_no_logging() -> None:
    shown = run_alone(
        """
        import socket, sys, logging
        def refuse(*args, **kwargs):
            raise OSError("no network here")
        class Refused(socket.socket):
            def connect(self, *args):
                refuse()
        import asyncio
        from agentmemory.models import LocalEmbedder
        async def main():
            embedder = LocalEmbedder()
            assert "numpy" not in sys.modules and "tokenizers" not in sys.modules
            socket.socket = Refused
            socket.getaddrinfo = refuse
            rows = await embedder.embed(["quiet restaurants", ""])
            print(rows.shape, bool(rows[0].any()), bool(rows[1].any()))
        asyncio.run(main())
        unwanted = {"wordllama", "requests", "huggingface_hub", "pydantic", "httpx"}
        print(sorted(unwanted & sys.modules.keys()), logging.root.handlers)
        """
    )
    assert shown == "(2, 256) True False\n[] []"


def test_it_agrees_with_the_package_whose_vectors_it_reads() -> None:
    shown = run_alone(
        """
        import asyncio, pathlib, logging
        logging.basicConfig(level=logging.ERROR)
        import numpy as np
        import wordllama
        from agentmemory.models import LocalEmbedder
        texts = ["I am vegetarian.", "Dinner on Friday?", "我喜欢安静的餐厅。", "x", "naïve café"]
        theirs = wordllama.WordLlama.load(
            cache_dir=pathlib.Path(wordllama.__file__).parent, disable_download=True
        ).embed(texts, norm=True)
        ours = asyncio.run(LocalEmbedder().embed(texts))
        print(bool(np.allclose(ours, theirs, atol=1e-6)))
        """
    )
    assert shown == "True"


def test_a_missing_extra_tells_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r'pip install -e "\.\[local\]"'):
        LocalEmbedder()


def test_an_unknown_local_model_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="`model` 'minilm'"):
        LocalEmbedder("minilm")


@pytest.mark.parametrize("name", ["local", "local/wordllama", " local "])
def test_names_that_mean_the_local_embedder(name: str) -> None:
    assert isinstance(resolve_embedder(name), LocalEmbedder)


def test_no_embedder_stays_none_and_an_object_stays_itself() -> None:
    embedder = LocalEmbedder()
    assert resolve_embedder(None) is None
    assert resolve_embedder(embedder) is embedder
    assert isinstance(embedder, IEmbedder)


def test_an_object_that_is_no_embedder_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="`embedder`"):
        resolve_embedder(3)  # type: ignore[arg-type]
