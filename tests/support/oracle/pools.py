"""Pools of emulated connections.

The asynchronous pool is the driver's own but for the class of its connections. The blocking one
makes its connections in compiled code that cannot be reached, so it is written anew, as far as
its users see it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from typing import Any

import oracledb

from tests.support.oracle.driver import EmulatedConnection
from tests.support.oracle.errors import dpy
from tests.support.oracle.internals import thin_impl


def _new_connection(dsn: str | None, pool_params: Any, *, is_async: bool) -> EmulatedConnection:
    connection = EmulatedConnection(is_async=is_async)
    params = oracledb.ConnectParams()
    params._impl = pool_params
    connection.prepare_connect_args(dsn, None, params, {})
    return connection


class EmulatedAsyncPool(thin_impl.AsyncThinPoolImpl):  # type: ignore[misc]
    """The driver's asynchronous pool."""

    def __init__(self, dsn: str | None, params: Any) -> None:
        self._pool_params = params
        super().__init__(dsn, params)

    async def _create_conn_impl(self, params: Any = None) -> EmulatedConnection:
        connection = _new_connection(self.dsn, self._pool_params, is_async=True)
        await connection.process_async_operation(
            self, "create_connection", (connection, params), {}
        )
        return connection


class EmulatedPool(thin_impl.ThinPoolImpl):  # type: ignore[misc]
    """A blocking pool: no thread of its own, connections are made by whoever needs one."""

    def __init__(self, dsn: str | None, params: Any) -> None:
        self._dsn = dsn
        self._params = params
        public = oracledb.PoolParams()
        public._impl = params
        self._limit = public.max
        self._ready = threading.Condition()
        self._free: list[EmulatedConnection] = []
        self._busy: list[EmulatedConnection] = []
        self._opening = 0
        self._getmode = public.getmode
        self._wait_timeout_s = public.wait_timeout / 1000
        self._ping_interval = public.ping_interval

    @property
    def dsn(self) -> str | None:
        return self._dsn

    @property
    def max(self) -> int:
        return self._limit

    @property
    def min(self) -> int:
        return 0

    @property
    def username(self) -> str | None:
        params = oracledb.ConnectParams()
        params._impl = self._params
        return params.user

    def get_busy_count(self) -> int:
        return len(self._busy)

    def get_open_count(self) -> int:
        return len(self._busy) + len(self._free)

    def get_getmode(self) -> Any:
        return self._getmode

    def acquire(self, params: Any) -> Generator[Any, Any, EmulatedConnection]:
        request = _Call(self._take)
        yield request
        connection = request.result
        if isinstance(connection, EmulatedConnection) and self._ping_interval == 0:
            try:
                yield from connection.ping()
            except oracledb.Error:
                self._forget(connection)
                connection = None
        if connection is None:
            connection = _new_connection(self._dsn, self._params, is_async=False)
            try:
                yield from connection.connect()
            except BaseException:
                self._opened(None)
                raise
            self._opened(connection)
            connection.invoke_session_callback = True
        assert isinstance(connection, EmulatedConnection)
        return connection

    def return_connection(self, connection: EmulatedConnection) -> Generator[Any, Any, None]:
        try:
            yield from connection._end_request()
        finally:
            with self._ready:
                self._busy.remove(connection)
                if not connection.link.closed.is_set():
                    self._free.append(connection)
                self._ready.notify()

    def drop(self, connection: EmulatedConnection) -> None:
        self._forget(connection)
        connection.link.disconnect()

    def close(self, force: bool) -> None:
        with self._ready:
            if self._busy and not force:
                raise dpy("ERR_POOL_HAS_BUSY_CONNECTIONS")
            for connection in (*self._free, *self._busy):
                connection.link.disconnect()
            self._free.clear()
            self._busy.clear()

    def _take(self) -> EmulatedConnection | None:
        timed = self._getmode is oracledb.POOL_GETMODE_TIMEDWAIT
        waits = self._getmode is not oracledb.POOL_GETMODE_NOWAIT
        with self._ready:

            def possible() -> bool:
                return bool(self._free) or len(self._busy) + self._opening < self._limit

            if not possible() and not (
                waits and self._ready.wait_for(possible, self._wait_timeout_s if timed else None)
            ):
                raise dpy("ERR_POOL_NO_CONNECTION_AVAILABLE")
            if self._free:
                connection = self._free.pop()
                self._busy.append(connection)
                return connection
            self._opening += 1
            return None

    def _opened(self, connection: EmulatedConnection | None) -> None:
        with self._ready:
            self._opening -= 1
            if connection is None:
                self._ready.notify()
            else:
                self._busy.append(connection)

    def _forget(self, connection: EmulatedConnection) -> None:
        with self._ready:
            self._busy.remove(connection)
            self._ready.notify()


class _Call:
    """What the driver runs for a blocking operation that is no round trip."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self.result: Any = None

    def process(self) -> None:
        """Run it."""
        self.result = self._work()
