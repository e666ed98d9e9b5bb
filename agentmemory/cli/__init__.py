"""The command line: `agentmemory demo`, `search`, `add`, `card` and their kin.

May import everything of the package; typer and rich, which the `cli` extra brings, only inside
the modules of this room.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

INTERRUPTED: Final = 130
"""Exit code after Ctrl-C: 128 and the number of the signal, as shells count."""
FAILED: Final = 2
"""Exit code of everything that did not work."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 2 for an error, 130 after Ctrl-C.

    Args:
        arguments: The words after the program's name; default those of this process.
    """
    try:
        from agentmemory.cli.running import run
    except KeyboardInterrupt:
        return INTERRUPTED
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing.partition(".")[0] == "agentmemory":
            raise
        sys.stderr.write(
            f"error: the command line needs {missing}, which is not installed; in the checkout, "
            'run: pip install -e ".[cli]"\n'
        )
        return FAILED
    return run(arguments)
