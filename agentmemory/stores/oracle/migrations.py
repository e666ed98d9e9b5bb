"""Brings the schema of an Oracle store to this release's version, as far as the policy allows.

Every statement can be run again and every group of them is noted in the registry when it is
done, so whoever comes after an interruption goes on from there. One process at a time does so.
May import ddl, engine, hybrid_index, index_setup, registry, reindexing, schema, search_indexes,
config and errors.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

import anyio

from agentmemory.config import SchemaPolicy, SearchIndexSyncMode
from agentmemory.errors import (
    AgentMemoryError,
    ConflictError,
    SchemaMismatchError,
    StoreBusyError,
    StoreError,
)
from agentmemory.stores.oracle.ddl import (
    create_indexes,
    create_registry,
    create_tables,
    drop_tables,
)
from agentmemory.stores.oracle.engine import OracleEngine
from agentmemory.stores.oracle.hybrid_index import drop_hybrid_index
from agentmemory.stores.oracle.index_setup import make_indexes, run_each
from agentmemory.stores.oracle.registry import (
    RegistryRow,
    StoreState,
    insert_registry,
    lock_registry,
    read_registry,
    update_registry,
)
from agentmemory.stores.oracle.reindexing import reindex_all
from agentmemory.stores.oracle.schema import SCHEMA_VERSION, Tables
from agentmemory.stores.oracle.search_indexes import (
    SearchIndexes,
    analysis_fingerprint,
    drop_purge_job,
    drop_text_index,
    drop_vector_index,
)
from agentmemory.stores.oracle.statement import Statement, Transaction

LEASE: Final = timedelta(minutes=10)
"""How long a process may take for one group of statements before another may take over."""

_POLL_S = 0.5
_WAIT_S = 60.0

_logger = logging.getLogger("agentmemory")


@dataclass(frozen=True, slots=True)
class Step:
    """Statements that are noted together when they are done."""

    name: str
    statements: tuple[Statement, ...]


def _create_v1(t: Tables) -> tuple[Step, ...]:
    return (Step("1.tables", create_tables(t)), Step("1.indexes", create_indexes(t)))


MIGRATIONS: Final[dict[int, Callable[[Tables], tuple[Step, ...]]]] = {1: _create_v1}
"""Steps that lead from version n - 1 to n."""


async def read_row(engine: OracleEngine, t: Tables) -> RegistryRow | None:
    """Return what the registry says of a store; None without the store or the registry."""
    try:
        return await _read_row(engine, t)
    except SchemaMismatchError:
        # There is no registry, or it is out of the user's sight.
        return None


async def _read_row(engine: OracleEngine, t: Tables) -> RegistryRow | None:
    async def work(transaction: Transaction) -> RegistryRow | None:
        (rows,) = await transaction.run(read_registry(t))
        return RegistryRow.from_row(rows[0]) if rows else None

    return await engine.read(work)


def examine(row: RegistryRow | None, t: Tables, policy: SchemaPolicy, *, schema: str) -> bool:
    """Tell whether the schema is as it should be; refuse what the policy does not allow.

    Args:
        row: What the registry says of the store.
        t: The store's tables.
        policy: What may be done.
        schema: Name of the database schema, for error messages.

    Returns:
        Whether there is nothing to create.

    Raises:
        SchemaMismatchError: The store is of a newer version, or needs what the policy forbids.
    """
    creates = policy is not SchemaPolicy.REQUIRE_EXISTING
    if row is None or row.version == 0 or row.state is StoreState.DROPPING:
        if creates:
            return False
        what = "no" if row is None else f"an incomplete ({row.state})"
        msg = (
            f"the database schema {schema} holds {what} store {t.store_id!r}, and `schema_policy` "
            "is REQUIRE_EXISTING; CREATE_IF_NECESSARY creates it"
        )
        raise SchemaMismatchError(msg)
    if row.version > SCHEMA_VERSION:
        msg = (
            f"store {t.store_id!r} in the database schema {schema} has schema version "
            f"{row.version}; this release knows versions up to {SCHEMA_VERSION}: use a newer "
            "release of agentmemory"
        )
        raise SchemaMismatchError(msg)
    upgrades = policy in (SchemaPolicy.CREATE_IF_NECESSARY, SchemaPolicy.RECREATE)
    same_words = row.indexes.analysis == analysis_fingerprint()
    if row.version == SCHEMA_VERSION and not same_words and not upgrades:
        msg = (
            f"store {t.store_id!r} in the database schema {schema} was indexed by another release "
            "of agentmemory, which analyses text otherwise; `schema_policy` CREATE_IF_NECESSARY "
            "indexes it anew"
        )
        raise SchemaMismatchError(msg)
    current = row.version == SCHEMA_VERSION and same_words
    if row.version < SCHEMA_VERSION and not upgrades:
        msg = (
            f"store {t.store_id!r} in the database schema {schema} has schema version "
            f"{row.version} and needs {SCHEMA_VERSION}; `schema_policy` CREATE_IF_NECESSARY "
            "upgrades it"
        )
        raise SchemaMismatchError(msg)
    return current and policy is not SchemaPolicy.RECREATE


class Migrator:
    """Changes the schema of one store while it holds the store's lease.

    Args:
        engine: Open.
        tables: The store's tables.
        schema: Name of the database schema, for error messages.
        owner: Who is at work; unique in the database.
    """

    def __init__(
        self, engine: OracleEngine, tables: Tables, *, schema: str, owner: str | None = None
    ) -> None:
        self._engine = engine
        self._t = tables
        self._schema = schema
        self._owner = owner or uuid.uuid4().hex
        self._row = RegistryRow(version=0, state=StoreState.CREATING)

    @property
    def row(self) -> RegistryRow:
        """What the registry says of the store, as this left it."""
        return self._row

    async def prepare(
        self,
        policy: SchemaPolicy,
        sync: SearchIndexSyncMode | None,
        hybrid_model: str | None = None,
    ) -> None:
        """Create the store or bring it up to date, and make what indexes for search it lacks.

        Args:
            policy: What may be done.
            sync: When the text index is to be brought up to date; None: as it is, ON_COMMIT for
                a new one.
            hybrid_model: Model of the hybrid vector index; None: none is made.

        Raises:
            SchemaMismatchError: As `examine` says.
            StoreBusyError: Another process has been changing the schema for too long.
        """
        await self._make_registry()
        await self.take()
        try:
            if not examine(self._row, self._t, policy, schema=self._schema):
                if policy is SchemaPolicy.RECREATE or self._row.state is StoreState.DROPPING:
                    await self._drop()
                await self._migrate()
            await self._analyse_anew()
            indexes = await make_indexes(
                self._engine, self._t, self._row.indexes, sync, hybrid_model
            )
            if indexes != self._row.indexes:
                await self._note(replace(self._row, indexes=indexes))
        finally:
            await self.give_back()

    async def _make_registry(self) -> None:
        try:
            await run_each(self._engine, (create_registry(self._t),))
        except AgentMemoryError as error:
            # Of two who create it at once, one is told that its name is taken.
            try:
                await _read_row(self._engine, self._t)
            except SchemaMismatchError:
                raise error from error.__cause__

    async def take(self) -> None:
        """Take the lease of the store, which gets a row if it has none.

        Raises:
            StoreBusyError: Another process has been holding it for too long.
        """
        with anyio.move_on_after(_WAIT_S):
            while True:
                row = await self._try_to_take()
                if row is not None:
                    self._row = row
                    return
                await anyio.sleep(_POLL_S)
        msg = (
            f"another process is changing store {self._t.store_id!r} in the database schema "
            f"{self._schema} and has not finished within {_WAIT_S:g} s; try again later"
        )
        raise StoreBusyError(msg)

    async def _try_to_take(self) -> RegistryRow | None:
        async def work(transaction: Transaction) -> RegistryRow | None:
            now = datetime.now(UTC)
            (rows,) = await transaction.run(lock_registry(self._t))
            found = RegistryRow.from_row(rows[0]) if rows else None
            row = found or RegistryRow(version=0, state=StoreState.CREATING)
            held = row.lease_owner not in (None, self._owner)
            if held and row.lease_until is not None and row.lease_until > now:
                return None
            taken = replace(row, lease_owner=self._owner, lease_until=now + LEASE)
            change = update_registry if found else insert_registry
            await transaction.finish(change(self._t, taken, now))
            return taken

        try:
            return await self._engine.write(work)
        except ConflictError:
            # Another process added the row between the look and the insert.
            return None

    async def give_back(self) -> None:
        """Give the lease back; also after a failure, so that nobody has to wait for its end."""
        with anyio.CancelScope(shield=True), anyio.move_on_after(_POLL_S * 10):
            try:
                await self._note(replace(self._row, lease_owner=None, lease_until=None))
            except StoreError as error:
                _logger.warning("The lease of a store runs out by itself: %s", error)

    async def drop_vector_index(self) -> None:
        """Drop the vector index.

        Raises:
            StoreBusyError: Another process has been changing the schema for too long.
            StoreError: The user may not drop it.
        """
        await self.take()
        try:
            await run_each(self._engine, drop_vector_index(self._t))
            indexes = replace(self._row.indexes, vector=None, dimension=None)
            await self._note(replace(self._row, indexes=indexes))
        finally:
            await self.give_back()

    async def _note(self, row: RegistryRow) -> None:
        """Write the row, if the lease is still ours."""

        async def work(transaction: Transaction) -> None:
            (rows,) = await transaction.run(lock_registry(self._t))
            if not rows or RegistryRow.from_row(rows[0]).lease_owner != self._owner:
                msg = (
                    f"another process took over changing store {self._t.store_id!r} in the "
                    f"database schema {self._schema}"
                )
                raise StoreBusyError(msg)
            now = datetime.now(UTC)
            renewed = row if row.lease_owner is None else replace(row, lease_until=now + LEASE)
            await transaction.finish(update_registry(self._t, renewed, now))

        await self._engine.write(work)
        self._row = row

    async def _migrate(self) -> None:
        if self._row.version == 0:
            # Nothing is stored yet, so whatever will be is analysed by this release.
            fresh = replace(self._row.indexes, analysis=analysis_fingerprint())
            await self._note(replace(self._row, state=StoreState.CREATING, indexes=fresh))
        for version in range(self._row.version + 1, SCHEMA_VERSION + 1):
            for step in MIGRATIONS[version](self._t):
                if step.name not in self._row.applied:
                    await run_each(self._engine, step.statements)
                    await self._note(replace(self._row, applied=(*self._row.applied, step.name)))
            await self._note(
                replace(self._row, version=version, state=StoreState.READY, applied=())
            )

    async def _analyse_anew(self) -> None:
        """Have the chunks hold the words that this release looks for."""
        wanted = analysis_fingerprint()
        if self._row.indexes.analysis == wanted:
            return
        await reindex_all(self._engine, self._t, lambda: self._note(self._row))
        await self._note(replace(self._row, indexes=replace(self._row.indexes, analysis=wanted)))

    async def _drop(self) -> None:
        """Drop all of the store; its row stays, for it carries the lease."""
        await self._note(replace(self._row, state=StoreState.DROPPING, applied=()))
        capabilities = self._engine.capabilities
        if capabilities.oracle_text:
            await run_each(self._engine, drop_text_index(self._t))
        if self._row.indexes.hybrid is not None:
            await run_each(self._engine, drop_hybrid_index(self._t))
        if self._row.indexes.purge_job:
            await run_each(self._engine, drop_purge_job(self._t))
        await run_each(self._engine, drop_tables(self._t))
        await self._note(
            replace(self._row, version=0, state=StoreState.CREATING, indexes=SearchIndexes())
        )
