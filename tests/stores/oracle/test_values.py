"""Values on their way to the database and back."""

from __future__ import annotations

import array
import math
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import oracledb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmemory.errors import UsageError
from agentmemory.stores.oracle.statement import BindType, Statement, StatementKind
from agentmemory.stores.oracle.values import (
    NUMBER_KEY,
    Typed,
    from_database,
    from_row,
    input_type_handler,
    to_bind,
    to_json,
    to_rows,
)

EVENING = datetime(2026, 3, 1, 20, 30, 15, 250000, tzinfo=timezone(timedelta(hours=2)))


@pytest.fixture(autouse=True)
def _what_runs_is_right():
    """These tests run no statement of the store that others do not look at."""


leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text().filter(lambda key: not key.startswith("$")), inner, max_size=4)
    ),
    max_leaves=12,
)


def as_stored(value):
    """Return JSON as the driver fetches it: every number is a Decimal."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float):
        # NUMBER keeps 40 digits, and drops zeros at the end.
        return Decimal(repr(value)).normalize()
    if isinstance(value, list):
        return [as_stored(item) for item in value]
    return {key: as_stored(item) for key, item in value.items()}


def same(one, other) -> bool:
    """Tell whether two JSON values are equal, types and signs of zeros included."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


class TestJson:
    @given(values)
    def test_json_comes_back_as_it_was_through_decimal_numbers(self, value):
        container = {"value": value}
        assert same(from_database(as_stored(to_json(container))), container)

    @pytest.mark.parametrize("value", [1.0, -0.0, 0.0, 1e300, 5e-324, 1e22, 1e-200, -1e126])
    def test_floats_that_a_number_does_not_keep_are_kept_as_text(self, value):
        assert to_json(value) == {NUMBER_KEY: repr(value)}

    @pytest.mark.parametrize("value", [0.1, -2.5, 3, 2**62, True, "1.0"])
    def test_everything_else_is_stored_as_it_is(self, value):
        assert to_json({"v": [value]}) == {"v": [value]}

    def test_tuples_are_lists(self):
        assert to_json({"v": (1, 2)}) == {"v": [1, 2]}


class TestBinds:
    def test_times_are_sent_in_utc_and_a_naive_one_is_refused(self):
        bound = to_bind(EVENING, None)
        assert isinstance(bound, Typed)
        assert bound.type is oracledb.DB_TYPE_TIMESTAMP
        assert bound.value == datetime(2026, 3, 1, 18, 30, 15, 250000)  # noqa: DTZ001
        with pytest.raises(UsageError, match="zone"):
            to_bind(datetime(2026, 3, 1), BindType.TIMESTAMP)  # noqa: DTZ001

    @pytest.mark.parametrize(
        "given", [[1, 2], (1.0, 2.0), np.array([1, 2]), array.array("d", [1, 2])]
    )
    def test_vectors_are_sent_as_float32(self, given):
        bound = to_bind(given, BindType.VECTOR)
        assert isinstance(bound, Typed)
        assert bound.value == array.array("f", [1, 2])

    @pytest.mark.parametrize(
        ("value", "kind"),
        [("text", None), ("text", BindType.CLOB), (None, BindType.CLOB), (None, BindType.STRING)],
    )
    def test_texts_are_left_to_the_driver(self, value, kind):
        assert to_bind(value, kind) == value

    @pytest.mark.parametrize("value", [7, 0.5, True, None, "x", b"x"])
    def test_what_tells_its_own_type_needs_none(self, value):
        assert to_bind(value, None) is value

    def test_a_bind_that_is_a_time_in_one_row_is_one_in_all(self):
        rows = to_rows(
            Statement(
                name="test.rows",
                text="UPDATE t SET a = :a WHERE b = :b",
                kind=StatementKind.MANY,
                rows=({"a": None, "b": 1}, {"a": EVENING, "b": 2}),
            )
        )
        assert [row["a"].type for row in rows] == [oracledb.DB_TYPE_TIMESTAMP] * 2
        assert rows[0]["a"].value is None

    def test_no_value_is_shown(self):
        assert "secret" not in repr(Typed("secret", oracledb.DB_TYPE_JSON))

    def test_the_handler_leaves_other_values_to_the_driver(self):
        assert input_type_handler(None, "text", 1) is None


class TestRows:
    def test_rows_are_plain_python(self):
        naive = datetime(2026, 3, 1, 18, 30)  # noqa: DTZ001
        row = from_row(
            (
                "",
                "text",
                naive,
                Decimal(7),
                Decimal("7.5"),
                {"n": Decimal(1), "t": ""},
                [Decimal("0.5")],
                None,
                b"",
                3,
                0.25,
            )
        )
        assert row == (
            None,
            "text",
            naive.replace(tzinfo=UTC),
            7,
            7.5,
            {"n": 1, "t": ""},
            [0.5],
            None,
            b"",
            3,
            0.25,
        )
        assert type(row[3]) is int
        assert type(row[5]["n"]) is int

    def test_vectors_are_arrays_of_float32(self):
        vector = from_database(array.array("f", [1, 2]))
        assert vector.dtype == np.float32
        assert vector.tolist() == [1, 2]
