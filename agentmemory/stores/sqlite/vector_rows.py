"""Writes the vectors of a SQLite store, and tells the caches of every process of it.

Every function runs inside a write transaction. May import query, rows and schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from agentmemory.stores.sqlite.query import fetch_all
from agentmemory.stores.sqlite.rows import dump_json
from agentmemory.stores.sqlite.schema import Tables

if TYPE_CHECKING:
    import apsw

    from agentmemory.requests import FloatVector

_CHANGES_KEPT: Final = 50_000
"""How many vector changes are remembered for caches to catch up with; older ones reload."""

_ROWS_PER_STATEMENT: Final = 100


def put_vectors(connection: apsw.Connection, t: Tables, vectors: Mapping[str, FloatVector]) -> None:
    """Store vectors by record id, replacing what was there; ids that are gone are left out."""
    rows = fetch_all(
        connection,
        f"SELECT seq, id FROM {t.record} WHERE id IN (SELECT value FROM json_each(?)) ORDER BY seq",
        (dump_json(list(vectors)),),
    )
    for start in range(0, len(rows), _ROWS_PER_STATEMENT):
        batch = rows[start : start + _ROWS_PER_STATEMENT]
        marks = ", ".join(["(?, ?)"] * len(batch))
        connection.execute(
            f"INSERT INTO {t.vector} (record_seq, vector) VALUES {marks} "
            f"ON CONFLICT (record_seq) DO UPDATE SET vector = excluded.vector",
            [value for seq, name in batch for value in (seq, _blob(vectors[name]))],
        )
    listed = dump_json([seq for seq, _ in rows])
    note_changes(connection, t, "SELECT value FROM json_each(?)", (listed,))


def drop_vectors(connection: apsw.Connection, t: Tables, seqs: Iterable[int]) -> None:
    """Remove the vectors of records."""
    listed = (dump_json(sorted(seqs)),)
    chosen = f"FROM {t.vector} WHERE record_seq IN (SELECT value FROM json_each(?))"
    note_changes(connection, t, f"SELECT record_seq {chosen}", listed)
    connection.execute(f"DELETE {chosen}", listed)


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
