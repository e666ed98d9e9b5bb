"""Methods of the Oracle store that keep the vectors of two embedders from mixing.

A store is tied to one embedder. Whoever claimed it looks again inside each transaction that
writes or compares vectors: another process may have replaced the embedder since. Writers hold
the table of what the store is tied to in ROW SHARE mode until they commit, so that they do not
wait for one another; whoever ties the store holds it in EXCLUSIVE mode, and so waits until every
vector of the embedder before is there to be dropped. May import the engine, trips and below.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from agentmemory.errors import EmbedderMismatchError
from agentmemory.protocols import EmbedderFingerprint
from agentmemory.stores.oracle.engine import OracleEngine
from agentmemory.stores.oracle.rows import from_json_text, json_text
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.statement import BindType, Statement, StatementKind, Transaction
from agentmemory.stores.oracle.trips import Rows, Trip

PLAN_NOTES: Final[Mapping[str, str]] = {
    "embedder.hold": "none: a lock on the table meta",
    "embedder.seize": "none: a lock on the table meta",
    "embedder.read": "primary key of meta, a table of a few rows",
    "embedder.tie": "primary key of meta",
    "embedder.any_vector": "primary key of chunk in its order, left at the first vector; asked "
    "only when another embedder claims the store",
    "embedder.drop_vectors": "full scan of chunk: every vector goes",
}
"""The index each statement is meant to use, and why, for a store of any size."""


def read_embedder(t: Tables) -> Statement:
    """Read the fingerprint of the embedder that the store is tied to; see `stored_embedder`."""
    return Statement(
        name="embedder.read",
        text=f"SELECT {json_text('m.value')} FROM {t.meta} m WHERE m.name = 'embedder'",
        kind=StatementKind.QUERY,
    )


def stored_embedder(rows: Rows) -> dict[str, Any] | None:
    """Return the fingerprint that `read_embedder` brought; None if the store is tied to none."""
    return from_json_text(rows[0][0]) if rows else None


def hold_embedder(t: Tables) -> Statement:
    """Keep the store tied to its embedder until the transaction ends; waits for who ties it."""
    return Statement(
        name="embedder.hold",
        text=f"LOCK TABLE {t.meta} IN ROW SHARE MODE",
        kind=StatementKind.DML,
    )


def seize_embedder(t: Tables) -> Statement:
    """Wait for every transaction that writes vectors, and keep new ones waiting."""
    return Statement(
        name="embedder.seize",
        text=f"LOCK TABLE {t.meta} IN EXCLUSIVE MODE",
        kind=StatementKind.DML,
    )


def tie_embedder(t: Tables, fingerprint: Mapping[str, Any]) -> Statement:
    """Tie the store to an embedder."""
    return Statement(
        name="embedder.tie",
        text=f"MERGE INTO {t.meta} m USING (SELECT 'embedder' AS name FROM dual) n "
        f"ON (m.name = n.name) "
        f"WHEN MATCHED THEN UPDATE SET m.value = :fingerprint "
        f"WHEN NOT MATCHED THEN INSERT (name, value) VALUES (n.name, :fingerprint)",
        kind=StatementKind.DML,
        binds={"fingerprint": dict(fingerprint)},
        types={"fingerprint": BindType.JSON},
    )


def any_vector(t: Tables) -> Statement:
    """Look for a stored vector."""
    return Statement(
        name="embedder.any_vector",
        text=f"SELECT c.id FROM {t.chunk} c WHERE c.embedding IS NOT NULL "
        f"ORDER BY c.id FETCH FIRST 1 ROWS ONLY",
        kind=StatementKind.QUERY,
    )


def drop_all_vectors(t: Tables) -> Statement:
    """Drop every vector."""
    return Statement(
        name="embedder.drop_vectors",
        text=f"UPDATE {t.chunk} SET embedding = NULL WHERE embedding IS NOT NULL",
        kind=StatementKind.DML,
    )


class Claim:
    """The embedder whose vectors a transaction writes, to be checked on its first trip.

    Args:
        t: The store's tables.
        fingerprint: What this store claimed; None: nothing is written, or nothing was claimed.
    """

    def __init__(self, t: Tables, fingerprint: Mapping[str, Any] | None) -> None:
        self._t = t
        self._fingerprint = fingerprint

    def ask(self, trip: Trip) -> Rows:
        """Let the first trip find out what the store is tied to, and keep it so."""
        if self._fingerprint is None:
            return []
        trip.add(hold_embedder(self._t))
        return trip.add(read_embedder(self._t))

    async def check(self, transaction: Transaction, rows: Rows) -> None:
        """Look at what `ask` brought.

        Raises:
            EmbedderMismatchError: Another process replaced the embedder since it was claimed.
        """
        if self._fingerprint is None:
            return
        stored = stored_embedder(rows)
        if stored is None:
            # The store was made anew meanwhile. Of two who find that, one waits for the other or
            # meets a deadlock and begins again.
            trip = Trip()
            trip.add(seize_embedder(self._t))
            rows = trip.add(read_embedder(self._t))
            await trip.run(transaction)
            stored = stored_embedder(rows)
        if stored is None:
            trip = Trip()
            trip.add(tie_embedder(self._t, self._fingerprint))
            await trip.run(transaction)
            return
        if stored != self._fingerprint:
            raise mismatch(self._t, stored, self._fingerprint)


class OracleEmbedderClaim:
    """The part of an Oracle store that knows whose vectors it holds."""

    _engine: OracleEngine
    _t: Tables
    _claimed: dict[str, Any] | None = None

    async def claim_embedder(self, fingerprint: EmbedderFingerprint) -> None:
        """Tie the store to an embedder, or check that it is the one it is tied to."""
        wanted = _as_dict(fingerprint)

        async def look(transaction: Transaction) -> bool:
            (rows,) = await transaction.run(read_embedder(self._t))
            return stored_embedder(rows) == wanted

        async def work(transaction: Transaction) -> None:
            _, rows = await transaction.run(seize_embedder(self._t), read_embedder(self._t))
            stored = stored_embedder(rows)
            if stored == wanted:
                return
            if stored is not None and (await transaction.run(any_vector(self._t)))[0]:
                raise mismatch(self._t, stored, wanted)
            await transaction.finish(tie_embedder(self._t, wanted))

        # Nearly always it is tied to this one already, and nobody has to wait for anybody.
        if not await self._engine.read(look):
            await self._write_claim(work)
        self._claimed = wanted

    async def replace_embedder(self, fingerprint: EmbedderFingerprint) -> None:
        """Drop every vector and tie the store to another embedder."""
        wanted = _as_dict(fingerprint)

        async def work(transaction: Transaction) -> None:
            await transaction.finish(
                seize_embedder(self._t), drop_all_vectors(self._t), tie_embedder(self._t, wanted)
            )

        await self._write_claim(work, timeout_s=math.inf)
        self._claimed = wanted

    async def _write_claim(
        self, work: Callable[[Transaction], Awaitable[None]], *, timeout_s: float | None = None
    ) -> None:
        async def done(transaction: Transaction) -> bool:
            await work(transaction)
            return True

        async def settled(_: Transaction) -> bool | None:
            # To do it again does no harm.
            return None

        await self._engine.write(done, timeout_s=timeout_s, settled=settled)

    def _claim(self, vectors: Mapping[str, Any] | None) -> Claim:
        """Return what a transaction that writes these vectors has to check."""
        return Claim(self._t, self._claimed if vectors else None)

    def _check_embedder(self, rows: Rows) -> None:
        """Look at the rows of `read_embedder` before stored vectors are compared.

        Raises:
            EmbedderMismatchError: The stored vectors are not the claimed embedder's.
        """
        stored = None if self._claimed is None else stored_embedder(rows)
        if self._claimed is not None and stored is not None and stored != self._claimed:
            raise mismatch(self._t, stored, self._claimed)


def mismatch(
    t: Tables, stored: Mapping[str, Any], wanted: Mapping[str, Any]
) -> EmbedderMismatchError:
    """Say in what a store's embedder and another one differ."""
    differing = sorted(key for key in wanted if stored.get(key) != wanted[key])
    detail = ", ".join(
        f"{key}: stored {stored.get(key)!r}, given {wanted[key]!r}" for key in differing
    )
    return EmbedderMismatchError(
        f"`embedder` does not match the vectors in store {t.store_id!r} ({detail}); "
        "pass the embedder the store was written with, or call `reembed` to renew its vectors"
    )


def _as_dict(fingerprint: EmbedderFingerprint) -> dict[str, Any]:
    return {name: getattr(fingerprint, name) for name in EmbedderFingerprint.__slots__}
