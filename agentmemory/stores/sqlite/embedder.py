"""Methods of the SQLite store that keep the vectors of two embedders from mixing.

A store is tied to one embedder. Whoever claimed it is checked again inside each transaction that
writes or compares vectors: another process may have replaced the embedder since. May import
indexing, query, rows, the engine and what lies below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from agentmemory.errors import EmbedderMismatchError
from agentmemory.protocols import EmbedderFingerprint
from agentmemory.stores.sqlite.engine import SqliteEngine
from agentmemory.stores.sqlite.query import fetch_value
from agentmemory.stores.sqlite.rows import dump_json
from agentmemory.stores.sqlite.schema import Tables
from agentmemory.stores.sqlite.vector_rows import drop_vectors

if TYPE_CHECKING:
    import apsw

T = TypeVar("T")


class TiedToEmbedder:
    """The part of a SQLite store that knows whose vectors it holds."""

    _engine: SqliteEngine
    _t: Tables
    _claimed: dict[str, Any] | None = None

    async def claim_embedder(self, fingerprint: EmbedderFingerprint) -> None:
        """Tie the store to an embedder, or check that it is the one it is tied to."""
        wanted = _as_dict(fingerprint)

        def work(connection: apsw.Connection) -> None:
            stored = self._tied_to(connection)
            if stored == wanted:
                return
            sql = f"SELECT 1 FROM {self._t.vector} LIMIT 1"
            if stored is not None and fetch_value(connection, sql):
                raise self._mismatch(stored, wanted)
            self._tie(connection, wanted)

        await self._engine.write(work)
        self._claimed = wanted

    async def replace_embedder(self, fingerprint: EmbedderFingerprint) -> None:
        """Drop every vector and tie the store to another embedder."""
        wanted = _as_dict(fingerprint)

        def work(connection: apsw.Connection) -> None:
            seqs = [
                row[0] for row in connection.execute(f"SELECT record_seq FROM {self._t.vector}")
            ]
            drop_vectors(connection, self._t, seqs)
            self._tie(connection, wanted)

        await self._engine.write(work)
        self._claimed = wanted

    async def _write_vectors(
        self, vectors: Mapping[str, Any] | None, work: Callable[[apsw.Connection], T]
    ) -> T:
        """Run `work`, which writes these vectors, unless they are another embedder's by now.

        Raises:
            EmbedderMismatchError: Another process replaced the embedder since this one claimed it.
        """
        if not vectors or self._claimed is None:
            return await self._engine.write(work)
        claimed = self._claimed

        def checked(connection: apsw.Connection) -> T:
            if self._tied_to(connection) is None:
                # The store was made anew meanwhile.
                self._tie(connection, claimed)
            self._check_embedder(connection)
            return work(connection)

        return await self._engine.write(checked)

    def _check_embedder(self, connection: apsw.Connection) -> None:
        """Raise `EmbedderMismatchError` if the stored vectors are not the claimed embedder's."""
        if self._claimed is None:
            return
        stored = self._tied_to(connection)
        if stored is not None and stored != self._claimed:
            raise self._mismatch(stored, self._claimed)

    def _tied_to(self, connection: apsw.Connection) -> dict[str, Any] | None:
        sql = f"SELECT value FROM {self._t.meta} WHERE key = 'embedder'"
        value = fetch_value(connection, sql)
        return None if value is None else orjson.loads(value)

    def _tie(self, connection: apsw.Connection, wanted: Mapping[str, Any]) -> None:
        connection.execute(
            f"INSERT INTO {self._t.meta} (key, value) VALUES ('embedder', ?) "
            f"ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (dump_json(wanted),),
        )

    def _mismatch(
        self, stored: Mapping[str, Any], wanted: Mapping[str, Any]
    ) -> EmbedderMismatchError:
        differing = sorted(key for key in wanted if stored.get(key) != wanted[key])
        detail = ", ".join(
            f"{key}: stored {stored.get(key)!r}, given {wanted[key]!r}" for key in differing
        )
        return EmbedderMismatchError(
            f"`embedder` does not match the vectors in store {self._t.store_id!r} ({detail}); "
            "pass the embedder the store was written with, or call `reembed` to renew its vectors"
        )


def _as_dict(fingerprint: EmbedderFingerprint) -> dict[str, Any]:
    return {name: getattr(fingerprint, name) for name in EmbedderFingerprint.__slots__}
