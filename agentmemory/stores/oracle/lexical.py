"""The lexical arm of an Oracle store: which records the words of a query choose.

Oracle Text chooses the pool over the words of each chunk (`text_tokens`); every candidate is then
scored by `stores.bm25`, on the client. Without a text index every chunk of the scope is looked
at. All filters stand in the same statement, so what is chosen is what may be seen. May import
bm25, index_fields, text_tokens, rows, where, schema, statement, trips and requests.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple
from typing import Any, Final, TypeVar

from agentmemory.requests import CandidateQuery, QueryTerm, RecordFilter
from agentmemory.stores.bm25 import Corpus
from agentmemory.stores.index_fields import (
    FIELD_WEIGHTS,
    agent_token,
    thread_token,
    user_token,
    user_type_token,
)
from agentmemory.stores.oracle.rows import token_count
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.statement import Statement, StatementKind
from agentmemory.stores.oracle.text_tokens import encode_prefix, encode_scope_token, encode_token
from agentmemory.stores.oracle.trips import Rows, Trip
from agentmemory.stores.oracle.where import Where, add_list, batches, chunk_where

T = TypeVar("T")

MAX_QUERY_BYTES: Final = 3800
"""Longest expression of one CONTAINS: a bind of text holds 4000 bytes."""

LARGE_STORE: Final = 20_000
"""From so many chunks on each process remembers counts."""

COMMON: Final = 1000
"""From so many chunks on the count of a word is remembered; rarer words are counted quickly."""

REMEMBERED_S: Final = 60.0
"""Seconds that counts of a large store are good for."""

_MOST_REMEMBERED: Final = 50_000
_FIELDS: Final = len(astuple(FIELD_WEIGHTS))
_ACCUM: Final = " ACCUM "
_NEVER: Final = "  "
"""What no chunk's words hold, to fill up lists of words."""

PLAN_NOTES: Final[Mapping[str, str]] = {
    "lexical.corpus": "fast full scan of chunk_tokens (token_count), two small columns of a "
    "million entries instead of the chunks; a process asks a large store once a minute",
    "lexical.frequency": "text index chunk_text alone: the postings of one word are counted, no "
    "chunk is read; a process asks for a word of a large store once a minute",
    "lexical.frequencies": "full scan of chunk, for there is no text index; once a minute for "
    "the words of a large store",
    "lexical.pool": "text index chunk_text: the word of the user (or of user and type) is one of "
    "10,000 users', so it leaves some hundred of a million chunks, whose columns then decide; "
    "for a scope without a user the words of the query choose",
    "lexical.pool_scan": "chunk_owner (user_id, record_type): some hundred chunks of one user, "
    "whose words are looked through, for there is no text index; chunk_thread for a thread, "
    "chunk_agent for an agent",
    "lexical.fields": "unique key of chunk (record_seq, position), a short range for each listed "
    "record",
    "lexical.long_fields": "primary key of chunk, one probe for each chunk with a long field",
}
"""The index each statement is meant to use, and why, for 1 million chunks and 10,000 users."""


class TermCounts:
    """How many chunks there are and hold common words; remembered of a large store for a minute.

    In a store of fewer than `LARGE_STORE` chunks every search counts anew, so that scores are
    exact. In a larger one a minute's writes move the score of a common word by less than anybody
    could see, while counting it reads postings of a good part of the store.

    Args:
        clock: Tells seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._corpus: tuple[float, Corpus] | None = None
        self._held: dict[str, tuple[float, int]] = {}

    @property
    def corpus(self) -> Corpus | None:
        """The size of a large store; None if it has to be asked for."""
        return self._good(self._corpus)

    def frequency(self, key: str) -> int | None:
        """Return how many chunks hold what `key` stands for; None if it has to be asked for."""
        return self._good(self._held.get(key))

    def remember(
        self, corpus: Corpus | None, frequencies: Mapping[str, int], *, rare: bool = False
    ) -> None:
        """Take note of what was counted now.

        Args:
            corpus: The size of the store, if it was asked for.
            frequencies: Counts by key.
            rare: Whether rare words are remembered too, because all were counted by a scan.
        """
        now = self._clock()
        if corpus is not None:
            self._corpus = (now, corpus) if corpus.chunks >= LARGE_STORE else None
        if self._corpus is None:
            self._held.clear()
            return
        if len(self._held) + len(frequencies) > _MOST_REMEMBERED:
            self._held.clear()
        self._held.update(
            (key, (now, count)) for key, count in frequencies.items() if rare or count >= COMMON
        )

    def _good(self, noted: tuple[float, T] | None) -> T | None:
        if noted is None or self._clock() - noted[0] > REMEMBERED_S:
            return None
        return noted[1]


def pattern(term: QueryTerm) -> str:
    """Return how an expression of Oracle Text names the words of a term.

    Encoded words are letters and digits, so braces only keep them from being operators.
    """
    return f"{encode_prefix(term.text)}%" if term.prefix else f"{{{encode_token(term.text)}}}"


def needle(term: QueryTerm) -> str:
    """Return what the words of a chunk hold, with their spaces, if they have a term's."""
    return f" {encode_prefix(term.text)}" if term.prefix else f" {encode_token(term.text)} "


