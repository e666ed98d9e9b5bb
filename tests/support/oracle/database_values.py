"""Columns and values of PostgreSQL as those of Oracle."""

from __future__ import annotations

import array
import json
from typing import Any, Final

import oracledb

from tests.support.oracle.translate import NUL
from tests.support.oracle.values import Column

_BOOL, _BYTEA, _INT8, _INT2, _INT4, _TEXT = 16, 17, 20, 21, 23, 25
_FLOAT4, _FLOAT8, _UNKNOWN, _VARCHAR, _TIMESTAMP = 700, 701, 705, 1043, 1114
_TIMESTAMPTZ, _NUMERIC, _JSONB, _NAME, _BPCHAR = 1184, 1700, 3802, 19, 1042

_TYPES: Final = {
    _BYTEA: oracledb.DB_TYPE_BLOB,
    _INT2: oracledb.DB_TYPE_NUMBER,
    _INT4: oracledb.DB_TYPE_NUMBER,
    _INT8: oracledb.DB_TYPE_NUMBER,
    _NUMERIC: oracledb.DB_TYPE_NUMBER,
    _FLOAT4: oracledb.DB_TYPE_BINARY_FLOAT,
    _FLOAT8: oracledb.DB_TYPE_BINARY_DOUBLE,
    _VARCHAR: oracledb.DB_TYPE_VARCHAR,
    _NAME: oracledb.DB_TYPE_VARCHAR,
    _BPCHAR: oracledb.DB_TYPE_CHAR,
    _UNKNOWN: oracledb.DB_TYPE_VARCHAR,
    _TIMESTAMP: oracledb.DB_TYPE_TIMESTAMP,
    _TIMESTAMPTZ: oracledb.DB_TYPE_TIMESTAMP_TZ,
    _JSONB: oracledb.DB_TYPE_JSON,
    _BOOL: oracledb.DB_TYPE_BOOLEAN,
}


def column_of(cursor: Any, result: Any, place: int) -> Column:
    """Return what Oracle would say of a column of an answer."""
    kind = result.ftype(place)
    name = result.fname(place).decode()
    # What was not quoted is in small letters here and in capitals there.
    name = name.upper() if name.islower() else name
    if kind == _TEXT:
        # Columns of CLOB are of this type here; so are the values of functions, which are short.
        stored = result.ftable(place) != 0
        return Column(name, oracledb.DB_TYPE_CLOB if stored else oracledb.DB_TYPE_VARCHAR)
    if kind not in _TYPES:
        return Column(name, oracledb.DB_TYPE_VECTOR)
    return Column(name, _TYPES[kind], 0 if kind in (_INT2, _INT4, _INT8) else None)


def read_value(column: Column, value: Any) -> Any:
    """Return a value in the form that Oracle would send it in."""
    if value is None:
        return None
    if column.type is oracledb.DB_TYPE_VECTOR:
        return array.array("f", json.loads(value))
    if column.type in (oracledb.DB_TYPE_VARCHAR, oracledb.DB_TYPE_CLOB):
        return value.replace(NUL, "\0") or None
    if column.type is oracledb.DB_TYPE_JSON:
        return _with_nul(value)
    if column.type is oracledb.DB_TYPE_TIMESTAMP_TZ:
        return value.replace(tzinfo=None)
    return value


def _with_nul(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace(NUL, "\0")
    if isinstance(value, dict):
        return {_with_nul(key): _with_nul(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_nul(item) for item in value]
    return value
