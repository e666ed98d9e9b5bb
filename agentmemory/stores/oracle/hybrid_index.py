"""A hybrid vector index over the texts of records, and the search that asks it; pure.

The index embeds texts by itself, with a model in the database. A search that looks for words and
meaning takes its candidates from it by one statement, which joins them to their records, so that
every filter of the search holds whatever the index returns; they are then scored as always.

What this rests on was read in Oracle's documentation and was not run on a server: CREATE HYBRID
VECTOR INDEX with FILTER BY and the text preferences (AI Vector Search User's Guide, 23ai and
26ai; the first edition put FILTER BY last, later ones put it where it stands here),
DBMS_VECTOR_CHAIN.CREATE_PREFERENCE, and the request and answer of DBMS_HYBRID_VECTOR.SEARCH. The
guide of 26ai names `filter_by` as part of a request; its form (`op`, `path`, `type`, `args`) is
the one public clients of the package send, so it is used on such servers only.

May import config, requests, schema, statement, vectors and where.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agentmemory.config import SearchIndexSyncMode
from agentmemory.requests import CandidateQuery, QueryTerm, RecordFilter
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.statement import BindType, Statement, StatementKind
from agentmemory.stores.oracle.vectors import is_narrow
from agentmemory.stores.oracle.where import record_where

FILTER_BY_FROM: Final = (23, 26)
"""First server whose guide has conditions in the request of a search."""

FILTERED: Final = ("user_id", "agent_id", "thread_id", "record_type")
"""Columns of the record that the index knows, so that it looks within a scope."""

OVERFETCH: Final = 4
"""Rows asked for each place in the pool: both arms come in one list, and some are filtered out."""

MAX_QUERY_BYTES: Final = 3800
"""Longest expression for the words; further words are left out, for each alone finds its texts."""

_SYNC: Final[Mapping[SearchIndexSyncMode, str]] = {
    SearchIndexSyncMode.ON_COMMIT: "MAINTENANCE MANUAL SYNC (ON COMMIT)",
    SearchIndexSyncMode.MANUAL: "MAINTENANCE MANUAL SYNC (MANUAL)",
    SearchIndexSyncMode.AUTO: "MAINTENANCE AUTO",
}
_NO_LETTER: Final = re.compile(r"[\W_]")
_ACCUM: Final = " ACCUM "

PLAN_NOTES: Final[Mapping[str, str]] = {
    "hybrid.search": "hybrid index record_hybrid, by the package that is called; then one probe "
    "by ROWID for each record it names, some hundred, whose columns decide",
}
"""The index each statement is meant to use, and why, for 1 million chunks and 10,000 users."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridIndex:
    """A hybrid vector index that a store has.

    Args:
        model: Name of the model in the database that embeds the texts.
        sync: When the index is brought up to date.
        filtered: Whether it knows the columns `FILTERED`.
    """

    model: str
    sync: SearchIndexSyncMode
    filtered: bool = True

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any] | None) -> HybridIndex | None:
        """Read what `to_settings` wrote; None for nothing."""
        if settings is None:
            return None
        return cls(
            model=settings["model"],
            sync=SearchIndexSyncMode(settings["sync"]),
            filtered=bool(settings["filtered"]),
        )

    def to_settings(self) -> dict[str, Any]:
        """Return the JSON value that stands in the registry row."""
        return {"model": self.model, "sync": self.sync, "filtered": self.filtered}


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridSearch:
    """How searches ask the index.

    Args:
        filters: Whether the request may say which scope and types are meant.
        same_model: Whether the store's embedder is the model of the index, so that the query's
            vector can be compared with those of the index; else the words are embedded.
    """

    filters: bool
    same_model: bool


def create_hybrid_index(t: Tables, index: HybridIndex) -> tuple[Statement, ...]:
    """Create the index with its preference; what is there of both is dropped first.

    An index of neighbour partitions needs no memory of its own, and takes changes of its table.
    """
    filtered = f"FILTER BY {', '.join(FILTERED)} " if index.filtered else ""
    preference = _preference(t)
    return (
        *drop_hybrid_index(t),
        _block(
            "schema.create_hybrid_preference",
            f"BEGIN DBMS_VECTOR_CHAIN.CREATE_PREFERENCE('{preference}', "
            "DBMS_VECTOR_CHAIN.VECTORIZER, JSON('{"
            f'"vector_idxtype": "ivf", "distance": "cosine", "model": "{index.model}"'
            "}')); END;",
        ),
        _block(
            "schema.create_hybrid_index",
            f"CREATE HYBRID VECTOR INDEX {t.index('record_hybrid')} ON {t.record} (content) "
            f"{filtered}PARAMETERS ('VECTORIZER {preference} FILTER CTXSYS.NULL_FILTER "
            f"STOPLIST CTXSYS.EMPTY_STOPLIST {_SYNC[index.sync]}')",
        ),
    )


def drop_hybrid_index(t: Tables) -> tuple[Statement, ...]:
    """Drop the index with its preference, also one whose creation failed."""
    return (
        _block(
            "schema.drop_hybrid_index", f"DROP INDEX IF EXISTS {t.index('record_hybrid')} FORCE"
        ),
        _block(
            "schema.drop_hybrid_preference",
            f"BEGIN DBMS_VECTOR_CHAIN.DROP_PREFERENCE('{_preference(t)}'); "
            "EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -20000 THEN RAISE; END IF; END;",
        ),
    )


def fits(search: HybridSearch | None, query: CandidateQuery) -> bool:
    """Tell whether a search takes its candidates from the index.

    It does if it looks for words and meaning, unless it looks among few records that the index
    could not tell from all others: those are compared one by one, exactly.
    """
    return (
        search is not None
        and bool(query.terms)
        and query.vector is not None
        and query.filter.ids is None
        and (search.filters or not is_narrow(query.filter))
    )


