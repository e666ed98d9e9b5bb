"""Records and threads come back from their rows as they were stored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from agentmemory.records import Layer, RecordStatus, ScopedRecord, Stability, ThreadRecord, Tier
from agentmemory.stores.index_fields import FIELD_WEIGHTS, ChunkFields
from agentmemory.stores.oracle import ddl, rows
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.statement import BindType

NOW = datetime(2026, 5, 1, 12, 30, 15, 123_456, tzinfo=UTC)
FULL = ScopedRecord(
    id="r1",
    record_type="fact",
    content="",
    metadata={"a": [1, None, {"b": "x"}]},
    status=RecordStatus.INVALID,
    role="user",
    actor="Ada",
    compressed="short",
    tier=Tier.COLD,
    layer=Layer.RULE,
    tags=("x", "y"),
    confidence=0.25,
    hit_count=3,
    last_hit_at=NOW,
    stability=Stability.STABLE,
    trust="user",
    event_time=NOW,
    valid_from=NOW,
    valid_to=NOW + timedelta(days=1),
    created_at=NOW,
    updated_at=NOW,
    expires_at=NOW + timedelta(days=9),
    revision=4,
    sources=("m1", "m2"),
    seq=7,
    invalidation_reason="superseded by r2",
    invalidated_at=NOW,
    review_reason="depends on r0",
    replaced_by="r2",
    user_id="ada",
    agent_id="guide",
    thread_id="t1",
)
BARE = ScopedRecord(id="r2", record_type="memory", content="x", created_at=NOW, updated_at=NOW)


def row_of(record: ScopedRecord) -> tuple[object, ...]:
    """Return the row the database would hand back."""
    binds = rows.record_binds(record)
    columns = [record.seq, *(binds[name] for name in rows.RECORD_COLUMNS[1:])]
    # The database knows no empty text, and aggregates no row to NULL.
    columns = [None if value == "" else value for value in columns]
    return (*columns, list(record.sources) or None, record.replaced_by)


def test_a_record_comes_back_as_it_was():
    for record in (FULL, BARE):
        assert rows.record_from_row(row_of(record)) == record


def test_binds_are_plain_values_of_every_column():
    columns = {line.split()[0] for line in ddl.columns(Tables("X"))["record"]}
    assert set(rows.INSERT_COLUMNS) == columns - {"seq", "effective_time"}
    binds = rows.record_binds(FULL)
    assert tuple(sorted(binds)) == tuple(sorted(rows.INSERT_COLUMNS))
    plain = (str, int, float, datetime, dict, list)
    assert all(type(value) in plain for value in binds.values())
    assert set(rows.INSERT_COLUMNS) <= set(rows.BIND_TYPES)


def test_types_of_binds_are_those_of_the_columns():
    types = {"CLOB": BindType.CLOB, "JSON": BindType.JSON, "TIMESTAMP(6)": BindType.TIMESTAMP}
    for line in ddl.columns(Tables("X"))["record"]:
        name, kind = line.split()[:2]
        if kind in types and name in rows.BIND_TYPES:
            assert rows.BIND_TYPES[name] is types[kind], name


def test_metadata_is_never_written_without_its_terms():
    binds = rows.metadata_binds({"a": 1})
    assert binds["metadata"] == {"a": 1}
    assert binds["metadata_terms"] != rows.metadata_binds({"a": 2})["metadata_terms"]
    assert binds.items() <= rows.thread_binds(THREAD).items()


THREAD = ThreadRecord(
    id="t1",
    user_id="ada",
    agent_id=None,
    metadata={"a": 1},
    config={"k": [1]},
    created_at=NOW,
    updated_at=NOW,
    revision=2,
)


def test_a_thread_comes_back_as_it_was():
    binds = rows.thread_binds(THREAD)
    assert rows.thread_from_row([binds[name] for name in rows.THREAD_COLUMNS]) == THREAD


def test_fields_stand_in_the_order_of_their_weights():
    fields = ChunkFields(content="a b", previous="c", tags="d")
    texts = rows.field_texts(fields)
    assert texts == [getattr(fields, name) for name in FIELD_WEIGHTS.__slots__]
    assert rows.token_count(texts) == 4
    assert rows.token_count(rows.field_texts(ChunkFields(content=""))) == 0
