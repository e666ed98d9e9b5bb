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
    from agentmemory.config import (
        DecayConfig,
        DiversityConfig,
        ImageInputLimitConfig,
        MemoryRetentionConfig,
        MemorySearchConfig,
        PruningEvaluationMode,
        PruningMemorySearchConfig,
        SchemaPolicy,
        SearchIndexSyncMode,
        SearchPreset,
        SearchStrategy,
        TimeToLiveAnchor,
        TopKMemorySearchConfig,
    )
    from agentmemory.errors import (
        AgentMemoryError,
        ClosedError,
        ConfigurationError,
        ConflictError,
        EmbedderMismatchError,
        FilterError,
        LayerBudgetError,
        ModelError,
        NotFoundError,
        ScopeError,
        StoreError,
        UsageError,
        ValidationError,
        WaitTimeoutError,
    )
    from agentmemory.extraction_config import (
        BackgroundExtractionQueueFullBehavior,
        ExtractionMode,
        MemoryExtractionConfig,
        MemoryExtractionImageContext,
        MemoryLinkExtractionMode,
    )
    from agentmemory.layering import EvictionPolicy, EvictionReport
    from agentmemory.messages import Message
    from agentmemory.models import Embedder, Llm, LocalEmbedder, Reranker
    from agentmemory.ontology.compression import CriticalOverflow, LayerBudgets
    from agentmemory.ontology.lifecycle import OntologyReceipt, OutcomeReceipt
    from agentmemory.ontology.result import CompressionReport, LayeredMemory, RetrievalResult
    from agentmemory.ontology.routing import Route
    from agentmemory.ontology.vocabulary import (
        Ontology,
        OntologyRule,
        Term,
        TermKind,
        Vocabulary,
    )
    from agentmemory.protocols import (
        Clock,
        EmbedderFingerprint,
        IEmbedder,
        IFusion,
        ILlm,
        IReranker,
        ISearchConfig,
        LlmResponse,
        MemoryStore,
        ModelUsage,
        TokenCounter,
    )
    from agentmemory.records import (
        ImageContent,
        ImageRecord,
        Layer,
        Record,
        RecordRelation,
        RecordStatus,
        ScopedRecord,
        Stability,
        ThreadRecord,
        Tier,
    )
    from agentmemory.requests import Deletion, ForgetReceipt, Job, JobState, Page, StoreStats
    from agentmemory.results import (
        ContextCard,
        Explanation,
        SearchResult,
        SearchResultFormatConfig,
        StageTrace,
        Summary,
    )
    from agentmemory.retrieval.fusion import Priors, ReciprocalRankFusion, ScoreFusion
    from agentmemory.scope import NOT_SET_MARKER, Scope, SearchScope
    from agentmemory.store import AsyncStore
    from agentmemory.sync.client import AgentMemory
    from agentmemory.sync.store import Store
    from agentmemory.sync.thread import Thread
    from agentmemory.text.redaction import redact_secrets
    from agentmemory.thread import AsyncThread

