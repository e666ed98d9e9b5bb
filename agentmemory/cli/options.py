"""The options that several commands share. May import typer."""

from __future__ import annotations

from typing import Annotated, Final

import typer

Database = Annotated[
    str,
    typer.Option(
        "--db",
        metavar="PATH",
        envvar="AGENTMEMORY_DB",
        help="The database file, or an oracle:// URL.",
    ),
]
DEFAULT_EMBEDDER: Final = "auto"
DEFAULT_DATABASE: Final = "memory.db"

StoreId = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="NAME",
        help="Which store in the database, if it holds several.",
    ),
]

Embedder = Annotated[
    str,
    typer.Option(
        "--embedder",
        metavar="NAME",
        help="What compares meanings: local (the model of the extra), none (words only), or "
        "auto (local if it is installed).",
    ),
]

Json = Annotated[bool, typer.Option("--json", help="Answer with one JSON document.")]

Limit = Annotated[
    int, typer.Option("--limit", "-n", metavar="N", help="At most so many, 1 to 1000.")
]

Cursor = Annotated[
    str | None,
    typer.Option("--cursor", metavar="TEXT", help="Go on where the page before ended."),
]
