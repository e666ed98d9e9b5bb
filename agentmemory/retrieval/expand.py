"""Linked memories as trees below the direct results.

May import requests, results and what lies below.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from agentmemory.records import RecordRelation
from agentmemory.requests import LinkedNode
from agentmemory.results import Explanation, SearchResult
from agentmemory.retrieval.lifecycle import as_known


def with_linked(
    results: Sequence[SearchResult],
    trees: Mapping[str, Sequence[LinkedNode]],
    *,
    known_at: datetime | None = None,
) -> list[SearchResult]:
    """Attach to each result the tree it is the root of, as it was known at a time."""
    return [
        _attached(result, trees[result.id], known_at) if trees.get(result.id) else result
        for result in results
    ]


def _attached(
    root: SearchResult, nodes: Sequence[LinkedNode], known_at: datetime | None
) -> SearchResult:
    """Build the tree from its leaves up; nodes stand nearest to the root first."""
    children: dict[str, list[tuple[RecordRelation, SearchResult]]] = defaultdict(list)
    for node in reversed(nodes):
        record_id = node.record.id
        child = SearchResult(
            record=as_known(node.record, known_at),
            score=0.0,
            distance=1.0,
            explain=Explanation(notes=("linked, not ranked",)),
            linked_results=tuple(reversed(children.pop(record_id, []))),
            format_config=root.format_config,
        )
        children[node.parent_id].append((node.relation, child))
    return replace(root, linked_results=tuple(reversed(children[root.id])))
