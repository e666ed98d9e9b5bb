"""Clients of language models, embedders and rerankers; the only room that speaks HTTP.

May import: text, config, protocols and what lies below them. Names load when first used, so
that nobody pays for a client that is not built.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentmemory.models.accounting import ModelPrice
    from agentmemory.models.embedder import Embedder
    from agentmemory.models.endpoint import HttpOptions
    from agentmemory.models.llm import Llm, TextStream
    from agentmemory.models.local import LocalEmbedder
    from agentmemory.models.reranker import Reranker
    from agentmemory.models.resolve import resolve_embedder

__all__ = [
    "Embedder",
    "HttpOptions",
    "Llm",
    "LocalEmbedder",
    "ModelPrice",
    "Reranker",
    "TextStream",
    "resolve_embedder",
]

_HOMES = {
    "Embedder": "embedder",
    "HttpOptions": "endpoint",
    "Llm": "llm",
    "LocalEmbedder": "local",
    "ModelPrice": "accounting",
    "Reranker": "reranker",
    "TextStream": "llm",
    "resolve_embedder": "resolve",
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
