"""The settings one search runs with, resolved from call, thread, client and defaults.

A thread stores the kind and the plain values of its configuration; live objects (reranker,
pruner, rewriter, a fusion of the caller's own) always come from the client or the call. May
import config, fusion and what lies below.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final, Literal

from agentmemory.config import (
    DecayConfig,
    DiversityConfig,
    MemorySearchConfig,
    PruningEvaluationMode,
    PruningMemorySearchConfig,
    SearchPreset,
    SearchStrategy,
    TopKMemorySearchConfig,
)
from agentmemory.errors import ConfigurationError, SchemaMismatchError, ValidationError
from agentmemory.protocols import IFusion, ILlm, IReranker
from agentmemory.retrieval.fusion import Priors, ReciprocalRankFusion, ScoreFusion
from agentmemory.scope import NOT_SET_MARKER

DEFAULT_STAGE_DEADLINE_S: Final = 30.0
DEFAULT_PROBE_POINTS: Final = 3
DEFAULT_PROTECTED_FRACTION: Final = 0.1

_KINDS: Final = {
    "plain": MemorySearchConfig,
    "top_k": TopKMemorySearchConfig,
    "pruning": PruningMemorySearchConfig,
}
_LIVE: Final = frozenset({"reranker", "pruner", "rewriter"})
_FUSIONS: Final[Mapping[str, Any]] = {
    "score": ScoreFusion,
    "reciprocal_rank": ReciprocalRankFusion,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """Resolved settings; the meaning of each is that of the configuration classes.

    Args:
        max_results: Most direct results when a call does not say; None: the default.
        reranker_max_candidates: None: three times the results.
        prunes: Whether results are pruned; without a `pruner` that is noted and left out.
    """

    token_budget: int | None = None
    soft_token_budget: int | None = None
    strategy: SearchStrategy = SearchStrategy.HYBRID
    fusion: IFusion = field(default_factory=ScoreFusion)
    rewriter: ILlm | None = None
    decay: DecayConfig | None = None
    diversity: DiversityConfig | None = None
    candidate_pool: int | Literal["exact"] | None = None
    strict: bool = False
    stage_deadline_s: float = DEFAULT_STAGE_DEADLINE_S
    reranker: IReranker | None = None
    reranker_max_candidates: int | None = None
    max_results: int | None = None
    prunes: bool = False
    evaluation_mode: PruningEvaluationMode = PruningEvaluationMode.FAST
    num_probe_points: int = DEFAULT_PROBE_POINTS
    protected_fraction: float = DEFAULT_PROTECTED_FRACTION
    pruner: ILlm | None = None


def check_search_config(value: Any) -> MemorySearchConfig | None:
    """Accept None, a configuration, or a preset.

    Raises:
        ValidationError: Anything else.
    """
    if isinstance(value, SearchPreset):
        return value.config()
    if value is not None and not isinstance(value, MemorySearchConfig):
        msg = (
            f"`search_config` is {value!r}; accepted: MemorySearchConfig, "
            "TopKMemorySearchConfig, PruningMemorySearchConfig or a SearchPreset"
        )
        raise ValidationError(msg, argument="search_config")
    return value


def client_config(search_config: Any, pruner_llm: Any) -> MemorySearchConfig | None:
    """Return the client's configuration; `pruner_llm` is the short form of FAST pruning.

    Raises:
        ConfigurationError: Both were given.
        ValidationError: One of them is not as described.
    """
    if pruner_llm is None:
        return check_search_config(search_config)
    if search_config is not None:
        msg = "`pruner_llm` was given together with `search_config`; give one or the other"
        raise ConfigurationError(msg)
    return PruningMemorySearchConfig(pruner=pruner_llm)


def resolve_settings(
    call: MemorySearchConfig | None,
    layers: Sequence[MemorySearchConfig | None],
    *,
    strategy: SearchStrategy,
) -> SearchSettings:
    """Fill in each option from the first layer that sets it.

    The first layer decides the kind, that is whether there is pruning; only a plain
    configuration of a call leaves that to what is below it.

    Args:
        call: The call's own.
        layers: From the thread down to the client.
        strategy: The client's strategy, where no layer says.
    """
    below = [layer for layer in layers if layer is not None]
    present = below if call is None else [call, *below]
    values: dict[str, Any] = {"strategy": strategy}
    for option in fields(SearchSettings):
        for layer in present:
            value = getattr(layer, option.name, NOT_SET_MARKER)
            if value is not NOT_SET_MARKER:
                values[option.name] = value
                break
    deciding = below if call is not None and call.kind == "plain" else present
    kind = deciding[0].kind if deciding else "plain"
    values["prunes"] = kind == "pruning"
    if kind != "top_k":
        values.pop("max_results", None)
    return SearchSettings(**values)


def lacks_pruner(layers: Sequence[MemorySearchConfig | None]) -> bool:
    """Tell whether pruning is configured but nobody there is to do it."""
    settings = resolve_settings(None, layers, strategy=SearchStrategy.HYBRID)
    return settings.prunes and settings.pruner is None


def to_stored(config: MemorySearchConfig | None) -> dict[str, Any] | None:
    """Return the plain values of a configuration, as a thread stores them."""
    if config is None:
        return None
    stored: dict[str, Any] = {"kind": config.kind}
    for option in fields(config):
        value = getattr(config, option.name)
        if option.name == "fusion":
            value = _stored_fusion(value)
        if value is NOT_SET_MARKER or (option.name in _LIVE and value is not None):
            continue
        if isinstance(value, DecayConfig):
            by_type = dict(value.half_life_days_by_type)
            value = asdict(replace(value, half_life_days_by_type=by_type))
        elif isinstance(value, DiversityConfig):
            value = asdict(value)
        elif isinstance(value, enum.Enum):
            value = value.value
        stored[option.name] = value
    return stored


def from_stored(stored: Mapping[str, Any] | None) -> MemorySearchConfig | None:
    """Return the configuration a thread stored.

    Raises:
        SchemaMismatchError: It was stored by a release that knows more than this one.
    """
    if stored is None:
        return None
    values = {name: value for name, value in stored.items() if name != "kind"}
    try:
        for name, make in (("decay", DecayConfig), ("diversity", DiversityConfig)):
            if values.get(name) is not None:
                values[name] = make(**values[name])
        if "fusion" in values:
            form = dict(values["fusion"])
            make_fusion = _FUSIONS[form.pop("form")]
            values["fusion"] = make_fusion(priors=Priors(**form.pop("priors")), **form)
        return _KINDS[stored["kind"]](**values)
    except (KeyError, TypeError, ValidationError) as error:
        msg = f"the search configuration of a thread cannot be read: {error}"
        raise SchemaMismatchError(msg) from error


def _stored_fusion(fusion: Any) -> Any:
    """Return the values of one of our fusions; another one is a live object."""
    for form, kind in _FUSIONS.items():
        if type(fusion) is kind:
            return {"form": form, **asdict(fusion)}
    return NOT_SET_MARKER
