"""Rows of the Oracle tables to records and back; pure.

A transaction hands values back as plain Python: JSON as dicts and lists, times aware and in UTC.
May import records, metadata_terms, index_fields, schema and values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from typing import Any, Final

import orjson

from agentmemory.records import (
    LIFECYCLE_LINK_TYPES,
    Layer,
    RecordStatus,
    ScopedRecord,
    Stability,
    ThreadRecord,
    Tier,
)
from agentmemory.stores.index_fields import ChunkFields
from agentmemory.stores.oracle.metadata_terms import metadata_terms
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.statement import BindType
from agentmemory.stores.oracle.values import from_database

LIFECYCLE_SQL: Final = f"({', '.join(repr(name) for name in sorted(LIFECYCLE_LINK_TYPES))})"
"""The lifecycle link types as a list in SQL."""

RECORD_COLUMNS: Final = (
    "seq",
    "id",
    "record_type",
    "user_id",
    "agent_id",
    "thread_id",
    "role",
    "actor",
    "content",
    "compressed",
    "metadata",
    "status",
    "invalidation_reason",
    "invalidated_at",
    "review_reason",
    "tier",
    "layer",
    "tags",
    "confidence",
    "hit_count",
    "last_hit_at",
    "stability",
    "trust",
    "event_time",
    "valid_from",
    "valid_to",
    "created_at",
    "updated_at",
    "expires_at",
    "revision",
)

INSERT_COLUMNS: Final = (*RECORD_COLUMNS[1:], "metadata_terms")
"""What `record_binds` gives values of; `seq` and the virtual `effective_time` make themselves."""

BIND_TYPES: Final[Mapping[str, BindType]] = {
    "id": BindType.STRING,
    "record_type": BindType.STRING,
    "user_id": BindType.STRING,
    "agent_id": BindType.STRING,
    "thread_id": BindType.STRING,
    "role": BindType.STRING,
    "actor": BindType.STRING,
    "content": BindType.CLOB,
    "compressed": BindType.CLOB,
    "metadata": BindType.JSON,
    "metadata_terms": BindType.JSON,
    "config": BindType.JSON,
    "status": BindType.STRING,
    "invalidation_reason": BindType.CLOB,
    "invalidated_at": BindType.TIMESTAMP,
    "review_reason": BindType.CLOB,
    "tier": BindType.STRING,
    "layer": BindType.STRING,
    "tags": BindType.JSON,
    "confidence": BindType.DOUBLE,
    "hit_count": BindType.NUMBER,
    "last_hit_at": BindType.TIMESTAMP,
    "stability": BindType.STRING,
    "trust": BindType.STRING,
    "event_time": BindType.TIMESTAMP,
    "valid_from": BindType.TIMESTAMP,
    "valid_to": BindType.TIMESTAMP,
    "created_at": BindType.TIMESTAMP,
    "updated_at": BindType.TIMESTAMP,
    "expires_at": BindType.TIMESTAMP,
    "revision": BindType.NUMBER,
}
"""Types of the columns of records and threads, by name."""


TEXT_COLUMNS: Final = ("content", "compressed", "invalidation_reason", "review_reason")
"""Columns of the record that are CLOBs."""

JSON_COLUMNS: Final = ("metadata", "tags")
"""Columns of the record that are JSON."""

SHORT_TEXT: Final = 1000
"""Longest CLOB that is read as VARCHAR2, in characters: at most 4000 bytes."""


def record_select(t: Tables, alias: str = "r", *, replaced_by: str = "NULL") -> str:
    """Return the select list that `record_from_row` reads.

    Args:
        t: The tables.
        alias: Of the record table.
        replaced_by: SQL of the id of what replaced it; by default it is left out, for
            `records.select_records` alone looks it up.
    """
    columns = ", ".join(f"{alias}.{name}" for name in RECORD_COLUMNS)
    sources = (
        f"CASE WHEN {alias}.record_type = 'message' THEN NULL ELSE "
        f"(SELECT JSON_ARRAYAGG(s.message_id ORDER BY s.position RETURNING JSON) "
        f"FROM {t.source} s WHERE s.record_seq = {alias}.seq) END"
    )
    return f"{columns}, {sources}, {replaced_by}"


def short_select(t: Tables, alias: str = "r", *, replaced_by: str = "NULL") -> str:
    """Return the select list that `record_from_short_row` reads.

    The driver fetches CLOB and JSON in a round trip of their own for each statement. So what is
    short enough comes as VARCHAR2, and what is not comes as NULL, with a flag.
    """
    columns = [_short(alias, name) for name in RECORD_COLUMNS]
    of_record = f"FROM {t.source} s WHERE s.record_seq = {alias}.seq"
    # In JSON a byte takes six at most.
    sources = (
        f"CASE WHEN {alias}.record_type = 'message' THEN '[]' "
        f"WHEN (SELECT COALESCE(SUM(6 * LENGTHB(s.message_id) + 3), 0) {of_record}) < 4000 "
        f"THEN COALESCE((SELECT JSON_ARRAYAGG(s.message_id ORDER BY s.position "
        f"RETURNING VARCHAR2(4000)) {of_record}), '[]') END"
    )
    fits = " AND ".join(
        f"COALESCE(LENGTH({alias}.{name}), 0) <= {SHORT_TEXT}" for name in TEXT_COLUMNS
    )
    flag = f"CASE WHEN {fits} THEN 1 ELSE 0 END AS fits"
    return f"{', '.join(columns)}, {sources}, {replaced_by}, {flag}"


def json_text(column: str, path: str = "$") -> str:
    """Return SQL of JSON as VARCHAR2; NULL if it is too long for that."""
    return f"JSON_QUERY({column}, '{path}' RETURNING VARCHAR2(4000) NULL ON ERROR)"


def _short(alias: str, name: str) -> str:
    if name in TEXT_COLUMNS:
        return (
            f"CASE WHEN LENGTH({alias}.{name}) <= {SHORT_TEXT} "
            f"THEN CAST({alias}.{name} AS VARCHAR2(4000)) END AS {name}"
        )
    if name in JSON_COLUMNS:
        return f"{json_text(f'{alias}.{name}')} AS {name}"
    return f"{alias}.{name}"


def record_from_short_row(row: Sequence[Any]) -> ScopedRecord | None:
    """Build a record from a row of `short_select`; None if a part of it was too long."""
    *values, fits = row
    record = values[:-1]
    places = (*(RECORD_COLUMNS.index(name) for name in JSON_COLUMNS), len(RECORD_COLUMNS))
    if not fits or any(record[place] is None for place in places):
        return None
    for place in places:
        record[place] = from_json_text(record[place])
    return record_from_row((*record, values[-1]))


def from_json_text(text: str) -> Any:
    """Return the value of JSON that came as text, floats as they were stored."""
    return from_database(orjson.loads(text))


def record_from_row(row: Sequence[Any]) -> ScopedRecord:
    """Build a record from a row of `record_select`."""
    names: tuple[str, ...] = (*RECORD_COLUMNS, "sources", "replaced_by")
    values: dict[str, Any] = dict(zip(names, row, strict=True))
    for name, kind in _ENUMS.items():
        if values[name] is not None:
            values[name] = kind(values[name])
    # An empty text is NULL.
    values["content"] = values["content"] or ""
    for name in ("tags", "sources"):
        values[name] = tuple(values[name] or ())
    return ScopedRecord(**values)


_ENUMS: Final[Mapping[str, Any]] = {
    "status": RecordStatus,
    "tier": Tier,
    "layer": Layer,
    "stability": Stability,
}


def record_binds(record: ScopedRecord) -> dict[str, Any]:
    """Return the values of `INSERT_COLUMNS` for a record, by column."""
    values: dict[str, Any] = {name: getattr(record, name) for name in RECORD_COLUMNS[1:]}
    values["status"] = record.status.value
    values["tier"] = record.tier.value
    for name in ("layer", "stability"):
        if values[name] is not None:
            values[name] = str(values[name].value)
    values["tags"] = list(record.tags)
    return {**values, **metadata_binds(record.metadata)}


def metadata_binds(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the columns that hold metadata, by column.

    Whoever writes one writes the other: filters read the terms only.
    """
    return {"metadata": dict(metadata), "metadata_terms": metadata_terms(metadata)}


