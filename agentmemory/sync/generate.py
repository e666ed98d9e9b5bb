"""Writes the blocking twins of the async classes; run it after a change to one of those.

May import: `sources` and `translate` of this package. Formatting is ruff's, which comes with the
`dev` extra; the same sources always give the same files.

    python -m agentmemory.sync.generate          # write client.py, thread.py and store.py
    python -m agentmemory.sync.generate --check  # exit with 1 if they are not current
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from agentmemory.sync.sources import TranslationError
from agentmemory.sync.translate import GENERATOR, Twin, translate

TWINS: Final = (
    Twin("client", "AsyncAgentMemory", "AgentMemory", owner=True),
    Twin("thread", "AsyncThread", "Thread"),
    Twin("store", "AsyncStore", "Store"),
)
ROOT: Final = Path(__file__).parents[1]

_CURRENT: Final = 0
_STALE: Final = 1
_UNTRANSLATABLE: Final = 2


class FormatterError(Exception):
    """Ruff is missing or refuses the text; its own words are the message."""


def generated(root: Path = ROOT, twins: Sequence[Twin] = TWINS) -> dict[Path, str]:
    """Return what the generated files have to hold.

    Args:
        root: The directory of the package.
        twins: The classes to translate.

    Raises:
        TranslationError: A member has no translation.
        FormatterError: Ruff is missing or refuses the text.
    """
    files: dict[Path, str] = {}
    for twin in twins:
        path = root / "sync" / f"{twin.module}.py"
        files[path] = _formatted(translate(root, twin, twins), path)
    return files


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the files; return 0, 1 if one is not current, 2 if that cannot be told."""
    parser = argparse.ArgumentParser(prog=f"python -m {GENERATOR}", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 if a file is not current"
    )
    check: bool = parser.parse_args(arguments).check
    try:
        files = generated()
    except (TranslationError, FormatterError) as error:
        sys.stderr.write(f"{error}\n")
        return _UNTRANSLATABLE
    stale = [path for path, text in files.items() if _content(path) != text]
    for path in stale:
        if not check:
            path.write_text(files[path], encoding="utf-8", newline="\n")
        verb = "is not current" if check else "written"
        sys.stdout.write(f"{path.relative_to(ROOT.parent).as_posix()} {verb}\n")
    if check and stale:
        sys.stdout.write(f"run `python -m {GENERATOR}`\n")
        return _STALE
    return _CURRENT


def _content(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def _formatted(text: str, path: Path) -> str:
    for command in (("check", "--select", "I", "--fix", "--quiet"), ("format", "--quiet")):
        run = subprocess.run(  # noqa: S603 - our own interpreter and arguments
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(path), "-"],
            input=text,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        if run.returncode != 0:
            raise FormatterError(f"{path.name}: {run.stderr.strip() or run.stdout.strip()}")
        text = run.stdout
    return text


if __name__ == "__main__":
    sys.exit(main())