def filters_further(search: HybridSearch, record_filter: RecordFilter) -> bool:
    """Tell whether a filter leaves out much that the index may return.

    What expired or is invalid is little; anything else that the request cannot say may be most.
    """
    scope = record_filter.scope
    dimensions = (scope.user, scope.agent, scope.thread)
    said = search.filters
    unsaid = any(match.exact and not (said and match.value) for match in dimensions)
    rest = (
        record_filter.metadata,
        record_filter.tiers,
        record_filter.layers,
        record_filter.event_after,
        record_filter.event_before,
        record_filter.created_after,
        record_filter.created_before,
        record_filter.valid_at,
        record_filter.known_at,
        record_filter.exclude_ids or None,
        None if said else record_filter.record_types,
    )
    return unsaid or record_filter.only_expired or any(item is not None for item in rest)


def search_index(t: Tables, search: HybridSearch, query: CandidateQuery) -> Statement:
    """Ask the index for texts that fit by word or by meaning, and join their records.

    Rows are `seq`, score by word and score by meaning, 0 or NULL for none. The records' own
    columns decide what is seen, as in every other search.

    Plan: the index, then the records by ROWID.
    """
    where = record_where(query.filter)
    return Statement(
        name="hybrid.search",
        text="SELECT r.seq, h.text_score, h.vector_score "
        "FROM JSON_TABLE(DBMS_HYBRID_VECTOR.SEARCH(:request), '$[*]' COLUMNS ("
        "place FOR ORDINALITY, row_id VARCHAR2(18 BYTE) PATH '$.rowid', "
        "text_score NUMBER PATH '$.text_score', vector_score NUMBER PATH '$.vector_score')) h "
        f"JOIN {t.record} r ON r.ROWID = CHARTOROWID(h.row_id) "
        f"WHERE {where.sql} ORDER BY h.place",
        kind=StatementKind.QUERY,
        binds={**where.binds, "request": request(t, search, query)},
        types={"request": BindType.JSON},
    )


def request(t: Tables, search: HybridSearch, query: CandidateQuery) -> dict[str, Any]:
    """Return the request of a search, a JSON value, for which nothing has to be escaped.

    Ranks count alike in both arms, so that the best of each are among the rows.
    """
    vector: dict[str, Any] = {"search_mode": "DOCUMENT", "aggregator": "MAX", "rank_penalty": 1}
    if search.same_model and query.vector is not None:
        vector["search_vector"] = f"[{','.join(repr(float(number)) for number in query.vector)}]"
    else:
        vector["search_text"] = " ".join(term.text for term in query.terms)
    wanted: dict[str, Any] = {
        "hybrid_index_name": t.index("record_hybrid"),
        "search_fusion": "UNION",
        "search_scorer": "RRF",
        "vector": vector,
        "text": {"contains": expression(query.terms), "rank_penalty": 1},
        "return": {
            "topN": query.pool * OVERFETCH,
            "values": ["rowid", "score", "vector_score", "text_score"],
            "format": "JSON",
        },
    }
    conditions = _conditions(query.filter) if search.filters else []
    if conditions:
        wanted["filter_by"] = _joined("AND", conditions)
    return wanted


def expression(terms: Sequence[QueryTerm]) -> str:
    """Return the expression of Oracle Text that finds any of some words as they are written."""
    parts: list[str] = []
    length = 0
    for term in terms:
        part = _escaped(term)
        length += len(part.encode()) + len(_ACCUM)
        if parts and length > MAX_QUERY_BYTES:
            break
        parts.append(part)
    return _ACCUM.join(parts)


def by_word(rows: Sequence[Sequence[Any]], most: int) -> list[int]:
    """Return the records found by their words, best first."""
    return _best([(seq, words) for seq, words, _ in rows], most)


def by_meaning(rows: Sequence[Sequence[Any]], most: int) -> list[int]:
    """Return the records found by their meaning, best first."""
    return _best([(seq, meaning) for seq, _, meaning in rows], most)


def _best(scored: Sequence[tuple[int, Any]], most: int) -> list[int]:
    found = {seq: score for seq, score in scored if score is not None and score > 0}
    return sorted(found, key=lambda seq: (-found[seq], seq))[:most]


def _escaped(term: QueryTerm) -> str:
    """Return a word without meaning as an operator: in braces, or each sign with a backslash."""
    if term.prefix:
        return _NO_LETTER.sub(lambda sign: f"\\{sign[0]}", term.text) + "%"
    return "{" + term.text.replace("}", "}}") + "}"


def _conditions(record_filter: RecordFilter) -> list[dict[str, Any]]:
    """Return what the index can look within: exact dimensions that are set, and types."""
    scope = record_filter.scope
    pairs = (("user_id", scope.user), ("agent_id", scope.agent), ("thread_id", scope.thread))
    found = [_equal(column, match.value) for column, match in pairs if match.exact and match.value]
    if record_filter.record_types:
        found.append(
            _joined("OR", [_equal("record_type", name) for name in record_filter.record_types])
        )
    return found


def _equal(column: str, value: str) -> dict[str, Any]:
    return {"op": "=", "path": column, "type": "string", "args": [value]}


def _joined(operator: str, conditions: list[dict[str, Any]]) -> dict[str, Any]:
    return conditions[0] if len(conditions) == 1 else {"op": operator, "args": conditions}


def _preference(t: Tables) -> str:
    """Return the name of the vectorizer preference: 27 bytes, where 30 are allowed."""
    plain = t.plain("vectorizer")
    return plain if t.owner is None else f"{t.owner}.{plain}"


def _block(name: str, text: str) -> Statement:
    return Statement(name=name, text=text, kind=StatementKind.BLOCK)
