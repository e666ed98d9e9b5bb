"""Fixtures of the tests of models."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentmemory.models.http import Waits
from agentmemory.telemetry import Event, subscribe


@pytest.fixture
def no_waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let back-off take no time; returns the waits that were asked for, in seconds."""
    waits: list[float] = []

    async def note(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(Waits, "sleep", staticmethod(note))
    return waits


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
