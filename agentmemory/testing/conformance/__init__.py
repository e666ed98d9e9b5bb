"""What every store must do, as tests that run on any `MemoryStore`; free of any test framework.

Derive a class from `StoreConformance`, say what a new store is, and let pytest with pytest-asyncio
(or any runner of async test methods) collect it::

    class TestMyStore(StoreConformance):
        def new_store(self) -> MemoryStore:
            return MyStore(...)

Each rule is one test and opens a store of its own. May import the library.
"""

from __future__ import annotations

from agentmemory.testing.conformance.base import StoreRules
from agentmemory.testing.conformance.deletes import DeleteRules
from agentmemory.testing.conformance.expansion import ExpansionRules
from agentmemory.testing.conformance.jobs import JobRules
from agentmemory.testing.conformance.layers import LayerRules
from agentmemory.testing.conformance.links import LinkRules
from agentmemory.testing.conformance.lists import ImageRules, ListRules, ProfileRules
from agentmemory.testing.conformance.scopes import ScopeRules
from agentmemory.testing.conformance.times import TimeRules

__all__ = ["StoreConformance", "StoreRules"]


class StoreConformance(
    ScopeRules,
    LinkRules,
    ExpansionRules,
    TimeRules,
    ListRules,
    ProfileRules,
    ImageRules,
    DeleteRules,
    JobRules,
    LayerRules,
):
    """Every rule."""
