"""`Embedder` over real sockets."""

from __future__ import annotations

import asyncio
import stat
import sys
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest

from agentmemory.errors import (
    BadModelOutput,
    ClosedError,
    ConfigurationError,
    InputRejectedError,
    ModelRequestError,
    ModelUnavailableError,
    ValidationError,
)
from agentmemory.models import Embedder, LocalEmbedder, ModelPrice, resolve_embedder
from agentmemory.models.embedding_cache import EmbeddingCache
from agentmemory.protocols import EmbedderFingerprint, IEmbedder
from agentmemory.telemetry import Event
from agentmemory.testing import FakeServer, Fault, HashEmbedder


def embedder_of(server: FakeServer, model: str = "small", **options: Any) -> Embedder:
    return Embedder(model, api_base=server.base_url, **options)


def sent(server: FakeServer) -> list[list[str]]:
    return [request.json.get("input", request.json.get("texts")) for request in server.requests]


async def test_rows_come_back_in_the_order_of_the_texts_and_of_unit_length() -> None:
    texts = ["quiet restaurants", "", "deploy the database", "quiet restaurants", "  "]
    async with FakeServer() as server, embedder_of(server) as embedder:
        rows = await embedder.embed(texts)
    expected = await HashEmbedder(8).embed(texts)
    assert rows.dtype == np.float32
    assert np.allclose(rows, expected, atol=1e-6)
    assert sent(server) == [["quiet restaurants", "deploy the database"]]
    assert isinstance(embedder, IEmbedder)


@pytest.mark.parametrize(
    ("model", "is_query", "path", "expected"),
    [
        ("vllm/e5", False, "/v1/embeddings", {"input": ["a"], "encoding_format": "base64"}),
        ("mistral/embed", True, "/v1/embeddings", {"input": ["a"]}),
        (
            "cohere/embed-4",
            True,
            "/v1/embed",
            {"texts": ["a"], "input_type": "search_query", "embedding_types": ["float"]},
        ),
        (
            "cohere/embed-4",
            False,
            "/v1/embed",
            {"texts": ["a"], "input_type": "search_document", "embedding_types": ["float"]},
        ),
        (
            "voyage/voyage-4",
            False,
            "/v1/embeddings",
            {"input": ["a"], "input_type": "document", "encoding_format": "base64"},
        ),
        (
            "jina/v5",
            True,
            "/v1/embeddings",
            {"input": ["a"], "task": "retrieval.query", "encoding_format": "base64"},
        ),
    ],
)
async def test_each_provider_is_asked_in_its_form(
    model: str, is_query: bool, path: str, expected: dict[str, Any]
) -> None:
    async with FakeServer() as server, embedder_of(server, model, api_key="k") as embedder:
        rows = await embedder.embed(["a"], is_query=is_query)
    assert np.allclose(rows, await HashEmbedder(8).embed(["a"]))
    (request,) = server.requests
    assert request.path == path
    assert request.json == {"model": model.partition("/")[2], **expected}


@pytest.mark.parametrize(
    ("model", "name"), [("openai/e", "dimensions"), ("cohere/e", "output_dimension")]
)
async def test_a_length_of_vectors_can_be_asked_for(model: str, name: str) -> None:
    async with FakeServer() as server, embedder_of(server, model, dimensions=5) as embedder:
        assert (await embedder.embed(["a"])).shape == (1, 5)
    assert server.requests[0].json[name] == 5


async def test_prefixes_tell_queries_from_documents_and_belong_to_the_fingerprint() -> None:
    async with (
        FakeServer() as server,
        embedder_of(server, query_prefix="query: ", document_prefix="passage: ") as embedder,
    ):
        await embedder.embed(["a", ""], is_query=True)
        await embedder.embed(["a"])
        fingerprint = await embedder.fingerprint()
    assert sent(server) == [["query: a"], ["passage: a"]]
    assert fingerprint == EmbedderFingerprint(
        model="small", dimension=8, query_prefix="query: ", document_prefix="passage: "
    )


