"""How much the text index of a SQLite store holds, and how often a token; may import text.

Counting a token walks through all of its places in the index, so what was counted is kept for as
long as the index stays as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agentmemory.requests import QueryTerm
from agentmemory.stores.sqlite.query import fetch_one, fetch_value
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

    def of_term(self, term: QueryTerm) -> int:
        """Return how many chunks hold a term."""
        count = self._kept.get(term)
        if count is None:
            count = self._kept[term] = self._counted(term)
        return count

    def of_token(self, token: str) -> int:
        """Return how many chunks hold a token, be it of a text or of the scope."""
        return self.of_term(QueryTerm(token))

    def _counted(self, term: QueryTerm) -> int:
        if term.prefix:
            # Chunks with several of the words would be counted once for each by the vocabulary.
            sql = f"SELECT count(*) FROM {self._t.fts} WHERE {self._t.fts} MATCH ?"
            expression = fts5_match((term,), columns=SCORED_COLUMNS)
            return int(fetch_value(self._connection, sql, (expression,)))
        sql = f"SELECT doc FROM {self._t.vocabulary} WHERE term = ?"
        return fetch_value(self._connection, sql, (term.text,)) or 0


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
