"""Context cards: the right records of a scope, compact, in a fixed order, XML-safe.

The search for each requested type, for all memory-like records and for the thread's messages
runs in one fan-out and shares one analysed and embedded query. May import assembly, summarizer,
extraction, retrieval, stores, text and below.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from agentmemory.checks import check_bool, check_int, check_text
from agentmemory.context.assembly import CardParts, assemble
from agentmemory.context.standing import ALWAYS, standing_records
from agentmemory.context.summarizer import Summarizer
from agentmemory.context.summary import DEFAULT_SUMMARY_TOKENS, transcript_summary
from agentmemory.errors import ValidationError
from agentmemory.extraction.shortening import beginning
from agentmemory.ontology.routing import check_layers
from agentmemory.protocols import Clock, MemoryStore, TokenCounter
from agentmemory.records import MEMORY_TYPES, Layer, RecordStatus, RecordType, ScopedRecord
from agentmemory.requests import Candidate, ListQuery, RecordFilter
from agentmemory.results import (
    ContextCard,
    Explanation,
    SearchResult,
    SearchResultFormatConfig,
    Summary,
)
from agentmemory.retrieval.fan_out import fan_out
from agentmemory.retrieval.fusion import order_key
from agentmemory.retrieval.query import PreparedQuery
from agentmemory.retrieval.ranked import Ranked, Step
from agentmemory.retrieval.refine import settled
from agentmemory.retrieval.request import (
    DEFAULT_MAX_LINKED_RESULTS,
    MAX_HOPS,
    MAX_RESULTS,
    SearchRequest,
)
from agentmemory.retrieval.search import POOL_PER_RESULT, Searcher
from agentmemory.retrieval.settings import SearchSettings
from agentmemory.scope import NOT_SET_MARKER, DimensionMatch, NotSet, ScopeFilter
from agentmemory.stores.filters import parse_filter

if TYPE_CHECKING:
    import anyio

CARD_RECORD_TYPES: Final[tuple[RecordType, ...]] = (*MEMORY_TYPES, "message")
"""The types a minimum can be asked for."""

DEFAULT_MAX_RELEVANT_RESULTS: Final = 5
DEFAULT_FALLBACK_MESSAGES: Final = 5
MAX_RECENT_MESSAGES: Final = 1000
DEFAULT_CARD_TOKENS: Final = 100_000
CARD_LIMIT_KEY: Final = "context_card_token_limit"
"""Where a thread keeps the limit of its cards."""

QUERY_SUMMARY_TOKENS: Final = 64
"""How much of a summary takes part in the search; more would outweigh the question."""

MINIMUM_POOL_OF_A_TYPE: Final = 16
"""Candidates each arm brings for a minimum, at least; the rest is filled from a full pool."""

CARD_FORMAT: Final = SearchResultFormatConfig(
    show_record_id=False,
    show_thread_id=False,
    show_distance=False,
    show_timestamp=True,
    show_role=True,
    show_user_id=False,
    show_agent_id=False,
    show_status=False,
    show_metadata=False,
    include_invalid_results=True,
)
"""What a card shows of each record; an invalid record shows its status all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardRequest:
    """A checked request for a card.

    Args:
        query: What to search for; None: the latest user message.
        max_relevant_results: Most relevant records; omitted: 5, or the sum of the minima if
            that is more. 0: none.
        min_relevant_results_by_type: How many records of a type to look for first, best effort.
        max_recent_messages: How many of the last messages to show.
        except_last_messages: Leave out this many of the last messages everywhere: the caller
            shows them itself.
        fallback_message_count: How many messages stand in for a summary.
        metadata_filter: A metadata filter on the relevant records.
        include_invalid_results: Whether records with status `invalid` may be relevant.
        token_budget: Hard limit of the relevant section in tokens; None or not positive: off.
        soft_token_budget: The record that reaches this sum is the last; likewise.
        format_config: What to show of each record, over the card's defaults.
        settings: What is done with what was found, for each result set by itself.
        token_limit: Most tokens of the whole card; not positive: no limit.
        stable: Whether what rarely changes stands first, byte for byte the same between turns.
        include_profiles: Whether the profiles of the user and the agent are shown.
        include_guidelines: Whether every valid guideline is shown, whatever is asked.
        layers: Layers that are shown whatever is asked; CRITICAL is in any case.
        always_on_token_budget: What CRITICAL, these layers and guidelines may cost together;
            CRITICAL is never cut. None: no limit of their own.
        num_hops: How far to follow links from each relevant memory, 0 to 5.
        max_linked_results: Most linked memories of one relevant record.
        with_summary: Whether a language model may sum up; else transcripts do.
        summary_due: How many messages may lie beyond the stored summary.

    Raises:
        ValidationError: An argument is not as described.
    """

    query: str | None = None
    max_relevant_results: int | NotSet = NOT_SET_MARKER
    min_relevant_results_by_type: Mapping[str, int] | None = None
    max_recent_messages: int = 0
    except_last_messages: int = 0
    fallback_message_count: int = DEFAULT_FALLBACK_MESSAGES
    metadata_filter: Mapping[str, Any] | None = None
    include_invalid_results: bool = True
    token_budget: int | None = None
    soft_token_budget: int | None = None
    format_config: SearchResultFormatConfig | None = None
    settings: SearchSettings = field(default_factory=SearchSettings)
    token_limit: int = DEFAULT_CARD_TOKENS
    stable: bool = False
    include_profiles: bool = False
    include_guidelines: bool = False
    layers: tuple[Layer, ...] = ALWAYS
    always_on_token_budget: int | None = None
    num_hops: int = 0
    max_linked_results: int = DEFAULT_MAX_LINKED_RESULTS
    with_summary: bool = True
    summary_due: int = 10

    def __post_init__(self) -> None:
        check_int(self.token_limit, argument="context_card_token_limit")
        for name in ("stable", "include_profiles", "include_guidelines"):
            check_bool(getattr(self, name), argument=name)
        object.__setattr__(self, "layers", check_layers(self.layers))
        if self.always_on_token_budget is not None:
            check_int(self.always_on_token_budget, argument="always_on_token_budget", minimum=0)
        check_int(self.num_hops, argument="num_hops", minimum=0, maximum=MAX_HOPS)
        if self.query is not None:
            check_text(self.query, argument="query")
        for name in ("max_recent_messages", "except_last_messages", "fallback_message_count"):
            check_int(getattr(self, name), argument=name, minimum=0, maximum=MAX_RECENT_MESSAGES)
        if self.except_last_messages and self.max_recent_messages not in (
            0,
            self.except_last_messages,
        ):
            msg = (
                f"`max_recent_messages` is {self.max_recent_messages} while "
                f"`except_last_messages` is {self.except_last_messages}; accepted: 0 or the same"
            )
            raise ValidationError(msg, argument="max_recent_messages")
        parse_filter(self.metadata_filter)
        check_bool(self.include_invalid_results, argument="include_invalid_results")
        for name in ("token_budget", "soft_token_budget"):
            value = getattr(self, name)
            if value is not None:
                check_int(value, argument=name)
        _check_minima(self.min_relevant_results_by_type, self.max_relevant_results)

    @property
    def minima(self) -> dict[RecordType, int]:
        """The minima above zero, in the order given."""
        given = self.min_relevant_results_by_type or {}
        return {name: given[name] for name in _known_types(given) if given[name]}

    @property
    def limit(self) -> int:
        """Most relevant records."""
        if self.max_relevant_results is not NOT_SET_MARKER:
            return int(self.max_relevant_results)
        usual = self.settings.max_results or DEFAULT_MAX_RELEVANT_RESULTS
        return max(usual, sum(self.minima.values()))


