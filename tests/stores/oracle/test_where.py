"""Conditions of a record filter: every value is bound, every list is padded."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentmemory.records import Layer, Tier
from agentmemory.requests import RecordFilter
from agentmemory.scope import NOT_SET_MARKER, DimensionMatch, ScopeFilter
from agentmemory.stores.oracle.schema import FILTER_COLUMNS, Tables
from agentmemory.stores.oracle.where import (
    MAX_BATCH,
    MAX_LISTED,
    Where,
    add_id,
    add_list,
    batches,
    chunk_where,
    record_where,
)
from tests.stores.oracle.samples_reading import EVERYTHING, FILTERS

T = Tables("DEFAULT")
NOW = datetime(2026, 5, 1, tzinfo=UTC)
PLAIN = RecordFilter(scope=ScopeFilter(), now=NOW)


def marks(sql: str) -> set[str]:
    return set(re.findall(r":(\w+)", sql))


@pytest.mark.parametrize("record_filter", FILTERS)
def test_binds_used_are_binds_given(record_filter):
    for where in (record_where(record_filter), chunk_where(T, record_filter)):
        assert marks(where.sql) == set(where.binds)


def test_a_prefix_keeps_two_filters_apart():
    first = record_where(EVERYTHING, "a", prefix="a_")
    second = record_where(EVERYTHING, "b", prefix="b_")
    assert not first.binds.keys() & second.binds.keys()
    assert first.sql.replace("a.", "b.").replace(":a_", ":b_") == second.sql


def test_chunks_are_asked_for_the_columns_they_repeat():
    own = re.findall(r"\bc\.(\w+)", chunk_where(T, EVERYTHING).sql)
    assert set(own) <= {*FILTER_COLUMNS, "record_seq"}
    assert not re.search(r"\br\.(user_id|tier|layer|created_at)\b", chunk_where(T, EVERYTHING).sql)
    assert "EXISTS" not in chunk_where(T, PLAIN).sql


def test_a_past_is_asked_of_the_record_which_knows_since_when_it_is_invalid():
    then = replace(PLAIN, include_invalid=False, known_at=NOW)
    assert "r.invalidated_at > :f_known_at" in chunk_where(T, then).sql
    assert "c.created_at <= :f_known_at" in chunk_where(T, then).sql
    now = replace(PLAIN, include_invalid=False)
    assert "c.status = 'valid'" in chunk_where(T, now).sql


def test_no_value_is_part_of_the_text():
    words = {"ada", "guide", "t1", "gold", "Bern", "fact", "preference", "rule", "context", "r1"}
    for where in (record_where(EVERYTHING), chunk_where(T, EVERYTHING)):
        assert not any(re.search(rf"\b{word}\b", where.sql) for word in words)


CHANGES = {
    "scope": ScopeFilter(user=DimensionMatch(True, "ada")),
    "record_types": ("fact",),
    "include_invalid": False,
    "metadata": {"a": 1},
    "tiers": (Tier.COLD,),
    "layers": (Layer.RULE,),
    "event_after": NOW,
    "event_before": NOW,
    "created_after": NOW,
    "created_before": NOW,
    "valid_at": NOW,
    "known_at": NOW,
    "ids": ("x",),
    "exclude_ids": ("x",),
    "only_expired": True,
}


def test_every_field_of_a_filter_changes_the_condition():
    assert set(CHANGES) == {item.name for item in fields(RecordFilter)} - {"now"}
    for name, value in CHANGES.items():
        change: dict[str, Any] = {name: value}
        changed = replace(PLAIN, **change)
        assert record_where(changed).sql != record_where(PLAIN).sql, name
        assert chunk_where(T, changed).sql != chunk_where(T, PLAIN).sql, name
    later = replace(PLAIN, now=NOW + timedelta(days=1))
    assert record_where(later).binds["f_now"] == NOW + timedelta(days=1)


def test_lists_are_padded_to_powers_of_two_and_cut():
    def listed(size, *, negated=False):
        where = Where()
        add_list(where, "r.id", "id", [f"r{number}" for number in range(size)], negated=negated)
        return where

    assert listed(5).sql == listed(8).sql != listed(9).sql
    assert list(listed(5).binds.values()) == ["r0", "r1", "r2", "r3", "r4", "r4", "r4", "r4"]
    cut = listed(MAX_LISTED + 1)
    assert cut.sql.count(" IN (") == 2
    assert " OR " in cut.sql
    assert len(cut.binds) == MAX_LISTED + 1
    assert " AND " in listed(MAX_LISTED + 1, negated=True).sql
    assert (listed(0).sql, listed(0, negated=True).sql) == ("1 = 0", "1 = 1")


def test_no_id_is_told_from_the_id_none_and_from_one_left_out():
    for value, sql in ((NOT_SET_MARKER, "1 = 1"), (None, "r.id IS NULL"), ("x", "r.id = :f_id")):
        where = Where()
        add_id(where, "r.id", "id", value)
        assert where.sql == sql


def test_batches_hold_all_values_in_order():
    values = list(range(2 * MAX_BATCH + 1))
    cut = list(batches(values))
    assert [len(part) for part in cut] == [MAX_BATCH, MAX_BATCH, 1]
    assert [value for part in cut for value in part] == values
    assert list(batches([])) == []
