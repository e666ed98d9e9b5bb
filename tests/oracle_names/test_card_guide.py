"""A guide to the content of context cards runs with other import lines and its blanks filled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import anyio.to_thread

from agentmemory.testing import FakeRequest, FakeServer

GUIDE = Path(__file__).with_name("card_guide.txt")
REPORT = """
import json
thread.wait_for_memory_extraction(60)
later = thread.get_context_card(
    max_relevant_results=6,
    min_relevant_results_by_type={"preference": 1, "guideline": 1, "message": 1},
)
print("REPORT" + json.dumps({
    "first": prompt_context,
    "second": card.content,
    "later": later.content,
    "types": [hit.record.record_type for hit in later.relevant_results],
    "topics": later.topics,
    "jobs": dict(memory.stats().jobs),
    "texts": [record.content for record in thread.list_memories()],
}))
memory.close()
"""


def answered(request: FakeRequest) -> str:
    """What the language model says: a summary, or the memories of the guide's messages."""
    if "running summary" in json.dumps(request.json):
        return json.dumps(
            {
                "summary": "User is planning dinner recommendations.",
                "topics": ["pizza planning", "dinner"],
            }
        )
    assert "Extract restaurant preferences as preference records" in json.dumps(request.json)
    texts = {
        "preference": ("User prefers vegetarian restaurants.", 1),
        "guideline": ("Offer concise recommendations with clear tradeoffs.", 2),
        "memory": ("User is comparing pizza places for Friday.", 1),
    }
    memories = [
        {"number": number, "type": kind, "text": text, "messages": [source]}
        for number, (kind, (text, source)) in enumerate(texts.items(), start=1)
    ]
    return json.dumps({"memories": memories})


async def test_the_guide_to_the_content_of_cards_runs(tmp_path: Path) -> None:
    program = tmp_path / "guide.py"
    text = GUIDE.read_text(encoding="utf-8")
    for blank, value in {
        "YOUR_EMBEDDING_MODEL": "openai/embedding",
        "provider/model_id": "openai/llm",
        "YOUR DATABASE": str(tmp_path / "memory.db"),
    }.items():
        assert text.count(blank) == 1
        text = text.replace(blank, value)
    program.write_text(text + REPORT, encoding="utf-8")
    async with FakeServer(answer=answered, dimension=32) as server:
        environment = {
            **os.environ,
            "OPENAI_BASE_URL": server.base_url,
            "OPENAI_API_KEY": "key-1",
        }
        done = await anyio.to_thread.run_sync(
            lambda: subprocess.run(
                [sys.executable, str(program)],
                env=environment,
                capture_output=True,
                text=True,
                timeout=90,
                check=False,
            )
        )
    assert done.stderr == ""
    assert done.returncode == 0
    printed, _, report_text = done.stdout.partition("REPORT")
    report = json.loads(report_text)
    assert printed.strip() == report["first"]
    for content in (report["first"], report["second"], report["later"]):
        assert "<summary>User is planning dinner recommendations.</summary>" in content
        assert content.index("<topic>pizza planning</topic>") < content.index(
            "<topic>dinner</topic>"
        )
    assert report["types"][:2] == ["preference", "guideline"]
    assert set(report["types"]) == {"preference", "guideline", "message", "memory"}
    assert report["topics"] == ["pizza planning", "dinner"]
    assert report["jobs"] == {}
    assert report["texts"] == [
        "User prefers vegetarian restaurants.",
        "Offer concise recommendations with clear tradeoffs.",
        "User is comparing pizza places for Friday.",
    ]
