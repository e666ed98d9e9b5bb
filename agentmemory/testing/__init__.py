"""Parts for testing what is built on this library; public, and free of any test framework.

May import: every room of the library; nothing of it imports this one. Names load when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentmemory.testing.conformance import StoreConformance
    from agentmemory.testing.fake_server import FakeRequest, FakeServer, Fault
    from agentmemory.testing.frozen_clock import FrozenClock
    from agentmemory.testing.hash_embedder import HashEmbedder
    from agentmemory.testing.scripted_llm import ScriptedCall, ScriptedLlm
    from agentmemory.testing.waits import without_waits

__all__ = [
    "FakeRequest",
    "FakeServer",
    "Fault",
    "FrozenClock",
    "HashEmbedder",
    "ScriptedCall",
    "ScriptedLlm",
    "StoreConformance",
    "without_waits",
]

_HOMES = {
    "FakeRequest": "fake_server",
    "FakeServer": "fake_server",
    "Fault": "fake_server",
    "FrozenClock": "frozen_clock",
    "HashEmbedder": "hash_embedder",
    "ScriptedCall": "scripted_llm",
    "ScriptedLlm": "scripted_llm",
    "StoreConformance": "conformance",
    "without_waits": "waits",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
