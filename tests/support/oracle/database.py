"""An emulated Oracle database on PostgreSQL.

Statements are translated; what is Oracle's about transactions is kept: a failed statement leaves
the transaction open, a definition commits, readers see what was committed when the statement
began, and errors have Oracle's codes.
"""

from __future__ import annotations

import decimal
import functools
import json
import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg
from psycopg.types.json import set_json_loads

from tests.support.oracle.blocks import is_block, translate_block
from tests.support.oracle.database_errors import oracle_error
from tests.support.oracle.database_values import column_of, read_value
from tests.support.oracle.errors import connection_closed
from tests.support.oracle.postgres import EmbeddedServer
from tests.support.oracle.translate import translate
from tests.support.oracle.translate_ddl import is_definition, translate_definition
from tests.support.oracle.values import Answer, Request

_QUERY: Final = re.compile(r"\s*(SELECT|WITH)\b", re.IGNORECASE)
_LOCKING: Final = re.compile(r"\bFOR\s+UPDATE\b", re.IGNORECASE)

_LOADS: Final = functools.partial(
    json.loads, parse_int=decimal.Decimal, parse_float=decimal.Decimal
)
_TEMPORARY: Final = r"SELECT relname FROM pg_class WHERE relname LIKE '%\_\_rows'"


@dataclass(frozen=True, slots=True)
class User:
    """A user of the database.

    Args:
        name: In capitals.
        schema: The schema that its names are looked up in first; None: its own.
        role: Whose privileges it has in PostgreSQL; None for all.
    """

    name: str
    schema: str | None = None
    role: str | None = None


