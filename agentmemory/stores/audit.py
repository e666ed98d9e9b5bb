"""What the audit of a store says of an erasure; the same for every store. May import scope."""

from __future__ import annotations

import hashlib

import orjson

from agentmemory.scope import ScopeFilter


def scope_digest(scope: ScopeFilter) -> str:
    """Return the name by which the audit knows a scope; the ids cannot be read from it."""
    parts = [[match.exact, match.value] for match in (scope.user, scope.agent, scope.thread)]
    return hashlib.blake2b(orjson.dumps(parts), digest_size=16).hexdigest()
