"""The vector arm of a SQLite store: exact cosine over vectors held in memory.

The vectors of a store are cached by each process: as float32 while they fit the budget, above
it as one bit per dimension (the sign) with exact rescoring of the best from the file. Both are
derived data, rebuilt at will. A generation number that every write of a vector raises keeps
the cache right across processes: a search first catches up with the changes its snapshot
holds. May import requests and rows; numpy is needed.

Source of the two-stage search: sign quantisation with exact rescoring, as measured in
docs/retrieval-experiments.md.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from agentmemory.stores.sqlite.query import fetch_all, fetch_one, fetch_value
from agentmemory.stores.sqlite.rows import dump_json
from agentmemory.stores.sqlite.schema import Tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

    from agentmemory.requests import FloatVector

FLOAT_BUDGET_BYTES: Final = 64 * 1024 * 1024
"""Up to this size vectors are cached whole; above it as one bit per dimension."""

RESCORE: Final = 1000
"""How many records the one-bit stage passes on to exact rescoring, at least."""


class VectorIndex:
    """A process's cache of one store's vectors; safe to use from several threads.

    Args:
        tables: The store's tables.
        float_budget_bytes: Up to this size vectors are held as float32.
    """

    def __init__(self, tables: Tables, *, float_budget_bytes: int = FLOAT_BUDGET_BYTES) -> None:
        self._t = tables
        self._budget = float_budget_bytes
        self._lock = threading.Lock()
        self._generation = -1
        self._reset(0)

    def _reset(self, dimension: int) -> None:
        self._dimension = dimension
        self._count = 0
        self._binary = False
        self._seqs = np.empty(0, dtype=np.int64)
        self._users = np.empty(0, dtype=np.int32)
        self._alive = np.empty(0, dtype=np.bool_)
        self._floats: npt.NDArray[np.float32] = np.empty((0, dimension), dtype=np.float32)
        self._codes: npt.NDArray[np.uint64] = np.empty((0, 0), dtype=np.uint64)
        self._user_codes: dict[str | None, int] = {}
        self._rows: dict[int, int] = {}

    def best(
        self,
        connection: apsw.Connection,
        query: FloatVector,
        *,
        user: tuple[str | None] | None,
        limit: int,
    ) -> tuple[dict[int, float], bool]:
        """Return the nearest records, best first, before any filter but the user's.

        Args:
            connection: A connection in a read transaction.
            query: A unit vector.
            user: The only user whose records count, in a tuple; None for every user's.
            limit: How many to return at most.

        Returns:
            Cosines by seq, the nearest first, and whether these are all there are.
        """
        with self._lock:
            self._catch_up(connection)
            if self._count == 0 or query.shape[0] != self._dimension:
                return {}, True
            mask = self._alive[: self._count]
            if user is not None:
                code = self._user_codes.get(user[0])
                if code is None:
                    return {}, True
                mask = mask & (self._users[: self._count] == code)
            rows = np.flatnonzero(mask)
            complete = len(rows) <= limit
            if self._binary:
                seqs, cosines = self._best_binary(connection, query, rows, limit)
            else:
                seqs, cosines = self._best_float(query, rows)
        order = _top(cosines, seqs, limit)
        return dict(zip(seqs[order].tolist(), cosines[order].tolist(), strict=True)), complete

    def cosines(
        self, connection: apsw.Connection, query: FloatVector, seqs: Sequence[int]
    ) -> dict[int, float]:
        """Return the cosine of each record that has a vector."""
        found, matrix = self._vectors_of(connection, seqs)
        if matrix.shape[0] == 0 or matrix.shape[1] != query.shape[0]:
            return {}
        return dict(zip(found.tolist(), _dot(matrix, query).tolist(), strict=True))

    def vectors(
        self, connection: apsw.Connection, seqs: Sequence[int]
    ) -> dict[int, npt.NDArray[np.float32]]:
        """Return the vector of each record that has one."""
        found, matrix = self._vectors_of(connection, seqs)
        return dict(zip(found.tolist(), matrix, strict=True))

    def _vectors_of(
        self, connection: apsw.Connection, seqs: Sequence[int]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        with self._lock:
            self._catch_up(connection)
            if not self._binary:
                rows = [self._rows[seq] for seq in seqs if seq in self._rows]
                return self._seqs[rows], self._floats[rows]
        return self._fetch(connection, list(seqs))

    def _best_float(
        self, query: FloatVector, rows: npt.NDArray[np.intp]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        if len(rows) == self._count:
            return self._seqs[: self._count], _dot(self._floats[: self._count], query)
        if len(rows) * 4 > self._count:
            cosines = _dot(self._floats[: self._count], query)[rows]
        else:
            cosines = _dot(self._floats[rows], query)
        return self._seqs[rows], cosines

    def _best_binary(
        self,
        connection: apsw.Connection,
        query: FloatVector,
        rows: npt.NDArray[np.intp],
        limit: int,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        words = _sign_words(query[np.newaxis, :])[0]
        distance = np.zeros(len(rows), dtype=np.uint16)
        dense = len(rows) == self._count
        for column, word in enumerate(words):
            codes = self._codes[column, : self._count]
            distance += np.bitwise_count((codes if dense else codes[rows]) ^ word)
        keep = max(RESCORE, 2 * limit)
        if len(rows) > keep:
            rows = rows[np.argpartition(distance, keep)[:keep]]
        if len(rows) == 0:
            return _as_arrays(())[0], np.empty(0, dtype=np.float32)
        seqs, matrix = self._fetch(connection, self._seqs[rows].tolist())
        return seqs, _dot(matrix, query)

    def _fetch(
        self, connection: apsw.Connection, seqs: list[int]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        rows = fetch_all(
            connection,
            f"SELECT record_seq, vector FROM {self._t.vector} "
            f"WHERE record_seq IN (SELECT value FROM json_each(?))",
            (dump_json(seqs),),
        )
        return _as_arrays(rows)

    def _catch_up(self, connection: apsw.Connection) -> None:
        generation = (
            fetch_value(connection, f"SELECT max(generation) FROM {self._t.vector_change}") or 0
        )
        if self._generation >= generation:
            return
        floor = fetch_one(
            connection, f"SELECT value FROM {self._t.meta} WHERE key = 'vector_floor'"
        )
        known, self._generation = self._generation, -1
        # Stays -1 if this is interrupted: a cache filled by half has to be filled anew.
        if known < (0 if floor is None else int(floor[0])):
            self._load(connection)
        else:
            self._apply_changes(connection, known, generation)
        self._generation = generation

    def _load(self, connection: apsw.Connection) -> None:
        first = fetch_one(
            connection,
            f"SELECT length(vector) / 4, (SELECT count(*) FROM {self._t.vector}) "
            f"FROM {self._t.vector} LIMIT 1",
        )
        if first is None:
            self._reset(0)
            return
        dimension, count = first
        self._reset(dimension)
        self._binary = count * dimension * 4 > self._budget
        self._grow(count)
        cursor = connection.execute(
            f"SELECT v.record_seq, v.vector, r.user_id FROM {self._t.vector} v "
            f"JOIN {self._t.record} r ON r.seq = v.record_seq ORDER BY v.record_seq"
        )
        batch: list[Any] = []
        for row in cursor:
            batch.append(row)
            if len(batch) == 4096:
                self._append(batch)
                batch = []
        self._append(batch)

    def _apply_changes(self, connection: apsw.Connection, known: int, generation: int) -> None:
        rows = fetch_all(
            connection,
            f"SELECT d.seq, v.vector, r.user_id FROM "
            f"(SELECT DISTINCT record_seq AS seq FROM {self._t.vector_change} "
            f"WHERE generation > ? AND generation <= ?) d "
            f"LEFT JOIN {self._t.vector} v ON v.record_seq = d.seq "
            f"LEFT JOIN {self._t.record} r ON r.seq = d.seq ORDER BY d.seq",
            (known, generation),
        )
        new: list[Any] = []
        for seq, vector, user_id in rows:
            place = self._rows.pop(seq, None)
            if place is not None:
                self._alive[place] = False
            if vector is not None:
                new.append((seq, vector, user_id))
        if new and (self._count == 0 or len(new[0][1]) // 4 != self._dimension):
            self._load(connection)
            return
        live = len(self._rows) + len(new)
        if not self._binary and live * self._dimension * 4 > self._budget:
            self._load(connection)
            return
        if self._count - len(self._rows) > max(1024, live):
            self._load(connection)
            return
        self._append(new)

    def _append(self, rows: Sequence[tuple[int, bytes, str | None]]) -> None:
        if not rows:
            return
        start, end = self._count, self._count + len(rows)
        self._grow(end)
        matrix = np.frombuffer(b"".join(row[1] for row in rows), dtype="<f4").reshape(
            len(rows), self._dimension
        )
        self._seqs[start:end] = [row[0] for row in rows]
        self._users[start:end] = [
            self._user_codes.setdefault(row[2], len(self._user_codes)) for row in rows
        ]
        self._alive[start:end] = True
        if self._binary:
            self._codes[:, start:end] = _sign_words(matrix).T
        else:
            self._floats[start:end] = matrix
        self._rows.update((row[0], start + i) for i, row in enumerate(rows))
        self._count = end

    def _grow(self, needed: int) -> None:
        capacity = len(self._seqs)
        if needed <= capacity:
            return
        size = max(needed, capacity * 3 // 2, 256)
        self._seqs = _resized(self._seqs, size)
        self._users = _resized(self._users, size)
        self._alive = _resized(self._alive, size)
        if self._binary:
            codes = np.zeros((-(-self._dimension // 64), size), dtype=np.uint64)
            if self._count:
                codes[:, : self._count] = self._codes[:, : self._count]
            self._codes = codes
        else:
            floats = np.zeros((size, self._dimension), dtype=np.float32)
            floats[: self._count] = self._floats[: self._count]
            self._floats = floats


def vectors_of(
    connection: apsw.Connection, t: Tables, seqs: Sequence[int]
) -> dict[int, FloatVector]:
    """Return the stored vectors of records by seq, without filling the cache."""
    rows = fetch_all(
        connection,
        f"SELECT v.record_seq, v.vector FROM json_each(?) j "
        f"CROSS JOIN {t.vector} v ON v.record_seq = j.value",
        (dump_json(list(seqs)),),
    )
    return {seq: np.frombuffer(blob, dtype="<f4") for seq, blob in rows}


def read_vectors(
    connection: apsw.Connection, t: Tables, record_ids: Sequence[str]
) -> dict[str, FloatVector]:
    """Return the stored vectors of records by id."""
    rows = fetch_all(
        connection,
        f"SELECT r.id, v.vector FROM json_each(?) j CROSS JOIN {t.record} r ON r.id = j.value "
        f"CROSS JOIN {t.vector} v ON v.record_seq = r.seq",
        (dump_json(list(record_ids)),),
    )
    return {row[0]: np.frombuffer(row[1], dtype="<f4") for row in rows}


def _dot(
    matrix: npt.NDArray[np.float32], query: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """Multiply without BLAS: its threads wait for one another on a busy machine, 30 ms a query."""
    product: npt.NDArray[np.float32] = np.einsum("ij,j->i", matrix, query)
    return product


def _resized(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    grown = np.zeros(size, dtype=array.dtype)
    grown[: len(array)] = array
    return grown


def _sign_words(matrix: npt.NDArray[np.float32]) -> npt.NDArray[np.uint64]:
    """Pack the signs of each row into 64-bit words."""
    bits = np.packbits(matrix > 0, axis=1)
    missing = -bits.shape[1] % 8
    if missing:
        bits = np.pad(bits, ((0, 0), (0, missing)))
    return np.ascontiguousarray(bits).view(np.uint64)


def _as_arrays(
    rows: Sequence[tuple[int, bytes]],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    if not rows:
        return np.empty(0, dtype=np.int64), np.empty((0, 0), dtype=np.float32)
    seqs = np.array([row[0] for row in rows], dtype=np.int64)
    matrix = np.frombuffer(b"".join(row[1] for row in rows), dtype="<f4").reshape(len(rows), -1)
    return seqs, matrix


def _top(
    cosines: npt.NDArray[np.float32], seqs: npt.NDArray[np.int64], limit: int
) -> npt.NDArray[np.intp]:
    """Return the places of the best, ties by seq, in order."""
    if len(cosines) > limit:
        bound = np.partition(cosines, len(cosines) - limit)[len(cosines) - limit]
        kept = np.flatnonzero(cosines >= bound)
    else:
        kept = np.arange(len(cosines))
    return kept[np.lexsort((seqs[kept], -cosines[kept]))][:limit]