async def test_the_length_of_vectors_is_asked_for_once() -> None:
    async with FakeServer() as server, embedder_of(server, normalize=False) as embedder:
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(embedder.fingerprint)
        fingerprint = await embedder.fingerprint()
        assert (await embedder.embed([""])).shape == (1, 8)
        assert len(server.requests) == 1
    assert fingerprint == EmbedderFingerprint(model="small", dimension=8, normalized=False)


async def test_a_known_length_is_not_asked_for() -> None:
    async with FakeServer() as server, embedder_of(server, dimensions=6) as embedder:
        assert (await embedder.fingerprint()).dimension == 6
        assert (await embedder.embed(["", " "])).tolist() == [[0.0] * 6] * 2
        assert (await embedder.embed([])).shape == (0, 6)
    assert server.requests == []


async def test_blank_texts_alone_ask_for_the_length() -> None:
    async with FakeServer() as server, embedder_of(server) as embedder:
        assert (await embedder.embed([])).shape == (0, 0)
        rows = await embedder.embed([" ", ""])
    assert rows.tolist() == [[0.0] * 8] * 2


async def test_batches_keep_to_both_limits() -> None:
    async with FakeServer() as server:
        async with embedder_of(server, max_batch_items=3) as embedder:
            texts = [f"text {number}" for number in range(8)]
            rows = await embedder.embed(texts)
        assert sorted(map(len, sent(server))) == [2, 3, 3]
        assert np.allclose(rows, await HashEmbedder(8).embed(texts), atol=1e-6)
        server.requests.clear()
        async with embedder_of(server, max_batch_tokens=50) as embedder:
            await embedder.embed(["word " * 20, "word " * 21, "é" * 400, "a", "b"])
        assert sorted(len(batch) for batch in sent(server)) == [1, 1, 1, 2]


async def test_vectors_come_as_base64_or_as_numbers() -> None:
    async with FakeServer(refuses=["base64"]) as server, embedder_of(server) as embedder:
        first = await embedder.embed(["a"])
        second = await embedder.embed(["b"])
    assert np.allclose(np.concatenate([first, second]), await HashEmbedder(8).embed(["a", "b"]))
    formats = [request.json.get("encoding_format") for request in server.requests]
    assert formats == ["base64", None, None], "what is refused is remembered"


async def test_one_bad_text_does_not_spoil_the_others() -> None:
    texts = [f"text {number}" for number in range(20)]
    async with FakeServer(bad_texts=[texts[3], texts[17]]) as server, embedder_of(server) as one:
        with pytest.raises(InputRejectedError, match="2 of 20 texts") as caught:
            await one.embed(texts)
    expected = await HashEmbedder(8).embed(texts)
    expected[[3, 17]] = 0
    assert caught.value.indexes == (3, 17)
    assert np.allclose(caught.value.vectors, expected, atol=1e-6)
    assert caught.value.status == 400
    assert isinstance(caught.value.__cause__, ModelRequestError)
    assert len(server.requests) < 20


async def test_a_refusal_that_is_not_about_the_texts_is_not_looked_for_in_them() -> None:
    texts = [f"text {number}" for number in range(64)]
    async with FakeServer(refuses=["dimensions"]) as server:
        async with embedder_of(server, dimensions=4) as embedder:
            with pytest.raises(ModelRequestError, match="dimensions is not supported"):
                await embedder.embed(texts)
        assert len(server.requests) <= 3


async def test_a_text_that_is_too_long_is_shortened_and_told(events: list[Event]) -> None:
    texts = ["short", "long " * 100, "fine"]
    async with FakeServer(max_text_length=100) as server, embedder_of(server) as embedder:
        rows = await embedder.embed(texts)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert np.allclose(rows[[0, 2]], await HashEmbedder(8).embed(["short", "fine"]), atol=1e-6)
    (event,) = [event for event in events if event.level == "warning"]
    assert event.name == "model.input_truncated"
    assert "long" not in event.message.replace("longer", "")