def field_texts(fields: ChunkFields) -> list[str]:
    """Return the fields of a chunk as `chunk.fields` holds them, in the order of the weights."""
    return list(astuple(fields))


def token_count(fields: Iterable[str]) -> int:
    """Return how many tokens the fields of a chunk have in all, as `chunk.token_count` holds it."""
    return sum(text.count(" ") + 1 for text in fields if text)


THREAD_COLUMNS: Final = (
    "id",
    "user_id",
    "agent_id",
    "metadata",
    "config",
    "created_at",
    "updated_at",
    "revision",
)
THREAD_SELECT: Final = ", ".join(THREAD_COLUMNS)
"""The select list that `thread_from_row` reads."""


def thread_from_row(row: Sequence[Any]) -> ThreadRecord:
    """Build a thread from a row of `THREAD_SELECT`."""
    values: dict[str, Any] = dict(zip(THREAD_COLUMNS, row, strict=True))
    return ThreadRecord(**values)


def thread_binds(thread: ThreadRecord) -> dict[str, Any]:
    """Return the values of `THREAD_COLUMNS` and of `metadata_terms` for a thread, by column."""
    values = {name: getattr(thread, name) for name in THREAD_COLUMNS}
    return {**values, "config": dict(thread.config), **metadata_binds(thread.metadata)}
