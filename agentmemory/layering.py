"""What layered retrieval asks of a store: plain values and the protocol.

A store answers each of these in one round trip. May import requests, records and below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from agentmemory.checks import check_duration, check_int, check_number
from agentmemory.errors import ValidationError
from agentmemory.records import Layer, RecordRelation, ScopedRecord, Tier
from agentmemory.requests import JobDraft, QueryTerm, RecordFilter

if TYPE_CHECKING:
    from agentmemory.requests import FloatVector


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerWord:
    """A keyword as the text index knows it.

    Args:
        text: The keyword.
        forms: The analysed words of each of its forms, in any language; a memory has the keyword
            if one of its tags or its content has all words of one form.
        whole: Each form as the analyzer indexes it, tokens separated by spaces; a tag that is one
            of these is the keyword itself.
        weight: What it is worth beside others.
    """

    text: str
    forms: tuple[tuple[QueryTerm, ...], ...]
    whole: frozenset[str] = frozenset()
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerQuery:
    """What a layered retrieval looks for.

    Args:
        filter: Which records take part.
        words: The keywords, matched against tags and content.
        pools: Where to look for them, and how many memories each layer brings at most, the best
            matches first. CRITICAL is not matched: all of it comes. When a third of that many
            hold every keyword of weight 1.0, those that hold fewer need not come.
        count_to: How far to count the memories of any layer; 0: not at all.
        vectors_from: From so many memories of any layer on, as far as they were counted, the
            matches' vectors will be needed; a store that has them at hand brings them along, any
            other is asked for them then. None: they will not.
    """

    filter: RecordFilter
    words: tuple[LayerWord, ...]
    pools: Mapping[Layer, int]
    count_to: int = 0
    vectors_from: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerMatch:
    """A memory that holds keywords.

    Args:
        record: The memory.
        match: The share of the keywords it holds, weighted by how rare they are: 0.0 to 1.0. A
            keyword that is part of a tag counts for nine tenths of one that is a tag, one that is
            only in the content for four fifths; up to a fifth goes for tags that the keywords do
            not speak of.
        words: The keywords it holds.
        vector: Its unit vector, if it was brought along.
    """

    record: ScopedRecord
    match: float
    words: tuple[str, ...]
    vector: FloatVector | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerMatches:
    """What a store found for a layered retrieval.

    Args:
        critical: All CRITICAL memories, in the order of writing.
        matches: The best matches of each layer, best first.
        active: How many memories of any layer are in scope and not put away, counted as far as
            asked.
    """

    critical: tuple[ScopedRecord, ...] = ()
    matches: Mapping[Layer, tuple[LayerMatch, ...]] = field(default_factory=dict)
    active: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionPolicy:
    """When a memory of a layer leaves what is retrieved.

    A memory is idle since it was last counted as a hit, else since it was written. CRITICAL
    memories are exempt, and so are memories without a layer; guidelines, which stand until they
    are taken back, become cold but are not archived.

    Args:
        warm_after: Idle for longer than this: warm. Days or a `timedelta`; default 30 days.
        cold_after: Idle for longer than this: cold. Default 90 days.
        archive_after: Idle for longer than this: archived. Default 180 days.
        kept_hits: With at least so many hits, all three times are twice as long. Default 2.
        deprecate_below: With less confidence than this, or once what it depends on was changed,
            made invalid or deleted: deprecated. Default 0.3.

    Raises:
        ValidationError: A value out of range, or the times are not in this order.
    """

    warm_after: timedelta | float = timedelta(days=30)
    cold_after: timedelta | float = timedelta(days=90)
    archive_after: timedelta | float = timedelta(days=180)
    kept_hits: int = 2
    deprecate_below: float = 0.3

    def __post_init__(self) -> None:
        for item in fields(self):
            if item.name.endswith("_after"):
                value = check_duration(getattr(self, item.name), argument=item.name)
                object.__setattr__(self, item.name, value)
        check_int(self.kept_hits, argument="kept_hits", minimum=1)
        check_number(self.deprecate_below, argument="deprecate_below", minimum=0, maximum=1)
        warm, cold, archive = self.patience
        if not warm <= cold <= archive:
            msg = (
                f"`cold_after` is {self.cold_after!r}; accepted: from `warm_after` "
                f"{self.warm_after!r} to `archive_after` {self.archive_after!r}"
            )
            raise ValidationError(msg, argument="cold_after")

    @property
    def patience(self) -> tuple[timedelta, timedelta, timedelta]:
        """How long a memory may be idle before it is warm, cold, archived."""
        times: list[Any] = [self.warm_after, self.cold_after, self.archive_after]
        return times[0], times[1], times[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class TierChange:
    """A memory that an eviction moves.

    Args:
        id: The memory.
        before: Its tier until then.
        after: Its tier from then on.
        reason: Why, in words.
    """

    id: str
    before: Tier
    after: Tier
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionReport:
    """What an eviction moved, or would move.

    Args:
        changes: In the order of writing of the memories.
        dry_run: Whether nothing was changed.
    """

    changes: tuple[TierChange, ...] = ()
    dry_run: bool = False

    @property
    def counts(self) -> dict[str, int]:
        """How many memories moved to each tier."""
        counts: dict[str, int] = {}
        for change in self.changes:
            counts[change.after.value] = counts.get(change.after.value, 0) + 1
        return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeWrite:
    """How an operation went, as it is written: all of it, or nothing.

    Args:
        record: The memory of the outcome.
        known: Lets the same memory through if it is stored already; it then counts as a hit.
        vectors: The vector of `record` by its id, for when it is new.
        jobs: Work to store with it, for when it is new.
        links: Links from `record`, for when it is new.
        link_filter: What both ends of these links have to pass.
        used: Lets the memories through that the operation rested on, those of `used.ids`; None:
            none.
        delta: What is added to their confidence, within 0.0 and 1.0; 0.0: they have to be there,
            and nothing of them changes.
    """

    record: ScopedRecord
    known: RecordFilter
    vectors: Mapping[str, FloatVector] | None = None
    jobs: tuple[JobDraft, ...] = ()
    links: tuple[RecordRelation, ...] = ()
    link_filter: RecordFilter
    used: RecordFilter | None = None
    delta: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeWritten:
    """What was written of an outcome.

    Args:
        is_new: Whether its memory is new; else a hit was counted.
        adjusted: The memories whose confidence was changed, as they are now, in the order of the
            ids.
    """

    is_new: bool
    adjusted: tuple[ScopedRecord, ...] = ()


class LayerStore(Protocol):
    """Finds memories by layer and keeps count of their use."""

    async def match_layers(self, query: LayerQuery) -> LayerMatches:
        """Return all CRITICAL memories, and of other layers those that hold keywords."""
        ...

    async def count_hits(self, record_filter: RecordFilter, *, now: datetime) -> int:
        """Count one hit for each record the filter lets through, and return how many these are.

        Neither revision nor time of change of a record moves.
        """
        ...

    async def adjust_confidence(
        self, record_filter: RecordFilter, delta: float, *, now: datetime
    ) -> tuple[ScopedRecord, ...]:
        """Add to the confidence of the records of `record_filter.ids`, within 0.0 and 1.0.

        Raising counts as use and as a review: a record that was put away is hot again, and a mark
        for review ends, unless its confidence is still below 0.3.

        Returns:
            The records as they are now, in the order of the ids.

        Raises:
            NotFoundError: One of them is not in that scope; none is changed then.
        """
        ...

    async def evict(
        self, record_filter: RecordFilter, policy: EvictionPolicy, *, now: datetime, dry_run: bool
    ) -> EvictionReport:
        """Move memories of layers to the tier that idle time, hits and confidence give them."""
        ...

    async def write_outcome(self, outcome: OutcomeWrite, *, now: datetime) -> OutcomeWritten:
        """Remember how an operation went and adjust what it rested on, in one unit of work.

        It does what `adjust_confidence`, `count_hits` and `add_records` do, all or nothing.

        Raises:
            NotFoundError: One of `used` is not in that scope, or an end of a link is not there.
            ConflictError: The id of the memory is taken by one that `known` does not let through.
            ScopeError: A link would join records of different users.
        """
        ...
