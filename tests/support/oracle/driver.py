"""The network layer of python-oracledb, replaced: connections and cursors that reach a server.

Only what would touch the network is new here. Parsing of bind names, type handlers, types and
checks of bound values, connection arguments, pools and pipelines are the driver's own code, by
way of its implementation classes; they are no public API, so a new release of the driver may
need changes here.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import decimal
import functools
import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import oracledb
from oracledb.fetch_info import FetchInfo

from tests.support.oracle.errors import dpy
from tests.support.oracle.internals import thin_impl
from tests.support.oracle.lobs import EmulatedLob
from tests.support.oracle.server import OracleServer, current_server
from tests.support.oracle.trips import Link, Request, Work
from tests.support.oracle.values import (
    LOB_TYPES,
    UNFETCHABLE_AHEAD,
    Answer,
    Bind,
    Column,
    drive,
    drive_now,
)
from tests.support.oracle.values import Request as Sql


class EmulatedConnection(thin_impl.ThinConnImpl):  # type: ignore[misc]
    """One connection of the driver; its other end is a session of the server."""

    def __init__(self, is_async: bool = False) -> None:
        super().__init__(is_async)
        self.server: OracleServer = current_server()
        self.is_async = is_async
        self.link = Link(super().terminate)
        self.used = False
        self.app_context_changes: dict[str, dict[str, str]] = {}

    # What the driver reads of a connection.

    @property
    def server_version(self) -> tuple[int, ...]:
        """As the server says."""
        return self.server.version

    def supports_pipelining(self) -> bool:
        """Blocking connections never do."""
        return self.is_async and self.server.pipelining

    def get_call_timeout(self) -> int:
        return self.link.call_timeout

    def set_call_timeout(self, value: int) -> None:
        self._would_crash("call_timeout is set")
        self.link.call_timeout = value

    def get_is_healthy(self) -> bool:
        return not self.link.closed.is_set()

    def get_transaction_in_progress(self) -> bool:
        return self.link.told_transaction

    def get_session_id(self) -> int:
        return self.link.session.number

    def get_max_identifier_length(self) -> int:
        return 128

    def set_app_context(self, namespace: str, **values: str) -> None:
        self.app_context_changes.setdefault(namespace, {}).update(values)

    def clear_app_context(self, namespace: str) -> None:
        self.app_context_changes[namespace] = {}

    def send_app_context(self) -> None:
        """Tell the server, with the next trip: values of a namespace, or that there are none."""
        for namespace, values in self.app_context_changes.items():
            if values:
                self.link.session.app_context.setdefault(namespace, {}).update(values)
            else:
                self.link.session.app_context.pop(namespace, None)
        self.app_context_changes = {}

    # What the driver does with a connection.

    def trip(
        self,
        name: str,
        work: Work,
        statements: tuple[str, ...] = (),
        *,
        timed: bool = True,
    ) -> Generator[Any, Any, Any]:
        """Make one round trip and return its result."""
        # The ping of a pool comes before the request begins.
        self.used = self.used or name != "ping"
        self.send_app_context()
        request = Request(self.link, name, work, statements, timed=timed)
        yield request
        return request.result

    def create_cursor_impl(self, scrollable: bool) -> EmulatedCursor:
        cursor = EmulatedCursor.__new__(EmulatedCursor, self)  # type: ignore[call-arg]
        defaults = oracledb.defaults
        cursor.scrollable = scrollable
        cursor.arraysize = defaults.arraysize
        cursor.prefetchrows = defaults.prefetchrows
        cursor.fetch_lobs = defaults.fetch_lobs
        cursor.fetch_decimals = defaults.fetch_decimals
        cursor.opened(self)
        return cursor

    def create_temp_lob_impl(self, lob_type: Any) -> Generator[Any, Any, EmulatedLob]:
        yield from self.trip("create_temp_lob", _nothing)
        return EmulatedLob(self, lob_type)

    def _connect(self) -> Generator[Any, Any, None]:
        params = oracledb.ConnectParams()
        params._impl = self.connect_params
        login = Login(self, params)
        yield login

    def _end_request(self) -> Generator[Any, Any, None]:
        link = self.link
        if link.closed.is_set():
            return
        boundary = self.server.request_boundaries and self.used
        if link.told_transaction or boundary:
            yield from self.rollback()
        self.used = False

    def _close(self) -> Generator[Any, Any, None]:
        if not self.link.closed.is_set():
            try:
                yield from self.trip("logoff", _nothing)
            finally:
                self.link.disconnect()

    def commit(self) -> Generator[Any, Any, None]:
        yield from self.trip("commit", self.link.session.work.commit)

    def rollback(self) -> Generator[Any, Any, None]:
        yield from self.trip("rollback", self.link.session.work.rollback)

    def ping(self) -> Generator[Any, Any, None]:
        yield from self.trip("ping", _nothing)

    def _would_crash(self, what: str) -> None:
        # The driver (26.1) follows a null pointer here, and the process ends.
        if self.link.closed.is_set():
            self.server.violate(f"{what} on a connection whose network is gone")

    def cancel(self) -> None:
        self._would_crash("a call is broken off")
        if self.link.request is not None:
            self.link.request.break_off()

    def terminate(self) -> None:
        self.link.disconnect()

    def run_pipeline_with_pipelining(
        self, conn: Any, results: Sequence[Any], continue_on_error: bool
    ) -> Generator[Any, Any, None]:
        operations = [_Operation(conn, result._impl.operation) for result in results]
        for result, operation in zip(results, operations, strict=True):
            result._impl = operation.result
            try:
                yield from operation.prepare()
            except Exception as error:
                if not continue_on_error:
                    raise
                operation.result.failed(error)
        texts = tuple(
            "COMMIT" if operation.sql is None else operation.sql.text for operation in operations
        )
        # No closure, which a traceback would keep together with its cursors.
        work = functools.partial(self._serve, operations, continue_on_error)
        yield from self.trip("pipeline", work, texts, timed=False)
        for operation in operations:
            if operation.result.error is None:
                yield from operation.complete()

    def _serve(
        self, operations: Sequence[_Operation], continue_on_error: bool
    ) -> Generator[Any, Any, None]:
        """Let the database run the operations of a pipeline."""
        for operation in operations:
            if operation.result.error is not None:
                continue
            try:
                yield from operation.run(self)
            except oracledb.Error as error:
                if not continue_on_error:
                    raise
                operation.result.failed(error)


class Login:
    """The round trip that opens a session."""

    def __init__(self, connection: EmulatedConnection, params: oracledb.ConnectParams) -> None:
        self._connection = connection
        self._params = params

    async def process_async(self) -> None:
        """Log in from an event loop."""
        connection = self._connection
        work = connection.server.login(self._params, is_async=True)
        # As the driver, which drops the connection when its opening is cancelled.
        opening = asyncio.get_running_loop().create_task(drive(work))
        try:
            connection.link.session = await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(lambda task: task.result().kill())
            raise
        await Request(connection.link, "connect", _nothing).process_async()

    def process(self) -> None:
        """Log in and block."""
        connection = self._connection
        work = connection.server.login(self._params, is_async=False)
        connection.link.session = drive_now(work)
        Request(connection.link, "connect", _nothing).process()


class EmulatedCursor(thin_impl.ThinCursorImpl):  # type: ignore[misc]
    """One cursor of the driver."""

    rowcount = 0

    def opened(self, connection: EmulatedConnection) -> None:
        """Take what `__init__` would, which the driver does not call."""
        self.connection = connection
        self.is_open = True
        self.answer: Answer | None = None
        self.buffer: list[tuple[Any, ...]] = []
        self.unfetched: list[tuple[Any, ...]] = []
        self.more = False
        with connection.server.lock:
            connection.server.cursors += 1

    def close(self, in_del: bool = False) -> None:
        super().close(in_del)
        self.not_counted()

    def not_counted(self) -> None:
        """Do not count it any more as a cursor that has to be closed."""
        if self.is_open:
            self.is_open = False
            with self.connection.server.lock:
                self.connection.server.cursors -= 1

    def is_query(self, connection: Any) -> bool:
        return self.answer is not None and self.answer.columns is not None

    def parse(self, cursor: Any) -> Generator[Any, Any, None]:
        yield from self.connection.trip("parse", _nothing, (self.statement,))

    def execute(self, cursor: Any) -> Generator[Any, Any, None]:
        yield from self._preprocess_execute(cursor.connection)
        sql = self.sql(1)
        yield from self._run(cursor, sql)
        if self.is_query(cursor):
            yield from self.define()

    def executemany(
        self,
        cursor: Any,
        num_execs: int,
        batcherrors: bool,
        arraydmlrowcounts: bool,
        offset: int = 0,
    ) -> Generator[Any, Any, None]:
        if batcherrors or arraydmlrowcounts:
            raise NotImplementedError("batch errors and row counts are not emulated")
        yield from self._preprocess_execute(cursor.connection)
        yield from self._run(cursor, self.sql(num_execs))

    def fetch_all_rows(self, cursor: Any) -> Generator[Any, Any, list[Any]]:
        rows = self.take(len(self.buffer))
        while self.more:
            yield from self.fetch_rows(cursor)
            rows.extend(self.take(len(self.buffer)))
        return rows

    def fetch_n_rows(self, cursor: Any, n: int) -> Generator[Any, Any, list[Any]]:
        rows = self.take(n)
        while len(rows) < n and self.more:
            yield from self.fetch_rows(cursor)
            rows.extend(self.take(n - len(rows)))
        return rows

    def fetch_one_row(self, cursor: Any) -> Generator[Any, Any, Any]:
        if not self.buffer and self.more:
            yield from self.fetch_rows(cursor)
        rows = self.take(1)
        return rows[0] if rows else None

    def fetch_rows(self, cursor: Any) -> Generator[Any, Any, None]:
        yield from self.connection.trip("fetch", _nothing, (self.statement,))
        self.receive(self.arraysize)

    def sql(self, executions: int) -> Sql:
        """Return the statement with its bound values, as they reach the database."""
        bound = self.get_bind_vars()
        named = (
            {name.upper(): var for name, var in bound.items()}
            if isinstance(bound, dict)
            else dict(zip(self.get_bind_names(), bound, strict=False))
        )
        return Sql(
            self.statement,
            tuple(
                {
                    name.removeprefix(":"): _to_database(self.connection, var, index)
                    for name, var in named.items()
                }
                for index in range(executions)
            ),
        )

    def returned(self, cursor: Any, answer: Answer) -> None:
        """Take the database's answer."""
        self.answer = answer
        self.rowcount = answer.rowcount
        if answer.columns is not None:
            self.fetch_metadata = [_Metadata(column) for column in answer.columns]
            converters = [self._converter(cursor, column) for column in answer.columns]
            self.buffer = []
            self.unfetched = [
                tuple(convert(value) for convert, value in zip(converters, row, strict=True))
                for row in answer.rows
            ]

    def define(self) -> Generator[Any, Any, None]:
        """Make the first rows arrive, as far as they come with the execution."""
        assert self.answer is not None
        assert self.answer.columns is not None
        late = any(column.type in UNFETCHABLE_AHEAD for column in self.answer.columns)
        seen = self.connection.link.session.cached
        first = self.statement not in seen
        seen[self.statement] = True
        if not late:
            self.receive(self.prefetchrows)
        elif first:
            yield from self.connection.trip("define", _nothing, (self.statement,))
            self.receive(self.prefetchrows)
        else:
            self.receive(0)

    def receive(self, count: int) -> None:
        """Move rows into the buffer; the end is known when fewer came than were asked for."""
        rows, self.unfetched = self.unfetched[:count], self.unfetched[count:]
        self.more = len(rows) == count
        self.buffer.extend(rows)

    def take(self, count: int) -> list[Any]:
        """Take rows out of the buffer."""
        rows, self.buffer = self.buffer[:count], self.buffer[count:]
        self.rowcount += len(rows)
        return [row if self.rowfactory is None else self.rowfactory(*row) for row in rows]

    def _run(self, cursor: Any, sql: Sql) -> Generator[Any, Any, None]:
        connection = self.connection
        session = connection.link.session

        def work() -> Generator[Any, Any, Answer]:
            answer = yield from session.execute("execute", sql)
            if connection.autocommit:
                yield from session.work.commit()
            return answer

        answer = yield from connection.trip("execute", work, (sql.text,))
        self.returned(cursor, answer)

    def _converter(self, cursor: Any, column: Column) -> Callable[[Any], Any]:
        target, convert, nulls = column.type, None, False
        handler = self.outputtypehandler or self.connection.outputtypehandler
        if handler is not None:
            info = FetchInfo._from_impl(_Metadata(column))
            if len(inspect.signature(handler).parameters) == 2:
                var = handler(cursor, info)
            else:
                var = handler(cursor, column.name, column.type, 0, 0, column.scale or 0)
            if var is not None:
                target, convert, nulls = var.type, var.outconverter, var.convert_nulls
        read = _reader(self, column, target)

        def whole(value: Any) -> Any:
            value = None if value is None else read(value)
            if convert is not None and (value is not None or nulls):
                value = convert(value)
            return value

        return whole


