"""A thread in brief; without a language model its last messages as a transcript.

May import retrieval, stores, text and below.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agentmemory.protocols import TokenCounter
from agentmemory.records import Record
from agentmemory.results import Summary

DEFAULT_SUMMARY_TOKENS: Final = 1000


def transcript(messages: Sequence[Record]) -> str:
    """Return messages as lines of `speaker (time): text`."""
    return "\n".join(
        f"{message.actor or message.role} ({message.timestamp}): {message.content}"
        for message in messages
    )


def transcript_summary(
    messages: Sequence[Record], *, token_budget: int, counter: TokenCounter
) -> Summary:
    """Return the latest messages that fit a budget, oldest first.

    Args:
        messages: Oldest first.
        token_budget: Most tokens; not positive: no limit. The latest message is kept whole even
            if it alone is larger.
        counter: Measures the text.
    """
    kept: list[Record] = []
    total = 0
    for message in reversed(messages):
        total += counter.count(transcript([message]))
        if kept and 0 < token_budget < total:
            break
        kept.append(message)
    return Summary(content=transcript(kept[::-1]))
