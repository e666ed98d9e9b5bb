"""Indexes for search of an Oracle store: the text index, the vector index, the purge job; pure.

Each of them may be missing, for want of a privilege or of memory; a search then looks at every
chunk of its scope. Each group of statements may be run again after it succeeded or failed: what
an interrupted creation left is dropped first. May import capabilities, hybrid_index, schema,
statement, text_tokens, index_fields, records and config.

Source of the graph's parameters: 32 neighbours and 200 candidates on construction, with a target
accuracy of 95 %, are what Oracle's guide to vector indexes uses for a few hundred dimensions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from agentmemory.config import SearchIndexSyncMode
from agentmemory.records import LIFECYCLE_LINK_TYPES
from agentmemory.stores.index_fields import index_fingerprint
from agentmemory.stores.oracle.capabilities import VectorIndexKind
from agentmemory.stores.oracle.hybrid_index import HybridIndex
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.statement import Statement, StatementKind
from agentmemory.stores.oracle.text_tokens import ENCODING_VERSION

TARGET_ACCURACY: Final = 95
"""Per cent of the true nearest vectors that an approximate search is to find."""

WILDCARD_TERMS: Final = 50_000
"""Most words a search by prefix may stand for; the largest number Oracle Text accepts."""

PURGE_BATCH: Final = 1000
"""How many expired records the purge job deletes before it commits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchIndexes:
    """Which indexes for search a store has, as its registry row says.

    Args:
        text: When the text index is brought up to date; None without one.
        vector: How the vector index is organised; None without one.
        dimension: Length of the vectors that the index was made for; None without one.
        purge_job: Whether the database deletes expired records by itself.
        analysis: What made the words in `chunk.tokens`, see `analysis_fingerprint`; None before
            anything was indexed.
        hybrid: The hybrid vector index; None without one.
    """

    text: SearchIndexSyncMode | None = None
    vector: VectorIndexKind | None = None
    dimension: int | None = None
    purge_job: bool = False
    analysis: str | None = None
    hybrid: HybridIndex | None = None

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """Read what `to_settings` wrote; what is not there is None."""
        text, vector = settings.get("text"), settings.get("vector")
        return cls(
            text=None if text is None else SearchIndexSyncMode(text),
            vector=None if vector is None else VectorIndexKind(vector),
            dimension=settings.get("dimension"),
            purge_job=bool(settings.get("purge_job")),
            analysis=settings.get("analysis"),
            hybrid=HybridIndex.from_settings(settings.get("hybrid")),
        )

    def to_settings(self) -> dict[str, Any]:
        """Return the JSON value that stands in the registry row."""
        hybrid = {} if self.hybrid is None else {"hybrid": self.hybrid.to_settings()}
        return {
            "text": self.text,
            "vector": self.vector,
            "dimension": self.dimension,
            "purge_job": self.purge_job,
            "analysis": self.analysis,
            **hybrid,
        }


def analysis_fingerprint() -> str:
    """Return what this release makes the words in `chunk.tokens` with."""
    return f"{index_fingerprint()}:{ENCODING_VERSION}"


def create_text_index(t: Tables, sync: SearchIndexSyncMode) -> tuple[Statement, ...]:
    """Create the Oracle Text index over `chunk.tokens`.

    The words are ASCII letters and digits (`text_tokens`), so the lexer only has to cut at white
    space, and no word is left out. MANUAL leaves bringing it up to date to
    `CTX_DDL.SYNC_INDEX`, AUTO to the database's background task.
    """
    lexer, wordlist = _preference(t, "lexer"), _preference(t, "words")
    index = t.index("chunk_text")
    maintenance = {
        SearchIndexSyncMode.ON_COMMIT: "SYNC (ON COMMIT)",
        # Without a word on maintenance, an index synchronised by hand is kept up to date by the
        # database's background task since 23ai.
        SearchIndexSyncMode.MANUAL: "MAINTENANCE MANUAL SYNC (MANUAL)",
        SearchIndexSyncMode.AUTO: "MAINTENANCE AUTO",
    }[sync]
    return (
        *drop_text_index(t),
        _block(
            "schema.create_text_preferences",
            f"""BEGIN
                CTX_DDL.CREATE_PREFERENCE('{lexer}', 'BASIC_LEXER');
                CTX_DDL.SET_ATTRIBUTE('{lexer}', 'MIXED_CASE', 'NO');
                CTX_DDL.SET_ATTRIBUTE('{lexer}', 'INDEX_TEXT', 'YES');
                CTX_DDL.SET_ATTRIBUTE('{lexer}', 'INDEX_THEMES', 'NO');
                CTX_DDL.CREATE_PREFERENCE('{wordlist}', 'BASIC_WORDLIST');
                CTX_DDL.SET_ATTRIBUTE('{wordlist}', 'WILDCARD_MAXTERMS', '{WILDCARD_TERMS}');
            END;""",
        ),
        _block(
            "schema.create_text_index",
            f"CREATE INDEX {index} ON {t.chunk} (tokens) INDEXTYPE IS CTXSYS.CONTEXT "
            f"PARAMETERS ('FILTER CTXSYS.NULL_FILTER SECTION GROUP CTXSYS.NULL_SECTION_GROUP "
            f"LEXER {lexer} WORDLIST {wordlist} STOPLIST CTXSYS.EMPTY_STOPLIST {maintenance}')",
        ),
    )