_HOMES: Final = {
    "AgentMemory": "sync.client",
    "AgentMemoryError": "errors",
    "AsyncAgentMemory": "client",
    "AsyncStore": "store",
    "AsyncThread": "thread",
    "BackgroundExtractionQueueFullBehavior": "extraction_config",
    "Clock": "protocols",
    "ClosedError": "errors",
    "CompressionReport": "ontology.result",
    "ConfigurationError": "errors",
    "ConflictError": "errors",
    "ContextCard": "results",
    "CriticalOverflow": "ontology.compression",
    "DecayConfig": "config",
    "Deletion": "requests",
    "DiversityConfig": "config",
    "Embedder": "models",
    "EmbedderFingerprint": "protocols",
    "EmbedderMismatchError": "errors",
    "EvictionPolicy": "layering",
    "EvictionReport": "layering",
    "Explanation": "results",
    "ExtractionMode": "extraction_config",
    "FilterError": "errors",
    "ForgetReceipt": "requests",
    "IEmbedder": "protocols",
    "IFusion": "protocols",
    "ILlm": "protocols",
    "IReranker": "protocols",
    "ISearchConfig": "protocols",
    "ImageContent": "records",
    "ImageInputLimitConfig": "config",
    "ImageRecord": "records",
    "Job": "requests",
    "JobState": "requests",
    "Layer": "records",
    "LayerBudgetError": "errors",
    "LayerBudgets": "ontology.compression",
    "LayeredMemory": "ontology.result",
    "Llm": "models",
    "LlmResponse": "protocols",
    "LocalEmbedder": "models",
    "MemoryExtractionConfig": "extraction_config",
    "MemoryExtractionImageContext": "extraction_config",
    "MemoryLinkExtractionMode": "extraction_config",
    "MemoryRetentionConfig": "config",
    "MemorySearchConfig": "config",
    "MemoryStore": "protocols",
    "Message": "messages",
    "ModelError": "errors",
    "ModelUsage": "protocols",
    "NOT_SET_MARKER": "scope",
    "NotFoundError": "errors",
    "Ontology": "ontology.vocabulary",
    "OntologyReceipt": "ontology.lifecycle",
    "OntologyRule": "ontology.vocabulary",
    "OutcomeReceipt": "ontology.lifecycle",
    "Page": "requests",
    "Priors": "retrieval.fusion",
    "PruningEvaluationMode": "config",
    "PruningMemorySearchConfig": "config",
    "ReciprocalRankFusion": "retrieval.fusion",
    "Record": "records",
    "RecordRelation": "records",
    "RecordStatus": "records",
    "Reranker": "models",
    "RetrievalResult": "ontology.result",
    "Route": "ontology.routing",
    "SchemaPolicy": "config",
    "Scope": "scope",
    "ScopeError": "errors",
    "ScopedRecord": "records",
    "ScoreFusion": "retrieval.fusion",
    "SearchIndexSyncMode": "config",
    "SearchPreset": "config",
    "SearchResult": "results",
    "SearchResultFormatConfig": "results",
    "SearchScope": "scope",
    "SearchStrategy": "config",
    "Stability": "records",
    "StageTrace": "results",
    "Store": "sync.store",
    "StoreError": "errors",
    "StoreStats": "requests",
    "Summary": "results",
    "Term": "ontology.vocabulary",
    "TermKind": "ontology.vocabulary",
    "Thread": "sync.thread",
    "ThreadRecord": "records",
    "Tier": "records",
    "TimeToLiveAnchor": "config",
    "TokenCounter": "protocols",
    "TopKMemorySearchConfig": "config",
    "UsageError": "errors",
    "ValidationError": "errors",
    "Vocabulary": "ontology.vocabulary",
    "WaitTimeoutError": "errors",
    "redact_secrets": "text.redaction",
}

__all__ = [
    "NOT_SET_MARKER",
    "AgentMemory",
    "AgentMemoryError",
    "AsyncAgentMemory",
    "AsyncStore",
    "AsyncThread",
    "BackgroundExtractionQueueFullBehavior",
    "Clock",
    "ClosedError",
    "CompressionReport",
    "ConfigurationError",
    "ConflictError",
    "ContextCard",
    "CriticalOverflow",
    "DecayConfig",
    "Deletion",
    "DiversityConfig",
    "Embedder",
    "EmbedderFingerprint",
    "EmbedderMismatchError",
    "EvictionPolicy",
    "EvictionReport",
    "Explanation",
    "ExtractionMode",
    "FilterError",
    "ForgetReceipt",
    "IEmbedder",
    "IFusion",
    "ILlm",
    "IReranker",
    "ISearchConfig",
    "ImageContent",
    "ImageInputLimitConfig",
    "ImageRecord",
    "Job",
    "JobState",
    "Layer",
    "LayerBudgetError",
    "LayerBudgets",
    "LayeredMemory",
    "Llm",
    "LlmResponse",
    "LocalEmbedder",
    "MemoryExtractionConfig",
    "MemoryExtractionImageContext",
    "MemoryLinkExtractionMode",
    "MemoryRetentionConfig",
    "MemorySearchConfig",
    "MemoryStore",
    "Message",
    "ModelError",
    "ModelUsage",
    "NotFoundError",
    "Ontology",
    "OntologyReceipt",
    "OntologyRule",
    "OutcomeReceipt",
    "Page",
    "Priors",
    "PruningEvaluationMode",
    "PruningMemorySearchConfig",
    "ReciprocalRankFusion",
    "Record",
    "RecordRelation",
    "RecordStatus",
    "Reranker",
    "RetrievalResult",
    "Route",
    "SchemaPolicy",
    "Scope",
    "ScopeError",
    "ScopedRecord",
    "ScoreFusion",
    "SearchIndexSyncMode",
    "SearchPreset",
    "SearchResult",
    "SearchResultFormatConfig",
    "SearchScope",
    "SearchStrategy",
    "Stability",
    "StageTrace",
    "Store",
    "StoreError",
    "StoreStats",
    "Summary",
    "Term",
    "TermKind",
    "Thread",
    "ThreadRecord",
    "Tier",
    "TimeToLiveAnchor",
    "TokenCounter",
    "TopKMemorySearchConfig",
    "UsageError",
    "ValidationError",
    "Vocabulary",
    "WaitTimeoutError",
    "__version__",
    "redact_secrets",
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
