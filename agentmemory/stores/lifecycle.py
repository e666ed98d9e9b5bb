"""What links do to the records they join, worked out on values; the same for every store.

A record is invalid exactly as long as a lifecycle link (`supersedes`, `refines`, `duplicates`)
ends at it, unless it was made invalid by hand. When a record dies, by deletion or by becoming
invalid, every record that depends on it, directly or through others, is marked for review.

A store loads what such a change may reach into a `LinkGraph`, lets it work, and writes back what
has changed. May import records.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

REASONS: Final = {
    "supersedes": "superseded by",
    "refines": "refined by",
    "duplicates": "duplicate of",
}
"""How each lifecycle link type says why its target is invalid."""

DEPENDENCY: Final = "depends_on"
"""The type of the links that carry marks for review."""

_ABOUT: Final = "depends on "
_DELETED: Final = "which was deleted"


@dataclass(slots=True)
class Node:
    """A record, as far as links change it or look at it."""

    seq: int
    id: str
    status: str
    invalidation_reason: str | None
    review_reason: str | None
    layer: str | None = None

    @property
    def mark(self) -> str | None:
        """The mark that its death leaves on what depends on it; None while it lives."""
        if self.status != "invalid":
            return None
        return f"depends on {self.id}, which is {self.invalidation_reason or 'no longer valid'}"

    @property
    def is_marked(self) -> bool:
        """Whether it carries a mark that goes when what it names lives again."""
        return _goes(self.review_reason, _ABOUT)


class LinkGraph:
    """Records and the dependencies between them, in the state before a change."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        self._stored: dict[int, tuple[str, str | None, str | None]] = {}
        self._dependants: dict[int, set[int]] = defaultdict(set)
        self._dependencies: dict[int, set[int]] = defaultdict(set)

    def add(self, node: Node) -> bool:
        """Take up a record as it is stored; tell whether it is new here."""
        if node.seq in self.nodes:
            return False
        self.nodes[node.seq] = node
        self._stored[node.seq] = (node.status, node.invalidation_reason, node.review_reason)
        return True

    def add_dependency(self, source: int, target: int) -> None:
        """Take up a link that says that one record depends on another."""
        self._dependants[target].add(source)
        self._dependencies[source].add(target)

    def dependants(self, seqs: Iterable[int]) -> list[int]:
        """Return what depends on the given records, directly or through others, oldest first."""
        return _reached(self._dependants, seqs)

    def settled(self) -> list[Node]:
        """Return the records whose status or its reason has changed, oldest first."""
        return [
            node
            for seq, node in sorted(self.nodes.items())
            if self._stored[seq][:2] != (node.status, node.invalidation_reason)
        ]

    def reviewed(self) -> list[Node]:
        """Return the records whose mark for review has changed, oldest first."""
        return [
            node
            for seq, node in sorted(self.nodes.items())
            if self._stored[seq][2] != node.review_reason
        ]

    def settle(self, heads: Mapping[int, tuple[str, str] | None]) -> None:
        """Bring the status of records in step with the lifecycle links that end at them.

        What was made invalid by hand, with a reason of its own, stays as it is.

        Args:
            heads: For each record the type and source id of the latest lifecycle link that ends
                at it, or None; in the order in which they are settled.
        """
        for seq, head in heads.items():
            node = self.nodes.get(seq)
            if node is None or (node.status == "invalid" and not _is_of_link(node)):
                continue
            status = "valid" if head is None else "invalid"
            reason = None if head is None else f"{REASONS[head[0]]} {head[1]}"
            if (status, reason) != (node.status, node.invalidation_reason):
                node.status, node.invalidation_reason = status, reason
                self.tell(seq)

    def tell(self, seq: int) -> None:
        """Bring the marks of what depends on a record in step with its status.

        Its death marks those that carry no other mark; a mark goes when what it names lives again,
        unless another dependency is dead. One that names what was deleted stays until the record
        gets a new content.
        """
        node = self.nodes[seq]
        places = self.dependants((seq,))
        about = f"{_ABOUT}{node.id}, which is "
        if node.mark is None:
            self._unmark(places, about)
            return
        for place in places:
            other = self.nodes[place]
            if place != seq and (
                other.review_reason is None or other.review_reason.startswith(about)
            ):
                other.review_reason = node.mark

    def loosen(self, seq: int) -> None:
        """Look anew at a record that may depend on less now, and at what depends on it."""
        self._unmark(sorted({seq, *self.dependants((seq,))}), _ABOUT)

    def inherit(self, source: int, target: int) -> None:
        """Mark a record, and what depends on it, if what it now depends on is dead or marked."""
        mark = self.nodes[target].mark or self.nodes[target].review_reason
        if mark is None:
            return
        for place in (source, *self.dependants((source,))):
            if self.nodes[place].review_reason is None:
                self.nodes[place].review_reason = mark

    def tell_of_change(self, seq: int) -> None:
        """Mark the memories of layers that rest on a rule whose text changed."""
        for place in self.dependants((seq,)):
            node = self.nodes[place]
            if place != seq and node.layer is not None and node.review_reason is None:
                node.review_reason = f"rests on {self.nodes[seq].id}, whose text was changed"

    def orphan(self, causes: Mapping[int, str], gone: Collection[int]) -> int:
        """Mark what depends on records that are about to be deleted.

        Args:
            causes: For each survivor with a dependency on one of them, its id.
            gone: Those records.

        Returns:
            How many survivors were marked.
        """
        marked: set[int] = set()
        for seq, cause in sorted(causes.items()):
            for place in (seq, *self.dependants((seq,))):
                if place not in marked and place not in gone:
                    marked.add(place)
                    self.nodes[place].review_reason = f"{_ABOUT}{cause}, {_DELETED}"
        return len(marked)

    def _unmark(self, seqs: Iterable[int], about: str) -> None:
        """Take away marks that begin with `about`, or give the next reason where there is one."""
        for seq in seqs:
            node = self.nodes[seq]
            if not _goes(node.review_reason, about):
                continue
            reasons = [
                mark
                for other in _reached(self._dependencies, (seq,))
                if (mark := self.nodes[other].mark) is not None
            ]
            if node.review_reason not in reasons:
                node.review_reason = reasons[0] if reasons else None


def _goes(mark: str | None, about: str) -> bool:
    return mark is not None and mark.startswith(about) and not mark.endswith(_DELETED)


def _is_of_link(node: Node) -> bool:
    reason = node.invalidation_reason
    return reason is not None and reason.startswith(tuple(f"{text} " for text in REASONS.values()))


def _reached(edges: Mapping[int, set[int]], seqs: Iterable[int]) -> list[int]:
    """Return what edges lead to from some places, which count only if a cycle leads back."""
    found: set[int] = set()
    waiting = list(seqs)
    while waiting:
        for place in edges.get(waiting.pop(), ()):
            if place not in found:
                found.add(place)
                waiting.append(place)
    return sorted(found)
