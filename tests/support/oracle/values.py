"""What travels between the driver and an emulated database."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import oracledb
from oracledb import DbType


@dataclass(frozen=True, slots=True)
class Bind:
    """One value as it reaches the database: its type, and NULL as None."""

    value: Any
    type: DbType


@dataclass(frozen=True, slots=True)
class Column:
    """One column of an answer.

    Args:
        name: As the database spells it, in capitals unless it was quoted.
        type: Decides what the driver makes of the values.
        scale: Digits after the point of a NUMBER; None for one without a declared scale.
    """

    name: str
    type: DbType
    scale: int | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One statement and the values of each of its executions.

    Args:
        text: The SQL as it was given to the driver.
        executions: Binds by name in capitals, one mapping for each execution; one empty mapping
            for a statement without binds.
    """

    text: str
    executions: Sequence[Mapping[str, Bind]] = field(default_factory=lambda: ({},))

    @property
    def binds(self) -> Mapping[str, Any]:
        """The values of the first execution."""
        return {name: bind.value for name, bind in self.executions[0].items()}


@dataclass(slots=True)
class Answer:
    """What a statement returned.

    Args:
        columns: None if it is no query.
        rows: In the database's form: NUMBER as int or Decimal, BINARY_DOUBLE as float, JSON as
            dicts, lists and Decimals, TIMESTAMP as naive datetime, VECTOR as `array.array`.
        rowcount: Rows that were changed.
    """

    columns: Sequence[Column] | None = None
    rows: Sequence[tuple[Any, ...]] = ()
    rowcount: int = 0


class DatabaseSession(Protocol):
    """One session of an emulated database.

    The methods are generators: what they yield is input and output for `drive` or `drive_now`,
    so that one implementation serves async and blocking drivers.
    """

    in_transaction: bool

    def execute(self, request: Request) -> Generator[Any, Any, Answer]:
        """Run a statement; a failing one leaves the transaction as it was."""
        ...

    def commit(self) -> Generator[Any, Any, None]:
        """Commit."""
        ...

    def rollback(self) -> Generator[Any, Any, None]:
        """Roll back."""
        ...

    def discard(self) -> None:
        """End the session at once; what was not committed is undone."""
        ...

    async def interrupt(self) -> None:
        """Break off the statement that runs."""
        ...

    def interrupt_now(self) -> None:
        """Break off the statement that runs, from another thread."""
        ...


class Database(Protocol):
    """An emulated database."""

    def session(self, user: str, *, is_async: bool) -> Generator[Any, Any, DatabaseSession]:
        """Open a session of a user."""
        ...


class Io(Protocol):
    """One piece of input and output that a session waits for."""

    async def run(self) -> Any:
        """Do it without blocking the loop."""
        ...

    def run_now(self) -> Any:
        """Do it and block."""
        ...


async def drive(work: Generator[Io, Any, Any]) -> Any:
    """Run a generator of a session in an event loop."""
    reply: Any = None
    failure: BaseException | None = None
    while True:
        try:
            io = work.send(reply) if failure is None else work.throw(failure)
        except StopIteration as stop:
            return stop.value
        reply, failure = None, None
        try:
            reply = await io.run()
        except BaseException as error:
            failure = error


def drive_now(work: Generator[Io, Any, Any]) -> Any:
    """Run a generator of a session and block."""
    reply: Any = None
    failure: BaseException | None = None
    while True:
        try:
            io = work.send(reply) if failure is None else work.throw(failure)
        except StopIteration as stop:
            return stop.value
        reply, failure = None, None
        try:
            reply = io.run_now()
        except BaseException as error:
            failure = error


LOB_TYPES = frozenset({oracledb.DB_TYPE_CLOB, oracledb.DB_TYPE_NCLOB, oracledb.DB_TYPE_BLOB})
UNFETCHABLE_AHEAD = LOB_TYPES | {oracledb.DB_TYPE_JSON, oracledb.DB_TYPE_VECTOR}
"""Columns of these types cost the driver a further trip: it has to define them first."""
