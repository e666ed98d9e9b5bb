"""The commands and their options; each checks, works and shows. May import this room.

What works is imported inside the commands, so that `--help` and usage errors come at once.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated, Any, Final, TypeVar

import typer

from agentmemory import __version__
from agentmemory.cli import FAILED
from agentmemory.cli.options import (
    DEFAULT_DATABASE,
    DEFAULT_EMBEDDER,
    Cursor,
    Database,
    Embedder,
    Json,
    Limit,
    StoreId,
)
from agentmemory.cli.screen import Progress, Screen
from agentmemory.errors import ScopeError, ValidationError

R = TypeVar("R")

app = typer.Typer(
    name="agentmemory",
    epilog="Options follow the command. The database is --db, else AGENTMEMORY_DB, else memory.db.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_STDIN: Final = "-"
_EXAMPLE_TIME: Final = "2026-05-26T20:30:00+02:00"
_EXAMPLE: Final = """{"project": "garden"}"""


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", is_eager=True)
    ] = False,
) -> None:
    """The memory of an agent, on the command line; start with `agentmemory demo`."""
    if version:
        sys.stdout.write(f"agentmemory {__version__}\n")
        raise typer.Exit
    if context.invoked_subcommand is None:
        sys.stdout.write(f"{context.get_help()}\n")
        raise typer.Exit


@app.command()
def demo(
    *,
    db: Database = DEFAULT_DATABASE,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Add the demo to a database that holds other memories; keeps those."
        ),
    ] = False,
    embedder: Embedder = DEFAULT_EMBEDDER,
    as_json: Json = False,
) -> None:
    """Store a fictional conversation, search it, show a card."""
    from agentmemory.cli import story, story_display
    from agentmemory.cli.database import DatabaseOptions

    screen = Screen()
    options = DatabaseOptions(database=db, embedder=embedder)
    model, note = options.load_embedder()
    script = story.load_script()
    existed = story.is_there(options)
    report = _work(
        screen,
        lambda progress: story.tell(options, model, script, progress, existed=existed, force=force),
    )
    if as_json:
        screen.json(story_display.story_document(report))
        return
    story_display.show_story(screen, report)
    _say(screen, note)


@app.command()
def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to look for.")],
    *,
    user: Annotated[
        str | None, typer.Option("--user", "-u", metavar="ID", help="Whose records.")
    ] = None,
    no_user: Annotated[
        bool, typer.Option("--no-user", help="Records that belong to no user.")
    ] = False,
    all_users: Annotated[bool, typer.Option("--all-users", help="Everybody's records.")] = False,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="ID", help="Only of this agent.")
    ] = None,
    thread: Annotated[
        str | None, typer.Option("--thread", "-t", metavar="ID", help="Only in this thread.")
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            metavar="TYPE",
            help="Only message, memory, fact, guideline, preference, image, user_profile or "
            "agent_profile; may be given several times.",
        ),
    ] = None,
    valid_only: Annotated[
        bool, typer.Option("--valid-only", help="Leave out what has been replaced.")
    ] = False,
    limit: Limit = 10,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say of each hit why it is where it is.")
    ] = False,
    db: Database = DEFAULT_DATABASE,
    store: StoreId = None,
    embedder: Embedder = DEFAULT_EMBEDDER,
    as_json: Json = False,
) -> None:
    """Search the records of a user, best first."""
    if sum((user is not None, no_user, all_users)) != 1:
        msg = "give exactly one of `--user ID`, `--no-user` and `--all-users`"
        raise ScopeError(msg, argument="user_id")

    from agentmemory.cli import documents, work
    from agentmemory.cli.database import DatabaseOptions
    from agentmemory.cli.display import show_results
    from agentmemory.scope import NOT_SET_MARKER

    screen = Screen()
    options = DatabaseOptions(database=db, store_id=store, embedder=embedder)
    options.require_file()
    model, note = options.load_embedder()
    wish = work.SearchWish(
        query=query,
        user_id=NOT_SET_MARKER if all_users else user,
        agent_id=NOT_SET_MARKER if agent is None else agent,
        thread_id=NOT_SET_MARKER if thread is None else thread,
        record_types=types or None,
        include_invalid=not valid_only,
        max_results=limit,
        trace=explain,
    )
    results = _work(screen, lambda progress: work.search(options, model, wish, progress))
    if as_json:
        screen.json(
            {
                "query": query,
                "results": [documents.result_document(result) for result in results],
            }
        )
        return
    if results:
        show_results(screen, results, explain=explain, with_user=all_users)
    else:
        screen.note("nothing was found")
    _say(screen, note)


@app.command()
def add(
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="What to remember; - reads it from stdin.")
    ],
    *,
    user: Annotated[
        str | None,
        typer.Option("--user", "-u", metavar="ID", help="Whose memory it is."),
    ] = None,
    kind: Annotated[
        str,
        typer.Option("--type", metavar="TYPE", help="memory, fact, guideline or preference."),
    ] = "memory",
    thread: Annotated[
        str | None,
        typer.Option(
            "--thread",
            "-t",
            metavar="ID",
            help="The thread it belongs to; brings its user and agent along.",
        ),
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="ID", help="The agent it belongs to.")
    ] = None,
    time: Annotated[
        str | None,
        typer.Option("--time", metavar="ISO", help=f"When it happened, such as {_EXAMPLE_TIME}."),
    ] = None,
    metadata: Annotated[
        str | None, typer.Option("--metadata", metavar="JSON", help="Values of your own.")
    ] = None,
    memory_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="An id of your own.")
    ] = None,
    db: Database = DEFAULT_DATABASE,
    store: StoreId = None,
    embedder: Embedder = DEFAULT_EMBEDDER,
    as_json: Json = False,
) -> None:
    """Store a durable memory."""
    from agentmemory.cli import documents, work
    from agentmemory.cli.database import DatabaseOptions
    from agentmemory.cli.display import show_added

    screen = Screen()
    options = DatabaseOptions(database=db, store_id=store, embedder=embedder)
    if thread is not None:
        options.require_file()
    model, note = options.load_embedder()
    wish = work.MemoryWish(
        content=_read_stdin(screen) if text == _STDIN else text,
        memory_type=kind,
        user_id=user,
        agent_id=agent,
        thread_id=thread,
        memory_id=memory_id,
        timestamp=None if time is None else _time(time),
        metadata=None if metadata is None else _object(metadata),
    )
    stored = _work(screen, lambda progress: work.add(options, model, wish, progress))
    if as_json:
        screen.json(documents.record_document(stored))
        return
    show_added(screen, options.label, stored)
    _say(screen, note)


@app.command()
def card(
    *,
    thread: Annotated[
        str, typer.Option("--thread", "-t", metavar="ID", help="The thread; see `threads`.")
    ],
    query: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="What it is about; default the last user message."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", metavar="N", help="Relevant records at most, 0 to 1000."),
    ] = None,
    minimum: Annotated[
        list[str] | None,
        typer.Option(
            "--min",
            metavar="TYPE=N",
            help="Look for N of a type first; may be given several times.",
        ),
    ] = None,
    recent: Annotated[int, typer.Option("--recent", metavar="N", help="Last messages shown.")] = 0,
    budget: Annotated[
        int | None,
        typer.Option("--budget", metavar="TOKENS", help="Bound of the relevant records."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say how the card came about.")
    ] = False,
    db: Database = DEFAULT_DATABASE,
    store: StoreId = None,
    embedder: Embedder = DEFAULT_EMBEDDER,
    as_json: Json = False,
) -> None:
    """Print the context card of a thread, ready for a prompt."""
    from agentmemory.cli import documents, work
    from agentmemory.cli.database import DatabaseOptions
    from agentmemory.cli.display import show_card

    screen = Screen()
    options = DatabaseOptions(database=db, store_id=store, embedder=embedder)
    options.require_file()
    model, note = options.load_embedder()
    wish = work.CardWish(
        thread_id=thread,
        query=query,
        max_relevant_results=limit,
        minima=_minima(minimum or []),
        max_recent_messages=recent,
        token_budget=budget,
    )
    made = _work(screen, lambda progress: work.card(options, model, wish, progress))
    if as_json:
        screen.json(documents.card_document(thread, made))
        return
    if made.content:
        show_card(screen, made, explain=explain)
    else:
        screen.note("the card is empty: the thread has no messages, and nothing fits")
    _say(screen, note)


@app.command()
def threads(
    *,
    user: Annotated[
        str | None, typer.Option("--user", "-u", metavar="ID", help="Only this user's.")
    ] = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    db: Database = DEFAULT_DATABASE,
    store: StoreId = None,
    as_json: Json = False,
) -> None:
    """List threads, the newest first."""
    from agentmemory.cli import documents, work
    from agentmemory.cli.database import DatabaseOptions
    from agentmemory.cli.display import show_threads

    screen = Screen()
    options = DatabaseOptions(database=db, store_id=store)
    options.require_file()
    page = _work(screen, lambda _: work.threads(options, user_id=user, limit=limit, cursor=cursor))
    if as_json:
        screen.json(
            {
                "threads": [
                    documents.thread_document(listed.thread, listed.first) for listed in page.items
                ],
                "next_cursor": page.next_cursor,
            }
        )
        return
    show_threads(screen, page)
    if not page.items:
        screen.note("there are no threads")
    _say_more(screen, page.next_cursor)


@app.command()
def messages(
    *,
    thread: Annotated[
        str, typer.Option("--thread", "-t", metavar="ID", help="The thread; see `threads`.")
    ],
    limit: Limit = 20,
    cursor: Cursor = None,
    db: Database = DEFAULT_DATABASE,
    store: StoreId = None,
    as_json: Json = False,
) -> None:
    """Print the last messages of a thread."""
    from agentmemory.cli import documents, work
    from agentmemory.cli.database import DatabaseOptions
    from agentmemory.cli.display import show_messages

    screen = Screen()
    options = DatabaseOptions(database=db, store_id=store)
    options.require_file()
    page = _work(
        screen, lambda _: work.messages(options, thread_id=thread, limit=limit, cursor=cursor)
    )
    if as_json:
        screen.json(documents.messages_document(thread, page))
        return
    show_messages(screen, page)
    if not page.items:
        screen.note("the thread has no messages")
    _say_more(screen, page.next_cursor)


@app.command()
def stats(
    *,
    db: Database = DEFAULT_DATABASE,
    store: StoreId = None,
    as_json: Json = False,
) -> None:
    """Count what the database holds."""
    from agentmemory.cli import documents, work
    from agentmemory.cli.database import DatabaseOptions
    from agentmemory.cli.display import show_stats

    screen = Screen()
    options = DatabaseOptions(database=db, store_id=store)
    options.require_file()
    counted = _work(screen, lambda _: work.stats(options))
    if as_json:
        screen.json(documents.stats_document(options.label, counted))
        return
    show_stats(screen, options.label, counted)


@app.command()
def doctor(
    *,
    db: Database = DEFAULT_DATABASE,
    store: StoreId = None,
    embedder: Embedder = DEFAULT_EMBEDDER,
    as_json: Json = False,
) -> None:
    """Tell what this installation and the database can do."""
    from agentmemory.cli import documents, work
    from agentmemory.cli.database import DatabaseOptions
    from agentmemory.cli.display import show_findings

    screen = Screen()
    options = DatabaseOptions(database=db, store_id=store, embedder=embedder)
    findings = _work(screen, lambda _: work.examine(options))
    if as_json:
        screen.json(documents.findings_document(options.label, findings))
    else:
        show_findings(screen, options.label, findings)
    if not all(finding.available for finding in findings if finding.name in work.NEEDED):
        raise typer.Exit(FAILED)


@app.command()
def reembed(
    *,
    db: Database = DEFAULT_DATABASE,
    store: StoreId = None,
    as_json: Json = False,
) -> None:
    """Make all vectors anew with the local model."""
    from agentmemory.cli import work
    from agentmemory.cli.database import DatabaseOptions
    from agentmemory.cli.display import counted

    screen = Screen()
    options = DatabaseOptions(database=db, store_id=store, embedder="local")
    options.require_file()
    model, _ = options.load_embedder()
    done = _work(screen, lambda progress: work.reembed(options, model, progress))
    if as_json:
        screen.json({"records": done})
        return
    screen.line(f"Made new vectors for {counted(done, 'record')}.")


def _work(screen: Screen, work: Callable[[Progress], Awaitable[R]]) -> R:
    import anyio

    with screen.progress() as progress:
        return anyio.run(work, progress)


def _read_stdin(screen: Screen) -> str:
    if sys.stdin.isatty():
        screen.note("reading the text from the terminal; Ctrl-D on an empty line ends it")
    data = sys.stdin.buffer.read()
    try:
        return data.decode("utf-8-sig").strip("\n")
    except UnicodeDecodeError as error:
        msg = f"stdin is not text in UTF-8: its byte {error.start} is {data[error.start]:#04x}"
        raise ValidationError(msg, argument="content") from None


def _object(text: str) -> dict[str, Any]:
    import orjson

    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        msg = f"`metadata` is not JSON: {text!r} ({error})"
        raise ValidationError(msg, argument="metadata") from None
    if not isinstance(value, dict):
        msg = f"`metadata` is not a JSON object: {text!r}; accepted: such as {_EXAMPLE}"
        raise ValidationError(msg, argument="metadata")
    return value


def _time(text: str) -> datetime:
    try:
        value = datetime.fromisoformat(text)
    except ValueError:
        value = None
    if value is None or value.tzinfo is None:
        msg = f"`--time` is {text!r}; accepted: date, time and UTC offset, such as {_EXAMPLE_TIME}"
        raise ValidationError(msg, argument="timestamp")
    return value


def _minima(pairs: list[str]) -> dict[str, int] | None:
    minima: dict[str, int] = {}
    for pair in pairs:
        name, _, number = pair.partition("=")
        if not number.isdecimal():
            msg = f"`--min` is {pair!r}; accepted: TYPE=N, such as fact=2"
            raise ValidationError(msg, argument="min_relevant_results_by_type")
        minima[name] = int(number)
    return minima or None


def _say(screen: Screen, note: str | None) -> None:
    if note is not None:
        screen.note(note)


def _say_more(screen: Screen, cursor: str | None) -> None:
    if cursor is not None:
        screen.note(f"there are more; go on with --cursor {cursor}")
