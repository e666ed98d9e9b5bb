"""A record filter as a WHERE clause with named binds; pure.

May import requests, scope, filters, schema and filter_sql.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from agentmemory.requests import RecordFilter
from agentmemory.scope import NOT_SET_MARKER, DimensionMatch, OptionalId
from agentmemory.stores.filters import parse_filter
from agentmemory.stores.oracle.filter_sql import compile_filter
from agentmemory.stores.oracle.schema import Tables

T = TypeVar("T")

MAX_LISTED: Final = 512
"""Most values of one IN-list."""

MAX_BATCH: Final = 4096
"""Most values of one statement, whose binds are bounded; more become several statements."""


@dataclass(slots=True)
class Where:
    """Conditions joined by AND, and the values of their binds by name.

    Args:
        prefix: What names of binds begin with, so that several filters fit into one statement.
    """

    prefix: str = "f_"
    conditions: list[str] = field(default_factory=list)
    binds: dict[str, Any] = field(default_factory=dict)

    def add(self, condition: str) -> None:
        """Add one condition."""
        self.conditions.append(condition)

    def bind(self, name: str, value: Any) -> str:
        """Add one bind and return how it is written."""
        self.binds[f"{self.prefix}{name}"] = value
        return f":{self.prefix}{name}"

    @property
    def sql(self) -> str:
        """The conditions as one expression; true without any."""
        return " AND ".join(self.conditions) or "1 = 1"


def add_dimension(where: Where, column: str, name: str, match: DimensionMatch) -> None:
    """Bound one dimension of a scope; `name` is that of its bind."""
    if not match.exact:
        return
    if match.value is None:
        where.add(f"{column} IS NULL")
    else:
        where.add(f"{column} = {where.bind(name, match.value)}")


def add_id(where: Where, column: str, name: str, value: OptionalId) -> None:
    """Bound an id column unless the value was left out."""
    if value is not NOT_SET_MARKER:
        match = DimensionMatch(True, None if value is None else str(value))
        add_dimension(where, column, name, match)


def add_list(
    where: Where, column: str, name: str, values: Sequence[Any], *, negated: bool = False
) -> None:
    """Bound a column by a list of values.

    Lists are padded to powers of two by repeating the last value, so that few texts of statements
    differ, and cut into lists of at most `MAX_LISTED`.
    """
    if not values:
        where.add("1 = 1" if negated else "1 = 0")
        return
    parts = []
    for start in range(0, len(values), MAX_LISTED):
        part = list(values[start : start + MAX_LISTED])
        size = 1 << (len(part) - 1).bit_length()
        part.extend(itertools.repeat(part[-1], size - len(part)))
        marks = ", ".join(
            where.bind(f"{name}{start + place}", value) for place, value in enumerate(part)
        )
        parts.append(f"{column} {'NOT IN' if negated else 'IN'} ({marks})")
    where.add(f"({(' AND ' if negated else ' OR ').join(parts)})")


def batches(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Cut a list into parts of at most `MAX_BATCH` values."""
    for start in range(0, len(values), MAX_BATCH):
        yield values[start : start + MAX_BATCH]


def add_metadata(where: Where, column: str, raw: Mapping[str, Any] | None) -> None:
    """Bound a column of metadata terms by a metadata filter in the caller's form."""
    parsed = parse_filter(raw)
    if parsed is not None:
        sql, binds = compile_filter(parsed, column, where.prefix)
        where.binds.update(binds)
        where.add(f"({sql})")


def record_where(record_filter: RecordFilter, alias: str = "r", *, prefix: str = "f_") -> Where:
    """Return every condition of a record filter over the record table's alias."""
    where = Where(prefix)
    _add_repeated(where, record_filter, alias)
    _add_status(where, record_filter, alias)
    _add_own(where, record_filter, alias)
    return where


def chunk_where(
    t: Tables, record_filter: RecordFilter, alias: str = "c", *, prefix: str = "f_"
) -> Where:
    """Return every condition of a record filter over the chunk table's alias.

    A chunk repeats the columns of its record that filters ask for most; what only the record has
    is looked up there.
    """
    where = Where(prefix)
    _add_repeated(where, record_filter, alias)
    own = Where(prefix)
    if record_filter.known_at is None:
        _add_status(where, record_filter, alias)
    else:
        _add_status(own, record_filter, "r")
    _add_own(own, record_filter, "r")
    if own.conditions:
        where.binds.update(own.binds)
        where.add(
            f"EXISTS (SELECT 1 FROM {t.record} r WHERE r.seq = {alias}.record_seq AND {own.sql})"
        )
    return where


def _add_repeated(where: Where, record_filter: RecordFilter, alias: str) -> None:
    """Add what records and chunks both have a column for."""
    scope = record_filter.scope
    add_dimension(where, f"{alias}.user_id", "user", scope.user)
    add_dimension(where, f"{alias}.agent_id", "agent", scope.agent)
    add_dimension(where, f"{alias}.thread_id", "thread", scope.thread)
    now = where.bind("now", record_filter.now)
    if record_filter.only_expired:
        where.add(f"{alias}.expires_at <= {now}")
    else:
        where.add(f"({alias}.expires_at IS NULL OR {alias}.expires_at > {now})")
    if record_filter.record_types is not None:
        add_list(where, f"{alias}.record_type", "type", record_filter.record_types)
    if record_filter.tiers is None:
        where.add(f"{alias}.tier NOT IN ('archived', 'deprecated')")
    else:
        add_list(where, f"{alias}.tier", "tier", [tier.value for tier in record_filter.tiers])
    if record_filter.layers is not None:
        add_list(where, f"{alias}.layer", "layer", [item.value for item in record_filter.layers])
    bounds = (
        ("effective_time >=", "event_after", record_filter.event_after),
        ("effective_time <", "event_before", record_filter.event_before),
        ("created_at >=", "created_after", record_filter.created_after),
        ("created_at <", "created_before", record_filter.created_before),
        ("created_at <=", "known_at", record_filter.known_at),
    )
    for condition, name, value in bounds:
        if value is not None:
            where.add(f"{alias}.{condition} {where.bind(name, value)}")
    if record_filter.valid_at is not None:
        at = where.bind("valid_at", record_filter.valid_at)
        where.add(f"({alias}.valid_from IS NULL OR {alias}.valid_from <= {at})")
        where.add(f"({alias}.valid_to IS NULL OR {alias}.valid_to > {at})")


def _add_status(where: Where, record_filter: RecordFilter, alias: str) -> None:
    """Add the bound of the status, for which chunks lack a column when a past is asked for."""
    if record_filter.include_invalid:
        return
    if record_filter.known_at is None:
        where.add(f"{alias}.status = 'valid'")
    else:
        # What was made invalid later was valid as far as was known then.
        at = where.bind("known_at", record_filter.known_at)
        where.add(f"({alias}.status = 'valid' OR {alias}.invalidated_at > {at})")


def _add_own(where: Where, record_filter: RecordFilter, alias: str) -> None:
    """Add what only records have a column for."""
    add_metadata(where, f"{alias}.metadata_terms", record_filter.metadata)
    if record_filter.ids is not None:
        add_list(where, f"{alias}.id", "id", record_filter.ids)
    if record_filter.exclude_ids:
        add_list(where, f"{alias}.id", "not", record_filter.exclude_ids, negated=True)