def corpus(t: Tables) -> Statement:
    """Count the chunks and their tokens.

    Plan: a fast full scan of the index on `token_count`.
    """
    return Statement(
        name="lexical.corpus",
        text=f"SELECT COUNT(c.token_count), SUM(c.token_count) FROM {t.chunk} c",
        kind=StatementKind.QUERY,
    )


def corpus_of(rows: Sequence[Sequence[Any]]) -> Corpus:
    """Read the answer to `corpus`."""
    chunks, tokens = rows[0]
    return Corpus(chunks, tokens or 0)


def frequencies(t: Tables, patterns: Sequence[str]) -> tuple[Statement, ...]:
    """Count the chunks that hold each of some patterns, one statement for each.

    All have one text, so that the database parses it once.

    Plan: the text index alone.
    """
    return tuple(
        Statement(
            name="lexical.frequency",
            text=f"SELECT COUNT(*) FROM {t.chunk} c WHERE CONTAINS(c.tokens, :words, 1) > 0",
            kind=StatementKind.QUERY,
            binds={"words": item},
        )
        for item in patterns
    )


def frequencies_by_scan(t: Tables, needles: Sequence[str]) -> Statement:
    """Count the chunks that hold each of some needles, in one scan; without a text index.

    Plan: a full scan of the chunks.
    """
    where = Where("")
    sums = ", ".join(
        f"SUM(CASE WHEN INSTR(c.tokens, {name}) > 0 THEN 1 ELSE 0 END)"
        for name in _bound(where, needles)
    )
    return Statement(
        name="lexical.frequencies",
        text=f"SELECT {sums} FROM {t.chunk} c",
        kind=StatementKind.QUERY,
        binds=where.binds,
    )


def pool(t: Tables, query: CandidateQuery) -> Statement:
    """Choose the records whose chunks Oracle Text ranks best, best first.

    Plan: the text index; the words of the scope leave the chunks of one user. The columns of the
    chunk then decide, the record is only looked at for what its chunks do not repeat.
    """
    where = chunk_where(t, query.filter)
    patterns = [pattern(term) for term in query.terms]
    return Statement(
        name="lexical.pool",
        text=ranked(t, where, patterns, scope_words(query.filter), query.pool),
        kind=StatementKind.QUERY,
        binds=where.binds,
    )


def pool_by_scan(t: Tables, query: CandidateQuery) -> Statement:
    """Choose the records whose chunks hold most of the words; without a text index.

    Plan: the index of the scope on chunk; the words of each of its chunks are looked through.
    """
    where = chunk_where(t, query.filter)
    return Statement(
        name="lexical.pool_scan",
        text=ranked_by_scan(t, where, [needle(term) for term in query.terms], query.pool),
        kind=StatementKind.QUERY,
        binds=where.binds,
    )


def ranked(
    t: Tables, where: Where, patterns: Sequence[str], scope: Sequence[str], most: int
) -> str:
    """Return the query of the records whose best chunk Oracle Text ranks best, best first.

    ACCUM ranks chunks that hold more of the patterns above those that hold fewer. An expression
    that is too long for one bind becomes several, whose scores are added.

    Args:
        t: The tables.
        where: Conditions on chunk `c`; what the query binds is added.
        patterns: What to look for; at least one.
        scope: Encoded words of which a chunk must hold one; none for any chunk.
        most: How many records at most.
    """
    scores: list[str] = []
    found: list[str] = []
    for label, words in enumerate(expressions(patterns, scope), start=1):
        found.append(f"CONTAINS(c.tokens, {where.bind(f'words{label}', words)}, {label}) > 0")
        scores.append(f"SCORE({label})")
    if len(scores) > 1:
        scores = [f"COALESCE({score}, 0)" for score in scores]
    where.add(f"({' OR '.join(found)})")
    return _grouped(t, " + ".join(scores), where, most)


def ranked_by_scan(t: Tables, where: Where, needles: Sequence[str], most: int) -> str:
    """Return the query of the records whose best chunk holds most of some needles."""
    held = " + ".join(
        f"CASE WHEN INSTR(c.tokens, {name}) > 0 THEN 1 ELSE 0 END"
        for name in _bound(where, needles)
    )
    return _grouped(t, held, where, most)