@dataclass(slots=True)
class OracleDatabase:
    """A database, cloned from a template.

    Args:
        server: Where it lives.
        name: Its name there.
        users: Known users by name; others own the schema of their name.
    """

    server: EmbeddedServer
    name: str
    users: dict[str, User] = field(default_factory=dict)
    temporary: set[str] = field(default_factory=set)
    seen: set[str] = field(default_factory=set)

    def run(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run SQL of PostgreSQL beside the emulation, to arrange or to look at something."""
        with psycopg.connect(
            self.server.uri(self.name), autocommit=True, cursor_factory=psycopg.RawCursor
        ) as connection:
            cursor = connection.execute(sql, values or None)
            return list(cursor.fetchall()) if cursor.description else []

    def add_reader(self, name: str, schema: str) -> None:
        """Add a user who may read the tables of a schema and change nothing."""
        role = name.lower()
        self.run(
            f"CREATE ROLE {role}; GRANT USAGE ON SCHEMA oracle_sys, {schema} TO {role}; "
            f"GRANT SELECT ON ALL TABLES IN SCHEMA oracle_sys, {schema} TO {role}"
        )
        self.users[name.upper()] = User(name.upper(), role=role)

    def session(self, user: str, *, is_async: bool) -> Generator[Any, Any, DatabaseSession]:
        """Open a session."""
        known = self.users.get(user, User(user))
        schema = (known.schema or known.name).lower()
        settings = {
            "search_path": f"{schema},oracle_sys,public,pg_catalog",
            "oracle_session.login": known.name,
        }
        if known.role is not None:
            settings["role"] = known.role
        connection = yield _Connect(self.server.uri(self.name), settings)
        set_json_loads(_LOADS, connection)
        if user not in self.seen:
            if known.role is None:
                yield _Run(connection, f"CREATE SCHEMA IF NOT EXISTS {schema}", ())
            found = yield _Run(connection, _TEMPORARY, ())
            self.temporary.update(name.removesuffix("__rows") for (name,) in found.rows)
            self.seen.add(user)
        return DatabaseSession(self, connection, schema)


class DatabaseSession:
    """One session of the database.

    Args:
        database: Whose.
        connection: Of psycopg, for this session alone.
        schema: Where its names are looked up.
    """

    def __init__(self, database: OracleDatabase, connection: Any, schema: str) -> None:
        self._database = database
        self._connection = connection
        self._schema = schema
        self._busy = False
        self._doomed = False
        self._filled: set[str] = set()
        self.in_transaction = False

    def execute(self, request: Request) -> Generator[Any, Any, Answer]:
        """Run one statement."""
        text = request.text
        self._check_alive()
        try:
            if is_block(text):
                for sql in translate_block(text):
                    yield from self._run(sql, ())
                return Answer()
            if is_definition(text):
                yield from self.commit()
                yield from self._define(text)
                return Answer()
            return (yield from self._change_or_read(request))
        except psycopg.Error as error:
            raise oracle_error(error, text) from error

    def commit(self) -> Generator[Any, Any, None]:
        """Commit."""
        self._check_alive()
        if self.in_transaction:
            for table in self._filled:
                yield from self._run(f"DELETE FROM {table}", ())
            yield from self._end("COMMIT")

    def rollback(self) -> Generator[Any, Any, None]:
        """Roll back."""
        self._check_alive()
        if self.in_transaction:
            yield from self._end("ROLLBACK")

    def discard(self) -> None:
        """End the session at once, or as soon as what it does is done."""
        self._doomed = True
        if not self._busy:
            self._connection.pgconn.finish()

    async def interrupt(self) -> None:
        """Break off the statement that runs."""
        if self._busy and not self._connection.closed:
            await self._connection.cancel_safe(timeout=5)

    def interrupt_now(self) -> None:
        """Break off the statement that runs, in a blocking session."""
        if self._busy and not self._connection.closed:
            self._connection.cancel_safe(timeout=5)

    def _change_or_read(self, request: Request) -> Generator[Any, Any, Answer]:
        text = request.text
        reads = bool(_QUERY.match(text))
        locks = reads and bool(_LOCKING.search(text))
        if not reads or locks:
            yield from self._begin()
        # As in Oracle, a statement that fails undoes itself, not its transaction.
        if self.in_transaction:
            yield from self._run("SAVEPOINT statement", ())
        try:
            answer = yield from self._execute(request)
        except psycopg.Error:
            if self.in_transaction and not self._connection.closed:
                yield from self._run("ROLLBACK TO SAVEPOINT statement", ())
            raise
        if self.in_transaction:
            yield from self._run("RELEASE SAVEPOINT statement", ())
        return answer

    def _execute(self, request: Request) -> Generator[Any, Any, Answer]:
        rowcount = 0
        cursor: Any = None
        for execution in request.executions:
            translated = translate(request.text, execution)
            cursor = yield from self._run(translated.sql, translated.values)
            rowcount += max(cursor.rowcount, 0)
        if not _QUERY.match(request.text):
            for table in self._database.temporary:
                if re.search(rf"\b{table}\b", request.text, re.IGNORECASE):
                    self._filled.add(table)
            return Answer(rowcount=rowcount)
        result = cursor.pgresult
        columns = [column_of(cursor, result, place) for place in range(result.nfields)]
        rows = [
            tuple(read_value(column, value) for column, value in zip(columns, row, strict=True))
            for row in cursor.rows
        ]
        return Answer(columns=columns, rows=rows)

    def _define(self, text: str) -> Generator[Any, Any, None]:
        definition = translate_definition(text)
        if definition.domain_index is not None:
            owner, index, table, kind = definition.domain_index
            yield from self._run(
                "INSERT INTO oracle_sys.domain_indexes VALUES "
                "(upper($1::text), upper($2::text), upper($3::text), $4::text)",
                (owner or self._schema, index, table, kind),
            )
        if definition.dropped_index is not None:
            yield from self._drop_index(*definition.dropped_index)
        for sql in definition.statements:
            drops = sql.startswith("DROP TABLE")
            yield from self._run((yield from self._drop(sql)) if drops else sql, ())
        if definition.temporary is not None:
            self._database.temporary.add(definition.temporary)

    def _drop(self, sql: str) -> Generator[Any, Any, str]:
        name = sql.removesuffix(" CASCADE").split()[-1]
        schema, _, table = name.rpartition(".")
        yield from self._run(
            "DELETE FROM oracle_sys.domain_indexes "
            "WHERE owner = upper($1::text) AND table_name = upper($2::text)",
            (schema or self._schema, table),
        )
        return sql.replace("TABLE", "VIEW", 1) if table in self._database.temporary else sql

    def _drop_index(self, owner: str | None, index: str, unless: bool) -> Generator[Any, Any, None]:
        schema = owner or self._schema
        cursor = yield from self._run(
            "DELETE FROM oracle_sys.domain_indexes "
            "WHERE owner = upper($1::text) AND index_name = upper($2::text)",
            (schema, index),
        )
        if cursor.rowcount == 0:
            exists = "IF EXISTS " if unless else ""
            yield from self._run(f"DROP INDEX {exists}{schema}.{index}", ())

    def _begin(self) -> Generator[Any, Any, None]:
        if not self.in_transaction:
            yield from self._run("BEGIN ISOLATION LEVEL READ COMMITTED", ())
            self.in_transaction = True

    def _end(self, sql: str) -> Generator[Any, Any, None]:
        try:
            yield from self._run(sql, ())
        except psycopg.Error as error:
            raise oracle_error(error, sql) from error
        self.in_transaction = False
        self._filled.clear()

    def _run(self, sql: str, values: Any) -> Generator[Any, Any, Any]:
        self._busy = True
        try:
            return (yield _Run(self._connection, sql, values))
        finally:
            self._busy = False
            if self._doomed:
                self._connection.pgconn.finish()
            if self._connection.closed:
                self.in_transaction = False

    def _check_alive(self) -> None:
        if self._doomed or self._connection.closed:
            self.in_transaction = False
            raise connection_closed()


class _Connect:
    """Connects to PostgreSQL."""

    def __init__(self, uri: str, settings: Mapping[str, str]) -> None:
        self._uri = uri
        self._options = " ".join(f"-c {name}={value}" for name, value in settings.items())

    async def run(self) -> Any:
        return await psycopg.AsyncConnection.connect(
            self._uri,
            autocommit=True,
            cursor_factory=psycopg.AsyncRawCursor,
            options=self._options,
        )

    def run_now(self) -> Any:
        return psycopg.connect(
            self._uri,
            autocommit=True,
            cursor_factory=psycopg.RawCursor,
            options=self._options,
        )


class _Run:
    """Runs one statement of PostgreSQL; the cursor that comes back has the rows in `rows`."""

    def __init__(self, connection: Any, sql: str, values: Any) -> None:
        self._connection = connection
        self._sql = sql
        self._values = values

    async def run(self) -> Any:
        cursor = await self._connection.execute(self._sql, self._values or None)
        cursor.rows = await cursor.fetchall() if cursor.description else []
        return cursor

    def run_now(self) -> Any:
        cursor = self._connection.execute(self._sql, self._values or None)
        cursor.rows = cursor.fetchall() if cursor.description else []
        return cursor
