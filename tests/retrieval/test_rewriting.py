"""A hypothetical answer feeds the vector arm only, and exact names keep it away."""

from __future__ import annotations

from typing import Any

import pytest

from agentmemory import AsyncAgentMemory, MemorySearchConfig, ModelError
from agentmemory.retrieval.rewrite import reason_to_keep
from agentmemory.telemetry import Event, subscribe
from agentmemory.testing import HashEmbedder, ScriptedLlm
from tests.retrieval.parts import Hanging


def hybrid(embedder: HashEmbedder, **options: Any) -> AsyncAgentMemory:
    return AsyncAgentMemory(":memory:", embedder=embedder, **options)


async def test_the_vector_arm_gets_the_answer_and_the_lexical_arm_the_query() -> None:
    embedder = HashEmbedder()
    rewriter = ScriptedLlm("They eat noodles at Fernando's.")
    async with hybrid(embedder, search_config=MemorySearchConfig(rewriter=rewriter)) as memory:
        await memory.add_memory("Noodles at Fernando's.", user_id="u1", memory_id="near")
        await memory.add_memory("Dinner is where?", user_id="u1", memory_id="words")
        hits = {hit.id: hit for hit in await memory.search("where is dinner", user_id="u1")}
        assert embedder.calls[-1] == (("They eat noodles at Fernando's.",), False)
        assert hits["near"].explain.vector_rank == 1
        assert hits["near"].explain.lexical_rank is None
        assert hits["words"].explain.lexical_rank == 1
        trace = hits["near"].explain.stages[0]
        assert trace.stage == "rewrite"
        assert "They eat noodles" in trace.reason
        (call,) = rewriter.calls
        assert "where is dinner" in call.text


async def test_it_is_off_by_default() -> None:
    embedder = HashEmbedder()
    async with hybrid(embedder) as memory:
        await memory.add_memory("Noodles.", user_id="u1")
        (hit,) = await memory.search("noodles", user_id="u1")
        assert embedder.calls[-1] == (("noodles",), True)
        assert [stage.stage for stage in hit.explain.stages] == ["fusion"]


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ('Who said "never again"?', "a quoted term"),
        ("他说了「再见」吗", "a quoted term"),
        ("Was it 'the long way' she meant?", "a quoted term"),
        ("Is Python 3.11 supported?", "a version"),
        ("What changed in v2 of the app?", "a version"),
        ("Why does max_results not work?", "an identifier"),
        ("How often was ORA-12154 seen?", "an identifier"),
        ("Who broke getUserName?", "an identifier"),
        ("What is in settings.yaml?", "an identifier"),
        ("Who reported #42?", "an identifier"),
        ("What did a1b2c3d4 fix?", "an identifier"),
        ("Who has mira@example.org?", "an identifier"),
    ],
)
async def test_a_query_with_an_exact_name_is_not_rewritten_and_says_why(
    query: str, what: str
) -> None:
    embedder = HashEmbedder()
    rewriter = ScriptedLlm()
    async with hybrid(embedder, search_config=MemorySearchConfig(rewriter=rewriter)) as memory:
        await memory.add_memory(query, user_id="u1")
        (hit,) = await memory.search(query, user_id="u1")
        assert rewriter.calls == []
        assert embedder.calls[-1] == ((query,), True)
        assert hit.explain.notes[0].startswith(f"rewrite skipped: the query holds {what}: ")


@pytest.mark.parametrize(
    "query",
    [
        "What does Anna like for dinner?",
        "It's Anna's dog, isn't it?",
        "Are we free from 3pm to 10pm on the 4th?",
        "Is it tea and/or coffee? e.g. in the morning...",
        "Who are the twenty-two players of the '90s?",
        "朋友喜欢吃什么?",
        "x" * 100_000,
        "a." * 50_000,
        '"' * 9_999,
    ],
)
def test_an_ordinary_question_may_be_rewritten(query: str) -> None:
    assert reason_to_keep(query) is None


@pytest.mark.parametrize(
    ("rewriter", "why"),
    [
        (ScriptedLlm(default=RuntimeError("gone")), "RuntimeError: gone"),
        (ScriptedLlm(default=" "), "the model gave no answer"),
        (Hanging(), "did not answer within 0.25 s"),
    ],
    ids=["raises", "says nothing", "hangs"],
)
async def test_one_that_fails_leaves_the_query_and_says_so_unless_strict(
    rewriter: Any, why: str
) -> None:
    embedder = HashEmbedder()
    events: list[Event] = []
    # Only the one that hangs may meet the deadline, however slow the machine.
    deadline = 0.25 if isinstance(rewriter, Hanging) else 60
    config = MemorySearchConfig(rewriter=rewriter, stage_deadline_s=deadline)
    async with hybrid(embedder) as memory:
        await memory.add_memory("Noodles.", user_id="u1")
        with subscribe(events.append):
            (hit,) = await memory.search("noodles", user_id="u1", search_config=config)
        assert embedder.calls[-1] == (("noodles",), True)
        assert hit.explain.notes[0].startswith("rewrite left out: ")
        assert why in hit.explain.notes[0]
        assert [e.name for e in events if e.level == "warning"] == ["search.degraded"]
        strict = MemorySearchConfig(rewriter=rewriter, stage_deadline_s=deadline, strict=True)
        with pytest.raises(ModelError, match=why):
            await memory.search("noodles", user_id="u1", search_config=strict)


class Stubborn(HashEmbedder):
    """Embeds records, and does something else with queries."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self._answer = answer

    async def embed(self, texts: Any, *, is_query: bool = False) -> Any:
        matrix = await super().embed(texts, is_query=is_query)
        return await self._answer(matrix) if is_query else matrix


async def hangs(matrix: Any) -> Any:
    return await Hanging().generate("")


async def is_too_short(matrix: Any) -> Any:
    return matrix[:, :7]


async def is_no_matrix(matrix: Any) -> Any:
    return ["one", "two"]


async def is_nothing(matrix: Any) -> Any:
    return None


async def is_not_finite(matrix: Any) -> Any:
    return matrix * float("nan")


@pytest.mark.parametrize("strategy", ["hybrid", "vector"])
@pytest.mark.parametrize("answer", [hangs, is_too_short, is_no_matrix, is_nothing, is_not_finite])
async def test_an_embedder_that_fails_or_lies_leaves_the_words(answer: Any, strategy: Any) -> None:
    config = MemorySearchConfig(stage_deadline_s=0.05)
    async with hybrid(Stubborn(answer), search_strategy=strategy) as memory:
        await memory.add_memory("Noodles.", user_id="u1")
        (hit,) = await memory.search("noodles", user_id="u1", search_config=config)
        assert hit.explain.notes[0].startswith("searched by words only: ")
        assert hit.explain.cosine is None
        strict = MemorySearchConfig(stage_deadline_s=0.05, strict=True)
        with pytest.raises(ModelError):
            await memory.search("noodles", user_id="u1", search_config=strict)
