"""Every configuration class and option enum; may import protocols and what lies below."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from agentmemory.checks import check_choice, check_duration, check_number
from agentmemory.errors import ValidationError
from agentmemory.records import RECORD_TYPES
from agentmemory.scope import NOT_SET_MARKER


class SchemaPolicy(enum.StrEnum):
    """What opening a store may do to the database's schema."""

    REQUIRE_EXISTING = "require_existing"
    """Use what is there; refuse a database without the store or of another version."""
    CREATE_IF_EMPTY = "create_if_empty"
    """Create the store where nothing of ours exists; refuse to upgrade."""
    CREATE_IF_NECESSARY = "create_if_necessary"
    """Create the store or upgrade it to this version."""
    RECREATE = "recreate"
    """Drop the store with all it holds and create it anew."""
    NO_CHECK = "no_check"
    """Look at nothing; the caller vouches for the schema."""


class SearchStrategy(enum.StrEnum):
    """Which arms a search uses."""

    VECTOR = "vector"
    KEYWORD = "keyword"
    HYBRID = "hybrid"


class SearchIndexSyncMode(enum.StrEnum):
    """When the database brings its search index up to date."""

    ON_COMMIT = "on_commit"
    MANUAL = "manual"
    AUTO = "auto"


class TimeToLiveAnchor(enum.StrEnum):
    """From when a time to live counts."""

    CREATED_AT = "created_at"
    """From the time of writing; when it is renewed, from then."""
    TIMESTAMP = "timestamp"
    """From when it happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRetentionConfig:
    """How long messages and memories live by default and at most.

    Args:
        default_ttl_days: Days, or a `timedelta`, for records written without one of their own;
            None: no expiry, or the maximum if there is one.
        max_ttl_days: The longest time to live that is accepted; None: no bound.

    Raises:
        ValidationError: Negative or no number, or a default above the maximum.
    """

    default_ttl_days: float | timedelta | None = None
    max_ttl_days: float | timedelta | None = None

    def __post_init__(self) -> None:
        longest = self.longest
        default = self.default
        if longest is not None and default is not None and default > longest:
            msg = (
                f"`default_ttl_days` is {self.default_ttl_days!r}, more than `max_ttl_days` "
                f"{self.max_ttl_days!r}"
            )
            raise ValidationError(msg, argument="default_ttl_days")

    @property
    def default(self) -> timedelta | None:
        """The default as a duration."""
        if self.default_ttl_days is None:
            return None
        return check_duration(self.default_ttl_days, argument="default_ttl_days")

    @property
    def longest(self) -> timedelta | None:
        """The maximum as a duration."""
        if self.max_ttl_days is None:
            return None
        return check_duration(self.max_ttl_days, argument="max_ttl_days")

    def expiry(
        self,
        ttl_days: Any,
        anchor: Any,
        *,
        now: datetime,
        event_time: datetime | None,
    ) -> datetime | None:
        """Return when a record expires, or None for never.

        Args:
            ttl_days: Days, a `timedelta`, None for as long as allowed, or omitted for the
                default. 0 expires at once.
            anchor: A `TimeToLiveAnchor` or its text.
            now: The time of writing.
            event_time: When it happened, if known.

        Raises:
            ValidationError: Above the maximum, negative, an unknown anchor, or anchored at a
                timestamp that is not there.
        """
        choices = tuple(item.value for item in TimeToLiveAnchor)
        chosen = TimeToLiveAnchor(check_choice(anchor, argument="ttl_anchor", choices=choices))
        ttl: timedelta | None
        if ttl_days is NOT_SET_MARKER:
            ttl = self.default if self.default is not None else self.longest
        elif ttl_days is None:
            ttl = self.longest
        else:
            ttl = check_duration(ttl_days, argument="ttl_days")
        if ttl is None:
            return None
        if self.longest is not None and ttl > self.longest:
            msg = f"`ttl_days` is {ttl_days!r}; at most {self.max_ttl_days!r} is accepted"
            raise ValidationError(msg, argument="ttl_days")
        start = now
        if chosen is TimeToLiveAnchor.TIMESTAMP:
            if event_time is None:
                msg = "`ttl_anchor` is TIMESTAMP but there is no `timestamp` to count from"
                raise ValidationError(msg, argument="ttl_anchor")
            start = event_time
        try:
            return start + ttl
        except OverflowError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecayConfig:
    """How age wears relevance down; stable records, guidelines and CRITICAL ones are exempt.

    Args:
        shape: "exponential", or "linear" (nothing is left after two half-lives).
        half_life_days: The age in days at which a record is worth one half.
        half_life_days_by_type: Other half-lives for some record types.
        combine: "blend": `(1 - w) * relevance + w * freshness`; "multiply": their product.
        recency_weight: The `w` of "blend", 0.0 to 1.0.

    Raises:
        ValidationError: A value is not as described.
    """

    shape: Literal["exponential", "linear"] = "exponential"
    half_life_days: float = 7.0
    half_life_days_by_type: Mapping[str, float] = field(default_factory=dict)
    combine: Literal["blend", "multiply"] = "blend"
    recency_weight: float = 0.3

    def __post_init__(self) -> None:
        check_choice(self.shape, argument="shape", choices=("exponential", "linear"))
        check_choice(self.combine, argument="combine", choices=("blend", "multiply"))
        check_number(self.recency_weight, argument="recency_weight", minimum=0, maximum=1)
        _check_half_life(self.half_life_days, "half_life_days")
        name = "half_life_days_by_type"
        if not isinstance(self.half_life_days_by_type, Mapping):
            msg = f"`{name}` must be a mapping of record types to days"
            raise ValidationError(msg, argument=name)
        for record_type, days in self.half_life_days_by_type.items():
            check_choice(record_type, argument=name, choices=RECORD_TYPES)
            _check_half_life(days, f"{name}[{record_type!r}]")

    def half_life_of(self, record_type: str) -> timedelta:
        """Return the half-life of a record type."""
        return timedelta(days=self.half_life_days_by_type.get(record_type, self.half_life_days))


def _check_half_life(value: object, argument: str) -> None:
    days = check_number(value, argument=argument, minimum=0, maximum=1_000_000)
    if days <= 0:
        msg = f"`{argument}` is {value!r}; more than 0 is accepted"
        raise ValidationError(msg, argument=argument)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiversityConfig:
    """How results are kept from all saying the same.

    Args:
        balance: The λ of maximal marginal relevance: 1.0 relevance only, 0.0 difference only;
            None switches it off and only near duplicates are collapsed.
        duplicate_threshold: Cosine from which two results count as the same and only the better
            one is kept; None keeps all.

    Raises:
        ValidationError: A value lies outside 0 to 1.
    """

    balance: float | None = 0.7
    duplicate_threshold: float | None = 0.97

    def __post_init__(self) -> None:
        for name in ("balance", "duplicate_threshold"):
            if getattr(self, name) is not None:
                check_number(getattr(self, name), argument=name, minimum=0, maximum=1)
