"""Every configuration class and option enum; may import protocols and what lies below."""

from __future__ import annotations

import enum
import functools
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from agentmemory.checks import check_bool, check_choice, check_duration, check_int, check_number
from agentmemory.errors import ValidationError
from agentmemory.protocols import IFusion, ILlm, IReranker
from agentmemory.records import RECORD_TYPES
from agentmemory.scope import NOT_SET_MARKER, NotSet


class SchemaPolicy(enum.StrEnum):
    """What opening a store may do to the database's schema."""

    REQUIRE_EXISTING = "require_existing"
    """Use what is there; refuse a database without the store or of another version."""
    CREATE_IF_EMPTY = "create_if_empty"
    """Create the store where nothing of ours exists; refuse to upgrade."""
    CREATE_IF_NECESSARY = "create_if_necessary"
    """Create the store or upgrade it to this version."""
    RECREATE = "recreate"
    """Drop the store with all it holds and create it anew."""
    NO_CHECK = "no_check"
    """Look at nothing; the caller vouches for the schema."""


class SearchStrategy(enum.StrEnum):
    """Which arms a search uses."""

    VECTOR = "vector"
    KEYWORD = "keyword"
    HYBRID = "hybrid"


class SearchIndexSyncMode(enum.StrEnum):
    """When the database brings its search index up to date."""

    ON_COMMIT = "on_commit"
    MANUAL = "manual"
    AUTO = "auto"


