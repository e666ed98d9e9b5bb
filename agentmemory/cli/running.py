"""Runs the command line: one readable line for what goes wrong, and the exit code for it.

May import typer and the other modules of this room.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Final

import typer

from agentmemory.cli import FAILED, INTERRUPTED
from agentmemory.cli.app import app
from agentmemory.cli.logs import show_warnings
from agentmemory.cli.screen import ReaderGoneError, Screen
from agentmemory.errors import AgentMemoryError, EmbedderMismatchError

_CLOSED_PIPE: Final = 141
"""What shells report of a program that wrote to a closed pipe: 128 and the signal's number."""

_TRACEBACK: Final = "AGENTMEMORY_TRACEBACK"

# Typer may carry its own copy of click, so the root of its usage errors is asked of typer.
_UsageProblem: Final[type[Exception]] = next(
    base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException"
)

_OPTION_OF: Final = {
    "connection": "--db",
    "memory_store_id": "--store",
    "user_id": "--user",
    "agent_id": "--agent",
    "thread_id": "--thread",
    "memory_id": "--id",
    "memory_type": "--type",
    "record_types": "--type",
    "max_results": "--limit",
    "max_relevant_results": "--limit",
    "min_relevant_results_by_type": "--min",
    "max_recent_messages": "--recent",
    "token_budget": "--budget",
    "limit": "--limit",
    "cursor": "--cursor",
    "timestamp": "--time",
    "metadata": "--metadata",
    "content": "TEXT",
    "query": "QUERY",
    "embedder": "--embedder",
}
"""What the library calls its arguments, and where they come from here."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    screen = Screen()
    try:
        with show_warnings(screen):
            code = app(
                args=None if arguments is None else list(arguments),
                prog_name="agentmemory",
                standalone_mode=False,
            )
        sys.stdout.flush()
    except (ReaderGoneError, BrokenPipeError):
        return _leave_pipe()
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last resort: a line instead of a traceback
        if os.environ.get(_TRACEBACK):
            traceback.print_exc()
        screen.error(said(error))
        return FAILED
    return code if isinstance(code, int) else 0


def said(error: Exception) -> str:
    """Return in one sentence what went wrong, in the words of the command line."""
    if isinstance(error, _UsageProblem):
        return _usage(error)
    if isinstance(error, AgentMemoryError):
        text = str(error)
        for argument, option in _OPTION_OF.items():
            text = text.replace(f"`{argument}`", f"`{option}`")
        # How a missing store could be made is a matter of code, not of this command line.
        text = text.partition(", and `schema_policy`")[0]
        if isinstance(error, EmbedderMismatchError):
            text += "; `--embedder none` works by words alone, `agentmemory reembed` renews them"
        return text
    if isinstance(error, OSError):
        where = "" if error.filename is None else f"{error.filename!r}: "
        return f"{where}{error.strerror or error}"
    return (
        f"unexpected {type(error).__name__}: {error}; this is a fault of agentmemory, and "
        f"{_TRACEBACK}=1 in the environment shows where it happened"
    )


def _usage(error: Exception) -> str:
    message = getattr(error, "format_message", lambda: str(error))()
    context = getattr(error, "ctx", None)
    path = "agentmemory" if context is None else context.command_path
    if type(error).__name__ == "NoSuchOption" and path == "agentmemory":
        return f"{message.rstrip('.')}; options follow the command, see `{path} --help`"
    return f"{message.rstrip('.')}; see `{path} --help`"


def _leave_pipe() -> int:
    # What is still buffered has no reader, and Python would complain about that at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return _CLOSED_PIPE
