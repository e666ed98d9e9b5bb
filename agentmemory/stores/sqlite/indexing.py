"""Keeps the text index of a SQLite store in step with its records.

Texts are analysed before a transaction begins: a long one takes a while, and other writers would
wait for it. Inside, index rows are only put in place. A neighbour of what changes keeps its rows
but for one field of the chunk at its end; there at most a few hundred characters are analysed.
May import text, requests and index_fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import orjson

from agentmemory.records import ScopedRecord
from agentmemory.requests import RecordChanges
from agentmemory.scope import NOT_SET_MARKER
from agentmemory.stores.index_fields import (
    NEIGHBOUR_CHARS,
    ChunkFields,
    IndexSource,
    TokenMemo,
    date_tokens,
    following_tokens,
    index_fields,
    metadata_tokens,
    previous_tokens,
    scope_tokens,
    tag_tokens,
)
from agentmemory.stores.sqlite.query import fetch_all, fetch_one, fetch_value
from agentmemory.stores.sqlite.rows import dump_json, from_micros
from agentmemory.stores.sqlite.schema import FTS_COLUMNS, Tables

if TYPE_CHECKING:
    import apsw

Row = dict[str, str]
"""One chunk in the text index: its tokens by column of `FTS_COLUMNS`."""

Edge = Literal["previous", "following"]

_MANY_CHUNKS: Final = 500
_ROWS_PER_STATEMENT: Final = 50
"""Each statement is a moment in which other threads may take the interpreter, so few are better."""


def draft_rows(records: Sequence[ScopedRecord]) -> list[list[Row]]:
    """Analyse new records; no connection is needed for that.

    Returns:
        The index rows of each record. Messages know of those beside them in `records`, not of what
        their thread holds already.
    """
    before: list[str | None] = [None] * len(records)
    after: list[str | None] = [None] * len(records)
    last: dict[str, int] = {}
    for place, record in enumerate(records):
        if record.record_type == "message" and record.thread_id is not None:
            earlier = last.get(record.thread_id)
            if earlier is not None:
                before[place] = records[earlier].content
                after[earlier] = record.content
            last[record.thread_id] = place
    memo = TokenMemo()
    return [
        _rows(
            scope_tokens(
                record.user_id,
                record.agent_id,
                record.thread_id,
                record.record_type,
                record.layer,
            ),
            IndexSource(
                content=record.content,
                previous=previous,
                following=following,
                event_time=record.event_time,
                metadata=record.metadata,
                actor=record.actor,
                tags=record.tags,
            ),
            memo,
        )
        for record, previous, following in zip(records, before, after, strict=True)
    ]


def _rows(scope: str, source: IndexSource, memo: TokenMemo) -> list[Row]:
    return [_row(chunk, scope) for chunk in index_fields(source, memo)]


def _row(chunk: ChunkFields, scope: str) -> Row:
    return {"scope": scope, **{name: getattr(chunk, name) for name in FTS_COLUMNS[1:]}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The last message of a thread: its place and the end of its text."""

    seq: int
    end: str


def thread_tail(connection: apsw.Connection, t: Tables, thread_id: str) -> Tail | None:
    """Return the last message of a thread, or None."""
    row = fetch_one(
        connection,
        f"SELECT seq, substr(content, ?) FROM {t.record} WHERE thread_id = ? "
        f"AND record_type = 'message' ORDER BY seq DESC LIMIT 1",
        (-NEIGHBOUR_CHARS, thread_id),
    )
    return None if row is None else Tail(seq=row[0], end=row[1])


def index_new(
    connection: apsw.Connection,
    t: Tables,
    records: Sequence[ScopedRecord],
    seqs: Sequence[int],
    drafts: Sequence[Sequence[Row]],
    tails: Mapping[str, Tail],
) -> None:
    """Put the rows of new records into the index.

    Args:
        connection: In a write transaction.
        t: The store's tables.
        records: What was stored.
        seqs: Where.
        drafts: What `draft_rows` made of them.
        tails: What was the last message of each thread before.
    """
    unmet = dict(tails)
    placed: list[tuple[int, Row]] = []
    for record, seq, draft in zip(records, seqs, drafts, strict=True):
        rows = draft
        tail = None
        if record.record_type == "message" and record.thread_id is not None:
            tail = unmet.pop(record.thread_id, None)
        if tail is not None and rows:
            rows = [{**rows[0], "previous": previous_tokens(tail.end)}, *rows[1:]]
            _set_edge(connection, t, tail.seq, "following", following_tokens(record.content))
        placed.extend((seq, row) for row in rows)
    _add_rows(connection, t, placed)


