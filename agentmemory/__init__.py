"""The memory layer for AI agents: threads, durable memories, search and context cards.

Only public names live here, and each loads when it is first used. May import everything but
integrations and cli.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

__version__: Final = "0.1.0"

if TYPE_CHECKING:
    from agentmemory.client import AsyncAgentMemory
    from agentmemory.config import SchemaPolicy, SearchStrategy
    from agentmemory.errors import (
        AgentMemoryError,
        ClosedError,
        ConfigurationError,
        ConflictError,
        EmbedderMismatchError,
        FilterError,
        ModelError,
        NotFoundError,
        ScopeError,
        StoreError,
        UsageError,
        ValidationError,
    )
    from agentmemory.messages import Message
    from agentmemory.protocols import Clock, IEmbedder, ILlm, IReranker, MemoryStore, TokenCounter
    from agentmemory.records import (
        Layer,
        Record,
        RecordRelation,
        RecordStatus,
        ScopedRecord,
        Stability,
        ThreadRecord,
        Tier,
    )
    from agentmemory.requests import Deletion, Page, StoreStats
    from agentmemory.results import (
        ContextCard,
        Explanation,
        SearchResult,
        SearchResultFormatConfig,
        Summary,
    )
    from agentmemory.scope import NOT_SET_MARKER, Scope, SearchScope
    from agentmemory.store import AsyncStore
    from agentmemory.sync.client import AgentMemory
    from agentmemory.sync.store import Store
    from agentmemory.sync.thread import Thread
    from agentmemory.thread import AsyncThread

_HOMES: Final = {
    "AgentMemory": "sync.client",
    "AgentMemoryError": "errors",
    "AsyncAgentMemory": "client",
    "AsyncStore": "store",
    "AsyncThread": "thread",
    "Clock": "protocols",
    "ClosedError": "errors",
    "ConfigurationError": "errors",
    "ConflictError": "errors",
    "ContextCard": "results",
    "Deletion": "requests",
    "EmbedderMismatchError": "errors",
    "Explanation": "results",
    "FilterError": "errors",
    "IEmbedder": "protocols",
    "ILlm": "protocols",
    "IReranker": "protocols",
    "Layer": "records",
    "MemoryStore": "protocols",
    "Message": "messages",
    "ModelError": "errors",
    "NOT_SET_MARKER": "scope",
    "NotFoundError": "errors",
    "Page": "requests",
    "Record": "records",
    "RecordRelation": "records",
    "RecordStatus": "records",
    "SchemaPolicy": "config",
    "Scope": "scope",
    "ScopeError": "errors",
    "ScopedRecord": "records",
    "SearchResult": "results",
    "SearchResultFormatConfig": "results",
    "SearchScope": "scope",
    "SearchStrategy": "config",
    "Stability": "records",
    "Store": "sync.store",
    "StoreError": "errors",
    "StoreStats": "requests",
    "Summary": "results",
    "Thread": "sync.thread",
    "ThreadRecord": "records",
    "Tier": "records",
    "TokenCounter": "protocols",
    "UsageError": "errors",
    "ValidationError": "errors",
}

__all__ = [
    "NOT_SET_MARKER",
    "AgentMemory",
    "AgentMemoryError",
    "AsyncAgentMemory",
    "AsyncStore",
    "AsyncThread",
    "Clock",
    "ClosedError",
    "ConfigurationError",
    "ConflictError",
    "ContextCard",
    "Deletion",
    "EmbedderMismatchError",
    "Explanation",
    "FilterError",
    "IEmbedder",
    "ILlm",
    "IReranker",
    "Layer",
    "MemoryStore",
    "Message",
    "ModelError",
    "NotFoundError",
    "Page",
    "Record",
    "RecordRelation",
    "RecordStatus",
    "SchemaPolicy",
    "Scope",
    "ScopeError",
    "ScopedRecord",
    "SearchResult",
    "SearchResultFormatConfig",
    "SearchScope",
    "SearchStrategy",
    "Stability",
    "Store",
    "StoreError",
    "StoreStats",
    "Summary",
    "Thread",
    "ThreadRecord",
    "Tier",
    "TokenCounter",
    "UsageError",
    "ValidationError",
    "__version__",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
