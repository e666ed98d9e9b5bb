"""The schema of a file, as it is written down: whoever changes it has to add a version."""

from __future__ import annotations

from pathlib import Path

import apsw

from agentmemory.stores.sqlite.schema import MIGRATIONS, SCHEMA_VERSION
from agentmemory.stores.sqlite.store import SqliteStore

GOLDEN = Path(__file__).with_name("schema.sql")


async def test_the_schema_is_the_one_written_down_for_its_version(tmp_path: Path) -> None:
    """A file of this release: to change it, add a migration and then write `schema.sql` anew."""
    path = tmp_path / "memory.db"
    store = SqliteStore(str(path))
    await store.open()
    await store.close()
    connection = apsw.Connection(str(path))
    statements = [
        " ".join(sql.split())
        for (sql,) in connection.execute(
            "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name"
        )
    ]
    connection.close()
    written = "\n".join((f"-- version {SCHEMA_VERSION}", *(f"{sql};" for sql in statements), ""))
    assert written == GOLDEN.read_text("utf-8")


def test_every_version_can_be_reached() -> None:
    assert sorted(MIGRATIONS) == list(range(1, SCHEMA_VERSION + 1))
