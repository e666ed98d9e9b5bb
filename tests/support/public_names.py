"""The public names of the package; run as a script, it writes down those there are.

python -m tests.support.public_names
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

PINNED = Path(__file__).parents[1] / "gates" / "public_names.txt"
MODULES = ("agentmemory", "agentmemory.oracle", "agentmemory.testing")


def public_modules() -> list[str]:
    """Name the public modules that exist."""
    return [name for name in MODULES if importlib.util.find_spec(name) is not None]


def public_names() -> list[str]:
    """Give the full names in `__all__` of every public module."""
    return sorted(
        f"{module}.{name}"
        for module in public_modules()
        for name in importlib.import_module(module).__all__
    )


def pinned_names() -> list[str]:
    """Give the names that were written down."""
    return PINNED.read_text(encoding="utf-8").split()


if __name__ == "__main__":
    PINNED.write_text("\n".join(public_names()) + "\n", encoding="utf-8")
