"""Checks of what callers hand to models; may import checks and errors."""

from __future__ import annotations

from typing import Any

from agentmemory.checks import check_list
from agentmemory.errors import ValidationError


def check_texts(value: Any, *, argument: str) -> list[str]:
    """Accept a list of strings of any content, blank ones included.

    Raises:
        ValidationError: One string, no list, or something else than strings in it.
    """
    items = list(check_list(value, argument=argument, of="strings"))
    for place, item in enumerate(items):
        if not isinstance(item, str):
            raise ValidationError(
                f"`{argument}` holds {item!r} at place {place}; strings are accepted",
                argument=argument,
            )
    return items


def check_visible(value: Any, *, argument: str) -> str:
    """Accept text with something visible in it.

    Raises:
        ValidationError: No text, or only blanks.
    """
    if isinstance(value, str) and value.strip():
        return value
    raise ValidationError(
        f"`{argument}` must be text with something visible, not {value!r}", argument=argument
    )
