"""`Reranker` over real sockets, in each wire form."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from agentmemory.errors import (
    BadModelOutput,
    ConfigurationError,
    ContextLengthError,
    ModelRequestError,
    ValidationError,
)
from agentmemory.models import Reranker
from agentmemory.models.providers import RerankForm
from agentmemory.models.reranker import _scores
from agentmemory.protocols import IReranker, RerankResult
from agentmemory.telemetry import Event
from agentmemory.testing import FakeServer, Fault

DOCUMENTS = ["the deployment failed", "a quiet restaurant", "quiet", "a loud bar"]


def reranker_of(server: FakeServer, **options: Any) -> Reranker:
    return Reranker("small", api_base=server.base_url, **options)


@pytest.mark.parametrize("form", get_args(RerankForm))
async def test_each_form_gives_scores_best_first(form: RerankForm) -> None:
    async with FakeServer(rerank_form=form) as server, reranker_of(server, form=form) as reranker:
        response = await reranker.rerank("quiet restaurant", DOCUMENTS)
    assert response.results == (
        RerankResult(1, 1.0),
        RerankResult(2, 0.5),
        RerankResult(0, 0.0),
        RerankResult(3, 0.0),
    )
    assert response.usage.calls == 1
    assert response.usage.input_tokens == (12 if form in {"jina", "voyage", "vllm"} else 0)
    assert isinstance(reranker, IReranker)


@pytest.mark.parametrize(
    ("model", "path", "expected"),
    [
        ("cohere/rerank-4", "/v2/rerank", {"model": "rerank-4", "top_n": 1}),
        ("jina/r3", "/v1/rerank", {"model": "r3", "top_n": 1, "return_documents": False}),
        (
            "voyage/rerank-3",
            "/v1/rerank",
            {"model": "rerank-3", "top_k": 1, "return_documents": False, "truncation": True},
        ),
        ("vllm/bge", "/v1/rerank", {"model": "bge", "top_n": 1}),
        ("tei/any", "/rerank", {"raw_scores": False, "truncate": True}),
    ],
)
async def test_each_provider_is_asked_in_its_form(
    model: str, path: str, expected: dict[str, Any]
) -> None:
    provider = model.partition("/")[0]
    form: RerankForm = next(one for one in get_args(RerankForm) if one == provider)
    async with FakeServer(rerank_form=form, api_key="key-1") as server:
        base = server.url + path.removesuffix("/rerank")
        async with Reranker(model, api_base=base, api_key="key-1") as reranker:
            await reranker.rerank("a", ["b"])
    documents = {"texts": ["b"]} if form == "tei" else {"documents": ["b"]}
    (request,) = server.requests
    assert request.path == path
    assert request.json == {"query": "a", **documents, **expected}


async def test_no_documents_ask_nobody() -> None:
    async with FakeServer() as server, reranker_of(server) as reranker:
        assert (await reranker.rerank("a", [])).results == ()
        assert (await reranker.rerank("a", ["", "  "])).results == ()
    assert server.requests == []


async def test_blank_documents_are_not_sent_and_places_stay_right() -> None:
    async with FakeServer() as server, reranker_of(server) as reranker:
        response = await reranker.rerank("quiet", ["", "loud", " ", "quiet"])
    assert [result.index for result in response.results] == [3, 1]
    assert server.requests[0].json["documents"] == ["loud", "quiet"]


async def test_many_documents_go_in_several_requests() -> None:
    documents = [f"word{number}" for number in range(10)]
    async with FakeServer() as server, reranker_of(server, max_documents=4) as reranker:
        response = await reranker.rerank("word7", documents)
    assert response.results[0] == RerankResult(7, 1.0)
    assert [result.index for result in response.results[1:]] == [0, 1, 2, 3, 4, 5, 6, 8, 9]
    assert len(server.requests) == response.usage.calls == 3


async def test_a_request_that_is_too_large_is_halved() -> None:
    documents = [f"word{number}" for number in range(10)]
    async with FakeServer(max_batch_items=3) as server, reranker_of(server) as reranker:
        response = await reranker.rerank("word7", documents)
    assert {result.index for result in response.results} == set(range(10))


async def test_a_document_that_is_too_long_has_no_score_and_is_told(events: list[Event]) -> None:
    async with FakeServer() as server, reranker_of(server) as reranker:
        server.script(*[Fault.context_length()] * 2)
        response = await reranker.rerank("quiet", ["quiet", "loud"])
        assert [result.index for result in response.results] == [1]
        server.script(*[Fault.context_length()] * 3)
        with pytest.raises(ContextLengthError):
            await reranker.rerank("quiet", ["quiet", "loud"])
    assert [event.name for event in events if event.level == "warning"] == [
        "model.documents_refused"
    ]


async def test_a_refusal_that_is_not_about_the_documents_is_told_at_once() -> None:
    async with FakeServer() as server, reranker_of(server) as reranker:
        server.script(Fault.status(422, message="unknown field"))
        with pytest.raises(ModelRequestError, match="unknown field"):
            await reranker.rerank("quiet", DOCUMENTS)
        assert len(server.requests) == 1


@pytest.mark.parametrize("form", get_args(RerankForm))
async def test_scores_of_documents_that_are_not_there_are_dropped(form: RerankForm) -> None:
    async with FakeServer(rerank_form=form) as server, reranker_of(server, form=form) as reranker:
        server.script(Fault.wrong_count(2), Fault.wrong_count(-3), Fault.wrong_count(-4))
        more = await reranker.rerank("quiet", DOCUMENTS)
        fewer = await reranker.rerank("quiet restaurant", DOCUMENTS)
        with pytest.raises(BadModelOutput, match="scores none of 4"):
            await reranker.rerank("quiet", DOCUMENTS)
    assert sorted(result.index for result in more.results) == [0, 1, 2, 3]
    assert [result.index for result in fewer.results] == [1]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ([{"index": 0, "score": 1}, {"index": 0, "score": 2}], {0: 1.0}),
        ({"rerank": [{"index": 1, "relevance_score": 0.5}]}, {1: 0.5}),
        ({"results": [{"index": 2, "score": 1}, {"index": -1, "score": 1}]}, {}),
        ({"results": [{"index": "0", "score": 1}, {"index": True, "score": 1}]}, {}),
        ({"results": [{"index": 0, "score": float("nan")}, {"index": 1, "score": None}]}, {}),
        ({"results": [{"index": 0, "score": True}, 3, None]}, {}),
        ({"results": {}}, {}),
        ({}, {}),
        ("text", {}),
    ],
)
def test_scores_are_read_with_care(data: Any, expected: dict[int, float]) -> None:
    assert _scores(data, 2) == expected


@pytest.mark.parametrize(
    ("query", "documents", "named"),
    [
        ("", ["a"], "`query`"),
        (3, ["a"], "`query`"),
        ("a", "b", "`documents`"),
        ("a", [3], "`documents`"),
    ],
)
async def test_what_is_no_query_or_document_is_refused(
    query: Any, documents: Any, named: str
) -> None:
    async with Reranker("small", api_base="http://127.0.0.1:9/v1") as reranker:
        with pytest.raises(ValidationError, match=named):
            await reranker.rerank(query, documents)


def test_options_that_cannot_work_are_refused_by_name() -> None:
    with pytest.raises(ValidationError, match="`form`"):
        Reranker("small", api_base="http://127.0.0.1:9/v1", form="bert")  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="`max_documents`"):
        Reranker("small", api_base="http://127.0.0.1:9/v1", max_documents=0)
    with pytest.raises(ConfigurationError, match="`api_base`"):
        Reranker("small")
