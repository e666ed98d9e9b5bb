"""Statements of the registry: which stores a schema holds and who is changing one; pure.

DDL commits, so no transaction can hold a lock while a store is created. A lease in the store's
row does instead: whoever changes the schema holds it, and it ends by itself. May import schema,
search_indexes and statement.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Self

from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.search_indexes import SearchIndexes
from agentmemory.stores.oracle.statement import BindType, Statement, StatementKind


class StoreState(enum.StrEnum):
    """How far a store has come."""

    CREATING = "creating"
    READY = "ready"
    UPGRADING = "upgrading"
    DROPPING = "dropping"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryRow:
    """What the registry says of one store.

    Args:
        version: Schema version; 0 while it is created.
        state: How far it has come.
        applied: Steps towards the next version that are done.
        indexes: Which indexes for search it has.
        lease_owner: Who is changing its schema; None: nobody.
        lease_until: When that ends by itself.
    """

    version: int
    state: StoreState
    applied: tuple[str, ...] = ()
    indexes: SearchIndexes = field(default_factory=SearchIndexes)
    lease_owner: str | None = None
    lease_until: datetime | None = None

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> Self:
        """Build it from a row of `read_registry`."""
        version, state, applied, settings, lease_owner, lease_until = row
        return cls(
            version=version,
            state=StoreState(state),
            applied=tuple(applied),
            indexes=SearchIndexes.from_settings(settings),
            lease_owner=lease_owner,
            lease_until=lease_until,
        )


_COLUMNS: Final = "schema_version, state, applied, settings, lease_owner, lease_until"
_TYPES: Final = {
    "new_applied": BindType.JSON,
    "new_settings": BindType.JSON,
    "new_owner": BindType.STRING,
    "new_until": BindType.TIMESTAMP,
}

PLAN_NOTES: Final[Mapping[str, str]] = {
    "registry.read": "primary key of the registry: one row",
    "registry.lock": "primary key of the registry: one row",
    "registry.insert": "no index: an insert",
    "registry.update": "primary key of the registry: one row",
}


def read_registry(t: Tables) -> Statement:
    """Read the row of a store."""
    return Statement(
        name="registry.read",
        text=f"SELECT {_COLUMNS} FROM {t.registry} WHERE store_id = :store",
        kind=StatementKind.QUERY,
        binds={"store": t.store_id},
    )


def lock_registry(t: Tables) -> Statement:
    """Read the row of a store and lock it for the rest of the transaction."""
    return Statement(
        name="registry.lock",
        text=f"SELECT {_COLUMNS} FROM {t.registry} WHERE store_id = :store FOR UPDATE",
        kind=StatementKind.QUERY,
        binds={"store": t.store_id},
    )


def insert_registry(t: Tables, row: RegistryRow, now: datetime) -> Statement:
    """Add the row of a store."""
    return Statement(
        name="registry.insert",
        text=f"INSERT INTO {t.registry} (store_id, {_COLUMNS}, created_at, updated_at) VALUES "
        "(:store, :new_version, :new_state, :new_applied, :new_settings, :new_owner, :new_until, "
        ":now, :now)",
        kind=StatementKind.DML,
        binds=_binds(t, row, now),
        types=_TYPES,
    )


def update_registry(t: Tables, row: RegistryRow, now: datetime) -> Statement:
    """Change the row of a store."""
    return Statement(
        name="registry.update",
        text=f"UPDATE {t.registry} SET schema_version = :new_version, state = :new_state, "
        "applied = :new_applied, settings = :new_settings, lease_owner = :new_owner, "
        "lease_until = :new_until, updated_at = :now WHERE store_id = :store",
        kind=StatementKind.DML,
        binds=_binds(t, row, now),
        types=_TYPES,
    )


def _binds(t: Tables, row: RegistryRow, now: datetime) -> dict[str, Any]:
    return {
        "store": t.store_id,
        "new_version": row.version,
        "new_state": row.state.value,
        "new_applied": list(row.applied),
        "new_settings": row.indexes.to_settings(),
        "new_owner": row.lease_owner,
        "new_until": row.lease_until,
        "now": now,
    }
