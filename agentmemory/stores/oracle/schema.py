"""Names of an Oracle store: its tables, indexes and the registry; pure.

One schema may hold several stores; the store's id is the prefix of its tables. The registry table
says which stores there are, at which schema version, and which steps towards it have been taken.
May import errors and config.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from agentmemory.errors import ValidationError

SCHEMA_VERSION: Final = 1
DEFAULT_STORE_ID: Final = "DEFAULT"
REGISTRY: Final = "AGENTMEMORY_STORE"

TABLES: Final = (
    "meta",
    "thread",
    "record",
    "image",
    "source",
    "chunk",
    "link",
    "summary",
    "job",
    "audit",
    "gone",
    "gone_thread",
)
"""The tables of a store, those that are referred to first."""

TEMPORARY: Final = frozenset({"gone", "gone_thread"})
"""Tables whose rows belong to one transaction and are seen by no other."""

FILTER_COLUMNS: Final = (
    "user_id",
    "agent_id",
    "thread_id",
    "record_type",
    "status",
    "tier",
    "layer",
    "created_at",
    "effective_time",
    "valid_from",
    "valid_to",
    "expires_at",
)
"""Columns of the record that each of its chunks repeats, so that filters apply before ranking."""

_STORE_ID: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,15}")
_OWNER: Final = re.compile(r"[A-Za-z][A-Za-z0-9_$#]{0,127}")


def check_store_id(value: object) -> str:
    """Accept a store id: a letter, then letters, digits or underscores, at most 16 in all.

    Raises:
        ValidationError: Anything else.
    """
    if not isinstance(value, str) or not _STORE_ID.fullmatch(value):
        msg = (
            f"`memory_store_id` is {value!r}; accepted: a letter followed by letters, digits or "
            "underscores, at most 16 characters"
        )
        raise ValidationError(msg, argument="memory_store_id")
    return value.upper()


def check_owner(value: object) -> str | None:
    """Accept the name of a database schema as it is written without quotes, or None.

    Raises:
        ValidationError: Anything else.
    """
    if value is None:
        return None
    if not isinstance(value, str) or not _OWNER.fullmatch(value):
        msg = (
            f"`schema_owner` is {value!r}; accepted: the name of a database user (a letter "
            "followed by letters, digits, '_', '$' or '#', at most 128 characters), or None for "
            "the schema of the connection"
        )
        raise ValidationError(msg, argument="schema_owner")
    return value.upper()


@dataclass(frozen=True, slots=True)
class Tables:
    """The names of one store's tables; safe to put into SQL, for ids are checked.

    `t.record` is `OWNER.DEFAULT_RECORD`, or `DEFAULT_RECORD` without an owner.

    Args:
        store_id: A checked store id.
        owner: The schema the tables are in, checked; None for that of the connection.
    """

    store_id: str
    owner: str | None = None

    def __getattr__(self, name: str) -> str:
        if name not in TABLES:
            raise AttributeError(name)
        return self._qualified(f"{self.store_id}_{name.upper()}")

    @property
    def registry(self) -> str:
        """The table of all stores of the schema."""
        return self._qualified(REGISTRY)

    def index(self, name: str) -> str:
        """Return the name of an index, as `index("record_owner")`.

        Every name ends in `_INDEX`, which no table's does: "A_RECORD" is an id as good as "A".
        """
        return self._qualified(f"{self.store_id}_{name.upper()}_INDEX")

    def plain(self, name: str) -> str:
        """Return a name of the store without its schema, as the data dictionary has it."""
        return f"{self.store_id}_{name.upper()}"

    def _qualified(self, name: str) -> str:
        return name if self.owner is None else f"{self.owner}.{name}"