def _grouped(t: Tables, worth: str, where: Where, most: int) -> str:
    """Return the query of the best records by what their best chunk is worth."""
    return (
        f"SELECT x.record_seq FROM (SELECT c.record_seq, {worth} AS worth "
        f"FROM {t.chunk} c WHERE {where.sql}) x WHERE x.worth > 0 GROUP BY x.record_seq "
        f"ORDER BY MAX(x.worth) DESC, x.record_seq "
        f"FETCH FIRST {where.bind('pool', most)} ROWS ONLY"
    )


def expressions(patterns: Sequence[str], scope: Sequence[str]) -> list[str]:
    """Return expressions of Oracle Text that together find any of some patterns within a scope.

    A chunk of the scope has the score of its words: a word of the scope is worth 100, and AND
    takes the least.
    """
    within = " OR ".join(f"DEFINESCORE({word}, DISCRETE)" for word in scope)
    room = MAX_QUERY_BYTES - len(within) - len("() AND ()")
    parts: list[list[str]] = [[]]
    length = 0
    for item in patterns:
        if parts[-1] and length + len(item) + len(_ACCUM) > room:
            parts.append([])
            length = 0
        parts[-1].append(item)
        length += len(item) + len(_ACCUM)
    found = [f"({_ACCUM.join(part)})" for part in parts]
    return [f"{item} AND ({within})" for item in found] if within else found


def scope_words(record_filter: RecordFilter) -> list[str]:
    """Return words of which every chunk of a filter's scope holds one; empty if there are none.

    The narrowest dimension alone: the columns of the chunk decide in any case.
    """
    scope = record_filter.scope
    if scope.thread.exact and scope.thread.value is not None:
        tokens = [thread_token(scope.thread.value)]
    elif scope.user.exact and record_filter.record_types is not None:
        tokens = [user_type_token(scope.user.value, name) for name in record_filter.record_types]
    elif scope.user.exact:
        tokens = [user_token(scope.user.value)]
    elif scope.agent.exact:
        tokens = [agent_token(scope.agent.value)]
    else:
        tokens = []
    return [encode_scope_token(token) for token in tokens]


def _bound(where: Where, needles: Sequence[str]) -> list[str]:
    """Bind words to look for, their number filled up to a power of two."""
    size = 1 << (len(needles) - 1).bit_length()
    filled = [*needles, *itertools.repeat(_NEVER, size - len(needles))]
    return [where.bind(f"word{place}", item) for place, item in enumerate(filled)]


def fields(t: Tables, seqs: Sequence[int]) -> Statement:
    """Read the fields of every chunk of records, each as far as VARCHAR2 holds it.

    The driver fetches JSON in a round trip of its own; see `ChunkRows`.

    Plan: the unique key of chunk on record_seq and position.
    """
    where = Where("")
    add_list(where, "c.record_seq", "seq", seqs)
    texts = ", ".join(field_text("c.fields", place) for place in range(_FIELDS))
    return Statement(
        name="lexical.fields",
        text=f"SELECT c.record_seq, c.id, c.token_count, {texts} FROM {t.chunk} c "
        f"WHERE {where.sql} ORDER BY c.record_seq, c.position",
        kind=StatementKind.QUERY,
        binds=where.binds,
    )


def long_fields(t: Tables, ids: Sequence[int]) -> Statement:
    """Read the fields of chunks whose fields are long.

    Plan: the primary key of chunk.
    """
    where = Where("")
    add_list(where, "c.id", "id", ids)
    return Statement(
        name="lexical.long_fields",
        text=f"SELECT c.record_seq, c.fields FROM {t.chunk} c WHERE {where.sql} ORDER BY c.id",
        kind=StatementKind.QUERY,
        binds=where.binds,
    )


def field_text(column: str, place: int) -> str:
    """Return SQL of one field as VARCHAR2; NULL if it is empty or too long for that."""
    return f"JSON_VALUE({column}, '$[{place}]' RETURNING VARCHAR2(4000) NULL ON ERROR)"


class ChunkRows:
    """Fields of chunks on their way: those with a long field need a second trip.

    Args:
        t: The tables.
        rows: Where the rows of `fields` arrive.
    """

    def __init__(self, t: Tables, rows: Rows) -> None:
        self._t = t
        self._rows = rows
        self._short: list[tuple[int, list[str]]] = []
        self._long: Rows = []

    def ask_long(self, trip: Trip) -> None:
        """Let the trip after theirs fetch the fields that did not come whole."""
        ids: list[int] = []
        for seq, chunk_id, tokens, *texts in self._rows:
            held = [text or "" for text in texts]
            if token_count(held) == tokens:
                self._short.append((seq, held))
            else:
                ids.append(chunk_id)
        self._long = trip.add(*(long_fields(self._t, part) for part in batches(ids)))

    def fields(self) -> Iterator[tuple[int, list[str]]]:
        """Return pairs of a record's seq and the fields of one of its chunks."""
        yield from self._short
        yield from self._long