async def test_a_text_that_is_too_long_can_be_an_error() -> None:
    async with (
        FakeServer(max_text_length=100) as server,
        embedder_of(server, on_too_long="error") as embedder,
    ):
        with pytest.raises(InputRejectedError) as caught:
            await embedder.embed(["short", "long " * 100])
    assert caught.value.indexes == (1,)
    assert caught.value.vectors[0].any()


async def test_a_batch_that_is_too_large_is_halved() -> None:
    texts = [f"text {number}" for number in range(20)]
    async with FakeServer(max_batch_items=6) as server, embedder_of(server) as embedder:
        rows = await embedder.embed(texts)
    assert np.allclose(rows, await HashEmbedder(8).embed(texts), atol=1e-6)


@pytest.mark.parametrize("by", [-1, 1])
async def test_a_wrong_number_of_vectors_is_an_error(by: int) -> None:
    async with FakeServer() as server, embedder_of(server) as embedder:
        server.script(*[Fault.wrong_count(by)] * 20)
        with pytest.raises(BadModelOutput, match="vectors came back for"):
            await embedder.embed(["a", "b", "c"])


async def test_a_single_miscount_is_made_up_for() -> None:
    async with FakeServer() as server, embedder_of(server) as embedder:
        server.script(Fault.wrong_count(-1))
        rows = await embedder.embed(["a", "b", "c"])
    assert np.allclose(rows, await HashEmbedder(8).embed(["a", "b", "c"]), atol=1e-6)


async def test_vectors_of_another_length_are_an_error() -> None:
    async with FakeServer() as server, embedder_of(server) as embedder:
        await embedder.embed(["a"])
        server.dimension = 9
        with pytest.raises(BadModelOutput, match="a vector of 9 numbers"):
            await embedder.embed(["b"])


@pytest.mark.parametrize(
    "data",
    [
        {"data": [{"index": 0, "embedding": [1.0, float("nan")]}]},
        {"data": [{"index": 0, "embedding": [1.0, None]}]},
        {"data": [{"index": 0, "embedding": "not base64!"}]},
        {"data": [{"index": 0, "embedding": "AAA="}]},
        {"data": [{"index": 0, "embedding": []}]},
        {"data": [{"index": 0, "embedding": [[1.0]]}]},
        {"data": [{"index": 3, "embedding": [1.0]}]},
        {"data": [{"index": "x", "embedding": [1.0]}]},
        {"data": [{"index": 0}]},
        {"data": ["x"]},
        {"data": None},
        {"embeddings": [[1.0], [2.0]]},
        [],
        "text",
    ],
)
def test_answers_without_usable_vectors_are_errors(data: Any) -> None:
    from agentmemory.models.embedding_source import _matrix

    with pytest.raises(BadModelOutput):
        _matrix(data, 1, "small")


async def test_equal_texts_of_calls_at_the_same_time_are_sent_once() -> None:
    gate = asyncio.Event()
    results: list[Any] = []
    async with FakeServer() as server, embedder_of(server) as embedder:
        server.script(Fault.slow(gate))

        async def embed(*texts: str) -> None:
            results.append(await embedder.embed(texts))

        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(embed, "a", "b")
                await server.arrived(1)
                group.start_soon(embed, "b", "a", "b")
                group.start_soon(embed, "b", "c")
                await server.arrived(2)
                gate.set()
    assert sent(server) == [["a", "b"], ["c"]]
    assert sorted(rows.shape[0] for rows in results) == [2, 2, 3]


async def test_a_call_that_shares_a_request_survives_the_other_being_cancelled() -> None:
    never = asyncio.Event()
    async with FakeServer() as server, embedder_of(server) as embedder:
        server.script(Fault.slow(never))
        with anyio.fail_after(10):
            async with asyncio.TaskGroup() as tasks:
                first = tasks.create_task(embedder.embed(["a"]))
                await server.arrived(1)
                second = tasks.create_task(embedder.embed(["a"]))
                await anyio.wait_all_tasks_blocked()
                first.cancel()
    assert first.cancelled()
    assert second.result().shape == (1, 8)
    assert sent(server) == [["a"], ["a"]]


