"""How much the text index of a SQLite store holds, and how often a token; may import text.

Counting a token walks through all of its places in the index, so what was counted is kept for as
long as the index stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from agentmemory.requests import QueryTerm
from agentmemory.stores.sqlite.query import fetch_one, fetch_value
from agentmemory.stores.sqlite.rows import dump_json
from agentmemory.stores.sqlite.schema import FTS_COLUMNS, Tables
from agentmemory.text.fts5 import fts5_match

if TYPE_CHECKING:
    import apsw

SCORED_COLUMNS: Final = FTS_COLUMNS[1:]
"""The columns of the index that words are looked for in: all but the tokens of the scope."""

_MOST_KEPT: Final = 20_000


class TermCounts:
    """A process's memory of what it counted in one store's index; safe in several threads.

    Args:
        tables: The store's tables.
    """

    def __init__(self, tables: Tables) -> None:
        self._t = tables
        self._kept: tuple[object, dict[QueryTerm, int]] = (None, {})

    def at(self, connection: apsw.Connection) -> Counts:
        """Return the counts of a connection's snapshot.

        Each row of the index has a number that no other ever had, and is never changed. So the
        last number given and the number of rows tell each state of the index from all others,
        until the tables are made anew; that the version of the file's schema tells.
        """
        state = fetch_one(
            connection,
            "SELECT s.schema_version, (SELECT seq FROM sqlite_sequence WHERE name = ?), "
            f"(SELECT block FROM {self._t.fts}_data WHERE id = 1) FROM pragma_schema_version s",
            (self._t.chunk,),
        )
        kept_of, kept = self._kept
        if kept_of != state or len(kept) > _MOST_KEPT:
            kept = {}
            # Both in one step: threads with other snapshots look at it at the same time.
            self._kept = (state, kept)
        return Counts(connection, self._t, (None if state is None else state[2]) or b"", kept)


class Counts:
    """What the index holds in one snapshot.

    Args:
        connection: A connection in a read transaction.
        tables: The store's tables.
        sizes: What FTS5 keeps in its data table under id 1, as variable-length integers: the
            number of rows, then the total number of tokens of each column.
        kept: What was counted before, by term.

    Attributes:
        chunks: Number of chunks.
        average: Mean length of a chunk in tokens, scope tokens left out.
    """

    def __init__(
        self, connection: apsw.Connection, tables: Tables, sizes: bytes, kept: dict[QueryTerm, int]
    ) -> None:
        self._connection = connection
        self._t = tables
        self._kept = kept
        numbers = _varints(sizes) or [0]
        self.chunks = numbers[0]
        self.average = sum(numbers[2:]) / self.chunks if self.chunks else 0.0

    def of_terms(self, terms: Iterable[QueryTerm]) -> dict[QueryTerm, int]:
        """Return how many chunks hold each of several terms."""
        listed = list(dict.fromkeys(terms))
        self._kept.update(self._counted([term for term in listed if term not in self._kept]))
        return {term: self._kept[term] for term in listed}

    def of_tokens(self, tokens: Iterable[str]) -> int:
        """Return how many chunks hold several tokens, of which no chunk holds two."""
        return sum(self.of_terms(map(QueryTerm, tokens)).values())

    def _counted(self, terms: Sequence[QueryTerm]) -> dict[QueryTerm, int]:
        counted = dict.fromkeys(terms, 0)
        whole = {term.text: term for term in terms if not term.prefix}
        if whole:
            # All in one statement: each opens the vocabulary anew, which is half of the price.
            rows = self._connection.execute(
                f"SELECT v.term, v.doc FROM json_each(?) j "
                f"CROSS JOIN {self._t.vocabulary} v ON v.term = j.value",
                (dump_json(list(whole)),),
            )
            counted.update((whole[token], chunks) for token, chunks in rows)
        for term in terms:
            if term.prefix:
                # Chunks with several of the words would be counted once for each there.
                sql = f"SELECT count(*) FROM {self._t.fts} WHERE {self._t.fts} MATCH ?"
                expression = fts5_match((term,), columns=SCORED_COLUMNS)
                counted[term] = int(fetch_value(self._connection, sql, (expression,)))
        return counted


def _varints(blob: bytes) -> list[int]:
    """Decode SQLite's variable-length integers (https://www.sqlite.org/fileformat.html)."""
    numbers = []
    place = 0
    while place < len(blob):
        value = 0
        for used in range(9):
            byte = blob[place]
            place += 1
            if used == 8:
                value = value << 8 | byte
                break
            value = value << 7 | byte & 0x7F
            if byte < 0x80:
                break
        numbers.append(value)
    return numbers
