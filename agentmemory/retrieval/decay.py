"""Time wears relevance down; pure. May import records and config.

Sources: exponential and linear decay with a half-life of seven days and a recency weight of 0.3
are the defaults of Agent_Memory_Techniques, module 18 (temporal memory); the exemption of what
does not age follows its advice and that of module 20.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from agentmemory.config import DecayConfig
from agentmemory.records import Layer, Record, Stability

_DAY: Final = timedelta(days=1)


def freshness(age: timedelta, *, half_life: timedelta, shape: str = "exponential") -> float:
    """Return how fresh something of an age is, from 1.0 (now) down to 0.0.

    Exponential: `0.5 ** (age / half_life)`. Linear: `1 - age / (2 * half_life)`, never below 0.
    The future is as fresh as now.

    Args:
        age: Time since it happened.
        half_life: The age at which it is worth one half.
        shape: "exponential" or "linear".
    """
    ratio = max(age / half_life, 0.0)
    if shape == "linear":
        return max(0.0, 1.0 - ratio / 2)
    return float(0.5**ratio)


def is_exempt(record: Record) -> bool:
    """Tell whether a record does not age: stable ones, guidelines and CRITICAL ones."""
    if record.stability is Stability.STABLE or record.layer is Layer.CRITICAL:
        return True
    return record.record_type == "guideline" and record.stability is not Stability.VOLATILE


def freshness_of_each(
    records: Sequence[Record], *, config: DecayConfig, now: datetime
) -> list[float]:
    """Return how fresh records are; one that does not age counts as fresh."""
    half_lives = {name: config.half_life_of(name) for name in {r.record_type for r in records}}
    return [
        1.0
        if is_exempt(record)
        else freshness(
            now - record.effective_time,
            half_life=half_lives[record.record_type],
            shape=config.shape,
        )
        for record in records
    ]


def decayed(relevance: float, fresh: float, *, config: DecayConfig) -> float:
    """Return a relevance after decay.

    Blend: `(1 - w) * relevance + w * freshness`. Multiply: `relevance * freshness`.
    """
    if config.combine == "multiply":
        return relevance * fresh
    weight = config.recency_weight
    return (1 - weight) * relevance + weight * fresh


def why_decayed(record: Record, fresh: float, now: datetime) -> str:
    """Return in words how fresh a record is."""
    if is_exempt(record):
        return "does not age"
    days = max((now - record.effective_time) / _DAY, 0.0)
    return f"{days:.1f} days old, freshness {fresh:.3f}"
