"""Values on their way to python-oracledb and back; pure but for the driver's types.

May import errors, and `statement` of this package.

What the driver cannot tell from a value, it is told by a wrapper, `Typed`, which a handler on the
connection turns into a variable. That reaches every way a statement can be run, pipelines and
arrays of rows too, where the driver has no place for input sizes. Texts stay as they are: the
driver sends a text of any length without a trip of its own, while a CLOB variable would cost two
for each value.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import numpy as np
import oracledb

from agentmemory.errors import UsageError
from agentmemory.stores.oracle.statement import BindType, Statement, StatementKind

NUMBER_KEY: Final = "$number"
"""Key of an object that stands for a float in stored JSON; keys of callers never start with `$`."""

_DB_TYPES: Final[Mapping[BindType, oracledb.DbType]] = {
    BindType.BLOB: oracledb.DB_TYPE_RAW,
    BindType.JSON: oracledb.DB_TYPE_JSON,
    BindType.NUMBER: oracledb.DB_TYPE_NUMBER,
    BindType.DOUBLE: oracledb.DB_TYPE_BINARY_DOUBLE,
    BindType.TIMESTAMP: oracledb.DB_TYPE_TIMESTAMP,
    BindType.VECTOR: oracledb.DB_TYPE_VECTOR,
}
"""Types the driver has to be told. Texts are not among them, nor are CLOBs, which take texts."""


class Typed:
    """A value, and the type of the variable that carries it to the database.

    Args:
        value: What the driver is to send.
        type: The driver's type; those of one bind are equal in all rows of a statement.
    """

    __slots__ = ("type", "value")

    def __init__(self, value: object, type_: oracledb.DbType) -> None:
        self.value = value
        self.type = type_

    def __repr__(self) -> str:
        return f"Typed({self.type.name})"


def input_type_handler(cursor: Any, value: object, arraysize: int) -> Any:
    """Make the variable for a `Typed` value; for others the driver decides. A driver's callback."""
    if not isinstance(value, Typed):
        return None
    size = 0
    if value.type is oracledb.DB_TYPE_RAW:
        size = len(value.value) if isinstance(value.value, bytes) else 1
    return cursor.var(value.type, size=size, arraysize=arraysize, inconverter=_unwrap)


def _unwrap(value: object) -> object:
    return value.value if isinstance(value, Typed) else value


def to_binds(statement: Statement) -> dict[str, Any]:
    """Return the values of a statement that runs once, in the driver's form."""
    types = statement.types
    return {name: to_bind(value, types.get(name)) for name, value in statement.binds.items()}


def to_rows(statement: Statement) -> list[dict[str, Any]]:
    """Return the values of each execution of a `MANY` statement, in the driver's form.

    A bind that is a time in one row carries its type in all of them, for the driver takes the
    type of the first.
    """
    if statement.kind is not StatementKind.MANY:
        raise UsageError(f"{statement.name} runs once; it has `binds`, not `rows`")
    types = dict(statement.types)
    for row in statement.rows:
        for name, value in row.items():
            if name not in types and isinstance(value, datetime):
                types[name] = BindType.TIMESTAMP
    return [
        {name: to_bind(value, types.get(name)) for name, value in row.items()}
        for row in statement.rows
    ]


def to_bind(value: object, kind: BindType | None) -> object:
    """Return one value in the driver's form.

    Args:
        value: Plain Python; times are aware, vectors are arrays of floats.
        kind: Its type, if the value does not tell it.
    """
    if kind is None:
        if isinstance(value, datetime):
            kind = BindType.TIMESTAMP
        elif isinstance(value, np.ndarray | array):
            kind = BindType.VECTOR
        elif isinstance(value, dict | list):
            kind = BindType.JSON
        else:
            return value
    db_type = _DB_TYPES.get(kind)
    if db_type is None:
        return value
    if value is not None and kind in _CONVERSIONS:
        value = _CONVERSIONS[kind](value)
    return Typed(value, db_type)


def to_timestamp(value: datetime) -> datetime:
    """Return a time in UTC without its zone, for the driver would drop any zone unread."""
    if value.tzinfo is None:
        raise UsageError(f"a time without a zone cannot be stored: {value!r}")
    return value.astimezone(UTC).replace(tzinfo=None)


def to_vector(value: Any) -> array[float]:
    """Return a vector as the driver takes it: an array of float32."""
    if isinstance(value, array) and value.typecode == "f":
        return value
    return array("f", np.ascontiguousarray(value, dtype=np.float32).tobytes())


def to_json(value: Any) -> Any:
    """Return a JSON value that the database gives back unchanged.

    It keeps numbers in decimal: 1.0 would come back as 1, 1e300 would be refused, and both are
    floats that a caller may store. Such a float is kept as its text, in an object of its own.
    """
    if isinstance(value, float):
        return value if _is_kept(value) else {NUMBER_KEY: repr(value)}
    if isinstance(value, Mapping):
        return {name: to_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    return value


def _is_kept(value: float) -> bool:
    # NUMBER holds magnitudes from 1e-130 to below 1e126, and no float without a fraction.
    return not value.is_integer() and 1e-129 < abs(value) < 1e125 and math.isfinite(value)


def _to_blob(value: Any) -> bytes:
    return bytes(value)


_CONVERSIONS: Final[Mapping[BindType, Callable[[Any], Any]]] = {
    BindType.BLOB: _to_blob,
    BindType.DOUBLE: float,
    BindType.JSON: to_json,
    BindType.TIMESTAMP: to_timestamp,
    BindType.VECTOR: to_vector,
}


def from_row(row: Sequence[Any]) -> tuple[Any, ...]:
    """Return a fetched row as plain Python."""
    return tuple(_READ[type(value)](value) if type(value) in _READ else value for value in row)


def from_database(value: Any) -> Any:
    """Return a fetched value as plain Python: see `Transaction`."""
    read = _READ.get(type(value))
    return value if read is None else read(value)


def _from_text(value: str) -> str | None:
    # An empty CLOB is fetched as an empty text; everywhere else that is NULL.
    return value or None


def _from_timestamp(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC)


def _from_decimal(value: Decimal) -> int | float:
    return int(value) if value == value.to_integral_value() else float(value)


def _from_array(value: array[float]) -> Any:
    return np.array(value, dtype=np.float32)


def _from_object(value: dict[str, Any]) -> Any:
    if len(value) == 1 and NUMBER_KEY in value:
        return float(value[NUMBER_KEY])
    return {name: _from_json(item) for name, item in value.items()}


def _from_list(value: list[Any]) -> list[Any]:
    return [_from_json(item) for item in value]


def _from_json(value: Any) -> Any:
    # Texts in JSON are what they are: an empty one is no NULL.
    return value if isinstance(value, str) else from_database(value)


_READ: Final[Mapping[type, Callable[[Any], Any]]] = {
    str: _from_text,
    datetime: _from_timestamp,
    Decimal: _from_decimal,
    array: _from_array,
    dict: _from_object,
    list: _from_list,
}
