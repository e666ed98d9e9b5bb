"""A guide written for Oracle Agent Memory runs with other import lines and its blanks filled."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio.to_thread

from agentmemory import AsyncAgentMemory, Embedder
from agentmemory.testing import FakeRequest, FakeServer

GUIDE = Path(__file__).with_name("relevance_guide.txt")
REPORT = """
import json
print(json.dumps({
    "pruned": [hit.content for hit in pruned_results],
    "results": [hit.content for hit in results],
    "larger": [hit.content for hit in larger_results],
    "stages": [stage.stage for stage in results[0].explain.stages],
    "notes": [note for hit in (*pruned_results, *results) for note in hit.explain.notes],
    "kind": extended_pruning_config.kind,
    "extended": [hit.content for hit in thread.search(
        query="Which database does the service use?",
        max_results=50,
        search_config=extended_pruning_config,
    )],
    "reopened": [hit.content for hit in pruning_memory.get_thread(
        "search_result_pruning_demo", user_id=user_id
    ).search("Which database does the service use?", max_results=50)],
}))
pruning_memory.close()
memory.close()
"""


def filled(database: Path) -> str:
    """The guide with its placeholders filled."""
    text = GUIDE.read_text(encoding="utf-8")
    for blank, value in {
        "YOUR_EMBEDDING_MODEL": "openai/embedding",
        "provider/search-llm-model": "openai/search-llm",
        "provider/reranker-model": "openai/reranker",
        "YOUR DATABASE": str(database),
    }.items():
        assert text.count(blank) == 1
        text = text.replace(blank, value)
    return text


def judged(request: FakeRequest) -> str:
    """What the language model says: records about parrots are of no use."""
    body = json.dumps(request.json)
    documents = re.findall(r"<document number=.{1,4}?(\d+).*?</document>", body)
    contents = re.findall(r"<content>(.*?)</content>", body)
    decisions: list[dict[str, Any]] = [
        {"document": int(number), "decision": "drop" if "parrot" in content else "keep"}
        for number, content in zip(documents, contents, strict=True)
    ]
    return json.dumps({"decisions": decisions})


def run(program: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(program)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


async def test_the_guide_to_search_relevance_runs(tmp_path: Path) -> None:
    database = tmp_path / "memory.db"
    program = tmp_path / "guide.py"
    program.write_text(filled(database) + REPORT, encoding="utf-8")
    async with FakeServer(answer=judged, dimension=32) as server:
        environment = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "key-1"}
        async with (
            Embedder("openai/embedding", api_base=server.base_url, api_key="key-1") as embedder,
            AsyncAgentMemory(
                database, embedder=embedder, memory_store_id="T_SEARCH_RESULTS"
            ) as memory,
        ):
            await memory.add_memory(
                "The database that the service does use is PostgreSQL.", user_id="user_123"
            )
            await memory.add_memory("Which database? Ask Mira.", user_id="user_123")
            for number in range(10):
                await memory.add_memory(
                    f"The parrot does use service door {number}.", user_id="user_123"
                )
            await memory.add_memory("The database of another user.", user_id="user_9")
        done = await anyio.to_thread.run_sync(run, program, environment)
    assert done.stderr == ""
    assert done.returncode == 0
    report = json.loads(done.stdout)
    assert report["notes"] == []
    assert report["stages"] == ["fusion", "rerank", "budget"]
    assert len(report["results"]) == 5
    assert "The database that the service does use is PostgreSQL." in report["results"]
    assert report["larger"] == report["results"]
    assert {
        "The database that the service does use is PostgreSQL.",
        "Which database? Ask Mira.",
    } <= set(report["pruned"])
    assert len(report["pruned"]) < 12
    assert len(report["extended"]) <= len(report["pruned"])
    assert report["reopened"] == report["pruned"]
    assert report["kind"] == "pruning"
    paths = {request.path for request in server.requests}
    assert paths == {"/v1/embeddings", "/v1/chat/completions", "/v1/rerank"}


def test_the_names_are_aliases_of_ours() -> None:
    import agentmemory
    from agentmemory import oracle

    of_oracle_alone = {"OracleDBEmbedder", "OracleStore"}
    assert of_oracle_alone < set(oracle.__all__)
    for name in sorted(set(oracle.__all__) - of_oracle_alone):
        ours = name.removeprefix("Oracle").replace("MemoryStore", "Store")
        assert getattr(oracle, name) is getattr(agentmemory, ours)
