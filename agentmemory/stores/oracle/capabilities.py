"""What a database and the user who opened it can do, asked once; pure.

Each question may fail by itself, for a user sees only what it was granted; what could not be
asked counts as missing. May import requests, and `statement` of this package.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agentmemory.requests import Capability
from agentmemory.stores.oracle.statement import Statement, StatementKind

_VECTORS_FROM: Final = (23, 4)
_HYBRID_FROM: Final = (23, 6)


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
        vector_memory_bytes: Size of the memory that HNSW indexes live in; 0 for none; None if
            the user may not see it.
        oracle_text: Whether Oracle Text is there and the user may make indexes with it.
        hybrid_index: Whether hybrid vector indexes can be made: 23.6 and newer, and Oracle Text.
        create_table: Whether the user may create tables in its own schema.
        create_job: Whether the user may create scheduler jobs.
        models: Embedding models in the database that the user may call, as OWNER.NAME, sorted.
        pipelining: Whether many statements travel in one round trip: 23.4 and newer.
        text_index: Whether the open store has a valid Oracle Text index; set by the store.
        vector_index: The open store's valid vector index; None: vectors are compared exactly;
            set by the store.
        hybrid_model: Model of the hybrid vector index that searches ask; None: they ask none; set
            by the store.
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
    hybrid_model: str | None = None

    def embeds_with(self, model: str) -> bool:
        """Tell whether a hybrid vector index can be made with a model, with or without owner."""
        names = {f"{self.current_schema}.{model}", f"{self.user}.{model}", model}
        return self.hybrid_index and not names.isdisjoint(self.models)

    def report(self) -> tuple[Capability, ...]:
        """Say for each capability whether it is there, and what that means for a store."""
        number = ".".join(map(str, self.version))
        memory = self.vector_memory_bytes
        graph = bool(memory)
        return (
            Capability(
                name="database",
                available=self.vectors,
                detail=self.banner or f"Oracle Database {number}"
                if self.vectors
                else f"{self.banner or number} has no vectors; 23.4 or newer is needed",
            ),
            Capability(
                name="pipelining",
                available=self.pipelining,
                detail="many statements in one round trip"
                if self.pipelining
                else "each statement is a round trip of its own: the server is too old, or the "
                "connection is a blocking one",
            ),
            Capability(
                name="text_index",
                available=self.text_index,
                detail="keyword searches use the Oracle Text index"
                if self.text_index
                else "keyword searches look at every text of their scope; "
                + (
                    "opening with CREATE_IF_NECESSARY makes the index"
                    if self.oracle_text
                    else "an Oracle Text index needs Oracle Text and the role CTXAPP"
                ),
            ),
            Capability(
                name="vector_index",
                available=self.vector_index is not None,
                detail="vectors are compared one by one within the scope of a search"
                if self.vector_index is None
                else f"searches of large scopes use the {self.vector_index.upper()} index",
            ),
            Capability(
                name="vector_memory",
                available=graph,
                detail=f"{memory:,} bytes for HNSW indexes"
                if graph
                else "HNSW indexes need VECTOR_MEMORY_SIZE"
                + (", which this user may not see" if memory is None else "; IVF is used instead"),
            ),
            Capability(
                name="hybrid_index",
                available=self.hybrid_index or self.hybrid_model is not None,
                detail=f"searches ask the hybrid vector index of the model {self.hybrid_model}"
                if self.hybrid_model is not None
                else "hybrid vector indexes can be made"
                if self.hybrid_index
                else "hybrid vector indexes need 23.6 or newer and Oracle Text",
            ),
            Capability(
                name="models",
                available=bool(self.models),
                detail=", ".join(self.models) or "no embedding model in the database",
            ),
            Capability(
                name="create_table",
                available=self.create_table,
                detail="stores can be created"
                if self.create_table
                else "stores cannot be created by this user; it works on those that exist",
            ),
            Capability(
                name="create_job",
                available=self.create_job,
                detail="the database can delete expired records by itself"
                if self.create_job
                else "`purge_expired` has to be called: the user lacks CREATE JOB",
            ),
        )


def _query(name: str, text: str) -> Statement:
    return Statement(name=name, text=text, kind=StatementKind.QUERY)


_PROBES: Final = (
    _query(
        "probe.product",
        "SELECT product, version_full FROM product_component_version ORDER BY product "
        "FETCH FIRST 1 ROWS ONLY",
    ),
    _query(
        "probe.user",
        "SELECT SYS_CONTEXT('USERENV', 'SESSION_USER'), SYS_CONTEXT('USERENV', 'CURRENT_SCHEMA') "
        "FROM dual",
    ),
    _query("probe.privileges", "SELECT privilege FROM session_privs ORDER BY privilege"),
    _query(
        "probe.text",
        "SELECT COUNT(*) FROM all_objects WHERE owner = 'CTXSYS' AND object_name = 'CTX_DDL' "
        "AND object_type = 'PACKAGE'",
    ),
    _query(
        "probe.models",
        "SELECT owner, model_name FROM all_mining_models WHERE mining_function = 'EMBEDDING' "
        "ORDER BY owner, model_name",
    ),
    # The part that holds graphs; the other is for what describes them.
    _query(
        "probe.vector_memory",
        "SELECT SUM(alloc_bytes) FROM v$vector_memory_pool WHERE SUBSTR(pool, 1, 3) = '1MB'",
    ),
)

PLAN_NOTES: Final[Mapping[str, str]] = {
    probe.name: "no index: views of the data dictionary, once when a store is opened"
    for probe in _PROBES
}
"""The index each statement is meant to use, for a store of any size."""


def probes() -> tuple[Statement, ...]:
    """Return the questions that `capabilities_from` reads the answers of."""
    return _PROBES


def capabilities_from(
    version: tuple[int, ...],
    answers: Sequence[Sequence[tuple[Any, ...]] | None],
    *,
    pipelining: bool = True,
) -> Capabilities:
    """Read the answers to `probes`, None for a question that failed.

    Args:
        version: Of the server, as the driver says.
        answers: In the order of the questions.
        pipelining: Whether the driver can send many statements at once.
    """
    product, user, privileges, text, models, memory = answers
    granted = {row[0] for row in privileges or ()}
    oracle_text = bool(text and text[0][0])
    name, current_schema = user[0] if user else ("", "")
    return Capabilities(
        version=version,
        banner=" ".join(map(str, product[0])) if product else "",
        user=name,
        current_schema=current_schema,
        vectors=version >= _VECTORS_FROM,
        vector_memory_bytes=None if memory is None else _sum(memory),
        oracle_text=oracle_text,
        hybrid_index=oracle_text and version >= _HYBRID_FROM,
        create_table="CREATE TABLE" in granted,
        create_job="CREATE JOB" in granted,
        models=tuple(f"{owner}.{model}" for owner, model in models or ()),
        pipelining=pipelining and version >= _VECTORS_FROM,
    )


def _sum(rows: Sequence[tuple[Any, ...]]) -> int:
    """Return the sum a query gave; the sum of nothing is NULL."""
    return int(rows[0][0] or 0) if rows else 0
