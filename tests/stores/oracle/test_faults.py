"""Errors of the driver become the library's, and say what may cure them."""

from __future__ import annotations

import pytest
from oracledb import errors as driver_errors

from agentmemory.errors import (
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
from agentmemory.stores.oracle.faults import Remedy, brief, diagnose, translate
from tests.support.oracle.errors import dpy, ora

WHERE = "the Oracle database 'db.example.com/memory'"
NONE, AGAIN, RECONNECT = Remedy.NONE, Remedy.AGAIN, Remedy.RECONNECT

DATABASE = [
    (1, ConflictError, False, NONE),
    (18, StoreBusyError, True, NONE),
    (54, StoreBusyError, True, AGAIN),
    (60, StoreBusyError, True, AGAIN),
    (257, StoreFullError, False, NONE),
    (600, StoreUnavailableError, True, RECONNECT),
    (904, SchemaMismatchError, False, NONE),
    (942, SchemaMismatchError, False, NONE),
    (1013, StoreTimeoutError, True, NONE),
    (1017, StoreUnavailableError, False, NONE),
    (1031, CapabilityMissingError, False, NONE),
    (1033, StoreUnavailableError, True, RECONNECT),
    (1400, StoreError, False, NONE),
    (1536, StoreFullError, False, NONE),
    (1555, StoreError, True, AGAIN),
    (1578, StoreCorruptError, False, NONE),
    (1653, StoreFullError, False, NONE),
    (1691, StoreFullError, False, NONE),
    (2290, StoreError, False, NONE),
    (2291, StoreError, False, NONE),
    (3113, StoreUnavailableError, True, RECONNECT),
    (3135, StoreUnavailableError, True, RECONNECT),
    (4021, StoreBusyError, True, AGAIN),
    (4068, StoreError, True, AGAIN),
    (8177, StoreBusyError, True, AGAIN),
    (12514, StoreUnavailableError, True, RECONNECT),
    (12516, StoreBusyError, True, RECONNECT),
    (12535, StoreTimeoutError, True, NONE),
    (12953, StoreFullError, False, NONE),
    (16000, StoreUnavailableError, False, NONE),
    (28000, StoreUnavailableError, False, NONE),
    (29861, CapabilityMissingError, False, NONE),
    (30006, StoreBusyError, True, AGAIN),
    (41900, CapabilityMissingError, False, NONE),
    (51803, EmbedderMismatchError, False, NONE),
    (51962, CapabilityMissingError, False, NONE),
]

DRIVER = [
    ("ERR_NOT_CONNECTED", {}, StoreUnavailableError, True, RECONNECT),
    ("ERR_POOL_NOT_OPEN", {}, StoreUnavailableError, False, NONE),
    ("ERR_CONNECTION_CLOSED", {}, StoreUnavailableError, True, RECONNECT),
    ("ERR_POOL_NO_CONNECTION_AVAILABLE", {}, StoreBusyError, True, NONE),
    ("ERR_CALL_TIMEOUT_EXCEEDED", {"timeout": 5}, StoreTimeoutError, True, NONE),
    ("ERR_NO_CREDENTIALS", {}, StoreUnavailableError, False, NONE),
    ("ERR_TNS_ENTRY_NOT_FOUND", {"name": "x", "file_name": "y"}, ConfigurationError, False, NONE),
    ("ERR_NO_CONFIG_DIR", {}, ConfigurationError, False, NONE),
    ("ERR_THICK_MODE_ENABLED", {}, ConfigurationError, False, NONE),
    ("ERR_CONNECTION_FAILED", {"connection_id": "c"}, StoreUnavailableError, True, RECONNECT),
    (
        "ERR_FEATURE_NOT_SUPPORTED",
        {"feature": "f", "driver_type": "thick"},
        CapabilityMissingError,
        False,
        NONE,
    ),
    (
        "ERR_OSON_FIELD_NAME_LIMITATION",
        {"max_fname_size": 255},
        ValidationError,
        False,
        NONE,
    ),
    ("ERR_MISSING_BIND_VALUE", {"name": "a"}, StoreError, False, NONE),
]


@pytest.fixture(autouse=True)
def _what_runs_is_right():
    """These tests run no statement of the store that others do not look at."""


@pytest.mark.parametrize(("code", "kind", "retryable", "remedy"), DATABASE)
def test_errors_of_the_database(code, kind, retryable, remedy):
    error = ora(code, text="as the database says")
    translated = translate(error, WHERE)
    assert type(translated) is kind
    assert translated.retryable is retryable
    assert translated.__cause__ is error
    assert f"ORA-{code:05}" in str(translated)
    assert diagnose(error).remedy is remedy


@pytest.mark.parametrize(("name", "given", "kind", "retryable", "remedy"), DRIVER)
def test_errors_of_the_driver(name, given, kind, retryable, remedy):
    error = driver_errors._create_exception(getattr(driver_errors, name), **given)
    translated = translate(error, WHERE)
    assert type(translated) is kind
    assert translated.retryable is retryable
    assert translated.__cause__ is error
    assert error.args[0].full_code in str(translated)
    assert diagnose(error).remedy is remedy


@pytest.mark.parametrize("code", [3113, 3114, 1012, 2396, 12537, 28, 31])
def test_a_dead_session_has_lost_its_answer_and_is_of_no_use(code):
    known = diagnose(ora(code, text="gone"))
    assert known.code == "DPY-4011"
    assert known.lost
    assert known.unusable


def test_what_the_database_answers_is_not_lost():
    assert not diagnose(ora(60)).lost
    assert not diagnose(ora(60)).unusable


def test_a_network_error_is_one_of_the_database():
    error = ConnectionRefusedError(111, "Connection refused")
    assert str(translate(error, WHERE)) == f"cannot reach {WHERE} (Connection refused)"
    assert diagnose(error).remedy is RECONNECT


def test_texts_hold_the_first_line_only_which_quotes_no_row():
    error = ora(
        1,
        text="unique constraint (X.PK) violated on table X.T columns (ID)\n"
        "ORA-03301: (ORA-00001 details) row with column values (ID:'private') already exists",
    )
    assert "private" not in str(translate(error, WHERE))
    assert brief(error).endswith("columns (ID)")


def test_texts_of_the_driver_hold_what_the_database_or_the_network_said():
    error = dpy("ERR_CONNECTION_FAILED", connection_id="c", cause=OSError(111, "refused"))
    assert brief(error) == (
        "DPY-6005: cannot connect to database (CONNECTION_ID=c).; [Errno 111] refused"
    )


def test_a_prefix_of_too_many_words_is_the_callers():
    error = ora(
        29902,
        text="error in executing ODCIIndexStart() routine\nORA-20000: Oracle Text error:\n"
        "DRG-51030: wildcard query expansion resulted in too many terms",
    )
    translated = translate(error, WHERE)
    assert isinstance(translated, ValidationError)
    assert translated.argument == "query"