def _known_types(given: Mapping[str, int]) -> Iterable[RecordType]:
    by_name: dict[str, RecordType] = {name: name for name in CARD_RECORD_TYPES}
    return [by_name[name] for name in given if name in by_name]


def _check_minima(minima: Any, limit: Any) -> None:
    if limit is not NOT_SET_MARKER:
        check_int(limit, argument="max_relevant_results", minimum=0, maximum=MAX_RESULTS)
    if minima is None:
        return
    name = "min_relevant_results_by_type"
    if not isinstance(minima, Mapping):
        msg = f"`{name}` must be a mapping of record types to numbers, not {minima!r}"
        raise ValidationError(msg, argument=name)
    for key, value in minima.items():
        if key not in CARD_RECORD_TYPES:
            msg = f"`{name}` holds {key!r}; accepted: {', '.join(CARD_RECORD_TYPES)}"
            raise ValidationError(msg, argument=name)
        check_int(value, argument=f"{name}[{key!r}]", minimum=0, maximum=MAX_RESULTS)
    total = sum(minima.values())
    if limit is not NOT_SET_MARKER and total > limit:
        msg = (
            f"`{name}` asks for {total} results in all, more than `max_relevant_results` "
            f"{limit}; raise it or leave it out"
        )
        raise ValidationError(msg, argument=name)
    if total > MAX_RESULTS:
        msg = f"`{name}` asks for {total} results in all; at most {MAX_RESULTS} are accepted"
        raise ValidationError(msg, argument=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class CardOwner:
    """Whose card it is: a thread and its scope."""

    thread_id: str
    user_id: str | None
    agent_id: str | None

    @property
    def memories(self) -> ScopeFilter:
        """Where memory-like records come from: the user and agent, any thread."""
        return ScopeFilter(
            user=DimensionMatch(exact=True, value=self.user_id),
            agent=DimensionMatch(exact=True, value=self.agent_id),
            thread=DimensionMatch(exact=False, value=self.thread_id),
        )

    @property
    def messages(self) -> ScopeFilter:
        """Where messages come from: this thread only."""
        return ScopeFilter(
            user=DimensionMatch(exact=True, value=self.user_id),
            agent=DimensionMatch(exact=True, value=self.agent_id),
            thread=DimensionMatch(exact=True, value=self.thread_id),
        )


class CardBuilder:
    """Builds the cards of one store.

    Args:
        store: The store.
        searcher: Searches it.
        token_counter: Measures the card.
        clock: Tells what has expired.
        summarizer: Makes summaries.
    """

    def __init__(
        self,
        store: MemoryStore,
        searcher: Searcher,
        *,
        token_counter: TokenCounter,
        clock: Clock,
        summarizer: Summarizer,
    ) -> None:
        self._summarizer = summarizer
        self._store = store
        self._searcher = searcher
        self._counter = token_counter
        self._clock = clock

    async def build(
        self,
        owner: CardOwner,
        request: CardRequest,
        *,
        limiter: anyio.CapacityLimiter,
    ) -> ContextCard:
        """Build the card of a thread.

        Args:
            owner: The thread and its scope.
            request: What is asked for.
            limiter: Bounds how many searches run at once.
        """
        wanted = max(request.max_recent_messages, request.fallback_message_count, 1)
        latest = await self._latest(owner, wanted + request.except_last_messages)
        hidden, visible = _split(latest, request.except_last_messages)
        recent = (latest if request.max_recent_messages else [])[-request.max_recent_messages :]
        stored, tail = await self._summary(owner, request, visible, recent)
        question = _question(request.query, latest, stored, self._counter)
        always_on = await self._always_on(owner, request)
        relevant: list[SearchResult] = []
        notes: tuple[str, ...] = ()
        if question and request.limit:
            shown = {message.id for message in (*recent, *hidden)}
            shown.update(result.id for result in always_on)
            if request.query is None:
                shown.add(_asked_in(latest).id)
            if request.stable:
                shown.update(message.id for message in tail)
            relevant, notes = await self._relevant(owner, request, question, shown, limiter)
        # No message is told twice: in a stable card, whose beginning must not change, the
        # transcript keeps it, in any other the relevant records do.
        told = {result.id for result in relevant}
        rest = transcript_summary(
            [message for message in tail if message.id not in told],
            token_budget=DEFAULT_SUMMARY_TOKENS,
            counter=self._counter,
        )
        profiles = await self._profiles(owner) if request.include_profiles else []
        return assemble(
            CardParts(
                query=question,
                summary=stored,
                transcript=rest.content,
                relevant=tuple(relevant),
                recent=tuple(recent),
                always_on=tuple(self._format(always_on, request.format_config)),
                profiles=tuple(self._format(profiles, request.format_config)),
                notes=notes,
            ),
            counter=self._counter,
            token_limit=request.token_limit,
            stable=request.stable,
        )

    async def summary(
        self, owner: CardOwner, *, except_last: int = 0, token_budget: int = DEFAULT_SUMMARY_TOKENS
    ) -> Summary:
        """Return the summary of a thread, its last messages left out as asked."""
        if self._summarizer.is_available:
            return await self._summarizer.summary(
                owner.thread_id,
                owner.messages,
                except_last=except_last,
                token_budget=token_budget,
            )
        latest = await self._latest(owner, 100 + except_last)
        _, visible = _split(latest, except_last)
        return transcript_summary(visible, token_budget=token_budget, counter=self._counter)

    async def _latest(self, owner: CardOwner, count: int) -> list[ScopedRecord]:
        page = await self._store.list_records(
            ListQuery(
                filter=RecordFilter(
                    scope=owner.messages, now=self._clock.now(), record_types=("message",)
                ),
                limit=min(count, MAX_RECENT_MESSAGES),
                descending=True,
            )
        )
        return list(page.items)[::-1]

    async def _summary(
        self,
        owner: CardOwner,
        request: CardRequest,
        visible: Sequence[ScopedRecord],
        recent: Sequence[ScopedRecord],
    ) -> tuple[Summary, Sequence[ScopedRecord]]:
        """Return the stored summary, and the messages after it that a transcript shows.

        A card does not wait for a model, unless there is no summary yet or the last one lies far
        back.
        """
        shown = {message.id for message in recent}
        count = request.fallback_message_count
        stored = Summary(content="")
        left = [message for message in visible if message.id not in shown]
        if request.with_summary and self._summarizer.is_available:
            covered = await self._summarizer.covered_or_made(
                owner.thread_id,
                owner.messages,
                except_last=request.except_last_messages,
                most=2 * max(request.summary_due, 1),
            )
            if covered.summary is not None:
                stored = Summary(content=covered.summary.content, topics=covered.summary.topics)
            left = [message for message in covered.rest if message.id not in shown]
        return stored, left[-count:] if count else ()

    async def _always_on(self, owner: CardOwner, request: CardRequest) -> list[SearchResult]:
        """Return what is shown whatever is asked."""
        return _unranked(
            await standing_records(
                self._store,
                owner.memories,
                now=self._clock.now(),
                layers=request.layers,
                with_guidelines=request.include_guidelines,
                token_budget=request.always_on_token_budget,
                counter=self._counter,
            )
        )

    async def _profiles(self, owner: CardOwner) -> list[SearchResult]:
        """Return the profiles of the user and the agent."""
        exact = {
            "user_profile": ScopeFilter(user=DimensionMatch(exact=True, value=owner.user_id)),
            "agent_profile": ScopeFilter(agent=DimensionMatch(exact=True, value=owner.agent_id)),
        }
        found: list[ScopedRecord] = []
        for kind, owner_id in (("user_profile", owner.user_id), ("agent_profile", owner.agent_id)):
            if owner_id is not None:
                page = await self._store.list_records(
                    ListQuery(
                        filter=RecordFilter(
                            scope=exact[kind],
                            now=self._clock.now(),
                            record_types=(kind,),  # type: ignore[arg-type] # one of two literals
                        ),
                        limit=1,
                    )
                )
                found.extend(page.items)
        return _unranked(found)

    async def _relevant(
        self,
        owner: CardOwner,
        request: CardRequest,
        question: str,
        shown: set[str],
        limiter: anyio.CapacityLimiter,
    ) -> tuple[list[SearchResult], tuple[str, ...]]:
        minima = request.minima

        def search(
            types: tuple[RecordType, ...], count: int, pool: int | None = None
        ) -> SearchRequest:
            of_messages = types == ("message",)
            return SearchRequest(
                query=question,
                scope=owner.messages if of_messages else owner.memories,
                max_results=count,
                record_types=types,
                metadata_filter=request.metadata_filter,
                include_invalid_results=request.include_invalid_results,
                token_budget=request.token_budget,
                soft_token_budget=request.soft_token_budget,
                settings=_with_pool(request.settings, pool),
                num_hops=request.num_hops,
                max_linked_results=request.max_linked_results,
            )

        requests = [
            search((name,), count, max(POOL_PER_RESULT * count, MINIMUM_POOL_OF_A_TYPE))
            for name, count in minima.items()
        ]
        if sum(minima.values()) < request.limit:
            requests.append(search(MEMORY_TYPES, request.limit))
            if not minima:
                requests.append(search(("message",), request.limit))
        whole = search(MEMORY_TYPES, request.limit)
        prepared = await self._searcher.prepare(whole)
        pools = await self._searcher.candidates_of_each(requests, prepared, limiter=limiter)
        if self._searcher.is_misread(whole, prepared):
            prepared = await self._searcher.prepare(whole)
            pools = await self._searcher.candidates_of_each(requests, prepared, limiter=limiter)
        sets = self._result_sets(requests, pools, shown)
        refined = await fan_out(
            lambda pair: self._searcher.refine(pair[0], pair[1]),
            list(zip(requests, sets, strict=True)),
            limiter=limiter,
        )
        chosen = _choose(refined, minima, request.limit)
        linked = await self._searcher.expand(whole, self._searcher.results(chosen, prepared))
        results = self._format(linked, request.format_config)
        kept = self._searcher.within_budget(results, requests[0])
        return kept, _notes(prepared, refined, len(results) - len(kept))

    def _result_sets(
        self,
        requests: Sequence[SearchRequest],
        pools: Sequence[Sequence[Candidate]],
        shown: set[str],
    ) -> list[list[Ranked]]:
        """Order each pool; all are scored together, so that scores of different sets compare."""
        union: dict[str, Candidate] = {}
        for pool in pools:
            for candidate in pool:
                if candidate.record.id not in shown:
                    union.setdefault(candidate.record.id, candidate)
        ranked = self._searcher.fuse(list(union.values()), requests[0].settings)
        members = [{candidate.record.id for candidate in pool} for pool in pools]
        return [[item for item in ranked if item.record.id in ids] for ids in members]

    def _format(
        self, results: Iterable[SearchResult], config: SearchResultFormatConfig | None
    ) -> list[SearchResult]:
        base = CARD_FORMAT if config is None else config.over(CARD_FORMAT)
        invalid = replace(base, show_status=True)
        return [
            replace(
                result,
                format_config=invalid if result.status is RecordStatus.INVALID else base,
            )
            for result in results
        ]


def _split(
    latest: Sequence[ScopedRecord], except_last: int
) -> tuple[Sequence[ScopedRecord], Sequence[ScopedRecord]]:
    """Return the last messages that are left out, and those before them."""
    if not except_last:
        return (), latest
    return latest[-except_last:], latest[:-except_last]


def _asked_in(latest: Sequence[ScopedRecord]) -> ScopedRecord:
    """Return the latest user message, else the latest of all."""
    for message in reversed(latest):
        if message.role == "user":
            return message
    return latest[-1]


def _question(
    query: str | None,
    latest: Sequence[ScopedRecord],
    summary: Summary,
    counter: TokenCounter,
) -> str:
    """Return what to search for: the question, with what the talk is about."""
    asked = query
    if asked is None:
        asked = _asked_in(latest).content if latest else ""
    about = [beginning(summary.content, QUERY_SUMMARY_TOKENS, counter), "; ".join(summary.topics)]
    return "\n".join(part for part in (asked, *about) if part)


def _unranked(records: Iterable[ScopedRecord]) -> list[SearchResult]:
    """Return records that nobody searched for as results."""
    return [
        SearchResult(record=record, score=1.0, distance=0.0, explain=Explanation())
        for record in records
    ]


def _with_pool(settings: SearchSettings, pool: int | None) -> SearchSettings:
    """Make do with a smaller pool where no stage after fusion could promote what lies in it."""
    if pool is None or settings.candidate_pool is not None or settings.reranker is not None:
        return settings
    if settings.decay is not None or settings.diversity is not None:
        return settings
    return replace(settings, candidate_pool=pool)


def _choose(
    sets: Sequence[Sequence[Ranked]], minima: Mapping[RecordType, int], limit: int
) -> list[Ranked]:
    """Take the minima of each type first, then the best of the rest.

    Args:
        sets: One set for each minimum in its order, then those that fill what is left.
        minima: How many of each type.
        limit: How many in all.
    """
    chosen: list[Ranked] = []
    taken: set[str] = set()
    for (name, count), found in zip(minima.items(), sets, strict=False):
        for item in found[:count]:
            if item.record.id not in taken:
                taken.add(item.record.id)
                chosen.append(_marked(item, f"minimum for {name}"))
    rest = [[i for i in found if i.record.id not in taken] for found in sets[len(minima) :]]
    best = _merged(rest)
    chosen.extend(_marked(item, "best of the rest") for item in settled(best))
    return chosen[:limit]


def _merged(sets: Sequence[Sequence[Ranked]]) -> list[Ranked]:
    """Merge result sets by score; each keeps the order its own stages gave it."""
    merged: dict[str, Ranked] = {}
    left = [list(found) for found in sets if found]
    while left:
        best = min(left, key=lambda found: order_key(found[0].candidate, found[0].score))
        item = best.pop(0)
        merged.setdefault(item.record.id, item)
        left = [found for found in left if found]
    return list(merged.values())


def _marked(item: Ranked, reason: str) -> Ranked:
    return item.after(Step("card", reason=reason))


def _notes(
    prepared: PreparedQuery, refined: Sequence[Sequence[Ranked]], dropped: int
) -> tuple[str, ...]:
    notes = [*prepared.notes, *(note for found in refined for item in found for note in item.notes)]
    if dropped:
        notes.append(f"{dropped} relevant results left out by the token budget")
    return tuple(dict.fromkeys(notes))
