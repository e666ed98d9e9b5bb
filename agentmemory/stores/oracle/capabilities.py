"""What a database and the user who opened it can do, asked once; pure but for `Transaction`.

May import `statement` of this package.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class VectorIndexKind(enum.StrEnum):
    """How vectors are looked up."""

    HNSW = "hnsw"
    """A neighbour graph in the vector memory pool."""
    IVF = "ivf"
    """Neighbour partitions on disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What the database can do, and what the user who opened it may do.

    Args:
        version: Of the server, such as (23, 26, 0, 0, 0).
        banner: The server's own words for what it is.
        user: The session's user, as the database spells it.
        current_schema: Where names without an owner are looked up.
        vectors: Whether there is a VECTOR type: 23.4 and newer.
        vector_memory_bytes: Size of the pool that HNSW indexes live in; 0 for none; None if the
            user may not see it.
        oracle_text: Whether Oracle Text is there and the user may make indexes with it.
        hybrid_index: Whether hybrid vector indexes can be made: 23.6 and newer, and Oracle Text.
        create_table: Whether the user may create tables in its own schema.
        create_job: Whether the user may create scheduler jobs.
        models: Embedding models in the database that the user may call, as OWNER.NAME, sorted.
        pipelining: Whether many statements travel in one round trip: 23.4 and newer.
        text_index: Whether the open store has a valid Oracle Text index; set by the store.
        vector_index: The open store's valid vector index; None: vectors are compared exactly;
            set by the store.
    """

    version: tuple[int, ...]
    banner: str = ""
    user: str = ""
    current_schema: str = ""
    vectors: bool = True
    vector_memory_bytes: int | None = 0
    oracle_text: bool = False
    hybrid_index: bool = False
    create_table: bool = False
    create_job: bool = False
    models: tuple[str, ...] = ()
    pipelining: bool = False
    text_index: bool = False
    vector_index: VectorIndexKind | None = None
