"""Who and what a record belongs to, and how a search is bounded by it.

Three independent dimensions (user, agent, thread), each in one of three states: omitted
(`NOT_SET_MARKER`), `None` (explicitly unscoped) or an id. May import errors and checks.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from agentmemory.checks import check_bool, check_optional_id
from agentmemory.errors import ScopeError


class NotSet(enum.Enum):
    """The type of `NOT_SET_MARKER`: a field that was left out, as opposed to given as None."""

    NOT_SET_MARKER = "NOT_SET_MARKER"

    def __repr__(self) -> str:
        return "NOT_SET_MARKER"


NOT_SET_MARKER: Final = NotSet.NOT_SET_MARKER
"""Marks an omitted field; the operation puts its own default there. Never stored."""

IdOrNone = str | None
OptionalId = str | None | NotSet
OptionalFlag = bool | NotSet


def is_set(value: object) -> bool:
    """Tell whether a field was given (None counts as given)."""
    return value is not NOT_SET_MARKER


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The scope of a write or a lookup.

    Args:
        user_id: A user's id, None for "no user", or omitted for the operation's default.
        agent_id: Likewise for the agent.
        thread_id: Likewise for the thread.

    Raises:
        ValidationError: An id is not text of 1 to 128 bytes.
    """

    user_id: OptionalId = NOT_SET_MARKER
    agent_id: OptionalId = NOT_SET_MARKER
    thread_id: OptionalId = NOT_SET_MARKER

    def __post_init__(self) -> None:
        for name in ("user_id", "agent_id", "thread_id"):
            value = getattr(self, name)
            if value is not NOT_SET_MARKER:
                check_optional_id(value, argument=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchScope(Scope):
    """The scope of a search.

    Args:
        exact_user_match: True: only records whose user is exactly `user_id` (None included).
            False: the user does not filter; records of a given user rank higher. Omitted: the
            operation's default; an id or a None that was given is then exact.
        exact_agent_match: Likewise for the agent.
        exact_thread_match: Likewise for the thread.
    """

    exact_user_match: OptionalFlag = NOT_SET_MARKER
    exact_agent_match: OptionalFlag = NOT_SET_MARKER
    exact_thread_match: OptionalFlag = NOT_SET_MARKER

    def __post_init__(self) -> None:
        # Zero-argument super() does not work in a dataclass with slots.
        Scope.__post_init__(self)
        for name in ("exact_user_match", "exact_agent_match", "exact_thread_match"):
            value = getattr(self, name)
            if value is not NOT_SET_MARKER:
                check_bool(value, argument=name)


@dataclass(frozen=True, slots=True)
class DimensionMatch:
    """How one dimension of a resolved scope acts on a search.

    Args:
        exact: Whether only records whose value equals `value` (None included) are found.
        value: The id to match when exact; when not exact, the id that ranks higher, or None.
    """

    exact: bool = False
    value: IdOrNone = None


@dataclass(frozen=True, slots=True)
class ScopeFilter:
    """A fully resolved search scope: what a store enforces."""

    user: DimensionMatch = DimensionMatch()
    agent: DimensionMatch = DimensionMatch()
    thread: DimensionMatch = DimensionMatch()

    @property
    def is_unbounded(self) -> bool:
        """Whether no dimension filters."""
        return not (self.user.exact or self.agent.exact or self.thread.exact)


def merge_search_scope(
    scope: SearchScope | Scope | None,
    *,
    user_id: OptionalId,
    agent_id: OptionalId,
    thread_id: OptionalId,
    exact_user_match: OptionalFlag,
    exact_agent_match: OptionalFlag,
    exact_thread_match: OptionalFlag,
) -> SearchScope:
    """Take either a scope object or the single fields, never both.

    Raises:
        ScopeError: `scope` was given together with a field, or is not a `Scope`.
    """
    given = SearchScope(
        user_id=user_id,
        agent_id=agent_id,
        thread_id=thread_id,
        exact_user_match=exact_user_match,
        exact_agent_match=exact_agent_match,
        exact_thread_match=exact_thread_match,
    )
    if scope is None:
        return given
    if not isinstance(scope, Scope):
        msg = f"`scope` must be a Scope or SearchScope, not {type(scope).__name__}: {scope!r}"
        raise ScopeError(msg, argument="scope")
    if given != SearchScope():
        msg = "`scope` was given together with ids or exact flags; give one or the other"
        raise ScopeError(msg, argument="scope")
    if isinstance(scope, SearchScope):
        return scope
    return SearchScope(user_id=scope.user_id, agent_id=scope.agent_id, thread_id=scope.thread_id)


def _resolve(
    value: OptionalId, exact: OptionalFlag, *, default: DimensionMatch, dimension: str
) -> DimensionMatch:
    if value is NOT_SET_MARKER:
        if exact is NOT_SET_MARKER:
            return default
        if exact and not default.exact and default.value is None:
            msg = (
                f"`exact_{dimension}_match` is True but `{dimension}_id` was omitted; "
                f"give an id, or None for records without {dimension}"
            )
            raise ScopeError(msg, argument=f"exact_{dimension}_match")
        return DimensionMatch(exact=bool(exact), value=default.value)
    given = None if value is None else str(value)
    if exact is NOT_SET_MARKER:
        return DimensionMatch(exact=True, value=given)
    return DimensionMatch(exact=bool(exact), value=given)


def resolve_client_scope(scope: SearchScope) -> ScopeFilter:
    """Resolve a client search: the user is always explicit and exact.

    Raises:
        ScopeError: No `user_id`, or `exact_user_match=False`.
    """
    if scope.user_id is NOT_SET_MARKER:
        msg = (
            "`user_id` is missing: a search needs an explicit user, or None for records "
            "without a user"
        )
        raise ScopeError(msg, argument="user_id")
    if scope.exact_user_match is False:
        msg = (
            "`exact_user_match` is False: a client search is always exact on the user; "
            "use `memory.store.search` to search across users"
        )
        raise ScopeError(msg, argument="exact_user_match")
    nothing = DimensionMatch()
    return ScopeFilter(
        user=_resolve(scope.user_id, True, default=nothing, dimension="user"),
        agent=_resolve(scope.agent_id, scope.exact_agent_match, default=nothing, dimension="agent"),
        thread=_resolve(
            scope.thread_id, scope.exact_thread_match, default=nothing, dimension="thread"
        ),
    )


def resolve_thread_scope(
    scope: SearchScope, *, user_id: IdOrNone, agent_id: IdOrNone, thread_id: str
) -> ScopeFilter:
    """Resolve a thread search: its user and agent exactly, its thread as a preference."""
    return ScopeFilter(
        user=_resolve(
            scope.user_id,
            scope.exact_user_match,
            default=DimensionMatch(exact=True, value=user_id),
            dimension="user",
        ),
        agent=_resolve(
            scope.agent_id,
            scope.exact_agent_match,
            default=DimensionMatch(exact=True, value=agent_id),
            dimension="agent",
        ),
        thread=_resolve(
            scope.thread_id,
            scope.exact_thread_match,
            default=DimensionMatch(exact=False, value=thread_id),
            dimension="thread",
        ),
    )


def resolve_store_scope(scope: SearchScope) -> ScopeFilter:
    """Resolve a store search: what is omitted does not filter."""
    nothing = DimensionMatch()
    return ScopeFilter(
        user=_resolve(scope.user_id, scope.exact_user_match, default=nothing, dimension="user"),
        agent=_resolve(scope.agent_id, scope.exact_agent_match, default=nothing, dimension="agent"),
        thread=_resolve(
            scope.thread_id, scope.exact_thread_match, default=nothing, dimension="thread"
        ),
    )
