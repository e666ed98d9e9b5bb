"""Do two sentences say the same? Words decide, for vectors take yes and no for neighbours.

May import text. Pure.
"""

from __future__ import annotations

from typing import Final

from agentmemory.text.analyzer import analyze

ENOUGH: Final = 0.85
"""Share of common words from which two sentences are near duplicates."""

_FILLERS: Final = frozenset(
    analyze("a an the user users is are was were be been that this to of and it its his her their")
)
_NEGATIONS: Final = frozenset(
    analyze(
        "no not never none nothing without don't doesn't isn't aren't can't won't dislikes hates"
    )
    + list("不没無无别未")
)


def is_near_duplicate(first: str, second: str) -> bool:
    """Tell whether two sentences say the same, up to fillers and a little wording.

    A number or a negation that only one of them has makes them different.
    """
    left, right = set(analyze(first)), set(analyze(second))
    if left == right:
        return True
    left, right = left - _FILLERS, right - _FILLERS
    if not left or not right:
        return False
    differing = left ^ right
    if any(_decides(token) for token in differing):
        return False
    return len(left & right) >= ENOUGH * len(left | right)


def _decides(token: str) -> bool:
    return (
        token in _NEGATIONS
        or any(char.isdigit() for char in token)
        or any(char in "不没無无别未" for char in token)
    )


def support(statement: str, text: str) -> float:
    """Return the share of a statement's words that stand in a text, 0.0 to 1.0."""
    words = set(analyze(statement)) - _FILLERS
    if not words:
        return 0.0
    return len(words & set(analyze(text))) / len(words)
