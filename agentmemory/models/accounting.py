"""What model calls cost: counters of one operation, price tables, and how both are told.

May import: protocols, telemetry, errors.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from agentmemory import telemetry
from agentmemory.protocols import ModelUsage
from agentmemory.telemetry import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPrice:
    """What a model costs; the currency is yours.

    Args:
        input_per_million: For a million tokens read.
        output_per_million: For a million tokens written.
        per_call: For each request, for models that are priced so.
    """

    input_per_million: float = 0.0
    output_per_million: float = 0.0
    per_call: float = 0.0


@dataclass(slots=True)
class Meter:
    """Counts what one operation takes, over all the requests it needs."""

    price: ModelPrice | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    calls: int = 0
    retries: int = 0
    started: float = field(default_factory=time.perf_counter)

    def add_tokens(self, read: object, written: object = 0) -> None:
        """Add what a provider says it counted; what is no count is ignored."""
        self.input_tokens += _count(read)
        self.output_tokens += _count(written)

    def usage(self) -> ModelUsage:
        """Return what was counted so far."""
        return ModelUsage(
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            calls=self.calls,
            latency_s=time.perf_counter() - self.started,
            cost=self._cost(),
        )

    def record(self, span: Span) -> None:
        """Put what was counted on a span."""
        span.set(telemetry.INPUT_TOKENS, self.input_tokens)
        span.set(telemetry.OUTPUT_TOKENS, self.output_tokens)
        span.set(telemetry.CALLS, self.calls)
        span.set(telemetry.RETRIES, self.retries)
        span.set(telemetry.COST, self._cost())

    def _cost(self) -> float | None:
        if self.price is None:
            return None
        return (
            self.input_tokens * self.price.input_per_million / 1e6
            + self.output_tokens * self.price.output_per_million / 1e6
            + self.calls * self.price.per_call
        )


def price_of(
    prices: Mapping[str, ModelPrice] | None, *, name: str, model: str
) -> ModelPrice | None:
    """Look a model up in a price table, by its name with and then without its provider."""
    if prices is None:
        return None
    return prices.get(name) or prices.get(model)


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
