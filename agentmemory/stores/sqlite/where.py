"""A record filter as a WHERE clause with binds; may import requests, scope and filters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from agentmemory.records import Tier
from agentmemory.requests import RecordFilter
from agentmemory.scope import NOT_SET_MARKER, DimensionMatch, OptionalId
from agentmemory.stores.filters import parse_filter
from agentmemory.stores.sqlite.filter_sql import compile_filter
from agentmemory.stores.sqlite.rows import dump_json, to_micros

_RESTING: Final = (Tier.ARCHIVED.value, Tier.DEPRECATED.value)


@dataclass(slots=True)
class Where:
    """Conditions joined by AND, and the values of their parameters in order."""

    conditions: list[str] = field(default_factory=list)
    binds: list[Any] = field(default_factory=list)

    def add(self, condition: str, *binds: Any) -> None:
        """Add one condition."""
        self.conditions.append(condition)
        self.binds.extend(binds)

    @property
    def sql(self) -> str:
        """The conditions as one expression; true without any."""
        return " AND ".join(self.conditions) or "1"


def add_dimension(where: Where, column: str, match: DimensionMatch) -> None:
    """Bound one dimension of a scope."""
    if not match.exact:
        return
    if match.value is None:
        where.add(f"{column} IS NULL")
    else:
        where.add(f"{column} = ?", match.value)


def add_id(where: Where, column: str, value: OptionalId) -> None:
    """Bound an id column unless the value was left out."""
    if value is not NOT_SET_MARKER:
        add_dimension(where, column, DimensionMatch(True, None if value is None else str(value)))


def add_metadata(where: Where, column: str, raw: Any) -> None:
    """Bound a JSON column by a metadata filter in the caller's form."""
    parsed = parse_filter(raw)
    if parsed is not None:
        sql, binds = compile_filter(parsed, column)
        where.add(f"({sql})", *binds)


def record_where(record_filter: RecordFilter, alias: str = "r") -> Where:
    """Return every condition of a record filter over the record table's alias."""
    where = Where()
    scope = record_filter.scope
    add_dimension(where, f"{alias}.user_id", scope.user)
    add_dimension(where, f"{alias}.agent_id", scope.agent)
    add_dimension(where, f"{alias}.thread_id", scope.thread)
    now = to_micros(record_filter.now)
    if record_filter.only_expired:
        where.add(f"{alias}.expires_at <= ?", now)
    else:
        where.add(f"({alias}.expires_at IS NULL OR {alias}.expires_at > ?)", now)
    if record_filter.record_types is not None:
        marks = ", ".join("?" * len(record_filter.record_types))
        where.add(f"{alias}.record_type IN ({marks})", *record_filter.record_types)
    if not record_filter.include_invalid:
        if record_filter.known_at is None:
            where.add(f"{alias}.status = 'valid'")
        else:
            # What was made invalid later was valid as far as was known then.
            where.add(
                f"({alias}.status = 'valid' OR {alias}.invalidated_at > ?)",
                to_micros(record_filter.known_at),
            )
    if record_filter.tiers is None:
        where.add(f"{alias}.tier NOT IN (?, ?)", *_RESTING)
    else:
        marks = ", ".join("?" * len(record_filter.tiers))
        where.add(f"{alias}.tier IN ({marks})", *(tier.value for tier in record_filter.tiers))
    if record_filter.layers is not None:
        marks = ", ".join("?" * len(record_filter.layers))
        where.add(f"{alias}.layer IN ({marks})", *(item.value for item in record_filter.layers))
    add_metadata(where, f"{alias}.metadata", record_filter.metadata)
    _add_times(where, record_filter, alias)
    if record_filter.ids is not None:
        where.add(f"{alias}.id IN (SELECT value FROM json_each(?))", dump_json(record_filter.ids))
    if record_filter.exclude_ids:
        where.add(
            f"{alias}.id NOT IN (SELECT value FROM json_each(?))",
            dump_json(record_filter.exclude_ids),
        )
    return where


def _add_times(where: Where, record_filter: RecordFilter, alias: str) -> None:
    bounds = (
        ("effective_time >= ?", record_filter.event_after),
        ("effective_time < ?", record_filter.event_before),
        ("created_at >= ?", record_filter.created_after),
        ("created_at < ?", record_filter.created_before),
        ("created_at <= ?", record_filter.known_at),
    )
    for condition, value in bounds:
        if value is not None:
            where.add(f"{alias}.{condition}", to_micros(value))
    if record_filter.valid_at is not None:
        at = to_micros(record_filter.valid_at)
        where.add(f"({alias}.valid_from IS NULL OR {alias}.valid_from <= ?)", at)
        where.add(f"({alias}.valid_to IS NULL OR {alias}.valid_to > ?)", at)
