"""A sample of every statement of the Oracle store, with and without what is optional in it.

Each module of statements has a module of samples, `tests.stores.oracle.samples_<subject>`, with a
function `sample_statements(t)`. What is not among the samples is neither linted nor explained, so
the tests compare them with what the store really runs.
"""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path

from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.statement import Statement

_SAMPLES = Path(__file__).parents[1] / "stores" / "oracle"


@cache
def all_statements(t: Tables = Tables("DEFAULT")) -> tuple[Statement, ...]:  # noqa: B008 - frozen
    """Return the samples of all modules, in order of their modules' names."""
    found: list[Statement] = []
    for path in sorted(_SAMPLES.glob("samples_*.py")):
        module = importlib.import_module(f"tests.stores.oracle.{path.stem}")
        found.extend(module.sample_statements(t))
    return tuple(found)
