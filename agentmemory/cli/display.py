"""How answers look to a person. May import results and below, and the screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from agentmemory.cli.screen import Screen, harmless_line
from agentmemory.cli.work import ListedThread
from agentmemory.records import Record, RecordStatus, ScopedRecord
from agentmemory.requests import Capability, Page, StoreStats
from agentmemory.results import ContextCard, Explanation, SearchResult, StageTrace

_QUIET: Final = "dim"
_NAME: Final = "bold cyan"
_KIB: Final = 1024


def when(value: datetime | None) -> str:
    """Return a time for people, to the minute, in UTC."""
    return "" if value is None else f"{value.astimezone(UTC):%Y-%m-%d %H:%M}Z"


def size(count: int | None) -> str:
    """Return a number of bytes for people."""
    if count is None:
        return "unknown"
    if count < _KIB:
        return f"{count} bytes"
    if count < _KIB * _KIB:
        return f"{count / _KIB:.0f} KiB"
    return f"{count / _KIB / _KIB:.1f} MiB"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: "1 memory", "2 memories"."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def kind(record: Record) -> str:
    """Return what a record is: "fact", "message of Maya (user)"."""
    if record.record_type != "message":
        return record.record_type
    if record.actor is None:
        return f"message of {harmless_line(record.role or 'nobody')}"
    return f"message of {harmless_line(record.actor)} ({harmless_line(record.role or '')})"


def show_results(
    screen: Screen, results: Sequence[SearchResult], *, explain: bool, with_user: bool
) -> None:
    """Print what a search found, best first."""
    for place, result in enumerate(results, start=1):
        if place > 1 and explain:
            screen.line("")
        show_result(screen, place, result, explain=explain, with_user=with_user)


def show_result(
    screen: Screen,
    place: int,
    result: SearchResult,
    *,
    explain: bool = False,
    with_user: bool = False,
    brief: bool = False,
    indent: int = 0,
) -> None:
    """Print one result: what it is, its text, and why it is where it is.

    Args:
        screen: Where.
        place: Its place, from 1.
        result: The result.
        explain: Every stage on lines of its own.
        with_user: Say whose it is.
        brief: The stages in one line.
        indent: Columns to the left of it.
    """
    record = result.record
    parts: list[str | tuple[str, str]] = [
        (f"{place:>2}. ", "bold"),
        (kind(record), _NAME),
        (f"  {when(record.effective_time)}  score {result.score:.3f}", _QUIET),
    ]
    if with_user and isinstance(record, ScopedRecord):
        owner = "no user" if record.user_id is None else f"user {harmless_line(record.user_id)}"
        parts.append((f"  {owner}", _QUIET))
    if record.status is RecordStatus.INVALID:
        by = "" if record.replaced_by is None else f", see {harmless_line(record.replaced_by)}"
        parts.append((f"  no longer valid{by}", "yellow"))
    screen.line(*parts, indent=indent)
    indent += 4
    screen.paragraph(record.content, indent=indent)
    if explain:
        for label, text in explained(result):
            screen.labelled(label, text, indent=indent)
        screen.labelled("id", harmless_line(record.id), indent=indent)
    elif brief:
        screen.line((f"why: {in_brief(result.explain)}", _QUIET), indent=indent)


def explained(result: SearchResult) -> list[tuple[str, str]]:
    """Return why a result is where it is, as labelled sentences."""
    explain = result.explain
    lines = [("words", _words(explain)), ("meaning", _meaning(explain))]
    lines.extend((stage.stage, _stage(stage)) for stage in explain.stages)
    if explain.distance_kind == "cosine":
        lines.append(("distance", f"{result.distance:.3f} between its vector and the query's"))
    lines.extend(("note", harmless_line(note)) for note in explain.notes)
    return lines


def _words(explain: Explanation) -> str:
    if explain.lexical is None:
        return "not searched"
    if explain.lexical_rank is not None:
        return f"place {explain.lexical_rank} of the matches by words (BM25 {explain.lexical:.2f})"
    if explain.lexical > 0:
        return f"matches by words, but not among the best (BM25 {explain.lexical:.2f})"
    return "no word of the query in it, nor in the turns beside it"


def _meaning(explain: Explanation) -> str:
    if explain.cosine is None:
        return "no vectors were compared"
    if explain.vector_rank is not None:
        return f"place {explain.vector_rank} of the nearest by vector (cosine {explain.cosine:.2f})"
    return f"compared by vector, but not among the nearest (cosine {explain.cosine:.2f})"


def _stage(stage: StageTrace) -> str:
    where = "" if stage.rank is None else f"place {stage.rank}, "
    score = "" if stage.score is None else f"score {stage.score:.3f}: "
    took = "" if stage.duration_s is None else f" ({stage.duration_s * 1000:.1f} ms)"
    return harmless_line(f"{where}{score}{stage.reason}{took}")


def in_brief(explain: Explanation) -> str:
    """Return why a result is where it is in one short sentence."""
    words = "no word in common"
    if explain.lexical:
        words = f"words (BM25 {explain.lexical:.1f}{_of_rank(explain.lexical_rank)})"
    if explain.cosine is None:
        return words
    return f"{words}, meaning (cosine {explain.cosine:.2f}{_of_rank(explain.vector_rank)})"


def _of_rank(rank: int | None) -> str:
    return "" if rank is None else f", place {rank}"


def show_added(screen: Screen, database: str, record: Record) -> None:
    """Say what was stored."""
    owner = ""
    if isinstance(record, ScopedRecord) and record.user_id is not None:
        owner = f" for user {harmless_line(record.user_id)}"
    screen.line(f"Stored a {record.record_type}{owner} in {harmless_line(database)}.")
    screen.labelled("id", harmless_line(record.id))


def show_card(screen: Screen, card: ContextCard, *, explain: bool) -> None:
    """Print a card as a prompt takes it; if asked, how it came about."""
    screen.raw(card.content)
    if not explain:
        return
    screen.line("")
    screen.labelled("query", harmless_line(card.explain.query))
    parts = ", ".join(f"{name} {count}" for name, count in card.explain.sections.items())
    screen.labelled("tokens", f"{card.explain.token_count} in all; {parts}")
    for note in card.explain.notes:
        screen.labelled("note", harmless_line(note))
    for place, result in enumerate(card.relevant_results, start=1):
        screen.line("")
        show_result(screen, place, result, explain=True)


def show_threads(screen: Screen, page: Page[ListedThread]) -> None:
    """Print threads, each with its scope and its beginning."""
    for listed in page.items:
        thread = listed.thread
        user = "no user" if thread.user_id is None else f"user {harmless_line(thread.user_id)}"
        agent = "" if thread.agent_id is None else f" · agent {harmless_line(thread.agent_id)}"
        screen.line(
            (harmless_line(thread.id), _NAME),
            (f"  {user}{agent} · made {when(thread.created_at)}", _QUIET),
        )
        if listed.first is None:
            screen.line(("no messages yet", _QUIET), indent=4)
        else:
            screen.snippet(f"{speaker(listed.first)}: {listed.first.content}", indent=4)


def speaker(message: Record) -> str:
    """Return who speaks: the name, else the role."""
    return harmless_line(message.actor or message.role or "nobody")


def show_messages(screen: Screen, page: Page[ScopedRecord]) -> None:
    """Print messages like a chat."""
    for message in page.items:
        screen.line((speaker(message), _NAME), (f"  {when(message.effective_time)}", _QUIET))
        screen.paragraph(message.content, indent=4)


def show_stats(screen: Screen, database: str, stats: StoreStats) -> None:
    """Print what a store holds."""
    rows: list[tuple[str, str]] = [
        ("database", f"{harmless_line(database)} ({size(stats.size_bytes)})"),
        ("records", _listing(stats.records)),
        ("threads", str(stats.threads)),
        ("links", str(stats.links)),
        ("index", f"{counted(stats.chunks, 'chunk')}, {counted(stats.vectors, 'vector')}"),
        ("embedder", harmless_line(stats.embedder or "none: searched by words")),
        ("jobs", _listing(stats.jobs)),
        ("schema", f"version {stats.schema_version}"),
    ]
    for label, text in rows:
        screen.labelled(label, text)


def show_findings(screen: Screen, database: str, findings: Sequence[Capability]) -> None:
    """Print what an installation and its database can do, and what that means."""
    screen.line((harmless_line(database), _NAME))
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        mark = ("yes", "green") if finding.available else ("no ", "yellow")
        screen.line(mark, f"  {finding.name:<{width}}  {harmless_line(finding.detail)}", indent=2)


def _listing(counts: Mapping[str, int]) -> str:
    if not counts:
        return "none"
    total = sum(counts.values())
    return f"{total} ({', '.join(f'{name} {count}' for name, count in counts.items())})"