class _Operation:
    """One operation of a pipeline."""

    def __init__(self, conn: Any, operation: Any) -> None:
        self._operation = operation
        self._kind = oracledb.PipelineOpType(operation.op_type)
        self._cursor = None if self._kind is oracledb.PipelineOpType.COMMIT else conn.cursor()
        if self._cursor is not None:
            # Nobody but the driver can close it.
            self._cursor._impl.not_counted()
        self.result = _Result(operation)
        self.sql: Sql | None = None

    def prepare(self) -> Generator[Any, Any, None]:
        """Bind the values; the driver may make round trips for large ones."""
        cursor, operation, kinds = self._cursor, self._operation, oracledb.PipelineOpType
        if cursor is None:
            return
        executions = 1
        if self._kind is kinds.EXECUTE_MANY:
            manager = cursor._impl._prepare_for_executemany(
                cursor, operation.statement, operation.parameters, 2**32 - 1
            )
            executions = len(operation.parameters)
            del manager
        elif self._kind in (kinds.EXECUTE, kinds.FETCH_ONE, kinds.FETCH_MANY, kinds.FETCH_ALL):
            cursor._prepare_for_execute(operation.statement, operation.parameters)
        else:
            raise NotImplementedError(f"{self._kind} in a pipeline is not emulated")
        impl = cursor._impl
        rows = {kinds.FETCH_ONE: 1, kinds.FETCH_MANY: operation.num_rows}.get(
            self._kind, operation.arraysize
        )
        if self._kind in (kinds.FETCH_ONE, kinds.FETCH_MANY, kinds.FETCH_ALL):
            impl.prefetchrows = impl.arraysize = rows
            impl.rowfactory = operation.rowfactory
            impl.fetch_lobs = operation.fetch_lobs
            impl.fetch_decimals = operation.fetch_decimals
        yield from impl._preprocess_execute(cursor.connection)
        self.sql = impl.sql(executions)

    def run(self, connection: EmulatedConnection) -> Generator[Any, Any, None]:
        """Let the database run it."""
        session = connection.link.session
        if self._cursor is None:
            yield from session.work.commit()
            return
        assert self.sql is not None
        answer = yield from session.execute("pipeline", self.sql)
        self._cursor._impl.returned(self._cursor, answer)
        if connection.autocommit:
            yield from session.work.commit()

    def complete(self) -> Generator[Any, Any, None]:
        """Fetch what did not come with the pipeline, each in a round trip of its own."""
        kinds = oracledb.PipelineOpType
        cursor = self._cursor
        if cursor is None:
            return
        impl = cursor._impl
        if impl.is_query(cursor):
            self.result.fetch_metadata = impl.fetch_metadata
            if self._kind in (kinds.FETCH_ONE, kinds.FETCH_MANY, kinds.FETCH_ALL):
                yield from impl.define()
                self.result.rows = impl.take(len(impl.buffer))
                if self._kind is kinds.FETCH_ALL:
                    self.result.rows += yield from impl.fetch_all_rows(cursor)


