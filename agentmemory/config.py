"""Every configuration class and option enum; may import protocols and what lies below."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from agentmemory.checks import check_choice, check_duration
from agentmemory.errors import ValidationError
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
