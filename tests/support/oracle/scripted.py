"""A database that answers from a script: for tests of the engine, without SQL.

script = Script()
script.on(r"FROM dual", rows=[(1,)])
script.on(r"^INSERT", error=ora(1))
with installed(OracleServer(script)) as server:
    connection = await oracledb.connect_async(DSN, user=USER, password=PASSWORD)
"""

from __future__ import annotations

import array
import datetime as dt
import decimal
import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import oracledb

from tests.support.oracle.values import Answer, Column, Request

_READS = re.compile(r"\s*(SELECT|WITH)\b", re.IGNORECASE)
_LOCKS = re.compile(r"\bFOR\s+UPDATE\b", re.IGNORECASE)
_DEFINES = re.compile(r"\s*(CREATE|ALTER|DROP|TRUNCATE|GRANT)\b", re.IGNORECASE)


@dataclass(slots=True)
class _Line:
    pattern: re.Pattern[str]
    respond: Callable[[Request], Answer]
    times: int | None


@dataclass(slots=True)
class Script:
    """What is answered to which statements; the newest line that matches answers.

    A statement without a line fails the test, unless it returns nothing: those change one row.
    """

    lines: list[_Line] = field(default_factory=list)
    committed: list[Request] = field(default_factory=list)

    def on(
        self,
        pattern: str,
        *,
        rows: Sequence[tuple[Any, ...]] | None = None,
        columns: Sequence[Column] | None = None,
        error: BaseException | None = None,
        respond: Callable[[Request], Answer] | None = None,
        rowcount: int = 1,
        times: int | None = None,
    ) -> None:
        """Say what is answered to statements that hold a pattern.

        Args:
            pattern: A regular expression, searched without regard to case.
            rows: Of a query.
            columns: Of a query; by default named C1, C2, … with the types of the first row.
            error: Raised instead.
            respond: Makes the answer instead.
            rowcount: Of another statement.
            times: How often the line answers; None for always.
        """

        def answer(request: Request) -> Answer:
            if error is not None:
                raise error
            if rows is None:
                return Answer(rowcount=rowcount)
            return Answer(columns=columns or _columns(rows), rows=list(rows))

        compiled = re.compile(pattern, re.IGNORECASE | re.DOTALL)
        self.lines.append(_Line(compiled, respond or answer, times))

    def answer(self, request: Request) -> Answer:
        """Answer one statement."""
        for line in reversed(self.lines):
            if line.times != 0 and line.pattern.search(request.text):
                if line.times is not None:
                    line.times -= 1
                return line.respond(request)
        if _READS.match(request.text):
            raise AssertionError(f"the script has no answer to: {request.text}")
        return Answer(rowcount=1)

    def session(self, user: str, *, is_async: bool) -> Generator[Any, Any, ScriptedSession]:
        """Open a session."""
        return ScriptedSession(self)
        yield


class ScriptedSession:
    """One session; knows what it has not committed."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._pending: list[Request] = []
        self.in_transaction = False

    def execute(self, request: Request) -> Generator[Any, Any, Answer]:
        """Answer, and note what changes something."""
        if _DEFINES.match(request.text):
            yield from self.commit()
        answer = self._script.answer(request)
        if _DEFINES.match(request.text):
            self._script.committed.append(request)
        elif not _READS.match(request.text):
            self.in_transaction = True
            self._pending.append(request)
        elif _LOCKS.search(request.text):
            self.in_transaction = True
        return answer

    def commit(self) -> Generator[Any, Any, None]:
        """Keep what was done."""
        self._script.committed.extend(self._pending)
        self._end()
        return
        yield

    def rollback(self) -> Generator[Any, Any, None]:
        """Forget what was done."""
        self._end()
        return
        yield

    def discard(self) -> None:
        """End."""
        self._end()

    async def interrupt(self) -> None:
        """A script never takes long."""

    def interrupt_now(self) -> None:
        """A script never takes long."""

    def _end(self) -> None:
        self._pending.clear()
        self.in_transaction = False


def _columns(rows: Sequence[tuple[Any, ...]]) -> list[Column]:
    if not rows:
        return [Column("C1", oracledb.DB_TYPE_VARCHAR)]
    return [
        Column(f"C{number}", _type_of([row[number - 1] for row in rows]))
        for number in range(1, len(rows[0]) + 1)
    ]


def _type_of(values: Sequence[Any]) -> Any:
    kinds = {
        int: oracledb.DB_TYPE_NUMBER,
        decimal.Decimal: oracledb.DB_TYPE_NUMBER,
        float: oracledb.DB_TYPE_BINARY_DOUBLE,
        dict: oracledb.DB_TYPE_JSON,
        list: oracledb.DB_TYPE_JSON,
        bytes: oracledb.DB_TYPE_RAW,
        dt.datetime: oracledb.DB_TYPE_TIMESTAMP,
        array.array: oracledb.DB_TYPE_VECTOR,
    }
    present = next((value for value in values if value is not None), "")
    return kinds.get(type(present), oracledb.DB_TYPE_VARCHAR)
