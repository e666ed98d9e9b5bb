"""What of a message may become a memory, and how far it is trusted.

Text that came out of memory (context cards, rendered results) is cut out, so that nothing is
remembered because it was remembered. May import records. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from agentmemory.records import Record

TRUST_LEVELS: Final = ("user", "system", "assistant", "tool", "document")
"""Where text comes from, the most trusted first."""

_TRUST_OF_ROLE: Final = {
    "user": "user",
    "human": "user",
    "system": "system",
    "developer": "system",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
    "document": "document",
}

# What a card or a rendered result looks like; a card may have been cut off at its end.
_CARD: Final = re.compile(r"<context_card\b[^>]*>.*?(?:</context_card>|\Z)", re.DOTALL)
_RESULT: Final = re.compile(
    r"<(memory|fact|guideline|preference|message|image|user_profile|agent_profile)>\s*"
    r"<(?:record_id|thread_id|estimated_relevance|timestamp|role|status|content)>"
    r".*?</\1>",
    re.DOTALL,
)
_FENCED: Final = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_QUOTED: Final = re.compile(r"^[ \t]*>.*$", re.MULTILINE)


def trust_of(message: Record) -> str:
    """Say where a message's text comes from; an unknown role counts as a document."""
    return _TRUST_OF_ROLE.get((message.role or "").casefold(), "document")


def lowest_trust(levels: Iterable[str]) -> str:
    """Return the least trusted of some levels; without any, the lowest there is."""
    places = [TRUST_LEVELS.index(level) if level in TRUST_LEVELS else -1 for level in levels]
    if not places or -1 in places:
        return TRUST_LEVELS[-1]
    return TRUST_LEVELS[max(places)]


def may_instruct(trust: str) -> bool:
    """Tell whether text of this origin may become a guideline."""
    return trust in ("user", "system", "assistant")


def without_memory(text: str) -> str:
    """Return a text without what came out of memory."""
    if "<" not in text:
        return text
    return _RESULT.sub("", _CARD.sub("", text))


def own_words(text: str) -> str:
    """Return what the writer of a text says: no code, no quotations, nothing out of memory."""
    return _QUOTED.sub("", _FENCED.sub("", without_memory(text)))
