"""One connection of python-oracledb as the engine uses it: statements in, plain rows out.

May import errors, and `faults`, `statement` and `values` of this package.

`AsyncSession` speaks to the driver's asyncio classes, and sends many statements in one pipeline.
`BlockingSession` speaks to its blocking classes, in worker threads. Both take a connection as it
is, set on it what they need, and leave it as it was.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import math
import time
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

import anyio
import oracledb
from anyio import to_thread

from agentmemory.errors import AgentMemoryError
from agentmemory.stores.oracle.faults import Diagnosis, diagnose, is_driver_error, translate
from agentmemory.stores.oracle.statement import Statement, StatementKind
from agentmemory.stores.oracle.values import from_row, input_type_handler, to_binds, to_rows

T = TypeVar("T")

Rows = list[tuple[Any, ...]]
AppContext = Callable[[], Mapping[str, Mapping[str, str]]]

_PIPELINES_FROM: Final = (23, 4)
_BLOCKS: Final = ("BEGIN", "DECLARE", "CALL")
_BREAK_EVERY_S: Final = 0.1
_FEWEST_ROWS: Final = 256
_MOST_ROWS: Final = 4096


class ArraySizes:
    """How many rows to ask for at once, by the name of the statement.

    The driver keeps room for as many with every statement it caches, and each time there are more
    costs a round trip; so it starts low and follows what statements have returned.
    """

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}

    def of(self, statement: Statement) -> int:
        """Return how many rows to ask for; the end is known when fewer come."""
        return self._sizes.get(statement.name, _FEWEST_ROWS)

    def learn(self, statement: Statement, rows: int) -> None:
        """Take note of how many rows a statement returned."""
        if rows >= self.of(statement):
            self._sizes[statement.name] = min(1 << rows.bit_length(), _MOST_ROWS)


class AppContexts:
    """Values of application contexts for each operation, and none of the one before.

    The driver sends the clearing of a namespace and its next values in one trip, and then forgets
    the clearing: a name that the next operation does not give would keep its value. So every name
    that was ever given is given each time.

    Args:
        values: Called at the start of each operation: values by name by namespace.
    """

    def __init__(self, values: AppContext) -> None:
        self._values = values
        self._names: dict[str, dict[str, str]] = {}

    def now(self) -> dict[str, dict[str, str]]:
        """Return what a session is to have now; an empty value is none."""
        given = self._values()
        for namespace, values in given.items():
            self._names.setdefault(namespace, {}).update(dict.fromkeys(values, ""))
        return {
            namespace: {**names, **given.get(namespace, {})}
            for namespace, names in self._names.items()
        }


# A limit of one call is not among them: the driver has none for pipelines, and ends the process if
# it is set, or a call is broken off, on a connection whose network is gone.
_SETTINGS: Final[Mapping[str, Any]] = {
    "autocommit": False,
    "inputtypehandler": input_type_handler,
    "outputtypehandler": None,
}
"""What a connection is set to while it is used here."""


class Session(Protocol):
    """One connection during one operation."""

    used: bool
    """Whether anything was sent."""
    commit_pending: bool
    """Whether a commit was sent whose answer has not come, so that nobody knows what holds."""

    @property
    def in_transaction(self) -> bool:
        """Whether the last answer said that a transaction is open."""
        ...

    async def run(self, statements: Sequence[Statement], *, commit: bool) -> list[Rows]:
        """Run statements in order, and commit if wanted, in as few round trips as possible.

        Raises:
            AgentMemoryError: What the driver says; `diagnosis_of` knows more of it.
        """
        ...

    async def rollback(self) -> None:
        """Undo what was not committed.

        Raises:
            AgentMemoryError: It could not be done; the connection is of no use any more.
        """
        ...

    def diagnosis_of(self, error: BaseException) -> Diagnosis | None:
        """Return what is known of an error, if it came from the driver by way of this session."""
        ...

    def cut(self) -> bool:
        """Cut the connection from outside, for it does not answer; the database rolls back.

        Returns:
            Whether it is cut now; a call in a thread ends only by its own time limit.
        """
        ...


class _Connection:
    """What both kinds of session share: what they set on a connection, and its last failure."""

    def __init__(
        self,
        connection: Any,
        where: str,
        sizes: ArraySizes,
        app_contexts: AppContexts | None = None,
    ) -> None:
        self.connection = connection
        self.ticket: object = None
        self.used = False
        self.commit_pending = False
        self._where = where
        self._sizes = sizes
        self._app_contexts = app_contexts
        self._namespaces: tuple[str, ...] = ()
        self._before: dict[str, Any] = {}
        self._failure: tuple[AgentMemoryError, Diagnosis] | None = None

    @property
    def in_transaction(self) -> bool:
        try:
            return bool(self.connection.transaction_in_progress)
        except oracledb.Error:
            return False

    def diagnosis_of(self, error: BaseException) -> Diagnosis | None:
        if self._failure is not None and self._failure[0] is error:
            return self._failure[1]
        return None

    def begin(self) -> None:
        """Set on the connection what the operation needs.

        Raises:
            AgentMemoryError: The connection is closed.
        """
        with self.translated():
            self._before = {name: getattr(self.connection, name) for name in _SETTINGS}
            for name, value in _SETTINGS.items():
                setattr(self.connection, name, value)
            contexts = {} if self._app_contexts is None else self._app_contexts.now()
            for namespace, values in contexts.items():
                self.connection.set_app_context(namespace, **values)
            self._namespaces = tuple(contexts)

    def end(self) -> None:
        """Leave the connection as it was."""
        with contextlib.suppress(oracledb.Error):
            for name, value in self._before.items():
                setattr(self.connection, name, value)
            for namespace in self._namespaces:
                self.connection.clear_app_context(namespace)

    @contextlib.contextmanager
    def translated(self, statements: Sequence[Statement] = ()) -> Generator[None]:
        """Raise the driver's errors as the library's own."""
        try:
            yield
        except AgentMemoryError:
            raise
        except Exception as error:
            if not is_driver_error(error):
                raise
            problem = translate(error, self._where)
            if statements:
                problem.add_note(f"statements: {', '.join(s.name for s in statements)}")
            self._failure = (problem, diagnose(error))
            raise problem from error

    def rows_of(self, statement: Statement, fetched: Sequence[Sequence[Any]] | None) -> Rows:
        """Return fetched rows as plain Python."""
        if fetched is None:
            return []
        self._sizes.learn(statement, len(fetched))
        return [from_row(row) for row in fetched]


class AsyncSession(_Connection):
    """A connection of the driver's asyncio classes.

    Args:
        connection: An `oracledb.AsyncConnection`.
        where: Names the database in errors.
        sizes: Shared by the sessions of an engine.
        app_contexts: Gives values of application contexts, which travel with the first statement.
    """

    _pipelines = False

    def begin(self) -> None:
        """Set on the connection what the operation needs."""
        super().begin()
        self._pipelines = version_of(self.connection)[:2] >= _PIPELINES_FROM

    async def run(self, statements: Sequence[Statement], *, commit: bool) -> list[Rows]:
        """Run statements in order, in one round trip if the server can; see `Session`."""
        self.used = True
        answers: list[Rows] = []
        groups = _groups(statements) if self._pipelines else [[each] for each in statements]
        for number, group in enumerate(groups):
            last = commit and number == len(groups) - 1
            with self.translated(group):
                if self._pipelines and not is_ddl(group[0]) and len(group) + last > 1:
                    answers += await self._pipeline(group, commit=last)
                    commit = commit and not last
                else:
                    answers.append(await self._execute(group[0]))
        if commit:
            self.commit_pending = True
            with self.translated():
                await self.connection.commit()
            self.commit_pending = False
        return answers

    async def attempt(self, statements: Sequence[Statement]) -> list[Rows | None]:
        """Run queries of which each may fail by itself; None for one that did."""
        self.used = True
        answers: list[Rows | None] = []
        with self.translated(statements):
            pipeline = oracledb.create_pipeline()
            for statement in statements:
                self._add(pipeline, statement)
            results = await self.connection.run_pipeline(pipeline, continue_on_error=True)
            for statement, result in zip(statements, results, strict=True):
                answers.append(None if result.error else self.rows_of(statement, result.rows))
        return answers

    async def rollback(self) -> None:
        """Undo what was not committed; see `Session`."""
        with self.translated():
            await self.connection.rollback()

    def cut(self) -> bool:
        """Cut the connection; see `Session`."""
        # Terminating the object itself would hide the connection from its pool, which would count
        # it as in use for ever. A copy shares the wire and nothing else.
        copy.copy(self.connection).terminate()
        return True

    async def _pipeline(self, statements: Sequence[Statement], *, commit: bool) -> list[Rows]:
        pipeline = oracledb.create_pipeline()
        for statement in statements:
            self._add(pipeline, statement)
        if commit:
            pipeline.add_commit()
            self.commit_pending = True
        try:
            results = await self.connection.run_pipeline(pipeline)
        except BaseException as error:
            # A failed pipeline keeps its cursors, and frames of the traceback keep the pipeline.
            # The collector must not find them: it may come by while the driver has locked its
            # cache of statements, and closing a cursor takes the same lock (26.1).
            traceback.clear_frames(error.__traceback__)
            del pipeline
            raise
        self.commit_pending = False
        return [
            self.rows_of(statement, result.rows)
            for statement, result in zip(statements, results, strict=False)
        ]

    def _add(self, pipeline: Any, statement: Statement) -> None:
        if statement.kind is StatementKind.QUERY:
            pipeline.add_fetchall(
                statement.text,
                to_binds(statement),
                arraysize=self._sizes.of(statement),
                fetch_lobs=False,
                fetch_decimals=False,
            )
        elif statement.kind is StatementKind.MANY:
            pipeline.add_executemany(statement.text, to_rows(statement))
        else:
            pipeline.add_execute(statement.text, to_binds(statement))

    async def _execute(self, statement: Statement) -> Rows:
        with self.connection.cursor() as cursor:
            if statement.kind is StatementKind.MANY:
                await cursor.executemany(statement.text, to_rows(statement))
                return []
            cursor.arraysize = cursor.prefetchrows = self._sizes.of(statement)
            await cursor.execute(
                statement.text, to_binds(statement), fetch_lobs=False, fetch_decimals=False
            )
            if statement.kind is not StatementKind.QUERY:
                return []
            return self.rows_of(statement, await cursor.fetchall())


class BlockingSession(_Connection):
    """A connection of the driver's blocking classes, used in worker threads.

    Args:
        connection: An `oracledb.Connection`.
        where: Names the database in errors.
        sizes: Shared by the sessions of an engine.
        app_contexts: Gives values of application contexts, which travel with the first statement.
        threads: Bounds how many threads work at once.
        until: Tells by when the operation has to end, on the clock of the loop.
        grace_s: Seconds the driver has to break off a call that took too long.
    """

    def __init__(
        self,
        connection: Any,
        where: str,
        sizes: ArraySizes,
        app_contexts: AppContexts | None = None,
        *,
        threads: anyio.CapacityLimiter,
        until: float,
        grace_s: float,
    ) -> None:
        super().__init__(connection, where, sizes, app_contexts)
        self._threads = threads
        self._until = until
        self._grace_s = grace_s
        self._stopped = False
        self._call_timeout_before: int | None = None

    def begin(self) -> None:
        """Set on the connection what the operation needs."""
        super().begin()
        with self.translated():
            self._call_timeout_before = self.connection.call_timeout

    def end(self) -> None:
        """Leave the connection as it was."""
        super().end()
        if self._call_timeout_before is not None:
            self._limit_calls(self._call_timeout_before)

    async def run(self, statements: Sequence[Statement], *, commit: bool) -> list[Rows]:
        """Run statements in order in one visit to a thread; see `Session`."""
        self.used = True
        with self.translated(statements):
            return await self._breakable(lambda: self._run(statements, commit=commit))

    async def attempt(self, statements: Sequence[Statement]) -> list[Rows | None]:
        """Run queries of which each may fail by itself; None for one that did."""
        self.used = True

        def work() -> list[Rows | None]:
            answers: list[Rows | None] = []
            for statement in statements:
                try:
                    answers.append(self._execute(statement))
                except oracledb.Error as error:
                    if diagnose(error).unusable:
                        raise
                    answers.append(None)
            return answers

        with self.translated(statements):
            return await self._breakable(work)

    async def rollback(self) -> None:
        """Undo what was not committed; see `Session`."""

        def work() -> None:
            self._stopped = False
            self._bound(self._grace_s)
            self.connection.rollback()

        with self.translated():
            await self._breakable(work)

    def cut(self) -> bool:
        """Do nothing: the time limit of the call ends it, and the connection with it."""
        return False

    def _run(self, statements: Sequence[Statement], *, commit: bool) -> list[Rows]:
        answers = [self._execute(statement) for statement in statements]
        if commit:
            self._bound()
            self.commit_pending = True
            self.connection.commit()
            self.commit_pending = False
        return answers

    def _execute(self, statement: Statement) -> Rows:
        self._bound()
        with self.connection.cursor() as cursor:
            if statement.kind is StatementKind.MANY:
                cursor.executemany(statement.text, to_rows(statement))
                return []
            cursor.arraysize = cursor.prefetchrows = self._sizes.of(statement)
            cursor.execute(
                statement.text, to_binds(statement), fetch_lobs=False, fetch_decimals=False
            )
            if statement.kind is not StatementKind.QUERY:
                return []
            return self.rows_of(statement, cursor.fetchall())

    def _bound(self, seconds: float | None = None) -> None:
        """Bound the next call of the driver by what is left of the operation's time."""
        if self._stopped:
            raise _StoppedError
        left = self._until - time.monotonic() if seconds is None else seconds
        bounds = [self._call_timeout_before]
        if left < math.inf:
            bounds.append(max(math.ceil(left * 1000), 1))
        self._limit_calls(min((bound for bound in bounds if bound), default=0))

    def _limit_calls(self, milliseconds: int) -> None:
        with contextlib.suppress(oracledb.Error):
            if self.connection.is_healthy():
                self.connection.call_timeout = milliseconds

    async def _breakable(self, work: Callable[[], T]) -> T:
        """Run `work` in a thread; a cancellation breaks off its call and waits for its end."""
        loop = asyncio.get_running_loop()
        # A task of its own: the thread cannot be cancelled, and what it does must not get lost.
        working = loop.create_task(to_thread.run_sync(work, limiter=self._threads))
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            self._stopped = True
            while not working.done():
                # A break that comes before its call was sent is lost; one too many does nothing.
                breaking = loop.create_task(
                    to_thread.run_sync(self._break, limiter=anyio.CapacityLimiter(1))
                )
                await asyncio.wait({breaking})
                await asyncio.wait({working}, timeout=_BREAK_EVERY_S)
            if working.done() and not working.cancelled():
                working.exception()
            raise

    def _break(self) -> None:
        with contextlib.suppress(oracledb.Error, OSError):
            if self.connection.is_healthy():
                self.connection.cancel()


class _StoppedError(Exception):
    """Raised in a thread to leave out the statements that come after a cancellation."""


def version_of(connection: Any) -> tuple[int, ...]:
    """Return the version of the server that a connection leads to."""
    return tuple(int(part) for part in str(connection.version).split("."))


def _groups(statements: Sequence[Statement]) -> list[list[Statement]]:
    """Cut statements into what may travel together: DDL goes alone."""
    groups: list[list[Statement]] = []
    for statement in statements:
        if groups and not is_ddl(statement) and not is_ddl(groups[-1][-1]):
            groups[-1].append(statement)
        else:
            groups.append([statement])
    return groups


def is_ddl(statement: Statement) -> bool:
    """Tell whether a statement is DDL, which commits by itself; PL/SQL blocks are not."""
    first = statement.text.lstrip()[:8].upper()
    return statement.kind is StatementKind.BLOCK and not first.startswith(_BLOCKS)