def _add_rows(connection: apsw.Connection, t: Tables, rows: Sequence[tuple[int, Row]]) -> None:
    names = ", ".join(FTS_COLUMNS)
    for start in range(0, len(rows), _ROWS_PER_STATEMENT):
        batch = rows[start : start + _ROWS_PER_STATEMENT]
        connection.execute(
            f"INSERT INTO {t.chunk} (record_seq) VALUES {_marks(len(batch), 1)}",
            [seq for seq, _ in batch],
        )
        # Numbers that are given by AUTOINCREMENT to the rows of one statement follow one another.
        first = connection.last_insert_rowid() - len(batch) + 1
        values: list[Any] = []
        for number, (_, row) in enumerate(batch, start=first):
            values.append(number)
            values.extend(row[name] for name in FTS_COLUMNS)
        marks = _marks(len(batch), 1 + len(FTS_COLUMNS))
        connection.execute(f"INSERT INTO {t.fts} (rowid, {names}) VALUES {marks}", values)


def _marks(rows: int, columns: int) -> str:
    """Return the parameters of so many rows."""
    return ", ".join([f"({', '.join('?' * columns)})"] * rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexChange:
    """What a change of a record does to its index rows; made before the transaction.

    Args:
        columns: New tokens by column, the same in every chunk.
        chunks: The chunks of a new text; None if the text stays.
        as_previous: What the turn after is indexed with of it.
        as_following: What the turn before is indexed with of it.
    """

    columns: Mapping[str, str]
    chunks: tuple[ChunkFields, ...] | None = None
    as_previous: str = ""
    as_following: str = ""


def draft_change(changes: RecordChanges) -> IndexChange:
    """Analyse what changes of a record."""
    columns = {}
    if changes.event_time is not NOT_SET_MARKER:
        columns["date"] = date_tokens(changes.event_time)
    if changes.metadata is not NOT_SET_MARKER:
        columns["metadata"] = metadata_tokens(changes.metadata)
    if changes.tags is not NOT_SET_MARKER:
        columns["tags"] = tag_tokens(changes.tags)
    if changes.content is NOT_SET_MARKER:
        return IndexChange(columns=columns)
    return IndexChange(
        columns=columns,
        chunks=index_fields(IndexSource(content=changes.content)),
        as_previous=previous_tokens(changes.content),
        as_following=following_tokens(changes.content),
    )


def change_index(
    connection: apsw.Connection, t: Tables, seq: int, change: IndexChange, *, scope: str | None
) -> None:
    """Bring the rows of a changed record up to date.

    Args:
        connection: In a write transaction.
        t: The store's tables.
        seq: The record.
        change: What `draft_change` made.
        scope: New tokens of its scope; None: they stay.
    """
    columns = dict(change.columns) if scope is None else {**change.columns, "scope": scope}
    of_record = f"SELECT id FROM {t.chunk} WHERE record_seq = ?"
    if change.chunks is None:
        if columns:
            assignments = ", ".join(f"{name} = ?" for name in columns)
            edit_rows(
                connection,
                t,
                f"UPDATE {t.fts} SET {assignments}",
                of_record,
                values=tuple(columns.values()),
                binds=(seq,),
            )
            _tell_of_update(connection, t)
        return
    old = fetch_all(
        connection,
        f"SELECT {', '.join(FTS_COLUMNS)} FROM {t.fts} "
        f"WHERE rowid IN (SELECT min(id) FROM {t.chunk} WHERE record_seq = ?1 "
        f"UNION SELECT max(id) FROM {t.chunk} WHERE record_seq = ?1) ORDER BY rowid",
        (seq,),
    )
    if not old:
        # A text that was blank until now had no chunk.
        reindex(connection, t, (seq,))
        return
    first, last = (dict(zip(FTS_COLUMNS, row, strict=True)) for row in (old[0], old[-1]))
    kept = {name: first[name] for name in ("scope", "date", "metadata", "actor", "tags")} | columns
    rows = [{**_row(chunk, ""), **kept} for chunk in change.chunks]
    if rows:
        rows[0]["previous"] = first["previous"]
        rows[-1]["following"] = last["following"]
    unindex(connection, t, (seq,))
    _add_rows(connection, t, [(seq, row) for row in rows])


def join_neighbours(
    connection: apsw.Connection,
    t: Tables,
    change: IndexChange,
    *,
    before: int | None,
    after: int | None,
) -> None:
    """Have the turns around a message hold what it says now."""
    if before is not None:
        _set_edge(connection, t, before, "following", change.as_following)
    if after is not None:
        _set_edge(connection, t, after, "previous", change.as_previous)
    _tell_of_update(connection, t)


def renew_edges(connection: apsw.Connection, t: Tables, seqs: Iterable[int], edge: Edge) -> None:
    """Have messages hold what stands before or after them now."""
    sign, order, start = ("<", "DESC", -NEIGHBOUR_CHARS) if edge == "previous" else (">", "ASC", 1)
    rows = fetch_all(
        connection,
        f"SELECT m.seq, (SELECT substr(o.content, ?, ?) FROM {t.record} o "
        f"WHERE o.thread_id = m.thread_id AND o.record_type = 'message' "
        f"AND o.seq {sign} m.seq ORDER BY o.seq {order} LIMIT 1) "
        f"FROM json_each(?) j CROSS JOIN {t.record} m ON m.seq = j.value",
        (start, NEIGHBOUR_CHARS, dump_json(sorted(seqs))),
    )
    analysed = previous_tokens if edge == "previous" else following_tokens
    memo = TokenMemo()
    for seq, text in rows:
        _set_edge(connection, t, seq, edge, analysed(text, memo))
    if rows:
        _tell_of_update(connection, t)


def _set_edge(connection: apsw.Connection, t: Tables, seq: int, edge: Edge, tokens: str) -> None:
    """Set what the chunk at one end of a record is indexed with of the text beside it."""
    end = "min" if edge == "previous" else "max"
    connection.execute(
        f"UPDATE {t.fts} SET {edge} = ? "
        f"WHERE rowid = (SELECT {end}(id) FROM {t.chunk} WHERE record_seq = ?)",
        (tokens, seq),
    )


def _tell_of_update(connection: apsw.Connection, t: Tables) -> None:
    """Give away a chunk's number unused: the last one given tells whether the index changed."""
    connection.execute("UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = ?", (t.chunk,))


def reindex(connection: apsw.Connection, t: Tables, seqs: Iterable[int]) -> None:
    """Make the index rows of records anew from what they and their neighbours hold now."""
    memo = TokenMemo()
    for seq in sorted(set(seqs)):
        unindex(connection, t, (seq,))
        row = fetch_one(
            connection,
            f"SELECT record_type, user_id, agent_id, thread_id, actor, content, metadata, "
            f"event_time, layer, tags FROM {t.record} WHERE seq = ?",
            (seq,),
        )
        if row is None:
            continue
        record_type, user_id, agent_id, thread_id, actor, content, metadata = row[:7]
        event_time, layer, tags = row[7:]
        previous, following = None, None
        if record_type == "message":
            previous = _content_of(connection, t, neighbour(connection, t, thread_id, seq, -1))
            following = _content_of(connection, t, neighbour(connection, t, thread_id, seq, 1))
        rows = _rows(
            scope_tokens(user_id, agent_id, thread_id, record_type, layer),
            IndexSource(
                content=content,
                previous=previous,
                following=following,
                event_time=from_micros(event_time),
                metadata=None if metadata == "{}" else orjson.loads(metadata),
                actor=actor,
                tags=() if tags == "[]" else orjson.loads(tags),
            ),
            memo,
        )
        _add_rows(connection, t, [(seq, made) for made in rows])


def unindex(connection: apsw.Connection, t: Tables, seqs: Iterable[int]) -> None:
    """Remove the index rows of records."""
    binds = (dump_json(list(seqs)),)
    of_records = "record_seq IN (SELECT value FROM json_each(?))"
    chosen = f"SELECT id FROM {t.chunk} WHERE {of_records}"
    edit_rows(connection, t, f"DELETE FROM {t.fts}", chosen, binds=binds)
    connection.execute(f"DELETE FROM {t.chunk} WHERE {of_records}", binds)


def edit_rows(
    connection: apsw.Connection,
    t: Tables,
    edit: str,
    chosen: str,
    *,
    values: Sequence[Any] = (),
    binds: Sequence[Any] = (),
) -> None:
    """Delete or update rows of the index.

    The secure delete of FTS5 edits every list a word stands in, which costs milliseconds a row in
    a large index. Many rows are edited the plain way, and the index is then merged into one new
    segment, which holds nothing of what they were either.

    Args:
        connection: In a write transaction.
        t: The store's tables.
        edit: The statement, without its condition.
        chosen: A query for the numbers of the rows.
        values: The values of the parameters of `edit`.
        binds: The values of the parameters of `chosen`.
    """
    many = fetch_value(
        connection, f"SELECT count(*) FROM ({chosen} LIMIT ?)", (*binds, _MANY_CHUNKS)
    )
    plain = many >= _MANY_CHUNKS
    if plain:
        connection.execute(f"INSERT INTO {t.fts} ({t.fts}, rank) VALUES ('secure-delete', 0)")
    connection.execute(f"{edit} WHERE rowid IN ({chosen})", (*values, *binds))
    if plain:
        connection.execute(f"INSERT INTO {t.fts} ({t.fts}) VALUES ('optimize')")
        connection.execute(f"INSERT INTO {t.fts} ({t.fts}, rank) VALUES ('secure-delete', 1)")


def neighbour(
    connection: apsw.Connection, t: Tables, thread_id: str | None, seq: int, step: int
) -> int | None:
    """Return the seq of the message before (-1) or after (1) a place in a thread."""
    if thread_id is None:
        return None
    comparison, order = ("<", "DESC") if step < 0 else (">", "ASC")
    row = fetch_one(
        connection,
        f"SELECT seq FROM {t.record} WHERE thread_id = ? AND record_type = 'message' "
        f"AND seq {comparison} ? ORDER BY seq {order} LIMIT 1",
        (thread_id, seq),
    )
    return None if row is None else int(row[0])


def _content_of(connection: apsw.Connection, t: Tables, seq: int | None) -> str | None:
    if seq is None:
        return None
    row = fetch_one(connection, f"SELECT content FROM {t.record} WHERE seq = ?", (seq,))
    return None if row is None else str(row[0])
