"""Keeps the text index and the vectors of a SQLite store in step with its records.

Every function runs inside a write transaction. May import text, requests and index_fields.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson

from agentmemory.stores.index_fields import IndexSource, TokenMemo, index_fields, scope_tokens
from agentmemory.stores.sqlite.query import fetch_one
from agentmemory.stores.sqlite.rows import dump_json, from_micros
from agentmemory.stores.sqlite.schema import FTS_COLUMNS, Tables

if TYPE_CHECKING:
    import apsw

    from agentmemory.requests import FloatVector

_CHANGES_KEPT: Final = 50_000
"""How many vector changes are remembered for caches to catch up with; older ones reload."""


def reindex(
    connection: apsw.Connection,
    t: Tables,
    seqs: Iterable[int],
    *,
    fresh: Collection[int] = (),
) -> None:
    """Rewrite the index rows of records from what they and their neighbours hold now.

    Records in `fresh` are known to have none yet.
    """
    memo = TokenMemo()
    insert = (
        f"INSERT INTO {t.fts} (rowid, {', '.join(FTS_COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    )
    for seq in sorted(set(seqs)):
        if seq not in fresh:
            unindex(connection, t, (seq,))
        row = fetch_one(
            connection,
            f"SELECT record_type, user_id, agent_id, thread_id, actor, content, metadata, "
            f"event_time, layer, tags FROM {t.record} WHERE seq = ?",
            (seq,),
        )
        if row is None:
            continue
        record_type, user_id, agent_id, thread_id, actor, content, metadata = row[:7]
        event_time, layer, tags = row[7:]
        previous, following = None, None
        if record_type == "message":
            previous = _content_of(connection, t, neighbour(connection, t, thread_id, seq, -1))
            following = _content_of(connection, t, neighbour(connection, t, thread_id, seq, 1))
        scope = scope_tokens(user_id, agent_id, thread_id, record_type, layer)
        source = IndexSource(
            content=content,
            previous=previous,
            following=following,
            event_time=from_micros(event_time),
            metadata=None if metadata == "{}" else orjson.loads(metadata),
            actor=actor,
            tags=() if tags == "[]" else orjson.loads(tags),
        )
        for chunk in index_fields(source, memo):
            connection.execute(f"INSERT INTO {t.chunk} (record_seq) VALUES (?)", (seq,))
            connection.execute(
                insert,
                (
                    connection.last_insert_rowid(),
                    scope,
                    chunk.content,
                    chunk.previous,
                    chunk.following,
                    chunk.date,
                    chunk.metadata,
                    chunk.actor,
                    chunk.tags,
                ),
            )


def unindex(connection: apsw.Connection, t: Tables, seqs: Iterable[int]) -> None:
    """Remove the index rows of records."""
    listed = dump_json(list(seqs))
    connection.execute(
        f"DELETE FROM {t.fts} WHERE rowid IN (SELECT id FROM {t.chunk} "
        f"WHERE record_seq IN (SELECT value FROM json_each(?)))",
        (listed,),
    )
    connection.execute(
        f"DELETE FROM {t.chunk} WHERE record_seq IN (SELECT value FROM json_each(?))", (listed,)
    )


def neighbour(
    connection: apsw.Connection, t: Tables, thread_id: str | None, seq: int, step: int
) -> int | None:
    """Return the seq of the message before (-1) or after (1) a place in a thread."""
    if thread_id is None:
        return None
    comparison, order = ("<", "DESC") if step < 0 else (">", "ASC")
    row = fetch_one(
        connection,
        f"SELECT seq FROM {t.record} WHERE thread_id = ? AND record_type = 'message' "
        f"AND seq {comparison} ? ORDER BY seq {order} LIMIT 1",
        (thread_id, seq),
    )
    return None if row is None else int(row[0])


def _content_of(connection: apsw.Connection, t: Tables, seq: int | None) -> str | None:
    if seq is None:
        return None
    row = fetch_one(connection, f"SELECT content FROM {t.record} WHERE seq = ?", (seq,))
    return None if row is None else str(row[0])


def put_vectors(connection: apsw.Connection, t: Tables, vectors: Mapping[str, FloatVector]) -> None:
    """Store vectors by record id, replacing what was there; ids that are gone are left out."""
    for record_id, vector in vectors.items():
        row = fetch_one(connection, f"SELECT seq FROM {t.record} WHERE id = ?", (record_id,))
        if row is None:
            continue
        connection.execute(
            f"INSERT INTO {t.vector} (record_seq, vector) VALUES (?, ?) "
            f"ON CONFLICT (record_seq) DO UPDATE SET vector = excluded.vector",
            (row[0], _blob(vector)),
        )
        _note_change(connection, t, row[0])


def drop_vectors(connection: apsw.Connection, t: Tables, seqs: Iterable[int]) -> None:
    """Remove the vectors of records."""
    for seq in seqs:
        connection.execute(f"DELETE FROM {t.vector} WHERE record_seq = ?", (seq,))
        if connection.changes():
            _note_change(connection, t, seq)


def _note_change(connection: apsw.Connection, t: Tables, seq: int) -> None:
    note_changes(connection, t, "VALUES (?)", (seq,))


def note_changes(
    connection: apsw.Connection, t: Tables, select: str, binds: Sequence[Any] = ()
) -> None:
    """Let the caches of every process know that the vectors of records change.

    Args:
        connection: In a write transaction.
        t: The store's tables.
        select: A query for the seqs of the records.
        binds: The values of its parameters.
    """
    connection.execute(f"INSERT INTO {t.vector_change} (record_seq) {select}", binds)
    added = connection.changes()
    if not added:
        return
    generation = connection.last_insert_rowid()
    if generation // _CHANGES_KEPT > (generation - added) // _CHANGES_KEPT:
        floor = (generation // _CHANGES_KEPT - 1) * _CHANGES_KEPT
        connection.execute(f"DELETE FROM {t.vector_change} WHERE generation <= ?", (floor,))
        connection.execute(
            f"INSERT INTO {t.meta} (key, value) VALUES ('vector_floor', ?) "
            f"ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (str(floor),),
        )


def _blob(vector: FloatVector) -> Any:
    import numpy as np

    return np.ascontiguousarray(vector, dtype="<f4").tobytes()