async def test_a_failure_is_told_to_every_call_that_shares_the_request() -> None:
    gate = asyncio.Event()
    failures: list[Exception] = []
    async with FakeServer() as server, embedder_of(server, max_attempts=1) as embedder:
        server.script(Fault.slow(gate), Fault.status(500))

        async def embed(texts: list[str]) -> None:
            try:
                await embedder.embed(texts)
            except ModelUnavailableError as error:
                failures.append(error)

        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(embed, ["a"])
                await server.arrived(1)
                group.start_soon(embed, ["b"])
                group.start_soon(embed, ["b"])
                await server.arrived(2)
                gate.set()
    assert len(failures) == 2
    assert len(server.requests) == 2


async def test_the_first_failing_batch_ends_the_call_as_itself(no_waits: list[float]) -> None:
    async with (
        FakeServer() as server,
        embedder_of(server, max_batch_items=1, max_attempts=1) as embedder,
    ):
        server.script(Fault.status(500))
        with pytest.raises(ModelUnavailableError):
            await embedder.embed([f"text {number}" for number in range(40)])


async def test_what_it_cost_is_on_the_event(events: list[Event]) -> None:
    async with (
        FakeServer() as server,
        embedder_of(server, prices={"small": ModelPrice(input_per_million=2e6)}) as embedder,
    ):
        await embedder.embed(["one two", "three"])
    (event,) = [event for event in events if event.name == "model.embeddings"]
    assert event.duration_s is not None
    assert dict(event.attributes) == {
        "gen_ai.operation.name": "embeddings",
        "gen_ai.provider.name": "openai-compatible",
        "gen_ai.request.model": "small",
        "agentmemory.model.texts": 2,
        "gen_ai.usage.input_tokens": 3,
        "gen_ai.usage.output_tokens": 0,
        "agentmemory.model.calls": 1,
        "agentmemory.model.retries": 0,
        "agentmemory.model.cost": 6.0,
        "gen_ai.embeddings.dimension.count": 8,
    }


async def test_the_cache_answers_across_clients_and_processes(tmp_path: Path) -> None:
    cache = tmp_path / "vectors.db"
    async with FakeServer() as server:
        async with embedder_of(server, cache=cache) as embedder:
            first = await embedder.embed(["a", "b"])
            again = await embedder.embed(["b", "a"])
        async with embedder_of(server, cache=cache) as embedder:
            later = await embedder.embed(["a", "c"])
            assert (await embedder.fingerprint()).dimension == 8
        assert sent(server) == [["a", "b"], ["c"]]
    assert np.array_equal(first, again[::-1])
    assert np.array_equal(first[0], later[0])
    assert stat.S_IMODE(cache.stat().st_mode) == 0o600
    code = (
        "import sys; from agentmemory.models.embedding_cache import EmbeddingCache;"
        "c = EmbeddingCache(sys.argv[1]); k = bytes(32); c.put({k: b'1234'}); print(c.get([k])); c.close()"
    )
    done = await anyio.run_process([sys.executable, "-W", "error", "-c", code, str(cache)])
    assert done.stdout.decode().strip() == str({bytes(32): b"1234"})


async def test_the_cache_keeps_apart_what_differs(tmp_path: Path) -> None:
    cache = tmp_path / "vectors.db"
    async with FakeServer() as server, FakeServer() as other:
        variants: list[tuple[FakeServer, dict[str, Any], bool]] = [
            (server, {}, False),
            (server, {}, True),
            (server, {"normalize": False}, False),
            (server, {"dimensions": 4}, False),
            (server, {"model": "large"}, False),
            (server, {"document_prefix": "x "}, False),
            (other, {}, False),
        ]
        for where, options, is_query in variants:
            async with embedder_of(where, **options, cache=cache) as embedder:
                await embedder.embed(["a"], is_query=is_query)
        assert len(server.requests) + len(other.requests) == len(variants)


async def test_the_cache_holds_no_text(tmp_path: Path) -> None:
    cache = tmp_path / "vectors.db"
    async with FakeServer() as server, embedder_of(server, cache=cache) as embedder:
        await embedder.embed(["a very private sentence"])
    assert b"private" not in cache.read_bytes()


