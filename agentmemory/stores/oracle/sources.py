"""Where connections come from: pools and connections of the driver, given or made here.

May import errors, and `connection`, `driver`, `faults` and `urls` of this package.

A pool that was given is never closed, and neither is a connection, as long as it answers; a pool
that is made here is closed here.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable
from typing import Any, Final

import anyio
import oracledb
from anyio import to_thread

from agentmemory.errors import ConfigurationError, StoreUnavailableError, UsageError
from agentmemory.stores.oracle.connection import (
    AnySession,
    Background,
    BaseSource,
    Source,
    close_in_time,
)
from agentmemory.stores.oracle.driver import AppContext, AsyncSession, BlockingSession
from agentmemory.stores.oracle.faults import translate
from agentmemory.stores.oracle.urls import OracleUrl, TokenFile, describe_dsn, parse_url
from agentmemory.stores.urls import ORACLE_URL, hide_secrets

_STATEMENT_CACHE: Final = 100
"""Statements a connection keeps parsed: those of the store, in the usual lengths of their lists."""

_IDLE_S: Final = 300
"""Seconds after which a pool made here lets go of a connection that nobody needs."""

_CONNECT_S: Final = 10.0
_ALIVE_MIN: Final = 2
"""Minutes between probes of a silent network, so that firewalls do not drop connections."""

_RELEASE_S: Final = 5.0
_LONGEST_WAIT_S: Final = 86_400.0


class AsyncPool(BaseSource):
    """A pool of the driver's asyncio classes that was given.

    Args:
        pool: An `oracledb.AsyncConnectionPool`; None for one that a subclass makes.
        where: Names the database, without secrets.
        background: Where connections are given back.
        options: As of `BaseSource`.
    """

    lives_in_loop = True

    def __init__(
        self,
        pool: oracledb.AsyncConnectionPool | None,
        where: str,
        background: Background,
        **options: Any,
    ) -> None:
        super().__init__(where, background, **options)
        self._pool = pool

    @property
    def capacity(self) -> int:
        """As many as the pool may have."""
        return 1 if self._pool is None else _size_of(self._pool, self.where)

    def _is_full(self) -> bool:
        with contextlib.suppress(oracledb.Error):
            return self._pool is not None and self._pool.busy >= self._pool.max
        return False

    async def _obtain(self) -> Any:
        if self._pool is None:
            raise StoreUnavailableError(f"there is no pool for {self.where}")
        return await self._pool.acquire()

    async def _release(self, session: AnySession) -> None:
        await close_in_time(session.connection, _RELEASE_S)

    async def _discard(self, session: AnySession) -> None:
        # Its pool removes a connection whose wire is cut, without a word to the database.
        session.cut()
        await close_in_time(session.connection, _RELEASE_S)

    def _session(self, connection: Any, until: float) -> AnySession:  # noqa: ARG002 - of others
        return AsyncSession(connection, self.where, self._sizes, self._app_contexts)


class OwnAsyncPool(AsyncPool):
    """A pool that is made here of what a URL says, and closed here.

    Args:
        url: What the URL says.
        background: Where connections are given back.
        max_connections: Most connections it has.
        options: As of `BaseSource`.
    """

    lives_in_loop = False

    def __init__(
        self, url: OracleUrl, background: Background, *, max_connections: int, **options: Any
    ) -> None:
        super().__init__(None, url.where, background, **options)
        self._url = url
        self._max = max_connections

    async def open(self) -> None:
        """Make the pool; its connections are made when they are needed."""
        arguments = await to_thread.run_sync(
            lambda: pool_arguments(self._url, self._max, self._acquire_timeout_s)
        )
        try:
            self._pool = oracledb.create_pool_async(**arguments)
        except oracledb.Error as error:
            raise translate(error, self.where) from error
        await super().open()

    async def close(self, seconds: float) -> None:
        """Close the pool with all its connections."""
        pool, self._pool = self._pool, None
        if pool is not None:
            closing = self._background.start(_quietly(pool.close(force=True)))
            await asyncio.wait({closing}, timeout=seconds)


class AsyncSingle(BaseSource):
    """One connection of the driver's asyncio classes, used by one operation at a time.

    Args:
        connection: An `oracledb.AsyncConnection`.
        where: Names the database, without secrets.
        background: Where it is given back.
        options: As of `BaseSource`.
    """

    renews = False
    lives_in_loop = True

    def __init__(self, connection: Any, where: str, background: Background, **options: Any) -> None:
        super().__init__(where, background, **options)
        self._connection = connection
        self._broken = False

    async def open(self) -> None:
        """Check that the connection is open."""
        if not self._connection.is_healthy():
            raise ConfigurationError(
                "`connection` is a connection that is not open; accepted: an open one "
                "(`await oracledb.connect_async(…)`), or a pool"
            )
        await super().open()

    async def _obtain(self) -> Any:
        if self._broken:
            problem = StoreUnavailableError(
                f"the connection to {self.where} that was given as `connection` did not answer "
                "and is of no use any more; open another one, or give a pool"
            )
            problem.retryable = False
            raise problem
        with contextlib.suppress(oracledb.Error):
            if self._connection.transaction_in_progress:
                raise UsageError(
                    "the connection that was given as `connection` has a transaction in "
                    "progress; commit it or roll it back, or give a pool"
                )
        return self._connection

    async def _discard(self, session: AnySession) -> None:
        # What is out of step with the database, or holds locks there, must not be used again by
        # anybody; only then is a connection that was given cut.
        self._broken = True
        session.cut()

    def _session(self, connection: Any, until: float) -> AnySession:  # noqa: ARG002 - of others
        return AsyncSession(connection, self.where, self._sizes, self._app_contexts)


class BlockingPool(BaseSource):
    """A pool of the driver's blocking classes that was given; used by way of worker threads.

    Args:
        pool: An `oracledb.ConnectionPool`; None for one that a subclass makes.
        where: Names the database, without secrets.
        background: Where connections are given back.
        grace_s: Seconds a call that took too long has to be broken off.
        options: As of `BaseSource`.
    """

    def __init__(
        self,
        pool: oracledb.ConnectionPool | None,
        where: str,
        background: Background,
        *,
        grace_s: float,
        **options: Any,
    ) -> None:
        super().__init__(where, background, **options)
        self._pool = pool
        self._grace_s = grace_s
        self._threads: anyio.CapacityLimiter | None = None

    async def open(self) -> None:
        """Prepare for threads: one for each connection, and one more to get or return one."""
        await super().open()
        self._threads = anyio.CapacityLimiter(2 * self.capacity)

    @property
    def capacity(self) -> int:
        """As many as the pool may have."""
        return 1 if self._pool is None else _size_of(self._pool, self.where)

    def _is_full(self) -> bool:
        with contextlib.suppress(oracledb.Error):
            return self._pool is not None and self._pool.busy >= self._pool.max
        return False

    async def _obtain(self) -> Any:
        if self._pool is None:
            raise StoreUnavailableError(f"there is no pool for {self.where}")
        return await to_thread.run_sync(self._pool.acquire, limiter=self._threads)

    async def _release(self, session: AnySession) -> None:
        await to_thread.run_sync(session.connection.close, limiter=self._threads)

    async def _discard(self, session: AnySession) -> None:
        if self._pool is not None:
            drop, connection = self._pool.drop, session.connection
            await to_thread.run_sync(lambda: drop(connection), limiter=self._threads)

    def _session(self, connection: Any, until: float) -> AnySession:
        return BlockingSession(
            connection,
            self.where,
            self._sizes,
            self._app_contexts,
            threads=self._threads or anyio.CapacityLimiter(1),
            until=until,
            grace_s=self._grace_s,
        )


class OwnBlockingPool(BlockingPool):
    """A blocking pool made here of what a URL says: for the driver's thick mode.

    Args:
        url: What the URL says.
        background: Where connections are given back.
        max_connections: Most connections it has.
        options: As of `BlockingPool`.
    """

    def __init__(
        self, url: OracleUrl, background: Background, *, max_connections: int, **options: Any
    ) -> None:
        super().__init__(None, url.where, background, **options)
        self._url = url
        self._max = max_connections

    async def open(self) -> None:
        """Make the pool."""

        def make() -> oracledb.ConnectionPool:
            arguments = pool_arguments(self._url, self._max, self._acquire_timeout_s)
            return oracledb.create_pool(**arguments)

        try:
            self._pool = await to_thread.run_sync(make)
        except oracledb.Error as error:
            raise translate(error, self.where) from error
        await super().open()

    async def close(self, seconds: float) -> None:
        """Close the pool with all its connections."""
        pool, self._pool = self._pool, None
        if pool is not None:
            closing = self._background.start(
                _quietly(to_thread.run_sync(lambda: pool.close(force=True)))
            )
            await asyncio.wait({closing}, timeout=seconds)


class BlockingSingle(AsyncSingle):
    """One connection of the driver's blocking classes, used by one operation at a time.

    Args:
        connection: An `oracledb.Connection`.
        where: Names the database, without secrets.
        background: Where it is given back.
        grace_s: Seconds a call that took too long has to be broken off.
        options: As of `BaseSource`.
    """

    lives_in_loop = False

    def __init__(
        self,
        connection: Any,
        where: str,
        background: Background,
        *,
        grace_s: float,
        **options: Any,
    ) -> None:
        super().__init__(connection, where, background, **options)
        self._grace_s = grace_s

    def _session(self, connection: Any, until: float) -> AnySession:
        return BlockingSession(
            connection,
            self.where,
            self._sizes,
            self._app_contexts,
            threads=anyio.CapacityLimiter(1),
            until=until,
            grace_s=self._grace_s,
        )


def make_source(
    connection: object,
    background: Background,
    *,
    max_connections: int,
    acquire_timeout_s: float,
    grace_s: float,
    app_context: AppContext | None = None,
) -> Source:
    """Return where the connections come from that are meant.

    Raises:
        ConfigurationError: It is nothing of the kind.
    """
    options: dict[str, Any] = {
        "acquire_timeout_s": acquire_timeout_s,
        "app_context": app_context,
    }
    if isinstance(connection, OracleUrl):
        if oracledb.is_thin_mode():
            return OwnAsyncPool(connection, background, max_connections=max_connections, **options)
        return OwnBlockingPool(
            connection, background, max_connections=max_connections, grace_s=grace_s, **options
        )
    where = describe_dsn(_dsn_of(connection))
    if isinstance(connection, oracledb.AsyncConnectionPool):
        return AsyncPool(connection, where, background, **options)
    if isinstance(connection, oracledb.AsyncConnection):
        return AsyncSingle(connection, where, background, **options)
    if isinstance(connection, oracledb.ConnectionPool):
        return BlockingPool(connection, where, background, grace_s=grace_s, **options)
    if isinstance(connection, oracledb.Connection):
        return BlockingSingle(connection, where, background, grace_s=grace_s, **options)
    shown = hide_secrets(connection) if isinstance(connection, str) else type(connection).__name__
    raise ConfigurationError(
        f"`connection` is {shown!r}; accepted: an oracle:// URL, or a pool or connection of "
        "python-oracledb"
    )


def read_connection(connection: object) -> object:
    """Return a connection argument, a URL as what it says.

    Raises:
        ConfigurationError: The URL is malformed.
    """
    if isinstance(connection, str) and connection.startswith(ORACLE_URL):
        return parse_url(connection)
    return connection


def pool_arguments(
    url: OracleUrl, max_connections: int, acquire_timeout_s: float
) -> dict[str, Any]:
    """Return the arguments of the driver's pool for a URL; reads a file if it gives a token's."""
    arguments: dict[str, Any] = {
        "tcp_connect_timeout": _CONNECT_S,
        "expire_time": _ALIVE_MIN,
        **url.driver,
        "min": 1,
        "max": max_connections,
        "increment": 1,
        "getmode": oracledb.POOL_GETMODE_TIMEDWAIT,
        "wait_timeout": max(1, math.ceil(min(acquire_timeout_s, _LONGEST_WAIT_S) * 1000)),
        "timeout": _IDLE_S,
        "stmtcachesize": _STATEMENT_CACHE,
    }
    if url.token_location is not None:
        token = TokenFile(url.token_location)
        token.load()
        arguments["access_token"] = token
    return arguments


def _dsn_of(connection: object) -> object:
    with contextlib.suppress(oracledb.Error):
        return getattr(connection, "dsn", None)
    # It is closed; opening the store says so.
    return None


def _size_of(pool: oracledb.AsyncConnectionPool | oracledb.ConnectionPool, where: str) -> int:
    try:
        return max(pool.max, 1)
    except oracledb.Error as error:
        raise translate(error, where) from error


async def _quietly(closing: Awaitable[None]) -> None:
    with contextlib.suppress(oracledb.Error, OSError):
        await closing
