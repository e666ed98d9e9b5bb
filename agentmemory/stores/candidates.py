"""What both arms of a search brought, put together; the same for every store. Pure.

May import requests, records, scope and text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from agentmemory.records import ScopedRecord
from agentmemory.requests import Candidate, CandidateQuery
from agentmemory.scope import ScopeFilter
from agentmemory.text.analyzer import analyze

if TYPE_CHECKING:
    from agentmemory.requests import FloatVector


def assemble(
    query: CandidateQuery,
    worded: Sequence[int],
    nearest: Sequence[int],
    records: Mapping[int, ScopedRecord],
    lexical: Mapping[int, float],
    cosines: Mapping[int, float],
    vectors: Mapping[int, FloatVector],
) -> tuple[Candidate, ...]:
    """Return the union of both arms, each candidate with the scores of both.

    Args:
        query: What was looked for.
        worded: Records that the lexical arm brought, by seq.
        nearest: Records that the vector arm brought, the nearest first.
        records: The records; those that are gone meanwhile are left out.
        lexical: BM25 of records by seq; 0.0 for those that are not there.
        cosines: Cosines of those that have a vector.
        vectors: Vectors that were brought along; used if the query wants them.
    """
    worded = [seq for seq in worded if seq in records]
    nearest = [seq for seq in nearest if seq in records]
    lexical_ranks = _ranks(sorted(worded, key=lambda seq: (-lexical.get(seq, 0.0), seq)))
    vector_ranks = _ranks(nearest)
    preferred = _preferences(query.filter.scope)
    union = list(dict.fromkeys((*worded, *nearest)))
    named = _named(query.actor_terms, (records[seq] for seq in union))
    return tuple(
        Candidate(
            record=records[seq],
            lexical=lexical.get(seq, 0.0) if query.terms else None,
            cosine=cosines.get(seq),
            lexical_rank=lexical_ranks.get(seq),
            vector_rank=vector_ranks.get(seq),
            actor_match=seq in named,
            scope_matches=sum(getattr(records[seq], name) == value for name, value in preferred),
            vector=vectors.get(seq) if query.with_vectors else None,
        )
        for seq in union
    )


def _named(terms: frozenset[str], records: Iterable[ScopedRecord]) -> set[int]:
    """Return the records that the named persons said, or that are about them.

    A message is what its speaker says; any other record is about whom its text names.
    """
    if not terms:
        return set()
    known: dict[str, bool] = {}
    found = set()
    for record in records:
        text = record.actor if record.record_type == "message" else record.content
        if text is None:
            continue
        if text not in known:
            known[text] = not terms.isdisjoint(analyze(text))
        if known[text]:
            found.add(record.seq)
    return found


def _ranks(seqs: Iterable[int]) -> dict[int, int]:
    return {seq: rank for rank, seq in enumerate(seqs, start=1)}


def _preferences(scope: ScopeFilter) -> list[tuple[str, str]]:
    """Return the fields and values that rank a record higher instead of filtering."""
    pairs = (("user_id", scope.user), ("agent_id", scope.agent), ("thread_id", scope.thread))
    return [
        (name, match.value) for name, match in pairs if not match.exact and match.value is not None
    ]
