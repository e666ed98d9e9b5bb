"""Emulated Oracle databases; the server behind them stops with the tests."""

from __future__ import annotations

import pytest

from tests.support.oracle.postgres import stop_embedded_server
from tests.support.oracle.store import oracle_server
from tests.support.oracle_watch import watched


@pytest.fixture(scope="session", autouse=True)
def _no_server_is_left():
    yield
    stop_embedded_server()


@pytest.fixture(autouse=True)
def _what_runs_is_right():
    """Every statement that reaches a database passes the linter and has a sample."""
    with watched() as wrong:
        yield
    assert wrong == {}


@pytest.fixture
def oracle():
    """A server with an empty database."""
    with oracle_server() as server:
        yield server
