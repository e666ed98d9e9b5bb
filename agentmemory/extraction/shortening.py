"""Long messages in front of a model: in pieces where all of it counts, shortened where not.

The stored message stays as it is. May import text and protocols. Pure.
"""

from __future__ import annotations

from typing import Final

from agentmemory.protocols import TokenCounter
from agentmemory.text.sentences import split_sentences

OMISSION: Final = "\n[…]\n"
"""What stands where the middle of a message was left out."""


def pieces(text: str, limit: int, counter: TokenCounter) -> list[str]:
    """Cut a text into pieces of at most `limit` tokens, at sentences where that is possible.

    Nothing but white space between pieces is lost. A limit that is not positive is none.
    """
    if limit <= 0 or counter.count(text) <= limit:
        return [text]
    result: list[str] = []
    current = ""
    for sentence in split_sentences(text):
        for part in _hard_pieces(sentence, limit, counter):
            joined = f"{current}\n{part}" if current else part
            if current and counter.count(joined) > limit:
                result.append(current)
                current = part
            else:
                current = joined
    if current:
        result.append(current)
    return result


def _hard_pieces(text: str, limit: int, counter: TokenCounter) -> list[str]:
    if counter.count(text) <= limit or len(text) < 2:
        return [text]
    middle = len(text) // 2
    return [
        *_hard_pieces(text[:middle], limit, counter),
        *_hard_pieces(text[middle:], limit, counter),
    ]


def shortened(text: str, limit: int, counter: TokenCounter) -> str:
    """Return a text of about `limit` tokens at most: its beginning and its end.

    A limit that is not positive is none.
    """
    if limit <= 0 or counter.count(text) <= limit:
        return text
    low, high = 0, len(text) // 2
    while low < high:
        middle = (low + high + 1) // 2
        if counter.count(text[:middle] + OMISSION + text[-middle:]) <= limit:
            low = middle
        else:
            high = middle - 1
    if not low:
        return OMISSION.strip()
    return text[:low] + OMISSION + text[-low:]


def beginning(text: str, limit: int, counter: TokenCounter) -> str:
    """Return the first sentences of a text that fit a limit, at least a part of the first."""
    if limit <= 0 or counter.count(text) <= limit:
        return text
    return pieces(text, limit, counter)[0]
