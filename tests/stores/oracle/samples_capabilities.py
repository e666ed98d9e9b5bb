"""Samples of the statements that ask a database what it can do."""

from __future__ import annotations

from agentmemory.stores.oracle.capabilities import probes
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.statement import Statement


def sample_statements(t: Tables) -> list[Statement]:
    """Return every question to the data dictionary."""
    return list(probes())
