"""Runs the command line as a person does: in this process, in another, and on a terminal."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from agentmemory.cli import main

if TYPE_CHECKING:
    import pytest

DEADLINE_S = 60.0


@dataclass(frozen=True)
class Answer:
    """What one command answered."""

    code: int
    out: str
    err: str


class CommandLine:
    """Runs commands in this process and collects what they print."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> Answer:
        self._capsys.readouterr()
        code = main(arguments)
        out, err = self._capsys.readouterr()
        return Answer(code, out, err)

    def works(self, *arguments: str) -> Answer:
        """Run a command that has to succeed."""
        answer = self(*arguments)
        assert answer.code == 0, answer
        return answer

    def fails(self, *arguments: str) -> str:
        """Run a command that has to fail as promised, and give its line."""
        return the_error(self(*arguments))


def the_error(answer: Answer) -> str:
    """Give the one line of an answer that is an error, after all that is promised of errors."""
    assert answer.code == 2, answer
    assert answer.out == ""
    assert "Traceback" not in answer.err
    line, end = answer.err.split("\n")
    assert end == ""
    assert line.startswith("error: ")
    return line.removeprefix("error: ")


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Give an environment in which nothing of the caller's steers colours, widths or files."""
    steering = {"AGENTMEMORY_DB", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TERM"}
    kept = {name: value for name, value in os.environ.items() if name not in steering}
    return {**kept, "PYTHONUTF8": "1", "TERM": "xterm-256color", **(extra or {})}


def run_process(
    *arguments: str,
    directory: Path,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    program: Sequence[str] = ("-m", "agentmemory"),
) -> Answer:
    """Run a command in a process of its own, its streams being pipes."""
    done = subprocess.run(
        [sys.executable, *program, *arguments],
        cwd=directory,
        env=environment(env),
        input=stdin,
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


class Terminal:
    """A command that runs on a terminal of its own.

    Args:
        arguments: The command.
        directory: Where it runs.
        columns: Width of the terminal.
    """

    def __init__(self, *arguments: str, directory: Path, columns: int = 80) -> None:
        self._ours, theirs = pty.openpty()
        self._seen = b""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "agentmemory", *arguments],
            cwd=directory,
            env=environment({"COLUMNS": str(columns), "LINES": "50"}),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait(timeout=DEADLINE_S)
        os.close(self._ours)

    def wait_for(self, text: str) -> None:
        """Wait until the screen has shown a text."""
        until = time.monotonic() + DEADLINE_S
        while text.encode() not in self._seen:
            assert self._read(until), f"{text!r} never came: {self._seen!r}"

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self._process.send_signal(signal.SIGINT)

    def type(self, text: str) -> None:
        """Type on the keyboard."""
        os.write(self._ours, text.encode())

    def finish(self) -> tuple[int, str]:
        """Wait for the end; give the exit code and all that was shown."""
        until = time.monotonic() + DEADLINE_S
        while self._read(until):
            pass
        return self._process.wait(timeout=DEADLINE_S), self._seen.decode()

    def _read(self, until: float) -> bool:
        ready, _, _ = select.select([self._ours], [], [], max(until - time.monotonic(), 0))
        if not ready:
            return False
        try:
            data = os.read(self._ours, 65536)
        except OSError:  # Linux: the other side is closed
            return False
        self._seen += data
        return bool(data)
