"""Erasure of all that belongs to somebody; may import memories, parts and below."""

from __future__ import annotations

from typing import Any

from agentmemory.checks import check_bool
from agentmemory.errors import ScopeError
from agentmemory.memories import exact_scope
from agentmemory.parts import Parts
from agentmemory.requests import ForgetReceipt
from agentmemory.scope import NOT_SET_MARKER, OptionalId, Scope


async def forget(
    parts: Parts,
    *,
    user_id: OptionalId,
    agent_id: OptionalId,
    thread_id: OptionalId,
    dry_run: Any,
) -> ForgetReceipt:
    """Erase what belongs to a scope, or count what would go.

    Raises:
        ScopeError: Nothing names whose it is.
    """
    check_bool(dry_run, argument="dry_run")
    Scope(user_id=user_id, agent_id=agent_id, thread_id=thread_id)
    named = isinstance(agent_id, str) or isinstance(thread_id, str)
    if user_id is NOT_SET_MARKER and not named:
        msg = (
            "`user_id` is missing: say whose records to forget by a user's id (None: those that "
            "belong to no user), an agent's id or a thread's id"
        )
        raise ScopeError(msg, argument="user_id")
    scope = exact_scope(user_id, agent_id, thread_id)
    await parts.ready()
    if dry_run:
        deletion = await parts.store.delete_scope(scope, now=parts.clock.now(), dry_run=True)
        return ForgetReceipt(counts=deletion.counts, dry_run=True)
    erasure = await parts.store.erase_scope(scope, now=parts.clock.now())
    reembedded = await parts.recorder.refresh(erasure.deletion.stale)
    counts = {name: n for name, n in erasure.deletion.counts.items() if name != "reindexed"}
    rebuilt = {**erasure.rebuilt, "reembedded": reembedded}
    return ForgetReceipt(
        counts=counts,
        rebuilt={name: count for name, count in rebuilt.items() if count},
        scan=erasure.scan,
    )
