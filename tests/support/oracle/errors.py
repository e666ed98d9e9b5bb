"""Errors as python-oracledb raises them: its own objects, with real codes."""

from __future__ import annotations

from typing import Any, Final

import oracledb
from oracledb import errors as driver_errors

TEXTS: Final = {
    1: "unique constraint ({detail}) violated",
    54: "resource busy and acquire with NOWAIT specified or timeout expired",
    60: "deadlock detected while waiting for resource",
    904: "{detail}: invalid identifier",
    907: "missing right parenthesis",
    932: "inconsistent datatypes: {detail}",
    942: "table or view {detail} does not exist",
    955: "name is already used by an existing object",
    1013: "user requested cancel of current operation",
    1017: "invalid credential or not authorized; logon denied",
    1031: "insufficient privileges",
    1033: "ORACLE initialization or shutdown in progress",
    1400: "cannot insert NULL into ({detail})",
    1407: "cannot update ({detail}) to NULL",
    1438: "value larger than specified precision allowed for this column",
    1476: "divisor is equal to zero",
    1722: "unable to convert string value to a number",
    2290: "check constraint ({detail}) violated",
    2291: "integrity constraint ({detail}) violated - parent key not found",
    2292: "integrity constraint ({detail}) violated - child record found",
    3113: "end-of-file on communication channel",
    4068: "existing state of packages has been discarded",
    6550: "{detail}",
    8177: "can't serialize access for this transaction",
    12514: "Cannot connect to database. Service is not registered with the listener",
    12516: "Cannot connect to database. All handlers are busy",
    12899: "value too large for column {detail}",
    20000: "Oracle Text error: {detail}",
    29855: "error occurred in the execution of ODCIINDEXCREATE routine",
    29861: "domain index is marked LOADING/FAILED/UNUSABLE",
    29902: "error in executing ODCIIndexStart() routine",
    30006: "resource busy; acquire with WAIT timeout expired",
    51803: "Vector dimension count must match the dimension count specified in the column",
    51962: "The vector memory area is out of space for the current container.",
}


def ora(code: int, detail: str = "", text: str | None = None) -> oracledb.Error:
    """Make the exception the driver raises for a database error.

    Args:
        code: The number after `ORA-`. Codes of dead sessions become DPY-4011, as in the driver.
        detail: What the text names, such as the constraint.
        text: The text after the code, if it is not the one of `TEXTS`.
    """
    words = TEXTS[code].format(detail=detail) if text is None else text
    error = driver_errors._Error(message=f"ORA-{code:05}: {words}", code=code)
    raised = error.exc_type(error)
    assert isinstance(raised, oracledb.Error)
    return raised


def dpy(name: str, **arguments: Any) -> oracledb.Error:
    """Make an exception of the driver's own, by the name of its number in `oracledb.errors`."""
    raised = driver_errors._create_exception(getattr(driver_errors, name), **arguments)
    assert isinstance(raised, oracledb.Error)
    return raised


def connection_closed() -> oracledb.Error:
    """Make DPY-4011: the network or the database closed the connection."""
    return dpy("ERR_CONNECTION_CLOSED")


def code_of(error: BaseException) -> str:
    """Return the full code of a driver's exception, such as "ORA-00001"."""
    return str(error.args[0].full_code)
