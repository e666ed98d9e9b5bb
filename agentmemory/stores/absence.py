"""What errors say of records that are not there; the same for every store. May import requests."""

from __future__ import annotations

from agentmemory.requests import RecordFilter


def missing(record_filter: RecordFilter) -> str:
    """Say which record is not there, without telling whether another scope holds it."""
    ids = ", ".join(map(repr, record_filter.ids or ()))
    kinds = " or ".join(record_filter.record_types or ("record",))
    return f"there is no {kinds} {ids} in this scope"
