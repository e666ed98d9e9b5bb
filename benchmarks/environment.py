"""What a report says about what it was measured with."""

from __future__ import annotations

import importlib.metadata
import platform
from dataclasses import asdict
from typing import Any, Final

from agentmemory.protocols import IEmbedder

_PACKAGES: Final = ("agentmemory", "apsw", "numpy", "pystemmer", "wordllama")


def versions() -> dict[str, str]:
    """Return the versions of Python, SQLite and the packages that matter here."""
    import apsw

    found = {"python": platform.python_version(), "sqlite": apsw.sqlite_lib_version()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


async def fingerprint_of(embedder: IEmbedder | None) -> dict[str, Any] | None:
    """Return an embedder's fingerprint, ready for JSON; None without an embedder."""
    return None if embedder is None else asdict(await embedder.fingerprint())
