"""Turns python-oracledb's errors into the library's own, and says what may cure them.

May import errors. Sources of the numbers: the driver's own lists of dead sessions and recoverable
errors (`oracledb.errors`, release 26.1), and Oracle's error reference.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Final

import oracledb

from agentmemory.errors import (
    AgentMemoryError,
    CapabilityMissingError,
    ConfigurationError,
    ConflictError,
    EmbedderMismatchError,
    SchemaMismatchError,
    StoreBusyError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreTimeoutError,
    StoreUnavailableError,
    ValidationError,
)

_DPY: Final = "DPY"


class Remedy(enum.Enum):
    """What may make the same unit of work succeed."""

    NONE = "none"
    """Nothing the engine could do."""
    AGAIN = "again"
    """Running it again, after a rollback: a deadlock, a lock, a snapshot that is gone."""
    RECONNECT = "reconnect"
    """Running it again on another connection: this one is dead, or there was none."""


_AGAIN: Final = frozenset(
    {
        54,  # a row or table is locked, and NOWAIT or a timeout
        60,  # deadlock
        1555,  # snapshot too old
        4020,  # deadlock on an object of the library cache
        4021,  # timeout on a lock on an object
        4061,  # package state was invalidated
        4065,
        4068,
        8176,  # no consistent read, for a concurrent DDL statement
        8177,  # serialisation
        30006,  # lock, WAIT timed out
    }
)
_RECONNECT: Final = frozenset(
    {
        376,
        1033,
        1034,
        1090,
        1109,
        1115,
        3111,
        12514,
        12516,
        12518,
        12519,
        12520,
        12528,
        12571,
        12757,
        16456,
    }
)
_BUSY: Final = frozenset({18, 20, 54, 60, 2391, 4020, 4021, 4031, 8177, 12516, 12518, 12519}) | {
    12520,
    30006,
}
_FULL: Final = frozenset({257, 1536, 1628, 1631, 1632, 1658, 1659, 1683, 1688, 12953, 30036})
_FULL_RANGES: Final = (range(1650, 1656), range(1691, 1694))
_NO_TABLE: Final = frozenset({904, 942, 1435, 2289, 4043, 4063})
_NO_PRIVILEGE: Final = frozenset({1031, 1039, 1720, 1950, 27486, 41900, 41904})
_NO_LOGIN: Final = frozenset({1004, 1005, 1017, 1040, 1045, 28000, 28001, 28009, 28030, 28040})
_NOT_SUPPORTED: Final = frozenset({406, 439, 3001, 29833, 51962})
_BROKEN_INDEX: Final = frozenset({29861, 29863, 29960})
_CORRUPT: Final = frozenset({1578, 8102, 8103, 26040})
_READ_ONLY: Final = frozenset({16000, 1219, 1552, 12985})
_TIMEOUT: Final = frozenset({40, 51, 1013, 3136, 12170, 12535, 56735})
_OTHER_DIMENSION: Final = frozenset({51803, 51808, 51932})

# A service that is not registered yet (6001, 6003) is one that is just starting.
_DPY_LOST: Final = frozenset({1001, 4011, 4033, 5006, 6000, 6001, 6003, 6004, 6005})
_DPY_CONFIGURATION: Final = frozenset({4000, 4017, 4018, 4021, 4022, 4026, 4027, 4028, 4030, 4032})
_DPY_NO_LOGIN: Final = frozenset({2031, 2032, 2033, 3015, 3016, 4001, 6002, 6006, 6008, 6009})


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What is known of a failure of the driver.

    Args:
        code: Such as "ORA-00060" or "DPY-4011".
        remedy: What the engine may try.
        lost: Whether the answer was lost with the connection, so that nobody knows what the
            database did with the request.
        unusable: Whether the connection is of no use any more.
    """

    code: str
    remedy: Remedy
    lost: bool = False
    unusable: bool = False


def diagnose(error: BaseException) -> Diagnosis:
    """Say what is known of an error that the driver raised."""
    if isinstance(error, OSError):
        return Diagnosis(
            code=type(error).__name__, remedy=Remedy.RECONNECT, lost=True, unusable=True
        )
    family, number, code = _numbers(error)
    detail: Any = error.args[0] if error.args else None
    dead = bool(getattr(detail, "is_session_dead", False))
    if dead or (family == _DPY and number in _DPY_LOST):
        return Diagnosis(code=code, remedy=Remedy.RECONNECT, lost=True, unusable=True)
    if family == _DPY:
        # A call that timed out was broken off and may have been done just before.
        return Diagnosis(code=code, remedy=Remedy.NONE, lost=number == 4024)
    if number in _AGAIN:
        return Diagnosis(code=code, remedy=Remedy.AGAIN)
    if number in _RECONNECT or getattr(detail, "isrecoverable", False):
        return Diagnosis(code=code, remedy=Remedy.RECONNECT, unusable=True)
    return Diagnosis(code=code, remedy=Remedy.NONE)


