"""Settings of every test: the event loop is never blocked, and examples are not timed."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

from tests.support.blocking import _blocking_detector, blocking_calls

__all__ = ["_blocking_detector", "blocking_calls"]

# A slow machine is no failure; what CI finds has to be found again by whoever looks into it.
settings.register_profile(
    "agentmemory",
    deadline=None,
    print_blob=True,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("agentmemory")