def test_the_oldest_vectors_leave_a_full_cache(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path / "vectors.db", max_entries=10)
    keys = [bytes([number]) * 32 for number in range(25)]
    for key in keys:
        cache.put({key: b"0000"})
    assert set(cache.get(keys)) == set(keys[15:])
    cache.clear()
    assert cache.get(keys) == {}
    cache.put({keys[0]: b"1111"})
    assert cache.get(keys) == {keys[0]: b"1111"}
    cache.close()
    cache.close()


@pytest.mark.parametrize("content", [b"a text of somebody else, long enough " * 40, None])
async def test_a_file_of_somebody_else_is_not_used_as_a_cache(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "other.db"
    if content is None:
        import sqlite3
        from contextlib import closing

        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE mine (a)")
        content = path.read_bytes()
    else:
        path.write_bytes(content)
    async with FakeServer() as server, embedder_of(server, cache=path) as embedder:
        with pytest.raises(ConfigurationError, match="`cache`"):
            await embedder.embed(["a"])
    assert path.read_bytes() == content


async def test_a_cache_that_breaks_is_told_once_and_left_aside(
    tmp_path: Path, events: list[Event]
) -> None:
    path = tmp_path / "vectors.db"
    async with FakeServer() as server:
        async with embedder_of(server, cache=path) as embedder:
            await embedder.embed([f"text {number}" for number in range(200)])
        whole = bytearray(path.read_bytes())
        whole[4096:] = b"\xff" * (len(whole) - 4096)
        path.write_bytes(whole)
        async with embedder_of(server, cache=path) as embedder:
            for _ in range(2):
                rows = await embedder.embed(["text 1", "new"])
                assert rows.any(axis=1).all()
    assert [event.name for event in events if event.level == "warning"] == [
        "model.embedding_cache_failed"
    ]


async def test_the_local_model_has_prefixes_and_a_cache_too(tmp_path: Path) -> None:
    async with Embedder("local/wordllama", cache=tmp_path / "vectors.db") as embedder:
        rows = await embedder.embed(["quiet restaurants", ""])
        assert np.allclose(rows, await LocalEmbedder().embed(["quiet restaurants", ""]), atol=1e-6)
        assert await embedder.fingerprint() == await LocalEmbedder().fingerprint()
    with pytest.raises(ConfigurationError, match="runs in this process"):
        Embedder("local/wordllama", api_key="k")
    with pytest.raises(ConfigurationError, match="`model` 'none'"):
        Embedder("local/none")


@pytest.mark.parametrize("texts", ["one", 3, [3], None])
async def test_what_are_no_texts_is_refused(texts: Any) -> None:
    async with Embedder("small", api_base="http://127.0.0.1:9/v1") as embedder:
        with pytest.raises(ValidationError, match="`texts`"):
            await embedder.embed(texts)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"dimensions": 0}, "`dimensions`"),
        ({"max_batch_items": 0}, "`max_batch_items`"),
        ({"max_batch_tokens": "x"}, "`max_batch_tokens`"),
        ({"on_too_long": "skip"}, "`on_too_long`"),
        ({"normalize": 1}, "`normalize`"),
        ({"query_prefix": None}, "`query_prefix`"),
        ({"unknown": 1}, "`unknown`"),
    ],
)
def test_options_that_cannot_work_are_refused_by_name(options: Any, named: str) -> None:
    with pytest.raises((ConfigurationError, ValidationError), match=named):
        Embedder("small", api_base="http://127.0.0.1:9/v1", **options)


async def test_after_close_every_call_is_refused() -> None:
    async with FakeServer() as server:
        embedder = embedder_of(server)
        await embedder.embed(["a"])
        await embedder.aclose()
        with pytest.raises(ClosedError):
            await embedder.embed(["b"])


def test_a_name_with_a_provider_resolves_to_an_embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert repr(resolve_embedder("openai/small")) == "Embedder(model='openai/small')"
    with pytest.raises(ConfigurationError, match="nobody/small"):
        resolve_embedder("nobody/small")
