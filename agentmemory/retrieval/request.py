"""What a search was asked for, checked before anything is read.

May import records, scope, filters, config and checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from agentmemory.checks import (
    check_bool,
    check_choice,
    check_int,
    check_list,
    check_optional_time,
    check_text,
)
from agentmemory.config import SearchStrategy, check_budgets
from agentmemory.errors import ValidationError
from agentmemory.records import RECORD_TYPES, RecordType, Tier
from agentmemory.requests import RecordFilter
from agentmemory.retrieval.settings import SearchSettings
from agentmemory.scope import NOT_SET_MARKER, NotSet, ScopeFilter
from agentmemory.stores.filters import parse_filter

DEFAULT_MAX_RESULTS: Final = 10
MAX_RESULTS: Final = 1000
DEFAULT_MAX_LINKED_RESULTS: Final = 100
MAX_LINKED_RESULTS: Final = 10_000
MAX_HOPS: Final = 5
TIME_FIELDS: Final = (
    "event_after",
    "event_before",
    "created_after",
    "created_before",
    "as_of",
    "known_as_of",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """A checked search.

    Args:
        query: What to look for.
        scope: Where to look.
        max_results: Most results, 1 to 1000; omitted: as configured, else 10.
        record_types: Only these types; None for all.
        metadata_filter: A metadata filter; None for all.
        include_invalid_results: Whether records with status `invalid` are found.
        tiers: Only these tiers; None for all but `archived` and `deprecated`.
        token_budget: Hard limit of the formatted results in tokens; not positive: off; None: as
            configured.
        soft_token_budget: The result that reaches this sum is the last; likewise.
        settings: What is done with what was found.
        trace: Whether results tell how long each stage took.
        num_hops: How far to follow links from each memory-like result, 0 to 5.
        max_linked_results: Most linked memories of one result, over all hops; 0: none.
        event_after: Only what happened (else was stored) at or after this time.
        event_before: Only what happened (else was stored) before this time.
        created_after: Only what was stored at or after this time.
        created_before: Only what was stored before this time.
        as_of: Only what was true at this time, by `valid_from` and `valid_to`.
        known_as_of: Only what was stored by this time.

    Raises:
        ValidationError: An argument is not as described.
    """

    query: str
    scope: ScopeFilter
    max_results: int | NotSet = NOT_SET_MARKER
    record_types: tuple[RecordType, ...] | None = None
    metadata_filter: Mapping[str, Any] | None = None
    include_invalid_results: bool = True
    tiers: tuple[Tier, ...] | None = None
    token_budget: int | None = None
    soft_token_budget: int | None = None
    settings: SearchSettings = field(default_factory=SearchSettings)
    trace: bool = False
    num_hops: int = 0
    max_linked_results: int = DEFAULT_MAX_LINKED_RESULTS
    event_after: datetime | None = None
    event_before: datetime | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    as_of: datetime | None = None
    known_as_of: datetime | None = None

    def __post_init__(self) -> None:
        check_text(self.query, argument="query")
        if self.max_results is not NOT_SET_MARKER:
            check_int(self.max_results, argument="max_results", minimum=1, maximum=MAX_RESULTS)
        check_bool(self.trace, argument="trace")
        object.__setattr__(self, "record_types", check_record_types(self.record_types))
        parse_filter(self.metadata_filter)
        check_bool(self.include_invalid_results, argument="include_invalid_results")
        object.__setattr__(self, "tiers", check_tiers(self.tiers))
        for name in ("token_budget", "soft_token_budget"):
            value = getattr(self, name)
            if value is not None:
                check_int(value, argument=name)
        check_budgets(*self.budgets)
        check_int(self.num_hops, argument="num_hops", minimum=0, maximum=MAX_HOPS)
        check_int(
            self.max_linked_results,
            argument="max_linked_results",
            minimum=0,
            maximum=MAX_LINKED_RESULTS,
        )
        for name in TIME_FIELDS:
            object.__setattr__(self, name, check_optional_time(getattr(self, name), argument=name))

    @property
    def count(self) -> int:
        """Most direct results."""
        if self.max_results is not NOT_SET_MARKER:
            return int(self.max_results)
        return self.settings.max_results or DEFAULT_MAX_RESULTS

    @property
    def budgets(self) -> tuple[int | None, int | None]:
        """The hard and the soft budget that apply: the call's, else the configured; None: off."""
        configured = self.settings
        hard = configured.token_budget if self.token_budget is None else self.token_budget
        soft = (
            configured.soft_token_budget
            if self.soft_token_budget is None
            else self.soft_token_budget
        )
        return _if_positive(hard), _if_positive(soft)

    def record_filter(self, now: datetime) -> RecordFilter:
        """Return the filter a store applies before it ranks."""
        return RecordFilter(
            scope=self.scope,
            now=now,
            record_types=self.record_types,
            include_invalid=self.include_invalid_results,
            metadata=self.metadata_filter,
            tiers=self.tiers,
            event_after=self.event_after,
            event_before=self.event_before,
            created_after=self.created_after,
            created_before=self.created_before,
            valid_at=self.as_of,
            known_at=self.known_as_of,
        )


def _if_positive(budget: int | None) -> int | None:
    return budget if budget is not None and budget > 0 else None


def check_record_types(value: Any) -> tuple[RecordType, ...] | None:
    """Accept None or a list of record types without repeats.

    Raises:
        ValidationError: A bare string, an empty list or an unknown type.
    """
    if value is None:
        return None
    items = check_list(value, argument="record_types", of="record types")
    if not items:
        msg = "`record_types` is empty; leave it out to search every type"
        raise ValidationError(msg, argument="record_types")
    for item in items:
        if item not in RECORD_TYPES:
            msg = f"`record_types` holds {item!r}; accepted: {', '.join(RECORD_TYPES)}"
            raise ValidationError(msg, argument="record_types")
    return tuple(dict.fromkeys(items))


def check_tiers(value: Any) -> tuple[Tier, ...] | None:
    """Accept None or a list of tiers, a repeated one counting once.

    Raises:
        ValidationError: A bare string, an empty list or an unknown tier.
    """
    if value is None:
        return None
    items = check_list(value, argument="tiers", of="tiers")
    choices = tuple(tier.value for tier in Tier)
    if not items:
        msg = f"`tiers` is empty; accepted: {', '.join(choices)}, or nothing for the default"
        raise ValidationError(msg, argument="tiers")
    tiers = (Tier(check_choice(item, argument="tiers", choices=choices)) for item in items)
    return tuple(dict.fromkeys(tiers))


def check_strategy(value: Any) -> SearchStrategy:
    """Accept a `SearchStrategy` or its text.

    Raises:
        ValidationError: Anything else.
    """
    try:
        return SearchStrategy(value)
    except ValueError:
        accepted = ", ".join(repr(strategy.value) for strategy in SearchStrategy)
        msg = f"`search_strategy` is {value!r}; accepted: {accepted}"
        raise ValidationError(msg, argument="search_strategy") from None
