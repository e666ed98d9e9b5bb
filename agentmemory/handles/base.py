"""What every handle has: its parts, and for a thread its identity and scope.

May import parts, memories and below.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentmemory.checks import check_id
from agentmemory.errors import ScopeError
from agentmemory.memories import exact_scope
from agentmemory.parts import Parts
from agentmemory.records import ThreadRecord
from agentmemory.scope import (
    NOT_SET_MARKER,
    IdOrNone,
    OptionalId,
    ScopeFilter,
)


class ClientHandle:
    """What the verbs of a client work on."""

    _parts: Parts


class ThreadHandle:
    """Who a thread is, and what its verbs can reach."""

    _parts: Parts
    _record: ThreadRecord

    @property
    def thread_id(self) -> str:
        """The thread's id."""
        return self._record.id

    @property
    def user_id(self) -> str | None:
        """The user it belongs to, or None."""
        return self._record.user_id

    @property
    def agent_id(self) -> str | None:
        """The agent it belongs to, or None."""
        return self._record.agent_id

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The caller's metadata as of when this handle was made."""
        return self._record.metadata

    @property
    def _scope(self) -> ScopeFilter:
        user_id: IdOrNone = self.user_id
        return exact_scope(user_id, self.agent_id, self.thread_id)

    @property
    def _memory_scope(self) -> ScopeFilter:
        return exact_scope(self.user_id, self.agent_id)


def explicit_user(user_id: OptionalId) -> str | None:
    """Return the user of a client verb, which is always told.

    Raises:
        ScopeError: It was left out.
    """
    if user_id is NOT_SET_MARKER:
        msg = "`user_id` is missing: give a user's id, or None for what belongs to no user"
        raise ScopeError(msg, argument="user_id")
    return None if user_id is None else check_id(user_id, argument="user_id")
