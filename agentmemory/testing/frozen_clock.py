"""A clock that moves only when told to.

May import: checks.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from agentmemory.checks import check_time


class FrozenClock:
    """Tells the time it was given until it is moved.

    Args:
        now: The time to start at, aware; default 2026-01-01T00:00:00Z.

    Raises:
        ValidationError: `now` has no time zone.
    """

    def __init__(self, now: datetime | None = None) -> None:
        self._now = datetime(2026, 1, 1, tzinfo=UTC)
        if now is not None:
            self.set(now)

    def __repr__(self) -> str:
        return f"FrozenClock({self._now.isoformat()!r})"

    def now(self) -> datetime:
        """Return the time it stands at, in UTC."""
        return self._now

    def set(self, now: datetime) -> None:
        """Stand at another time, earlier or later.

        Raises:
            ValidationError: `now` has no time zone.
        """
        self._now = check_time(now, argument="now")

    def advance(
        self, by: timedelta | float = 0.0, *, days: float = 0.0, hours: float = 0.0
    ) -> None:
        """Move forward, or back with a negative amount.

        Args:
            by: A timedelta, or seconds.
            days: Days to add.
            hours: Hours to add.
        """
        step = by if isinstance(by, timedelta) else timedelta(seconds=by)
        self._now += step + timedelta(days=days, hours=hours)
