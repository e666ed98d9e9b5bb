"""A pool on a real database and an empty store in it, for each test of the live suite."""

from __future__ import annotations

import pytest

from tests.support.oracle_live import empty_store, missing_variables, new_pool


@pytest.fixture
async def pool():
    missing = missing_variables()
    if missing:
        pytest.fail(f"the live suite needs {', '.join(missing)}; see docs/oracle.md")
    connections = new_pool()
    try:
        await empty_store(connections)
        yield connections
    finally:
        await connections.close(force=True)
