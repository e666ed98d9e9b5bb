"""How the demo's story is told: to a person, and as one JSON document. May import this room."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from agentmemory.cli.display import counted, show_result
from agentmemory.cli.documents import card_document, printable, record_document, result_document
from agentmemory.cli.options import DEFAULT_DATABASE
from agentmemory.cli.screen import Screen
from agentmemory.cli.story import Question, Report
from agentmemory.parts import is_oracle_connection
from agentmemory.records import Record, iso_time

_HEADING: Final = "bold"
_QUIET: Final = "dim"
_NAME: Final = "bold cyan"
_PLURALS: Final = {"memory": "memories"}


def show_story(screen: Screen, report: Report) -> None:
    """Print what happened, step by step."""
    script = report.script
    screen.line((script.notice, _NAME))
    _show_storing(screen, report)
    _show_searches(screen, report)
    screen.line("")
    screen.line(("3. Giving the model what it needs: a context card", _HEADING))
    screen.prose(
        "Maya's last message is a question. The card brings what the assistant should know to "
        "answer it; paste it into the prompt.",
        indent=3,
    )
    screen.line("")
    screen.block(report.card.content)
    screen.line("")
    screen.line((f"about {report.card.explain.token_count} tokens", _QUIET), indent=3)
    screen.line("")
    if report.stays:
        _show_next(screen, report)
    else:
        screen.line("The database was in the computer's memory; nothing is left behind.")


def _show_storing(screen: Screen, report: Report) -> None:
    script = report.script
    screen.line("")
    screen.line(("1. Storing a conversation and what was learnt from it", _HEADING))
    if report.told_before:
        screen.prose("It is there from an earlier run; nothing was stored twice.", indent=3)
    for number, session in enumerate(report.sessions, start=1):
        screen.line(
            (f"Session {number}", _NAME),
            f"  {session.began:%d %B %Y}, {session.title}: {session.messages} messages",
            indent=3,
        )
    screen.line(("Memories ", _NAME), f"  {_kinds(report.memories)}", indent=3)
    before, after = (script.fact(side)["content"] for side in ("before", "after"))
    screen.line(("A change ", _NAME), f'  "{before}" is superseded by', indent=3)
    screen.line(f'           "{after}"', indent=3)
    screen.prose(
        "Nothing is lost: the messages and the old fact stay. The demo writes its memories "
        "itself, as your agent would; drawing them out of a conversation with a language model "
        "is not there yet.",
        indent=3,
        style=_QUIET,
    )


def _kinds(memories: Sequence[Record]) -> str:
    kinds = Counter(memory.record_type for memory in memories)
    return ", ".join(
        counted(number, kind, _PLURALS.get(kind)) for kind, number in sorted(kinds.items())
    )


def _show_searches(screen: Screen, report: Report) -> None:
    how = "by words only" if report.embedder is None else "by words and by meaning"
    screen.line("")
    screen.line((f"2. Searching it, {how}", _HEADING))
    for question in report.questions:
        screen.line("")
        screen.line(("? ", _HEADING), (question.query, _HEADING), indent=3)
        screen.prose(question.shows, indent=5, style=_QUIET)
        for place, result in enumerate(question.results, start=1):
            show_result(screen, place, result, brief=True, indent=5)
        if not question.results:
            screen.prose(_nothing(report), indent=5)


def _nothing(report: Report) -> str:
    if report.embedder is None:
        return "Nothing has these words. The local embedder, which is not in use, finds it."
    return "Nothing was found."


def _show_next(screen: Screen, report: Report) -> None:
    screen.line(("4. Your turn", _HEADING))
    screen.line(f"It is all in {report.database}; try", indent=3)
    for command in next_commands(report):
        screen.line(("  " + command, "green"), indent=3)


def next_commands(report: Report) -> list[str]:
    """Return commands that work on what the story left behind."""
    user = report.script.user_id
    thread = report.sessions[-1].thread_id
    commands = [
        f'agentmemory search "cake" --user {user} --explain',
        f"agentmemory search 窯 --user {user} --limit 1",
        f'agentmemory add "Maya is left-handed." --thread {thread} --type fact',
        f"agentmemory card --thread {thread}",
        "agentmemory threads",
        "agentmemory stats",
    ]
    if report.database == DEFAULT_DATABASE or is_oracle_connection(report.database):
        # The URL of a server holds a password: it is in AGENTMEMORY_DB, where it belongs.
        return commands
    where = shlex.quote(printable(report.database))
    return [f"{command} --db {where}" for command in commands]


def story_document(report: Report) -> dict[str, Any]:
    """Return what happened as JSON."""
    script = report.script
    return {
        "fictional": True,
        "notice": script.notice,
        "database": printable(report.database) if report.stays else None,
        "told_before": report.told_before,
        "embedder": report.embedder,
        "user_id": script.user_id,
        "agent_id": script.agent_id,
        "sessions": [
            {
                "thread_id": session.thread_id,
                "title": session.title,
                "began": iso_time(session.began),
                "messages": session.messages,
            }
            for session in report.sessions
        ],
        "memories": [record_document(memory) for memory in report.memories],
        "change": {
            "link_type": script.fact("after")["link_type"],
            "before": script.fact("before")["memory_id"],
            "after": script.fact("after")["memory_id"],
        },
        "searches": [_question_document(question) for question in report.questions],
        "card": card_document(report.sessions[-1].thread_id, report.card),
        "next": next_commands(report) if report.stays else [],
    }


def _question_document(question: Question) -> dict[str, Any]:
    return {
        "query": question.query,
        "shows": question.shows,
        "results": [result_document(result) for result in question.results],
    }
