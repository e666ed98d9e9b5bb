"""For every statement there is a note which index it is meant to use, and why."""

from __future__ import annotations

import re

from agentmemory.stores.oracle import ddl
from agentmemory.stores.oracle.plan_notes import PLAN_NOTES
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.statement import StatementKind
from tests.support.oracle_statements import all_statements

INDEXES = {*ddl.indexes(), *ddl.unique_indexes(), "chunk_text", "chunk_vector", "record_hybrid"}
TABLES = set(ddl.columns(Tables("DEFAULT")))


def test_every_statement_that_touches_rows_has_a_note():
    names = {
        statement.name
        for statement in all_statements()
        if statement.kind is not StatementKind.BLOCK
    }
    assert names - set(PLAN_NOTES) == set()


def test_no_note_is_of_a_statement_that_is_gone():
    assert set(PLAN_NOTES) - {statement.name for statement in all_statements()} == set()


def test_notes_name_an_index_that_exists_or_say_why_none():
    for name, note in PLAN_NOTES.items():
        named = set(re.findall(r"\b[a-z]+_[a-z_]+\b", note)) & INDEXES
        says_none = re.search(
            r"^none|primary key|unique key|full scan|no index|data dictionary", note
        )
        assert named or says_none, f"{name}: {note!r} names no index"


def test_every_index_is_meant_for_some_statement():
    notes = " ".join(PLAN_NOTES.values())
    assert {name for name in INDEXES if not re.search(rf"\b{name}\b", notes)} == set()


def test_notes_name_no_index_that_does_not_exist():
    columns = {line.split()[0] for body in ddl.columns(Tables("DEFAULT")).values() for line in body}
    for name, note in PLAN_NOTES.items():
        for word in re.findall(r"\b(?:{})_[a-z_]+\b".format("|".join(sorted(TABLES))), note):
            assert word in INDEXES | columns | TABLES, f"{name}: there is no index {word}"
