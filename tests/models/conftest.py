"""Fixtures of the tests of models."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentmemory.telemetry import Event, subscribe
from agentmemory.testing import without_waits


@pytest.fixture
def no_waits() -> Iterator[list[float]]:
    """Let back-off take no time; returns the waits that were asked for, in seconds."""
    with without_waits() as waits:
        yield waits


@pytest.fixture
def events() -> Iterator[list[Event]]:
    """Return the events of the test so far."""
    heard: list[Event] = []
    with subscribe(heard.append):
        yield heard


@pytest.fixture(autouse=True)
def _no_proxy_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
