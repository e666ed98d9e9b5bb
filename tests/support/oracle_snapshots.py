"""Every distinct statement of the Oracle store as it is sent, in files to be reviewed.

`python -m tests.support.oracle_snapshots` writes them anew after a wanted change.
"""

from __future__ import annotations

from pathlib import Path

from agentmemory.stores.oracle.statement import Statement
from tests.support.oracle_statements import all_statements

DIRECTORY = Path(__file__).parents[1] / "stores" / "oracle" / "snapshots"


def snapshots() -> dict[str, str]:
    """Return the text of each file by its name: the statements of one subject, by name."""
    files: dict[str, list[str]] = {}
    seen: set[tuple[str, str]] = set()
    for statement in sorted(all_statements(), key=lambda item: item.name):
        if (statement.name, statement.text) in seen:
            continue
        seen.add((statement.name, statement.text))
        files.setdefault(statement.name.partition(".")[0], []).append(_entry(statement))
    return {f"{subject}.sql": "\n".join(entries) for subject, entries in files.items()}


def _entry(statement: Statement) -> str:
    given = statement.rows[0] if statement.rows else statement.binds
    binds = ", ".join(
        f":{name} {statement.types[name]}" if name in statement.types else f":{name}"
        for name in sorted(given)
    )
    about = f"-- {statement.name} ({statement.kind})"
    return "\n".join(line for line in (about, binds and f"-- {binds}", statement.text, "") if line)


def main() -> None:
    """Write the files, and remove those of subjects that are gone."""
    DIRECTORY.mkdir(exist_ok=True)
    wanted = snapshots()
    for path in DIRECTORY.glob("*.sql"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (DIRECTORY / name).write_text(text)


if __name__ == "__main__":
    main()
