"""Faults that an emulated database is told to have."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.support.oracle.errors import ora


class FaultKind(enum.StrEnum):
    """What goes wrong."""

    ERROR = "error"
    """The database answers with an error; the statement had no effect."""
    LOST_BEFORE = "lost before"
    """The connection breaks before the request reached the database."""
    LOST_AFTER = "lost after"
    """The connection breaks after the request took effect, before its answer arrived."""
    HANG_BEFORE = "hang before"
    """Nothing happens until the driver breaks the request off; it has no effect then."""
    HANG_AFTER = "hang after"
    """The request takes effect, its answer comes only when the driver breaks it off."""
    DEAF = "deaf"
    """The network swallows everything: no effect, no answer, not even to the break."""
    NONE = "none"
    """Nothing goes wrong; for `call`."""


@dataclass(slots=True, kw_only=True)
class Fault:
    """One fault: what, and where.

    Args:
        kind: What goes wrong.
        at: Which of the matching trips is meant, from 1 on, counted since the fault was added.
        trip: The name of the trip, such as "commit", "execute", "pipeline", "connect", "ping",
            "rollback", "fetch", "define", "logoff"; None for any.
        statement: Pattern that a statement of the trip has to hold; None for any trip.
        code: For `ERROR`.
        times: How many trips in a row have it, from `at` on.
        call: Called when the fault comes, before anything else happens.
    """

    kind: FaultKind
    at: int = 1
    trip: str | None = None
    statement: str | None = None
    code: int = 60
    times: int = 1
    call: Callable[[], object] | None = None
    seen: int = 0

    def matches(self, trip: str, statements: Sequence[str]) -> bool:
        """Whether this trip is one that is counted."""
        if self.trip is not None and self.trip != trip:
            return False
        if self.statement is None:
            return True
        return any(re.search(self.statement, text, re.IGNORECASE) for text in statements)

    def due(self) -> bool:
        """Count one matching trip; whether the fault comes now."""
        self.seen += 1
        return self.at <= self.seen < self.at + self.times


@dataclass(slots=True)
class Faults:
    """The faults of one database, in the order they were added."""

    planned: list[Fault] = field(default_factory=list)
    came: list[Fault] = field(default_factory=list)

    def add(self, kind: FaultKind, **where: object) -> Fault:
        """Plan a fault; arguments as of `Fault`."""
        fault = Fault(kind=kind, **where)  # type: ignore[arg-type]
        self.planned.append(fault)
        return fault

    def for_trip(self, trip: str, statements: Sequence[str]) -> Fault | None:
        """Return the fault that this trip has, but for errors of a statement."""
        due = [
            fault
            for fault in self.planned
            if not _is_of_statement(fault) and fault.matches(trip, statements) and fault.due()
        ]
        if not due:
            return None
        self.came.extend(due)
        for fault in due:
            if fault.call is not None:
                fault.call()
        return due[0]

    def for_statement(self, trip: str, text: str) -> None:
        """Raise the error that this statement is planned to have."""
        for fault in self.planned:
            if _is_of_statement(fault) and fault.matches(trip, (text,)) and fault.due():
                self.came.append(fault)
                if fault.call is not None:
                    fault.call()
                raise ora(fault.code)


def _is_of_statement(fault: Fault) -> bool:
    return fault.kind is FaultKind.ERROR and fault.trip not in ("commit", "connect", "ping")
