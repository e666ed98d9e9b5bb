"""The index each statement of the Oracle store is meant to use, and why; pure.

The notes stand beside the builders, in `PLAN_NOTES` of each module; here they are brought
together. They are written for a store of 1 million chunks and 10,000 users, so that a scope
holds some hundred records and the whole store is never looked at by an operation of one user.
What a database really does is printed by `python -m agentmemory.stores.oracle.explain`. May import
every module of this package.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Final

import agentmemory.stores.oracle as package


def _gather() -> dict[str, str]:
    found: dict[str, str] = {}
    for module in pkgutil.iter_modules(package.__path__):
        if module.name not in ("plan_notes", "explain"):
            notes = importlib.import_module(f"{package.__name__}.{module.name}")
            found.update(getattr(notes, "PLAN_NOTES", {}))
    return dict(sorted(found.items()))


PLAN_NOTES: Final[Mapping[str, str]] = _gather()
"""Notes by the names of statements."""
