"""Tables of a SQLite store and the numbered steps that bring a file up to date.

One file may hold several stores; the store's id is the prefix of its tables. The registry
table `agentmemory_store` says which stores there are and at which schema version.
May import errors, config and text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from agentmemory.config import SchemaPolicy
from agentmemory.errors import ConfigurationError, SchemaMismatchError, ValidationError
from agentmemory.stores.sqlite.query import fetch_value
from agentmemory.text.fts5 import FTS5_TOKENIZER

if TYPE_CHECKING:
    import apsw

APPLICATION_ID: Final = 0x616D656D
"""Marks a SQLite file as ours ("amem"); see `PRAGMA application_id`."""

SCHEMA_VERSION: Final = 2
DEFAULT_STORE_ID: Final = "DEFAULT"
REGISTRY: Final = "agentmemory_store"

_STORE_ID: Final = re.compile(r"(?!sqlite(?:_|$))[A-Za-z][A-Za-z0-9_]{0,15}", re.IGNORECASE)

FTS_COLUMNS: Final = (
    "scope",
    "content",
    "previous",
    "following",
    "date",
    "metadata",
    "actor",
    "tags",
)


def check_store_id(value: object) -> str:
    """Accept a store id: a letter, then letters, digits or underscores, at most 16 in all.

    SQLite keeps names that begin with `sqlite_` for itself.

    Raises:
        ValidationError: Anything else.
    """
    if not isinstance(value, str) or not _STORE_ID.fullmatch(value):
        msg = (
            f"`memory_store_id` is {value!r}; accepted: a letter followed by letters, digits or "
            "underscores, at most 16 characters, not beginning with 'sqlite_'"
        )
        raise ValidationError(msg, argument="memory_store_id")
    return value.upper()


@dataclass(frozen=True, slots=True)
class Tables:
    """The table names of one store; safe to put into SQL, for ids are checked.

    Tables and indexes share their names, and "A_RECORD" is an id as good as "A": so names of
    indexes end in `_index`, which no table's does.
    """

    store_id: str

    def __getattr__(self, name: str) -> str:
        if name.startswith("_"):
            raise AttributeError(name)
        return f"{self.store_id}_{name}"


def _create_v1(t: Tables) -> tuple[str, ...]:
    return (
        f"""CREATE TABLE {t.meta} (
            key TEXT PRIMARY KEY,
            value TEXT NOT NULL
        ) STRICT""",
        f"""CREATE TABLE {t.thread} (
            seq INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            user_id TEXT,
            agent_id TEXT,
            metadata TEXT NOT NULL,
            config TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            updated_at INTEGER NOT NULL,
            revision INTEGER NOT NULL
        ) STRICT""",
        f"CREATE INDEX {t.thread}_owner_index ON {t.thread} (user_id, agent_id, seq)",
        f"CREATE INDEX {t.thread}_agent_index ON {t.thread} (agent_id, seq)",
        f"""CREATE TABLE {t.record} (
            seq INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            record_type TEXT NOT NULL,
            user_id TEXT,
            agent_id TEXT,
            thread_id TEXT REFERENCES {t.thread} (id),
            role TEXT,
            actor TEXT,
            content TEXT NOT NULL,
            compressed TEXT,
            metadata TEXT NOT NULL,
            status TEXT NOT NULL,
            invalidation_reason TEXT,
            invalidated_at INTEGER,
            review_reason TEXT,
            tier TEXT NOT NULL,
            layer TEXT,
            tags TEXT NOT NULL,
            confidence REAL NOT NULL,
            hit_count INTEGER NOT NULL,
            last_hit_at INTEGER,
            stability TEXT,
            trust TEXT,
            event_time INTEGER,
            valid_from INTEGER,
            valid_to INTEGER,
            created_at INTEGER NOT NULL,
            updated_at INTEGER NOT NULL,
            expires_at INTEGER,
            revision INTEGER NOT NULL,
            effective_time INTEGER GENERATED ALWAYS AS (coalesce(event_time, created_at)) VIRTUAL
        ) STRICT""",
        f"CREATE INDEX {t.record}_owner_index ON {t.record} (user_id, record_type, seq)",
        f"CREATE INDEX {t.record}_agent_index ON {t.record} (agent_id, seq)",
        f"CREATE INDEX {t.record}_thread_index ON {t.record} (thread_id, record_type, seq)",
        f"""CREATE INDEX {t.record}_actor_index ON {t.record} (user_id, actor)
            WHERE actor IS NOT NULL""",
        f"CREATE INDEX {t.record}_event_index ON {t.record} (user_id, effective_time, seq)",
        f"""CREATE INDEX {t.record}_layer_index ON {t.record} (user_id, layer, tier)
            WHERE layer IS NOT NULL""",
        f"""CREATE INDEX {t.record}_expiry_index ON {t.record} (expires_at)
            WHERE expires_at IS NOT NULL""",
        f"""CREATE UNIQUE INDEX {t.record}_user_profile_index ON {t.record} (user_id)
            WHERE record_type = 'user_profile'""",
        f"""CREATE UNIQUE INDEX {t.record}_agent_profile_index ON {t.record} (agent_id)
            WHERE record_type = 'agent_profile'""",
        f"""CREATE TABLE {t.image} (
            record_seq INTEGER PRIMARY KEY REFERENCES {t.record} (seq),
            mime_type TEXT NOT NULL,
            width INTEGER NOT NULL,
            height INTEGER NOT NULL,
            data BLOB NOT NULL
        ) STRICT""",
        f"""CREATE TABLE {t.source} (
            record_seq INTEGER NOT NULL REFERENCES {t.record} (seq),
            position INTEGER NOT NULL,
            message_id TEXT NOT NULL,
            PRIMARY KEY (record_seq, position)
        ) STRICT, WITHOUT ROWID""",
        f"CREATE INDEX {t.source}_message_index ON {t.source} (message_id)",
        f"""CREATE TABLE {t.chunk} (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            record_seq INTEGER NOT NULL REFERENCES {t.record} (seq)
        ) STRICT""",
        f"CREATE INDEX {t.chunk}_record_index ON {t.chunk} (record_seq)",
        f"""CREATE VIRTUAL TABLE {t.fts} USING fts5(
            {", ".join(FTS_COLUMNS)}, tokenize = "{FTS5_TOKENIZER}"
        )""",
        f"INSERT INTO {t.fts} ({t.fts}, rank) VALUES ('secure-delete', 1)",
        f"CREATE VIRTUAL TABLE {t.vocabulary} USING fts5vocab({t.fts}, row)",
        f"""CREATE TABLE {t.vector} (
            record_seq INTEGER PRIMARY KEY REFERENCES {t.record} (seq),
            vector BLOB NOT NULL
        ) STRICT""",
        f"""CREATE TABLE {t.vector_change} (
            generation INTEGER PRIMARY KEY AUTOINCREMENT,
            record_seq INTEGER NOT NULL
        ) STRICT""",
        f"""CREATE TABLE {t.link} (
            seq INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            source_seq INTEGER NOT NULL REFERENCES {t.record} (seq),
            target_seq INTEGER NOT NULL REFERENCES {t.record} (seq),
            relation_type TEXT NOT NULL,
            opposite_relation_type TEXT NOT NULL,
            timestamp INTEGER,
            metadata TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            UNIQUE (source_seq, target_seq, relation_type),
            CHECK (source_seq <> target_seq)
        ) STRICT""",
        f"CREATE INDEX {t.link}_target_index ON {t.link} (target_seq, relation_type)",
        f"""CREATE TABLE {t.summary} (
            seq INTEGER PRIMARY KEY AUTOINCREMENT,
            thread_id TEXT NOT NULL REFERENCES {t.thread} (id),
            revision INTEGER NOT NULL,
            content TEXT NOT NULL,
            topics TEXT NOT NULL,
            covers_seq INTEGER NOT NULL,
            status TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            UNIQUE (thread_id, revision)
        ) STRICT""",
        f"""CREATE TABLE {t.job} (
            seq INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            kind TEXT NOT NULL,
            thread_id TEXT,
            payload TEXT NOT NULL,
            state TEXT NOT NULL,
            attempts INTEGER NOT NULL,
            run_after INTEGER NOT NULL,
            lease_owner TEXT,
            lease_until INTEGER,
            last_error TEXT,
            created_at INTEGER NOT NULL,
            updated_at INTEGER NOT NULL
        ) STRICT""",
        f"CREATE INDEX {t.job}_ready_index ON {t.job} (state, run_after, seq)",
        f"CREATE INDEX {t.job}_thread_index ON {t.job} (thread_id, seq)",
        f"""CREATE TABLE {t.audit} (
            seq INTEGER PRIMARY KEY AUTOINCREMENT,
            at INTEGER NOT NULL,
            action TEXT NOT NULL,
            subject TEXT NOT NULL,
            detail TEXT NOT NULL
        ) STRICT""",
    )


def _count_deaths_v2(t: Tables) -> tuple[str, ...]:
    return (f"ALTER TABLE {t.job} ADD COLUMN deaths INTEGER NOT NULL DEFAULT 0",)


MIGRATIONS: Final[dict[int, Callable[[Tables], tuple[str, ...]]]] = {
    1: _create_v1,
    2: _count_deaths_v2,
}
"""Statements that lead from version n - 1 to n; each step runs in one transaction."""


def examine(
    connection: apsw.Connection, store_id: str, policy: SchemaPolicy, *, path: str
) -> tuple[bool, int | None]:
    """Refuse a file the policy does not allow, before anything in it is changed.

    Args:
        connection: Only read from.
        store_id: A checked store id.
        policy: What may be done.
        path: For error messages.

    Returns:
        Whether the file is ours, and the version of the store in it; None without one.

    Raises:
        SchemaMismatchError: The file is somebody else's, is of a newer version, or needs what
            the policy forbids.
    """
    ours = _check_ownership(connection, path)
    version = _installed_version(connection, store_id) if ours else None
    if version is None:
        if policy is SchemaPolicy.REQUIRE_EXISTING:
            msg = (
                f"{path!r} holds no store {store_id!r}, and `schema_policy` is REQUIRE_EXISTING; "
                "CREATE_IF_NECESSARY creates it"
            )
            raise SchemaMismatchError(msg)
    elif version > SCHEMA_VERSION:
        msg = (
            f"store {store_id!r} in {path!r} has schema version {version}; this release knows "
            f"versions up to {SCHEMA_VERSION}: use a newer release of agentmemory"
        )
        raise SchemaMismatchError(msg)
    elif version < SCHEMA_VERSION and policy not in (
        SchemaPolicy.CREATE_IF_NECESSARY,
        SchemaPolicy.RECREATE,
    ):
        msg = (
            f"store {store_id!r} in {path!r} has schema version {version} and needs "
            f"{SCHEMA_VERSION}; `schema_policy` CREATE_IF_NECESSARY upgrades it"
        )
        raise SchemaMismatchError(msg)
    return ours, version


def prepare(connection: apsw.Connection, store_id: str, policy: SchemaPolicy, *, path: str) -> None:
    """Check, create or migrate one store; runs inside one write transaction.

    Raises:
        SchemaMismatchError: As `examine` says.
    """
    ours, version = examine(connection, store_id, policy, path=path)
    outdated = None
    if version is not None and policy is SchemaPolicy.RECREATE:
        outdated = _last_generation(connection, store_id)
        _drop(connection, store_id)
        version = None
    if version is None:
        if not ours:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(
            f"""CREATE TABLE IF NOT EXISTS {REGISTRY} (
                store_id TEXT PRIMARY KEY,
                schema_version INTEGER NOT NULL
            ) STRICT"""
        )
        connection.execute(
            f"INSERT INTO {REGISTRY} (store_id, schema_version) VALUES (?, 0)", (store_id,)
        )
        version = 0
    if version < SCHEMA_VERSION:
        _migrate(connection, store_id, version)
    if outdated is not None:
        _outdate_caches(connection, store_id, outdated)


def _last_generation(connection: apsw.Connection, store_id: str) -> int | None:
    """Return the number of the last change of a vector, None if there never was one."""
    number = fetch_value(
        connection,
        "SELECT seq FROM sqlite_sequence WHERE name = ?",
        (Tables(store_id).vector_change,),
    )
    return None if number is None else int(number)


def _outdate_caches(connection: apsw.Connection, store_id: str, generation: int) -> None:
    """Have whoever cached the vectors of a dropped store load those of the new one.

    Numbers of records start again with a new store, so that a cache that is not told would take
    the old vectors for those of new records.
    """
    t = Tables(store_id)
    new = generation + 1
    connection.execute(
        f"INSERT INTO {t.vector_change} (generation, record_seq) VALUES (?, 0)", (new,)
    )
    connection.execute(f"INSERT INTO {t.meta} (key, value) VALUES ('vector_floor', ?)", (str(new),))


def _check_ownership(connection: apsw.Connection, path: str) -> bool:
    """Tell whether the file is ours; False for an empty one.

    Raises:
        SchemaMismatchError: It holds somebody else's data.
    """
    application_id = fetch_value(connection, "PRAGMA application_id")
    if application_id == APPLICATION_ID:
        return True
    tables = fetch_value(connection, "SELECT count(*) FROM sqlite_schema")
    if application_id == 0 and tables == 0:
        return False
    msg = (
        f"{path!r} is a SQLite database but not one of agentmemory's "
        f"(application id {application_id:#x}, {tables} objects); give the path of a new file "
        "or of an agentmemory database"
    )
    raise SchemaMismatchError(msg)


def _installed_version(connection: apsw.Connection, store_id: str) -> int | None:
    present = fetch_value(
        connection, "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", (REGISTRY,)
    )
    if present is None:
        return None
    version = fetch_value(
        connection, f"SELECT schema_version FROM {REGISTRY} WHERE store_id = ?", (store_id,)
    )
    return None if version is None else int(version)


def _migrate(connection: apsw.Connection, store_id: str, version: int) -> None:
    tables = Tables(store_id)
    for step in range(version + 1, SCHEMA_VERSION + 1):
        for statement in MIGRATIONS[step](tables):
            connection.execute(statement)
    connection.execute(
        f"UPDATE {REGISTRY} SET schema_version = ? WHERE store_id = ?", (SCHEMA_VERSION, store_id)
    )


def _drop(connection: apsw.Connection, store_id: str) -> None:
    """Drop one store's tables, those that refer to others first."""
    t = Tables(store_id)
    for name in (
        t.vocabulary,
        t.fts,
        t.source,
        t.image,
        t.chunk,
        t.vector,
        t.vector_change,
        t.link,
        t.summary,
        t.job,
        t.audit,
        t.record,
        t.thread,
        t.meta,
    ):
        connection.execute(f"DROP TABLE IF EXISTS {name}")
    connection.execute(f"DELETE FROM {REGISTRY} WHERE store_id = ?", (store_id,))


def check_policy(value: object) -> SchemaPolicy:
    """Accept a `SchemaPolicy` or its text.

    Raises:
        ConfigurationError: Anything else.
    """
    try:
        return SchemaPolicy(str(value))
    except ValueError:
        accepted = ", ".join(policy.name for policy in SchemaPolicy)
        msg = f"`schema_policy` is {value!r}; accepted: SchemaPolicy.{{{accepted}}}"
        raise ConfigurationError(msg) from None