class _Result:
    """What `PipelineOpResult` reads."""

    def __init__(self, operation: Any) -> None:
        self.operation = operation
        self.rows: list[Any] | None = None
        self.fetch_metadata: list[Any] | None = None
        self.error: Any = None
        self.warning = None
        self.return_value = None

    def failed(self, error: BaseException) -> None:
        """Keep an error, as the driver keeps it."""
        self.error = error.args[0]


class _Metadata:
    """What `FetchInfo` reads of a column."""

    objtype = None
    annotations = None
    domain_schema = None
    domain_name = None
    nulls_allowed = True
    is_oson = False
    max_size = 0
    buffer_size = 0
    vector_dimensions = 0
    vector_format = oracledb.VECTOR_FORMAT_FLOAT32
    vector_flags = 0

    def __init__(self, column: Column) -> None:
        self.name = column.name
        self.dbtype = column.type
        self.is_json = column.type is oracledb.DB_TYPE_JSON
        self.precision = 0 if column.scale is None else 38
        self.scale = -127 if column.scale is None else column.scale


def _nothing() -> Generator[Any, Any, None]:
    return
    yield


_NUMERIC = (oracledb.DB_TYPE_NUMBER, oracledb.DB_TYPE_BINARY_INTEGER)
_TEXTS = (
    oracledb.DB_TYPE_VARCHAR,
    oracledb.DB_TYPE_CHAR,
    oracledb.DB_TYPE_LONG,
    oracledb.DB_TYPE_NVARCHAR,
)
_BYTES = (oracledb.DB_TYPE_RAW, oracledb.DB_TYPE_LONG_RAW)


