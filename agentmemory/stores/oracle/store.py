"""The Oracle store: one schema for many processes and machines.

Each method is one unit of work on a connection of the pool. May import the other modules of this
folder, protocols and what lies below.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from agentmemory.config import SchemaPolicy, SearchIndexSyncMode
from agentmemory.errors import ConfigurationError
from agentmemory.protocols import EmbedderFingerprint
from agentmemory.requests import Capability, StoreStats
from agentmemory.stores.oracle.embedder_model import OracleDBEmbedder, check_name
from agentmemory.stores.oracle.engine import OracleEngine
from agentmemory.stores.oracle.hybrid_index import FILTER_BY_FROM, HybridSearch
from agentmemory.stores.oracle.index_setup import missing_indexes
from agentmemory.stores.oracle.layers import OracleLayers
from agentmemory.stores.oracle.migrations import Migrator, examine, read_row
from agentmemory.stores.oracle.outbox import OracleOutbox
from agentmemory.stores.oracle.outcomes import OracleOutcomes
from agentmemory.stores.oracle.registry import RegistryRow
from agentmemory.stores.oracle.schema import (
    DEFAULT_STORE_ID,
    Tables,
    check_owner,
    check_store_id,
)
from agentmemory.stores.oracle.search import SearchTools
from agentmemory.stores.oracle.search_indexes import SearchIndexes
from agentmemory.stores.oracle.sources import read_connection
from agentmemory.stores.oracle.statistics import read_stats
from agentmemory.stores.oracle.writing import OracleLinks, OracleWriting

_MODEL: Final = "hybrid_index_model"

_logger = logging.getLogger("agentmemory")


class OracleStore(OracleLayers, OracleOutcomes, OracleWriting, OracleLinks, OracleOutbox):
    """A `MemoryStore` in an Oracle AI Database.

    Args:
        connection: An `oracle://` URL, or a pool or connection of python-oracledb, async or sync.
        memory_store_id: Tells apart several stores in one schema: a letter, then letters,
            digits or underscores, at most 16. Default "DEFAULT".
        schema_policy: What opening may do. Default `REQUIRE_EXISTING`: the database is others'
            too, so a store is created on request only.
        schema_owner: The database user whose schema holds the store; None for the schema of the
            connection.
        search_index_sync: When the text index is brought up to date; None: as the store has it,
            ON_COMMIT for a new one.
        hybrid_index_model: Model in the database, by name or as the embedder that uses it, whose
            hybrid vector index over the texts of records searches for words and meaning ask for
            candidates; opening with CREATE_IF_NECESSARY makes it. Default None: they ask none.
            Without such an index searches are answered as by default, and a warning says so.
        engine_options: How connections are used; see `OracleEngine`.

    Raises:
        ValidationError: `memory_store_id`, `schema_owner` or `hybrid_index_model` is malformed.
        ConfigurationError: `schema_policy` or `search_index_sync` is none, or `connection` is
            nothing we can use.
    """

    def __init__(
        self,
        connection: Any,
        *,
        memory_store_id: str = DEFAULT_STORE_ID,
        schema_policy: SchemaPolicy = SchemaPolicy.REQUIRE_EXISTING,
        schema_owner: str | None = None,
        search_index_sync: SearchIndexSyncMode | None = None,
        hybrid_index_model: str | OracleDBEmbedder | None = None,
        **engine_options: Any,
    ) -> None:
        self._t = Tables(check_store_id(memory_store_id), check_owner(schema_owner))
        self._policy = _check_policy(schema_policy)
        self._sync = _check_sync(search_index_sync)
        self._hybrid_model = _check_model(hybrid_index_model)
        self._closed = False
        self._new_engine = partial(OracleEngine, read_connection(connection), **engine_options)
        self._engine = self._new_engine()
        self._indexes = SearchIndexes()

    @property
    def store_id(self) -> str:
        """The id that tells apart several stores in one schema."""
        return self._t.store_id

    @property
    def capabilities(self) -> tuple[Capability, ...]:
        """What the database can do, once it is open."""
        return self._engine.capabilities.report()

    @property
    def _schema(self) -> str:
        """The database schema, for error messages."""
        return self._t.owner or self._engine.capabilities.current_schema

    async def open(self) -> None:
        """Connect and check, create or migrate the schema; after a failure, call it again."""
        await self._engine.open()
        try:
            row = await self._prepare()
        except BaseException:
            try:
                await self._engine.close()
            finally:
                if not self._closed:
                    self._engine = self._new_engine()
            raise
        self._take_indexes(SearchIndexes() if row is None else row.indexes)
        if self._hybrid_model is not None and self._hybrid is None:
            self._say_no_hybrid_index(self._hybrid_model)

    async def _prepare(self) -> RegistryRow | None:
        row = await read_row(self._engine, self._t)
        if self._policy is SchemaPolicy.NO_CHECK:
            return row
        if examine(row, self._t, self._policy, schema=self._schema) and row is not None:
            upgrades = self._policy is SchemaPolicy.CREATE_IF_NECESSARY
            if not upgrades or not await missing_indexes(
                self._engine, self._t, row.indexes, self._sync, self._hybrid_model
            ):
                return row
        migrator = Migrator(self._engine, self._t, schema=self._schema)
        await migrator.prepare(self._policy, self._sync, self._hybrid_model)
        return migrator.row

    def _take_indexes(self, indexes: SearchIndexes) -> None:
        """Have searches use the indexes that are there."""
        self._indexes = indexes
        self._engine.capabilities = replace(
            self._engine.capabilities,
            text_index=indexes.text is not None,
            vector_index=indexes.vector,
        )
        hybrid, able = indexes.hybrid, self._engine.capabilities
        self._hybrid = None
        if hybrid is not None and hybrid.model == self._hybrid_model:
            self._hybrid = HybridSearch(
                filters=hybrid.filtered and able.version >= FILTER_BY_FROM, same_model=False
            )
            self._engine.capabilities = replace(able, hybrid_model=hybrid.model)

    def _search_tools(self) -> SearchTools:
        tools = super()._search_tools()
        if tools.hybrid is None:
            return tools
        model = (self._claimed or {}).get("model")
        same = model == f"oracle/{self._hybrid_model}"
        return replace(tools, hybrid=replace(tools.hybrid, same_model=same))

    def _say_no_hybrid_index(self, model: str) -> None:
        able = self._engine.capabilities
        if not able.hybrid_index:
            why = "it needs 23.6 or newer and Oracle Text"
        elif not able.embeds_with(model):
            why = "there is no such model, or this user may not see it"
        else:
            why = "opening with CREATE_IF_NECESSARY makes it"
        _logger.warning(
            "Store %s has no hybrid vector index of the model %s (%s); searches do without it.",
            self._t.store_id,
            model,
            why,
        )

    async def replace_embedder(self, fingerprint: EmbedderFingerprint) -> None:
        """Drop every vector and tie the store to another embedder.

        A vector index takes vectors of one length only, and its partitions are laid out by the
        vectors it was made of; so it goes too. Opening with CREATE_IF_NECESSARY makes another.
        """
        if self._indexes.vector is not None:
            migrator = Migrator(self._engine, self._t, schema=self._schema)
            await migrator.drop_vector_index()
            self._take_indexes(migrator.row.indexes)
        await super().replace_embedder(fingerprint)

    async def close(self) -> None:
        """Let go of the database; may be called twice."""
        self._closed = True
        await self._engine.close()

    async def stats(self, now: datetime) -> StoreStats:
        """Count what is stored, and say what the database can do."""
        counted = await self._engine.read(lambda transaction: read_stats(transaction, self._t, now))
        return replace(counted, capabilities=self.capabilities)


def _check_model(value: object) -> str | None:
    if value is None:
        return None
    return value.model if isinstance(value, OracleDBEmbedder) else check_name(value, _MODEL)


def _check_policy(value: object) -> SchemaPolicy:
    try:
        return SchemaPolicy(str(value))
    except ValueError:
        accepted = ", ".join(policy.name for policy in SchemaPolicy)
        msg = f"`schema_policy` is {value!r}; accepted: SchemaPolicy.{{{accepted}}}"
        raise ConfigurationError(msg) from None


def _check_sync(value: object) -> SearchIndexSyncMode | None:
    if value is None:
        return None
    try:
        return SearchIndexSyncMode(str(value))
    except ValueError:
        accepted = ", ".join(mode.name for mode in SearchIndexSyncMode)
        msg = f"`search_index_sync` is {value!r}; accepted: SearchIndexSyncMode.{{{accepted}}}"
        raise ConfigurationError(msg) from None
