"""`import agentmemory` is cheap, and every module says what it may import."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import agentmemory

PACKAGE = Path(agentmemory.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

# Loaded when first needed, never by importing the package.
LAZY = frozenset(
    {
        "aiohttp",
        "apsw",
        "httpx",
        "numpy",
        "openai",
        "opentelemetry",
        "oracledb",
        "orjson",
        "pydantic",
        "pytest",
        "rich",
        "sqlite3",
        "Stemmer",
        "tenacity",
        "tiktoken",
        "typer",
        "wordllama",
    }
)


def modules_after(statement: str) -> set[str]:
    run = subprocess.run(
        [sys.executable, "-c", f"{statement}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(run.stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    before = modules_after("")
    loaded = modules_after("import agentmemory") - before
    assert "agentmemory" in loaded
    assert {name for name in loaded if name.partition(".")[0] in LAZY} == set()


def test_importing_the_package_loads_no_room_that_does_work() -> None:
    own = {name for name in modules_after("import agentmemory") if name.startswith("agentmemory.")}
    rooms = {"cli", "client", "context", "extraction", "integrations", "models", "ontology"}
    rooms |= {"oracle", "retrieval", "stores", "sync", "testing", "text", "thread"}
    assert {name for name in own if name.split(".")[1] in rooms} == set()


def test_the_check_of_loaded_modules_sees_what_is_loaded() -> None:
    assert "apsw" in modules_after("import apsw")


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE.parent).as_posix()


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_a_module_says_what_it_is_for_and_what_it_may_import(module: Path) -> None:
    docstring = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8")))
    assert docstring, f"{name_of(module)} has no docstring"
    assert re.search(r"\bimports?\b", docstring, re.IGNORECASE), (
        f"the docstring of {name_of(module)} does not say what the module may import"
    )


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_a_module_stays_under_600_lines(module: Path) -> None:
    lines = len(module.read_text(encoding="utf-8").splitlines())
    assert lines <= 600, f"{name_of(module)} has {lines} lines: split it by job"