def drop_text_index(t: Tables) -> tuple[Statement, ...]:
    """Drop the text index with its preferences, also one whose creation failed."""
    drops = "".join(
        f"BEGIN CTX_DDL.DROP_PREFERENCE('{_preference(t, name)}'); "
        f"EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -20000 THEN RAISE; END IF; END; "
        for name in ("lexer", "words")
    )
    return (
        _block("schema.drop_text_index", f"DROP INDEX IF EXISTS {t.index('chunk_text')} FORCE"),
        _block("schema.drop_text_preferences", f"BEGIN {drops}END;"),
    )


def create_vector_index(t: Tables, kind: VectorIndexKind) -> tuple[Statement, ...]:
    """Create the vector index over `chunk.embedding`, which has to hold vectors of one length.

    The distance is the cosine, as in every search; with another the index would not be used.
    Partitions are laid out by the vectors that are there, so it is made when there are many.
    """
    organization, parameters = {
        VectorIndexKind.HNSW: (
            "INMEMORY NEIGHBOR GRAPH",
            " PARAMETERS (TYPE HNSW, NEIGHBORS 32, EFCONSTRUCTION 200)",
        ),
        # The number of partitions is left to the database: it depends on how many rows there are.
        VectorIndexKind.IVF: ("NEIGHBOR PARTITIONS", ""),
    }[kind]
    return (
        *drop_vector_index(t),
        _block(
            f"schema.create_{kind}_index",
            f"CREATE VECTOR INDEX {t.index('chunk_vector')} ON {t.chunk} (embedding) "
            f"ORGANIZATION {organization} DISTANCE COSINE "
            f"WITH TARGET ACCURACY {TARGET_ACCURACY}{parameters}",
        ),
    )


def drop_vector_index(t: Tables) -> tuple[Statement, ...]:
    """Drop the vector index."""
    return (_block("schema.drop_vector_index", f"DROP INDEX IF EXISTS {t.index('chunk_vector')}"),)


def create_purge_job(t: Tables) -> tuple[Statement, ...]:
    """Have the database delete expired records once a day, some at a time.

    It takes those that nothing outside their own rows depends on, which the foreign keys delete
    with them. Messages, whose words their neighbours index too, and records that keep another one
    invalid are left to `purge_expired`, which brings the others up to date.
    """
    job = _job(t)
    lifecycle = ", ".join(f"''{name}''" for name in sorted(LIFECYCLE_LINK_TYPES))
    action = (
        f"BEGIN LOOP DELETE FROM {t.record} r "
        f"WHERE r.expires_at <= SYS_EXTRACT_UTC(SYSTIMESTAMP) AND r.record_type <> ''message'' "
        f"AND NOT EXISTS (SELECT 1 FROM {t.link} k WHERE k.source_seq = r.seq "
        f"AND k.relation_type IN ({lifecycle})) AND ROWNUM <= {PURGE_BATCH}; "
        "EXIT WHEN SQL%ROWCOUNT = 0; COMMIT; END LOOP; COMMIT; END;"
    )
    return (
        *drop_purge_job(t),
        _block(
            "schema.create_purge_job",
            f"BEGIN DBMS_SCHEDULER.CREATE_JOB(job_name => '{job}', job_type => 'PLSQL_BLOCK', "
            f"job_action => '{action}', repeat_interval => 'FREQ=DAILY;BYHOUR=3', "
            "enabled => TRUE); END;",
        ),
    )


def drop_purge_job(t: Tables) -> tuple[Statement, ...]:
    """Drop the job that deletes expired records."""
    return (
        _block(
            "schema.drop_purge_job",
            f"BEGIN DBMS_SCHEDULER.DROP_JOB('{_job(t)}', TRUE); "
            "EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -27475 THEN RAISE; END IF; END;",
        ),
    )


def sync_text_index(t: Tables) -> Statement:
    """Bring the text index up to date now, for a store whose index is synchronised by hand."""
    return _block(
        "schema.sync_text_index", f"BEGIN CTX_DDL.SYNC_INDEX('{t.index('chunk_text')}'); END;"
    )


def _preference(t: Tables, name: str) -> str:
    plain = t.plain(f"text_{name}")
    return plain if t.owner is None else f"{t.owner}.{plain}"


def _job(t: Tables) -> str:
    plain = t.plain("purge")
    return plain if t.owner is None else f"{t.owner}.{plain}"


def _block(name: str, text: str) -> Statement:
    return Statement(name=name, text=" ".join(text.split()), kind=StatementKind.BLOCK)