class TimeToLiveAnchor(enum.StrEnum):
    """From when a time to live counts."""

    CREATED_AT = "created_at"
    """From the time of writing; when it is renewed, from then."""
    TIMESTAMP = "timestamp"
    """From when it happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRetentionConfig:
    """How long messages and memories live by default and at most.

    Args:
        default_ttl_days: Days, or a `timedelta`, for records written without one of their own;
            None: no expiry, or the maximum if there is one.
        max_ttl_days: The longest time to live that is accepted; None: no bound.

    Raises:
        ValidationError: Negative or no number, or a default above the maximum.
    """

    default_ttl_days: float | timedelta | None = None
    max_ttl_days: float | timedelta | None = None

    def __post_init__(self) -> None:
        longest = self.longest
        default = self.default
        if longest is not None and default is not None and default > longest:
            msg = (
                f"`default_ttl_days` is {self.default_ttl_days!r}, more than `max_ttl_days` "
                f"{self.max_ttl_days!r}"
            )
            raise ValidationError(msg, argument="default_ttl_days")

    @property
    def default(self) -> timedelta | None:
        """The default as a duration."""
        if self.default_ttl_days is None:
            return None
        return check_duration(self.default_ttl_days, argument="default_ttl_days")

    @property
    def longest(self) -> timedelta | None:
        """The maximum as a duration."""
        if self.max_ttl_days is None:
            return None
        return check_duration(self.max_ttl_days, argument="max_ttl_days")

    def expiry(
        self,
        ttl_days: Any,
        anchor: Any,
        *,
        now: datetime,
        event_time: datetime | None,
    ) -> datetime | None:
        """Return when a record expires, or None for never.

        Args:
            ttl_days: Days, a `timedelta`, None for as long as allowed, or omitted for the
                default. 0 expires at once.
            anchor: A `TimeToLiveAnchor` or its text.
            now: The time of writing.
            event_time: When it happened, if known.

        Raises:
            ValidationError: Above the maximum, negative, an unknown anchor, or anchored at a
                timestamp that is not there.
        """
        choices = tuple(item.value for item in TimeToLiveAnchor)
        chosen = TimeToLiveAnchor(check_choice(anchor, argument="ttl_anchor", choices=choices))
        ttl: timedelta | None
        if ttl_days is NOT_SET_MARKER:
            ttl = self.default if self.default is not None else self.longest
        elif ttl_days is None:
            ttl = self.longest
        else:
            ttl = check_duration(ttl_days, argument="ttl_days")
        if ttl is None:
            return None
        if self.longest is not None and ttl > self.longest:
            msg = f"`ttl_days` is {ttl_days!r}; at most {self.max_ttl_days!r} is accepted"
            raise ValidationError(msg, argument="ttl_days")
        start = now
        if chosen is TimeToLiveAnchor.TIMESTAMP:
            if event_time is None:
                msg = "`ttl_anchor` is TIMESTAMP but there is no `timestamp` to count from"
                raise ValidationError(msg, argument="ttl_anchor")
            start = event_time
        try:
            return start + ttl
        except OverflowError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageInputLimitConfig:
    """How large images may be.

    Args:
        max_image_bytes: Largest file, 1 to 32 MiB. Default 10 MiB.
        max_image_pixels: Largest width times height, 1 to 1,000,000,000. Default 100,000,000.

    Raises:
        ValidationError: A limit is out of range.
    """

    max_image_bytes: int = 10 * 1024 * 1024
    max_image_pixels: int = 100_000_000

    def __post_init__(self) -> None:
        for name, largest in (
            ("max_image_bytes", 32 * 1024 * 1024),
            ("max_image_pixels", 1_000_000_000),
        ):
            check_int(getattr(self, name), argument=name, minimum=1, maximum=largest)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecayConfig:
    """How age wears relevance down; stable records, guidelines and CRITICAL ones are exempt.

    Args:
        shape: "exponential", or "linear" (nothing is left after two half-lives).
        half_life_days: The age in days at which a record is worth one half.
        half_life_days_by_type: Other half-lives for some record types.
        combine: "blend": `(1 - w) * relevance + w * freshness`; "multiply": their product.
        recency_weight: The `w` of "blend", 0.0 to 1.0.

    Raises:
        ValidationError: A value is not as described.
    """

    shape: Literal["exponential", "linear"] = "exponential"
    half_life_days: float = 7.0
    half_life_days_by_type: Mapping[str, float] = field(default_factory=dict)
    combine: Literal["blend", "multiply"] = "blend"
    recency_weight: float = 0.3

    def __post_init__(self) -> None:
        check_choice(self.shape, argument="shape", choices=("exponential", "linear"))
        check_choice(self.combine, argument="combine", choices=("blend", "multiply"))
        check_number(self.recency_weight, argument="recency_weight", minimum=0, maximum=1)
        _check_half_life(self.half_life_days, "half_life_days")
        name = "half_life_days_by_type"
        if not isinstance(self.half_life_days_by_type, Mapping):
            msg = f"`{name}` must be a mapping of record types to days"
            raise ValidationError(msg, argument=name)
        for record_type, days in self.half_life_days_by_type.items():
            check_choice(record_type, argument=name, choices=RECORD_TYPES)
            _check_half_life(days, f"{name}[{record_type!r}]")

    def half_life_of(self, record_type: str) -> timedelta:
        """Return the half-life of a record type."""
        return timedelta(days=self.half_life_days_by_type.get(record_type, self.half_life_days))


def _check_half_life(value: object, argument: str) -> None:
    days = check_number(value, argument=argument, minimum=0, maximum=1_000_000)
    if days <= 0:
        msg = f"`{argument}` is {value!r}; more than 0 is accepted"
        raise ValidationError(msg, argument=argument)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiversityConfig:
    """How results are kept from all saying the same.

    Args:
        balance: The λ of maximal marginal relevance: 1.0 relevance only, 0.0 difference only;
            None switches it off and only near duplicates are collapsed.
        duplicate_threshold: Cosine from which two results count as the same and only the better
            one is kept; None keeps all.

    Raises:
        ValidationError: A value lies outside 0 to 1.
    """

    balance: float | None = 0.7
    duplicate_threshold: float | None = 0.97

    def __post_init__(self) -> None:
        for name in ("balance", "duplicate_threshold"):
            if getattr(self, name) is not None:
                check_number(getattr(self, name), argument=name, minimum=0, maximum=1)


class PruningEvaluationMode(enum.StrEnum):
    """How widely a pruner judges the results; read in any case."""

    FAST = "FAST"
    """Stops as soon as more answers are unlikely to change what is kept."""
    EXTENDED = "EXTENDED"
    """Judges a wider part of the results before it decides."""
    EXHAUSTIVE = "EXHAUSTIVE"
    """Judges every result by itself."""

    @classmethod
    def _missing_(cls, value: object) -> PruningEvaluationMode | None:
        text = value.upper() if isinstance(value, str) else None
        return next((mode for mode in cls if mode.value == text), None)


def _check_number_or_unset(value: object, argument: str, low: float, high: float) -> None:
    if value is not NOT_SET_MARKER:
        check_number(value, argument=argument, minimum=low, maximum=high)


def _check_count_or_unset(value: object, argument: str, low: int, high: int) -> None:
    if value is not NOT_SET_MARKER:
        check_int(value, argument=argument, minimum=low, maximum=high)


def _check_part(value: object, argument: str, part: type, what: str) -> None:
    if value is not NOT_SET_MARKER and value is not None and not isinstance(value, part):
        msg = f"`{argument}` is {value!r}; accepted: {what}, or None"
        raise ValidationError(msg, argument=argument)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySearchConfig:
    """What a search does with what it found; an omitted option is filled from the layer below.

    The layers are the call, the thread, the client and the library's defaults. The class that a
    thread or a client is given also says whether results are pruned; a call with this plain one
    leaves that as it is. Live objects (rewriter, reranker, pruner, a fusion of your own) are never
    stored with a thread: they come from the client again.

    Args:
        token_budget: Hard limit of the formatted results in tokens; None or not positive: off.
        soft_token_budget: The result that reaches this sum is the last; likewise. A hard limit
            of about three times the soft one is a good start.
        strategy: Which arms are used. Default: the client's.
        fusion: How both arms become one score. Default `ScoreFusion()`.
        rewriter: A language model that writes a hypothetical answer for the vector arm (HyDE);
            None: off. Default off.
        decay: How age wears relevance down; None: off. Default off.
        diversity: How results are kept from all saying the same; None: off. Default off.
        candidate_pool: How many candidates each arm brings, at least; "exact": as many as
            results are asked for, so that later stages only reorder these. Default: four times
            the results, at least 60.
        strict: Whether a failing optional stage is an error instead of being left out.
        stage_deadline_s: Seconds a stage may wait for its model, 0.001 to 3600. Default 30.

    Raises:
        ValidationError: An option is not as described.
    """

    token_budget: int | None | NotSet = NOT_SET_MARKER
    soft_token_budget: int | None | NotSet = NOT_SET_MARKER
    strategy: SearchStrategy | NotSet = NOT_SET_MARKER
    fusion: IFusion | NotSet = NOT_SET_MARKER
    rewriter: ILlm | None | NotSet = NOT_SET_MARKER
    decay: DecayConfig | None | NotSet = NOT_SET_MARKER
    diversity: DiversityConfig | None | NotSet = NOT_SET_MARKER
    candidate_pool: int | Literal["exact"] | NotSet = NOT_SET_MARKER
    strict: bool | NotSet = NOT_SET_MARKER
    stage_deadline_s: float | NotSet = NOT_SET_MARKER

    @property
    def kind(self) -> str:
        """The word a thread stores it under."""
        return "plain"

    def __post_init__(self) -> None:
        for name in ("token_budget", "soft_token_budget"):
            value = getattr(self, name)
            if value is not NOT_SET_MARKER and value is not None:
                check_int(value, argument=name)
        if self.strategy is not NOT_SET_MARKER:
            choices = tuple(item.value for item in SearchStrategy)
            check_choice(self.strategy, argument="strategy", choices=choices)
            object.__setattr__(self, "strategy", SearchStrategy(self.strategy))
        if self.fusion is not NOT_SET_MARKER and not isinstance(self.fusion, IFusion):
            msg = f"`fusion` is {self.fusion!r}; accepted: ScoreFusion, ReciprocalRankFusion"
            raise ValidationError(msg, argument="fusion")
        _check_part(self.rewriter, "rewriter", ILlm, "an object with `generate`")
        _check_part(self.decay, "decay", DecayConfig, "a DecayConfig")
        _check_part(self.diversity, "diversity", DiversityConfig, "a DiversityConfig")
        if self.candidate_pool != "exact":
            _check_count_or_unset(self.candidate_pool, "candidate_pool", 1, 10_000)
        if self.strict is not NOT_SET_MARKER:
            check_bool(self.strict, argument="strict")
        _check_number_or_unset(self.stage_deadline_s, "stage_deadline_s", 0.001, 3600)
        check_budgets(
            None if self.token_budget is NOT_SET_MARKER else self.token_budget,
            None if self.soft_token_budget is NOT_SET_MARKER else self.soft_token_budget,
        )


def check_budgets(hard: int | None, soft: int | None) -> None:
    """Warn, once for each pair, of a hard budget that makes the soft one pointless."""
    if hard is not None and soft is not None and 0 < hard <= soft:
        _warn_of_budgets(hard, soft)


@functools.lru_cache(maxsize=1024)
def _warn_of_budgets(hard: int, soft: int) -> None:
    warnings.warn(
        f"`token_budget` {hard} is not above `soft_token_budget` {soft}: the soft target can "
        "never be crossed; about three times the soft target is a good start",
        UserWarning,
        stacklevel=5,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _RerankingSearchConfig(MemorySearchConfig):
    """Options of the configurations that may rerank."""

    reranker: IReranker | None | NotSet = NOT_SET_MARKER
    reranker_max_candidates: int | NotSet = NOT_SET_MARKER

    def __post_init__(self) -> None:
        MemorySearchConfig.__post_init__(self)
        _check_part(self.reranker, "reranker", IReranker, "an object with `rerank`")
        _check_count_or_unset(self.reranker_max_candidates, "reranker_max_candidates", 1, 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopKMemorySearchConfig(_RerankingSearchConfig):
    """At most a fixed number of direct results, reranked if there is a reranker.

    Takes every option of `MemorySearchConfig`, and:

    Args:
        reranker: Reorders the head of the pool; None: off.
        reranker_max_candidates: How many candidates it sees, 1 to 1000. Default three times the
            results.
        max_results: Most direct results when a call does not say, 1 to 1000. Default 10.

    Raises:
        ValidationError: An option is not as described.
    """

    max_results: int | NotSet = NOT_SET_MARKER

    @property
    def kind(self) -> str:
        """The word a thread stores it under."""
        return "top_k"

    def __post_init__(self) -> None:
        _RerankingSearchConfig.__post_init__(self)
        _check_count_or_unset(self.max_results, "max_results", 1, 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class PruningMemorySearchConfig(_RerankingSearchConfig):
    """A language model removes results that are of no use.

    Takes every option of `MemorySearchConfig`, and:

    Args:
        reranker: Reorders the head of the pool; None: off.
        reranker_max_candidates: How many candidates it sees, 1 to 1000. Default three times the
            results.
        evaluation_mode: How widely the results are judged. Default FAST.
        num_probe_points: Regions of the ranking that FAST and EXTENDED look at, 1 to 16.
            Default 3; an error with EXHAUSTIVE.
        protected_fraction: Share of the best results that always stay, 0.0 to 1.0, rounded up.
            Default 0.1.
        pruner: The language model; omitted: the client's.

    Raises:
        ValidationError: An option is not as described.
    """

    evaluation_mode: PruningEvaluationMode | NotSet = NOT_SET_MARKER
    num_probe_points: int | NotSet = NOT_SET_MARKER
    protected_fraction: float | NotSet = NOT_SET_MARKER
    pruner: ILlm | NotSet = NOT_SET_MARKER

    @property
    def kind(self) -> str:
        """The word a thread stores it under."""
        return "pruning"

    def __post_init__(self) -> None:
        _RerankingSearchConfig.__post_init__(self)
        if self.evaluation_mode is not NOT_SET_MARKER:
            try:
                mode = PruningEvaluationMode(self.evaluation_mode)
            except ValueError:
                accepted = ", ".join(item.value for item in PruningEvaluationMode)
                msg = f"`evaluation_mode` is {self.evaluation_mode!r}; accepted: {accepted}"
                raise ValidationError(msg, argument="evaluation_mode") from None
            object.__setattr__(self, "evaluation_mode", mode)
        _check_count_or_unset(self.num_probe_points, "num_probe_points", 1, 16)
        _check_number_or_unset(self.protected_fraction, "protected_fraction", 0, 1)
        if (
            self.evaluation_mode is PruningEvaluationMode.EXHAUSTIVE
            and self.num_probe_points is not NOT_SET_MARKER
        ):
            msg = "`num_probe_points` has no meaning when `evaluation_mode` is EXHAUSTIVE"
            raise ValidationError(msg, argument="num_probe_points")
        if self.pruner is not NOT_SET_MARKER and not isinstance(self.pruner, ILlm):
            msg = f"`pruner` is {self.pruner!r}; accepted: an object with `generate`"
            raise ValidationError(msg, argument="pruner")


class SearchPreset(enum.StrEnum):
    """Ready-made configurations by what is asked for."""

    SIMPLE = "simple"
    """A small memory, everyday questions: meaning alone."""
    TECHNICAL = "technical"
    """Many abbreviations, versions and names: words and meaning."""
    RECENT = "recent"
    """What is the latest state: words and meaning, newer things first."""
    DIVERSE = "diverse"
    """Many records say the same: words and meaning, without repetition."""
    PRECISE = "precise"
    """The first results have to be right: as technical, reranked where there is a reranker."""
    FULL = "full"
    """A large memory: every stage."""

    def config(self) -> TopKMemorySearchConfig:
        """Return the configuration; a reranker comes from the client's."""
        strategy = SearchStrategy.VECTOR if self is SearchPreset.SIMPLE else SearchStrategy.HYBRID
        everything = self is SearchPreset.FULL
        return TopKMemorySearchConfig(
            strategy=strategy,
            decay=DecayConfig() if everything or self is SearchPreset.RECENT else None,
            diversity=DiversityConfig() if everything or self is SearchPreset.DIVERSE else None,
            reranker=(NOT_SET_MARKER if everything or self is SearchPreset.PRECISE else None),
        )
