"""The statements of the Oracle store are the reviewed ones."""

from __future__ import annotations

from agentmemory.stores.oracle.schema import Tables
from tests.support.oracle_snapshots import DIRECTORY, snapshots
from tests.support.oracle_statements import all_statements

HOW = "after a wanted change: python -m tests.support.oracle_snapshots"


def test_statements_are_as_they_were_reviewed():
    written = {path.name: path.read_text() for path in DIRECTORY.glob("*.sql")}
    made = snapshots()
    assert set(written) == set(made), HOW
    for name, text in made.items():
        assert written[name] == text, HOW


def test_the_store_id_and_owner_change_nothing_but_names():
    ours = all_statements(Tables("NOTES", "KEEPER"))
    for statement, plain in zip(ours, all_statements(Tables("DEFAULT")), strict=True):
        renamed = statement.text.replace("KEEPER.", "").replace("NOTES_", "DEFAULT_")
        assert renamed == plain.text
        assert statement.name == plain.name
