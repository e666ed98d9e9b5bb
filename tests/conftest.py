"""Fixtures of every test: the event loop is never blocked."""

from __future__ import annotations

from tests.support.blocking import _blocking_detector, blocking_calls

__all__ = ["_blocking_detector", "blocking_calls"]
