"""The names that users of Oracle Agent Memory know; aliases of ours and nothing else.

A program written for that package runs here when its import lines name this module. Besides,
what only an Oracle database has: `OracleStore` and `OracleDBEmbedder`. May import everything but
integrations and cli; each name loads when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from agentmemory import (
        NOT_SET_MARKER,
        BackgroundExtractionQueueFullBehavior,
        ContextCard,
        Embedder,
        ExtractionMode,
        IEmbedder,
        ILlm,
        ImageInputLimitConfig,
        IReranker,
        ISearchConfig,
        Llm,
        LlmResponse,
        MemoryExtractionConfig,
        MemoryExtractionImageContext,
        MemoryLinkExtractionMode,
        MemoryRetentionConfig,
        MemorySearchConfig,
        Message,
        PruningEvaluationMode,
        PruningMemorySearchConfig,
        Record,
        RecordRelation,
        RecordStatus,
        Reranker,
        SchemaPolicy,
        Scope,
        ScopedRecord,
        SearchIndexSyncMode,
        SearchResultFormatConfig,
        SearchScope,
        SearchStrategy,
        Summary,
        TimeToLiveAnchor,
        TopKMemorySearchConfig,
    )
    from agentmemory import AgentMemory as OracleAgentMemory
    from agentmemory import ContextCard as OracleContextCard
    from agentmemory import SearchResult as OracleSearchResult
    from agentmemory import SearchResultFormatConfig as OracleSearchResultFormatConfig
    from agentmemory import Store as OracleMemoryStore
    from agentmemory import Summary as OracleSummary
    from agentmemory import Thread as OracleThread
    from agentmemory.stores.oracle.embedder_model import OracleDBEmbedder
    from agentmemory.stores.oracle.store import OracleStore

_ALIASES: Final = {
    "OracleAgentMemory": "AgentMemory",
    "OracleContextCard": "ContextCard",
    "OracleMemoryStore": "Store",
    "OracleSearchResult": "SearchResult",
    "OracleSearchResultFormatConfig": "SearchResultFormatConfig",
    "OracleSummary": "Summary",
    "OracleThread": "Thread",
}
_OF_THE_DATABASE: Final = {
    "OracleDBEmbedder": "agentmemory.stores.oracle.embedder_model",
    "OracleStore": "agentmemory.stores.oracle.store",
}

__all__ = [
    "NOT_SET_MARKER",
    "BackgroundExtractionQueueFullBehavior",
    "ContextCard",
    "Embedder",
    "ExtractionMode",
    "IEmbedder",
    "ILlm",
    "IReranker",
    "ISearchConfig",
    "ImageInputLimitConfig",
    "Llm",
    "LlmResponse",
    "MemoryExtractionConfig",
    "MemoryExtractionImageContext",
    "MemoryLinkExtractionMode",
    "MemoryRetentionConfig",
    "MemorySearchConfig",
    "Message",
    "OracleAgentMemory",
    "OracleContextCard",
    "OracleDBEmbedder",
    "OracleMemoryStore",
    "OracleSearchResult",
    "OracleSearchResultFormatConfig",
    "OracleStore",
    "OracleSummary",
    "OracleThread",
    "PruningEvaluationMode",
    "PruningMemorySearchConfig",
    "Record",
    "RecordRelation",
    "RecordStatus",
    "Reranker",
    "SchemaPolicy",
    "Scope",
    "ScopedRecord",
    "SearchIndexSyncMode",
    "SearchResultFormatConfig",
    "SearchScope",
    "SearchStrategy",
    "Summary",
    "TimeToLiveAnchor",
    "TopKMemorySearchConfig",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    import importlib

    module = importlib.import_module(_OF_THE_DATABASE.get(name, "agentmemory"))
    value = getattr(module, _ALIASES.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
