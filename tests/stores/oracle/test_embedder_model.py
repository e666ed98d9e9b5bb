"""The embedder whose model is in the database: what it asks, and what it makes of the answers."""

from __future__ import annotations

from array import array

import numpy as np
import oracledb
import pytest

from agentmemory.errors import (
    BadModelOutput,
    ModelRequestError,
    ModelUnavailableError,
    ValidationError,
)
from agentmemory.oracle import OracleDBEmbedder
from agentmemory.protocols import IEmbedder
from tests.support.oracle.errors import ora
from tests.support.oracle.scripted import Script
from tests.support.oracle.server import OracleServer, installed
from tests.support.oracle.store import new_pool
from tests.support.oracle.values import Answer, Column

MODEL = r"VECTOR_EMBEDDING\(OWNER\.MINILM USING j\.content AS TXT\)"


@pytest.fixture
def script():
    """A server that has none of what an engine asks for when it is opened."""
    script = Script()
    script.on(r"product_component_version|USERENV|session_privs|all_|vector_memory", error=ora(942))
    return script


@pytest.fixture
async def embedder(script):
    """An embedder on a scripted server, which stands for a model of two dimensions."""
    with installed(OracleServer(script)) as server:
        pool = new_pool()
        made = OracleDBEmbedder(pool, "owner.minilm", input_name="txt", batch_size=2)
        yield made
        await made.aclose()
        await pool.close(force=True)
        await server.settle()


def lengths_of(request):
    """Answer with vectors that depend on the texts."""
    rows = [(array("f", [3.0, len(text)]),) for text in texts_of(request)]
    return Answer(columns=[Column("V", oracledb.DB_TYPE_VECTOR)], rows=rows)


def texts_of(request):
    """Return what is to be embedded."""
    (execution,) = request.executions
    return execution["TEXTS"].value


async def test_texts_are_embedded_in_order_some_at_once(script, embedder):
    asked = []

    def answer(request):
        asked.append(texts_of(request))
        return lengths_of(request)

    script.on(MODEL, respond=answer)
    assert isinstance(embedder, IEmbedder)
    found = await embedder.embed(["four", "  ", "a", "bb", "ccc"])
    assert found.dtype == np.float32
    assert found.shape == (5, 2)
    assert np.allclose(found[0], [0.6, 0.8])
    assert not found[1].any()
    assert np.allclose(np.linalg.norm(found[[0, 2, 3, 4]], axis=1), 1)
    assert asked == [["four", "a"], ["bb", "ccc"]]
    fingerprint = await embedder.fingerprint()
    assert (fingerprint.model, fingerprint.dimension) == ("oracle/OWNER.MINILM", 2)


async def test_the_lengths_of_vectors_is_found_out_by_asking(script, embedder):
    script.on(MODEL, respond=lengths_of)
    assert (await embedder.fingerprint()).dimension == 2


async def test_a_long_text_is_cut_at_a_character(script, embedder):
    sent = []

    def answer(request):
        sent.extend(texts_of(request))
        return lengths_of(request)

    script.on(MODEL, respond=answer)
    await embedder.embed(["ä" * 2001 + "b"])
    assert sent == ["ä" * 2000]


async def test_nothing_is_asked_for_nothing(script, embedder):
    script.on(MODEL, error=AssertionError("it was asked"))
    assert (await embedder.embed([])).shape == (0, 0)
    assert (await embedder.embed([" "])).shape == (1, 0)


async def test_a_text_without_a_vector_is_an_error(script, embedder):
    script.on(MODEL, rows=[(None,)])
    with pytest.raises(BadModelOutput, match="no vector"):
        await embedder.embed(["a kite"])


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ora(40284, text="model does not exist"), ModelRequestError),
        (ora(3113), ModelUnavailableError),
    ],
)
async def test_failures_of_the_database_are_failures_of_the_model(
    script, embedder, error, expected
):
    script.on(MODEL, error=error)
    with pytest.raises(expected, match="MINILM"):
        await embedder.embed(["a kite"])


async def test_vectors_of_another_length_are_refused(script, embedder):
    script.on(MODEL, respond=lengths_of)
    embedder._dimension = 3
    with pytest.raises(BadModelOutput, match=r"length \[2\].*is 3"):
        await embedder.embed(["a kite"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("x'; DROP TABLE y",), "model"),
        (('"Mini"',), "model"),
        (("a.b.c",), "model"),
    ],
)
def test_names_that_are_none_are_refused(arguments, words):
    with pytest.raises(ValidationError, match=words):
        OracleDBEmbedder("oracle://mira:secret@db.example.com/memory", *arguments)


@pytest.mark.parametrize("size", [0, 1025, "many"])
def test_batch_sizes_out_of_range_are_refused(size):
    with pytest.raises(ValidationError, match="batch_size"):
        OracleDBEmbedder("oracle://mira:secret@db.example.com/memory", "m", batch_size=size)
