"""Records in a known order, and models that say what a test wants."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio

from agentmemory import AsyncAgentMemory, LlmResponse, ModelUsage, SearchResult
from agentmemory.protocols import ChatMessage, RerankResponse, RerankResult
from agentmemory.text.json_repair import parse_json

Scores = Callable[[str, Sequence[str]], Sequence[tuple[Any, Any]]]


def text_of(place: int, count: int) -> str:
    """The text of a record that a search for "apple" puts at a place, from 0."""
    return f"{'apple ' * (count - place)}{'stone ' * place}number {place}"


async def fill(memory: AsyncAgentMemory, count: int, **fields: Any) -> None:
    """Store records r00, r01, … that a search for "apple" finds in that order."""
    for place in range(count):
        await memory.add_memory(
            text_of(place, count), user_id="u1", memory_id=f"r{place:02d}", **fields
        )


def places(hits: Sequence[SearchResult]) -> list[int]:
    """The places of the records of `fill`."""
    return [int(hit.id[1:]) for hit in hits]


class PlainReranker:
    """A reranker of a user's own.

    Args:
        scores: Gives pairs of index and score, whatever they are.
    """

    def __init__(self, scores: Scores) -> None:
        self._scores = scores
        self.calls: list[tuple[str, list[str]]] = []

    async def rerank(self, query: str, documents: Sequence[str]) -> RerankResponse:
        """Score documents."""
        self.calls.append((query, list(documents)))
        pairs = self._scores(query, documents)
        return RerankResponse(results=tuple(RerankResult(*pair) for pair in pairs))


def backwards(_: str, documents: Sequence[str]) -> list[tuple[int, float]]:
    """The last document is the best."""
    return [(index, (index + 1) / len(documents)) for index in range(len(documents))]


class Hanging:
    """A model of any kind that never answers."""

    async def rerank(self, query: str, documents: Sequence[str]) -> RerankResponse:
        """Never answer."""
        await anyio.sleep_forever()
        raise AssertionError

    async def generate(
        self,
        prompt: str | Sequence[ChatMessage],
        *,
        response_json_schema: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
    ) -> LlmResponse:
        """Never answer."""
        await anyio.sleep_forever()
        raise AssertionError


class Judge:
    """A pruner that keeps the records with some numbers and takes a while to say so.

    Args:
        keep: Numbers of the records that are relevant.
        seed: Decides how long each answer takes; None: none takes any time.
        answer: Turns decisions, by place in the prompt, into the answer's text.
    """

    def __init__(
        self,
        keep: Sequence[int],
        *,
        seed: int | None = None,
        answer: Callable[[list[str]], str] | None = None,
    ) -> None:
        self._keep = set(keep)
        self._random = None if seed is None else random.Random(seed)
        self._answer = answer or _as_asked
        self.asked: list[list[int]] = []
        self.prompts: list[str] = []

    async def generate(
        self,
        prompt: str | Sequence[ChatMessage],
        *,
        response_json_schema: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
    ) -> LlmResponse:
        """Judge the documents of a prompt."""
        body = prompt if isinstance(prompt, str) else str(prompt[-1]["content"])
        numbers = [int(number) for number in re.findall(r"number (\d+)", body)]
        self.asked.append(numbers)
        self.prompts.append(body)
        if self._random is not None:
            for _ in range(self._random.randrange(12)):
                await anyio.lowlevel.checkpoint()
        words = ["keep" if number in self._keep else "drop" for number in numbers]
        text = self._answer(words)
        usage = ModelUsage(input_tokens=10 * len(numbers), output_tokens=len(numbers))
        try:
            return LlmResponse(text=text, value=parse_json(text), usage=usage)
        except ValueError:
            return LlmResponse(text=text, usage=usage)

    @property
    def judged(self) -> list[int]:
        """Every number that was asked about, in order."""
        return sorted(number for numbers in self.asked for number in numbers)


def _as_asked(words: list[str]) -> str:
    decisions = [{"document": n, "decision": word} for n, word in enumerate(words, start=1)]
    return json.dumps({"decisions": decisions})