def _to_database(connection: EmulatedConnection, var: Any, index: int) -> Bind:
    """Return a bound value as it arrives: empty text is NULL, times have no zone, and so on."""
    if var is None:
        raise AssertionError("a bind without a variable")
    kind = var.type
    value = var.values[index]
    if value is None:
        return Bind(None, kind)
    if kind in LOB_TYPES:
        value = value._impl.data
        return Bind(value or None, kind)
    if kind in _TEXTS:
        return Bind(value or None, kind)
    if kind in _BYTES:
        return Bind(bytes(value) or None, kind)
    if kind is oracledb.DB_TYPE_JSON:
        return Bind(connection.decode_oson(connection.encode_oson(value)), kind)
    if kind in _NUMERIC:
        return Bind(_number(value), kind)
    if isinstance(value, dt.datetime):
        naive = value.replace(tzinfo=None)
        return Bind(naive.replace(microsecond=0) if kind is oracledb.DB_TYPE_DATE else naive, kind)
    return Bind(value, kind)


def _number(value: Any) -> int | decimal.Decimal:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value
    number = decimal.Decimal(str(value))
    if not number.is_finite():
        raise dpy("ERR_INVALID_NUMBER")
    return number


def _reader(cursor: EmulatedCursor, column: Column, target: Any) -> Callable[[Any], Any]:
    """Return what makes a Python value of a column's value, as the driver does by default."""
    kind = column.type
    if kind in LOB_TYPES and target is kind and cursor.fetch_lobs:
        cls = oracledb.AsyncLOB if cursor.connection.is_async else oracledb.LOB
        return lambda value: cls._from_impl(EmulatedLob(cursor.connection, kind, value))
    if kind in _NUMERIC:
        if target in _TEXTS:
            return str
        if cursor.fetch_decimals:
            return decimal.Decimal
        if target is oracledb.DB_TYPE_BINARY_DOUBLE or (column.scale or 0) > 0:
            return float
        return lambda value: int(value) if value == int(value) else float(value)
    if kind is oracledb.DB_TYPE_JSON and target in _TEXTS:
        raise NotImplementedError("JSON fetched as text is not emulated")
    return lambda value: value


def binds_of(executions: Sequence[Mapping[str, Bind]]) -> list[dict[str, Any]]:
    """Return the bare values of binds."""
    return [{name: bind.value for name, bind in row.items()} for row in executions]
