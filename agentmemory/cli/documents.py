"""The JSON forms of what commands answer; keys are stable. May import results and below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentmemory.records import Record, ScopedRecord, ThreadRecord, iso_time
from agentmemory.requests import Capability, Page, StoreStats
from agentmemory.results import ContextCard, Explanation, SearchResult


def record_document(record: Record) -> dict[str, Any]:
    """Return a record; times are ISO-8601 text in UTC."""
    scoped = record if isinstance(record, ScopedRecord) else None
    return {
        "id": record.id,
        "record_type": record.record_type,
        "content": record.content,
        "role": record.role,
        "name": record.actor,
        "timestamp": record.timestamp,
        "status": record.status.value,
        "replaced_by": record.replaced_by,
        "user_id": None if scoped is None else scoped.user_id,
        "agent_id": None if scoped is None else scoped.agent_id,
        "thread_id": None if scoped is None else scoped.thread_id,
        "metadata": plain(record.metadata),
        "sources": list(record.sources),
        "valid_from": iso_time(record.valid_from),
        "valid_to": iso_time(record.valid_to),
        "expires_at": iso_time(record.expires_at),
        "created_at": iso_time(record.created_at),
        "updated_at": iso_time(record.updated_at),
    }


def result_document(result: SearchResult) -> dict[str, Any]:
    """Return a search result: its record, its scores and how they came about."""
    return {
        **record_document(result.record),
        "score": result.score,
        "distance": result.distance,
        "explain": explanation_document(result.explain),
    }


def explanation_document(explain: Explanation) -> dict[str, Any]:
    """Return why a result is where it is."""
    return {
        "lexical": explain.lexical,
        "lexical_rank": explain.lexical_rank,
        "cosine": explain.cosine,
        "vector_rank": explain.vector_rank,
        "distance_kind": explain.distance_kind,
        "stages": [
            {"stage": item.stage, "rank": item.rank, "score": item.score, "reason": item.reason}
            for item in explain.stages
        ],
        "notes": list(explain.notes),
    }


def thread_document(thread: ThreadRecord, first: Record | None) -> dict[str, Any]:
    """Return a thread and how it begins."""
    return {
        "thread_id": thread.id,
        "user_id": thread.user_id,
        "agent_id": thread.agent_id,
        "metadata": plain(thread.metadata),
        "created_at": iso_time(thread.created_at),
        "updated_at": iso_time(thread.updated_at),
        "first_message": None if first is None else first.content,
    }


def messages_document(thread_id: str, page: Page[ScopedRecord]) -> dict[str, Any]:
    """Return one page of a thread's messages."""
    return {
        "thread_id": thread_id,
        "messages": [record_document(message) for message in page.items],
        "next_cursor": page.next_cursor,
    }


def card_document(thread_id: str, card: ContextCard) -> dict[str, Any]:
    """Return a context card, its text and what it is made of."""
    return {
        "thread_id": thread_id,
        "query": card.explain.query,
        "content": card.content,
        "token_count": card.explain.token_count,
        "sections": dict(card.explain.sections),
        "summary": card.summary,
        "topics": list(card.topics),
        "relevant_results": [result_document(result) for result in card.relevant_results],
        "recent_messages": [record_document(message) for message in card.recent_messages],
        "notes": list(card.explain.notes),
    }


def stats_document(database: str, stats: StoreStats) -> dict[str, Any]:
    """Return what a store holds."""
    return {
        "database": printable(database),
        "size_bytes": stats.size_bytes,
        "schema_version": stats.schema_version,
        "embedder": stats.embedder,
        "records": dict(stats.records),
        "threads": stats.threads,
        "chunks": stats.chunks,
        "vectors": stats.vectors,
        "links": stats.links,
        "jobs": dict(stats.jobs),
        "capabilities": _capabilities(stats.capabilities),
    }


def findings_document(database: str, findings: Sequence[Capability]) -> dict[str, Any]:
    """Return what an installation and its database can do."""
    return {"database": printable(database), "findings": _capabilities(findings)}


def _capabilities(capabilities: Sequence[Capability]) -> dict[str, Any]:
    return {
        each.name: {"available": each.available, "detail": each.detail} for each in capabilities
    }


def printable(text: str) -> str:
    """Return a path's text in a form that UTF-8 can hold."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def plain(value: Any) -> Any:
    """Return metadata as dicts and lists, however it is held."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
