"""The order a reranker gives to the head of a pool; never adds, drops or alters a record.

May import protocols, requests and what lies below.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import anyio

from agentmemory.errors import ModelError, ModelTimeoutError
from agentmemory.protocols import IReranker


async def rerank_order(
    reranker: IReranker, query: str, texts: Sequence[str], *, deadline_s: float
) -> list[tuple[int, float | None]]:
    """Ask a reranker for the order of texts.

    Indexes that are out of range or no whole number, repeated ones and scores that are no finite
    number are ignored; a text the answer leaves out keeps its place after those that have a
    score.

    Args:
        reranker: The reranker.
        query: What was asked.
        texts: Raw texts in their present order.
        deadline_s: Seconds the answer may take.

    Returns:
        Each place exactly once, best first, with its score; None for one that has none.

    Raises:
        ModelError: The reranker failed, or its answer names no text at all.
    """
    if not texts:
        return []
    try:
        with anyio.fail_after(deadline_s):
            response = await reranker.rerank(query, texts)
        scores = _scores(response.results, len(texts))
    except ModelError:
        raise
    except TimeoutError as error:
        msg = f"the reranker did not answer within {deadline_s:g} s"
        raise ModelTimeoutError(msg) from error
    except Exception as error:
        msg = f"the reranker failed: {type(error).__name__}: {error}"
        raise ModelError(msg) from error
    if not scores:
        msg = f"the reranker's answer scores none of the {len(texts)} texts"
        raise ModelError(msg)
    ordered = sorted(scores, key=lambda index: (-scores[index], index))
    rest = [index for index in range(len(texts)) if index not in scores]
    return [*((index, scores[index]) for index in ordered), *((index, None) for index in rest)]


def _scores(results: Iterable[Any], count: int) -> dict[int, float]:
    """Return the usable scores by index; of a repeated index the first one."""
    scores: dict[int, float] = {}
    for item in results:
        index, score = getattr(item, "index", None), getattr(item, "relevance_score", None)
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < count:
            continue
        try:
            value = math.nan if score is None else float(score)
        except (TypeError, ValueError):
            continue
        if math.isfinite(value):
            scores.setdefault(index, value)
    return scores
