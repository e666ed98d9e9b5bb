"""Python programs that run beside the test: what ends a process cannot be tried inside one."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Sequence

TIMEOUT_S = 60.0
STRICT = ("-W", "error")


def start(
    source: str, *arguments: object, options: Sequence[str] = STRICT
) -> subprocess.Popen[str]:
    """Start a program; its output can be read while it runs."""
    return subprocess.Popen(
        [sys.executable, *options, "-c", textwrap.dedent(source), *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(child: subprocess.Popen[str]) -> tuple[int, list[str], str]:
    """Wait for its end; give the exit code, the lines of its output, and its errors."""
    try:
        output, errors = child.communicate(timeout=TIMEOUT_S)
    finally:
        # With the children of its own that a failure may have left behind.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    return child.returncode, output.splitlines(), errors


def run(
    source: str, *arguments: object, options: Sequence[str] = STRICT
) -> tuple[int, list[str], str]:
    """Run a program to its end."""
    return finish(start(source, *arguments, options=options))
