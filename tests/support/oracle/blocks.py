"""PL/SQL blocks that the store runs, known by their text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from tests.support.oracle.sql_tokens import UntranslatableError

_NAME = r"'(?P<name>[A-Za-z0-9_.$#]+)'"

_CALLS: Final[tuple[tuple[str, Callable[[re.Match[str]], str | None]], ...]] = (
    (rf"CTX_DDL\.CREATE_PREFERENCE\({_NAME}, '\w+'\)", lambda _: None),
    (rf"CTX_DDL\.SET_ATTRIBUTE\({_NAME}, '\w+', '\w+'\)", lambda _: None),
    (rf"CTX_DDL\.DROP_PREFERENCE\({_NAME}\)", lambda _: None),
    (rf"CTX_DDL\.SYNC_INDEX\({_NAME}\)", lambda _: None),
    (rf"CTX_DDL\.OPTIMIZE_INDEX\({_NAME}, 'FULL'\)", lambda _: None),
    (
        (
            rf"DBMS_VECTOR_CHAIN\.CREATE_PREFERENCE\({_NAME}, DBMS_VECTOR_CHAIN\.VECTORIZER, "
            r"JSON\('\{[^']*\}'\)\)"
        ),
        lambda _: None,
    ),
    (rf"DBMS_VECTOR_CHAIN\.DROP_PREFERENCE\({_NAME}\)", lambda _: None),
    (
        (
            rf"DBMS_SCHEDULER\.CREATE_JOB\(job_name => {_NAME}, job_type => 'PLSQL_BLOCK', "
            r"job_action => '(?:[^']|'')*', repeat_interval => '[^']*', enabled => TRUE\)"
        ),
        lambda found: f"INSERT INTO oracle_sys.scheduler_jobs VALUES ('{found['name'].upper()}')",
    ),
    (
        rf"DBMS_SCHEDULER\.DROP_JOB\({_NAME}, TRUE\)",
        lambda found: (
            f"DELETE FROM oracle_sys.scheduler_jobs WHERE job_name = '{found['name'].upper()}'"
        ),
    ),
)
"""Calls by pattern, and what each becomes; None for what leaves nothing behind here."""

_FRAME = re.compile(
    r"BEGIN\b|END;|EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -\d+ THEN RAISE; END IF;|;|\s+"
)


def is_block(text: str) -> bool:
    """Whether a statement is a PL/SQL block."""
    return text.split(maxsplit=1)[0].upper() in ("BEGIN", "DECLARE")


def translate_block(text: str) -> tuple[str, ...]:
    """Return what a block becomes.

    Raises:
        UntranslatableError: It holds a call that is not known.
    """
    statements: list[str] = []
    at = 0
    while at < len(text):
        frame = _FRAME.match(text, at)
        if frame is not None:
            at = frame.end()
            continue
        for pattern, becomes in _CALLS:
            found = re.compile(pattern).match(text, at)
            if found is not None:
                at = found.end()
                made = becomes(found)
                if made is not None:
                    statements.append(made)
                break
        else:
            raise UntranslatableError(f"PL/SQL: {text[at : at + 80]}")
    return tuple(statements)
