"""Errors of PostgreSQL as those that Oracle would raise."""

from __future__ import annotations

import re

import psycopg

from tests.support.oracle.errors import connection_closed, ora
from tests.support.oracle.sql_tokens import UntranslatableError

_COLUMNS = re.compile(r"Key \((?P<columns>[^)]*)\)=")


def oracle_error(error: psycopg.Error, text: str) -> BaseException:
    """Return what Oracle would raise.

    An error that says the emulation is wrong, such as one of syntax, is no error of Oracle's: it
    comes back as `UntranslatableError`.
    """
    state = error.sqlstate
    named = _named(error)
    if state is None or state.startswith(("08", "57P")):
        return connection_closed()
    if state == "23505" and error.diag.schema_name == "pg_catalog":
        # Of two definitions at once the second one finds its name taken only here.
        return ora(955)
    if state == "23505":
        return ora(1, text=_not_unique(error))
    if state == "23503":
        missing = "insert or update" in str(error)
        return ora(2291 if missing else 2292, named)
    if state == "23502":
        updates = text.lstrip().upper().startswith(("UPDATE", "MERGE"))
        column = ".".join(
            f'"{part}"'.upper()
            for part in (error.diag.schema_name, error.diag.table_name, error.diag.column_name)
        )
        return ora(1407 if updates else 1400, column)
    if state == "23514":
        name = error.diag.constraint_name or ""
        if name.startswith("bytes_of_"):
            return ora(12899, f'"{name.removeprefix("bytes_of_").upper()}"')
        return ora(2290, named)
    code = _CODES.get(state)
    if code is not None:
        found = re.search(r'"([^"]*)"', str(error))
        return ora(code, found[1].upper() if found else "")
    if state == "22000" and "vector dimensions" in str(error):
        return ora(51803)
    return UntranslatableError(f"{state} {error}\nof {text}")


_CODES = {
    "42P01": 942,
    "42703": 904,
    "42P07": 955,
    "42710": 955,
    "42501": 1031,
    "40P01": 60,
    "40001": 8177,
    "55P03": 54,
    "57014": 1013,
    "22P02": 1722,
    "22003": 1438,
    "22012": 1476,
}


def _named(error: psycopg.Error) -> str:
    diag = error.diag
    return f"{diag.schema_name}.{diag.constraint_name}".upper()


def _not_unique(error: psycopg.Error) -> str:
    diag = error.diag
    table = f"{diag.schema_name}.{diag.table_name}".upper()
    found = _COLUMNS.search(diag.message_detail or "")
    columns = found["columns"].upper() if found else ""
    return (
        f"unique constraint ({_named(error)}) violated on table {table} columns ({columns})\n"
        "ORA-03301: (ORA-00001 details) row with this value already exists"
    )