def translate(error: BaseException, where: str) -> AgentMemoryError:
    """Return the library's error for one of the driver's, with that one as its `__cause__`.

    Args:
        error: What the driver raised.
        where: Names the database; holds no secret.
    """
    translated = _translate(error, where)
    translated.__cause__ = error
    return translated


def brief(error: BaseException) -> str:
    """Return what a driver's error says in one line, without what it says of stored rows."""
    lines = [line for line in str(error).splitlines() if line and not line.startswith("Help:")]
    if not lines:
        return type(error).__name__
    # The driver puts a sentence of its own before the database's or the network's. Further lines
    # of the database's quote values.
    return "; ".join(lines[: 2 if lines[0].startswith(_DPY) else 1])


def _numbers(error: BaseException) -> tuple[str, int, str]:
    detail: Any = error.args[0] if error.args else None
    code = str(getattr(detail, "full_code", "") or "")
    family, _, digits = code.partition("-")
    number = int(digits) if digits.isdecimal() else 0
    return family, number, code or type(error).__name__


def _translate(error: BaseException, where: str) -> AgentMemoryError:
    if isinstance(error, OSError):
        return StoreUnavailableError(f"cannot reach {where} ({error.strerror or error})")
    family, number, _ = _numbers(error)
    said = brief(error)
    if family == _DPY:
        return _of_driver(number, where, said)
    return _of_database(number, where, said, str(error))


def _of_driver(number: int, where: str, said: str) -> AgentMemoryError:
    if number in _DPY_LOST:
        verb = "lost the connection to" if number in (1001, 4011, 4033) else "cannot reach"
        return StoreUnavailableError(f"{verb} {where} ({said})")
    if number in _DPY_CONFIGURATION or 2000 <= number < 2100:
        return ConfigurationError(f"`connection` cannot be used for {where}: {said}")
    if number in _DPY_NO_LOGIN:
        return _refused_login(where, said)
    if number == 4005:
        return StoreBusyError(f"all connections to {where} stayed in use ({said})")
    if number == 4024:
        return StoreTimeoutError(f"{where} took longer to answer than it may ({said})")
    if number == 1002:
        return _for_good(StoreUnavailableError(f"the pool of {where} is closed ({said})"))
    if number in (3020, 5015):
        return ValidationError(
            f"`metadata` cannot be stored in {where}: {said}", argument="metadata"
        )
    if 3000 <= number < 4000:
        return CapabilityMissingError(f"{where} or its driver cannot do this ({said})")
    return StoreError(f"the driver refused a statement for {where} ({said})")


def _of_database(number: int, where: str, said: str, whole: str) -> AgentMemoryError:
    if number == 1:
        return ConflictError(f"a record with the same key exists already ({said})")
    if number in _BUSY:
        return StoreBusyError(f"{where} is busy with others' work ({said})")
    if number in _FULL or any(number in numbers for numbers in _FULL_RANGES):
        return StoreFullError(
            f"no space is left in {where}; nothing of the operation was kept ({said})"
        )
    if number in _TIMEOUT:
        return StoreTimeoutError(f"{where} stopped the operation ({said})")
    if number in _NO_TABLE:
        return SchemaMismatchError(
            f"what the store needs is not in {where}, or this user may not see it ({said})"
        )
    if number in _NO_PRIVILEGE:
        return CapabilityMissingError(f"this user of {where} lacks a privilege ({said})")
    if number in _NO_LOGIN:
        return _refused_login(where, said)
    if number in _READ_ONLY:
        return _for_good(StoreUnavailableError(f"{where} cannot be written ({said})"))
    if number in _BROKEN_INDEX:
        return CapabilityMissingError(f"an index of {where} is broken or being built ({said})")
    if number in _NOT_SUPPORTED:
        return CapabilityMissingError(f"{where} cannot do this ({said})")
    if number in _OTHER_DIMENSION:
        return EmbedderMismatchError(
            f"the vectors in {where} have another length than those of this embedder ({said})"
        )
    if number in _CORRUPT:
        return StoreCorruptError(f"{where} is damaged ({said})")
    if "DRG-51030" in whole:
        return ValidationError(
            "`query` holds a prefix that too many words begin with; make it longer",
            argument="query",
        )
    if number in _AGAIN:
        problem = StoreError(f"{where} could not finish the operation ({said})")
        problem.retryable = True
        return problem
    if number in _RECONNECT:
        return StoreUnavailableError(f"cannot reach {where} ({said})")
    return StoreError(f"{where} refused a statement ({said})")


def _refused_login(where: str, said: str) -> AgentMemoryError:
    return _for_good(StoreUnavailableError(f"{where} did not accept the credentials ({said})"))


def _for_good(error: StoreError) -> StoreError:
    error.retryable = False
    return error


def is_driver_error(error: BaseException) -> bool:
    """Tell whether an error is the driver's or the network's."""
    return isinstance(error, oracledb.Error | OSError)
