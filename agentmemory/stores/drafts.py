"""Frozen values that are made in great numbers; imports nothing."""

from __future__ import annotations

from typing import Any


def draft_of(kind: type) -> Any:
    """Return a class whose instances are filled in field by field and then become `kind`.

    The initialiser of a frozen dataclass sets each field through `object.__setattr__`; for a
    record that takes several times as long as everything else a row needs. So a store makes a
    draft by `object.__new__(draft)`, assigns every field, defaults too, and ends with
    `draft.__class__ = kind`, which is allowed because both have the same layout.

    Args:
        kind: A frozen dataclass with slots.
    """
    # Both, for they share one slot of a type: with only one of them, assigning stays slow.
    free = {"__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
    return type(f"{kind.__name__}Draft", (kind,), {"__slots__": (), **free})
