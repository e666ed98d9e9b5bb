"""Keeps the chunks of an Oracle store, with their text and vectors, in step with its records.

A chunk repeats columns of its record; the vector of a record stands in its first chunk, which
every record has. CLOBs are bound where a value goes straight into its column (`VALUES`, `SET`):
in an expression a bind of more than 4000 bytes is refused. May import index_fields and below.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

from agentmemory.records import ScopedRecord
from agentmemory.stores.index_fields import (
    NEIGHBOUR_CHARS,
    ChunkFields,
    IndexSource,
    TokenMemo,
    following_tokens,
    index_fields,
    previous_tokens,
    scope_tokens,
)
from agentmemory.stores.oracle.lexical import field_text
from agentmemory.stores.oracle.lists import in_parts, listed
from agentmemory.stores.oracle.rows import BIND_TYPES, SHORT_TEXT, field_texts, token_count
from agentmemory.stores.oracle.schema import FILTER_COLUMNS, Tables
from agentmemory.stores.oracle.statement import BindType, Statement, StatementKind
from agentmemory.stores.oracle.text_tokens import indexed_text

if TYPE_CHECKING:
    from agentmemory.requests import FloatVector

PLAN_NOTES: Final[Mapping[str, str]] = {
    "chunk.read_sources": "primary key of record for each listed seq; the turns before and after "
    "by record_thread (thread_id, record_type, seq), one probe each",
    "chunk.read_around": "record_thread (thread_id, record_type, seq), three probes and two for "
    "each message; primary key of record",
    "chunk.last_messages": "record_thread (thread_id, record_type, seq), its last entry for each "
    "listed thread, found by the index alone; then the primary key of record and the unique key "
    "of chunk (record_seq, position), its last entry",
    "chunk.insert": "unique key of record (id) for the seq; maintains the indexes of chunk",
    "chunk.rewrite": "unique key of chunk (record_seq, position)",
    "chunk.cut": "unique key of chunk (record_seq, position), a range behind each listed record",
    "chunk.copy": "unique key of chunk (record_seq, position); primary key of record for values",
    "vector.put": "unique key of record (id), then unique key of chunk (record_seq, position)",
    "vector.held": "unique key of chunk (record_seq, position), then the primary key of record",
    "vector.drop": "unique key of chunk (record_seq, position)",
}
"""The index each statement is meant to use, for a store of any size."""


@dataclass(slots=True, kw_only=True)
class Indexed:
    """A record, as far as its chunks are made of it."""

    seq: int
    id: str
    record_type: str
    user_id: str | None
    agent_id: str | None
    thread_id: str | None
    actor: str | None
    content: str | None
    metadata: Mapping[str, Any]
    event_time: datetime | None
    layer: str | None
    tags: Sequence[str]
    status: str
    tier: str
    created_at: datetime
    valid_from: datetime | None
    valid_to: datetime | None
    expires_at: datetime | None
    previous: str | None = None
    following: str | None = None

    @property
    def effective_time(self) -> datetime:
        """The event time, else the time of writing."""
        return self.event_time or self.created_at

    @property
    def is_message(self) -> bool:
        """Whether turns around it are indexed with it."""
        return self.record_type == "message" and self.thread_id is not None


_FIELDS: Final = tuple(item.name for item in fields(ChunkFields))
_PREVIOUS: Final = _FIELDS.index("previous")
_FOLLOWING: Final = _FIELDS.index("following")
_OWN: Final = tuple(
    item.name for item in fields(Indexed) if item.name not in ("previous", "following")
)


def from_record(record: ScopedRecord) -> Indexed:
    """Return what is indexed of a record that is about to be stored."""
    values = {name: getattr(record, name) for name in _OWN}
    values["status"], values["tier"] = record.status.value, record.tier.value
    return Indexed(**values)


def from_row(row: Sequence[Any]) -> Indexed:
    """Build it from a row of `read_sources` or `read_around`."""
    return Indexed(**dict(zip((*_OWN, "previous", "following"), row, strict=True)))


def _select(t: Tables) -> str:
    """Return the select list that `from_row` reads, with the turns around a message `r`."""

    def around(picked: str, sign: str) -> str:
        return (
            f"CASE WHEN r.record_type = 'message' THEN ("
            f"SELECT n.content FROM {t.record} n WHERE n.seq = ("
            f"SELECT {picked}(o.seq) FROM {t.record} o WHERE o.thread_id = r.thread_id "
            f"AND o.record_type = 'message' AND o.seq {sign} r.seq)) END"
        )

    columns = ", ".join(f"r.{name}" for name in _OWN)
    return f"{columns}, {around('MAX', '<')}, {around('MIN', '>')}"


def read_sources(t: Tables, seqs: Iterable[int]) -> Statement:
    """Read what records are indexed by, with the turns around those that are messages."""
    condition, binds = listed("r.seq", "seq", seqs)
    return Statement(
        name="chunk.read_sources",
        text=f"SELECT {_select(t)} FROM {t.record} r WHERE {condition} ORDER BY r.seq",
        kind=StatementKind.QUERY,
        binds=binds,
    )


def read_around(t: Tables, thread_id: str, seq: int) -> Statement:
    """Read what a message and the ones before and after it in its thread are indexed by."""
    turns = f"FROM {t.record} m WHERE m.thread_id = :thread_id AND m.record_type = 'message'"
    return Statement(
        name="chunk.read_around",
        text=f"SELECT {_select(t)} FROM {t.record} r WHERE r.seq IN ("
        f"SELECT MAX(m.seq) {turns} AND m.seq < :seq UNION ALL "
        f"SELECT MIN(m.seq) {turns} AND m.seq >= :seq UNION ALL "
        f"SELECT MIN(m.seq) {turns} AND m.seq > :seq) ORDER BY r.seq",
        kind=StatementKind.QUERY,
        binds={"thread_id": thread_id, "seq": seq},
    )


@dataclass(slots=True, kw_only=True)
class LastMessage:
    """The last message of a thread, as far as what follows it changes its last chunk.

    Args:
        seq: The message's number.
        id: Its id.
        thread_id: Its thread.
        revision: Counts its changes.
        text: Its text, or as much of the end as is indexed with what follows.
        scope: The tokens of its scope.
        chunk_id: Its last chunk.
        position: Where that stands.
        fields: The fields of that; None if one is too long for a short row.
    """

    seq: int
    id: str
    thread_id: str
    revision: int
    text: str
    scope: str
    chunk_id: int
    position: int
    fields: list[str] | None

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> Self:
        """Build it from a row of `last_messages`."""
        seq, record_id, thread_id, revision, user_id, agent_id, layer, text, *chunk = row
        chunk_id, position, tokens, *texts = chunk
        held = [field or "" for field in texts]
        return cls(
            seq=seq,
            id=record_id,
            thread_id=thread_id,
            revision=revision,
            text=text or "",
            scope=scope_tokens(user_id, agent_id, thread_id, "message", layer),
            chunk_id=chunk_id,
            position=position,
            fields=held if token_count(held) == tokens else None,
        )


def last_messages(t: Tables, thread_ids: Iterable[str]) -> Statement:
    """Read the last message of each thread with its last chunk, in one round trip.

    A CLOB or JSON column would cost the driver another one, so texts come as VARCHAR2. Of the
    message only the end is needed: twice as many units of UTF-16 as are indexed, for a character
    may take two.
    """
    condition, binds = listed("m.thread_id", "thread", thread_ids)
    text = (
        f"CASE WHEN LENGTH(r.content) <= {SHORT_TEXT} THEN CAST(r.content AS VARCHAR2(4000)) "
        f"ELSE CAST(SUBSTR(r.content, -{2 * NEIGHBOUR_CHARS}) AS VARCHAR2(4000)) END AS content"
    )
    texts = ", ".join(field_text("c.fields", place) for place in range(len(_FIELDS)))
    return Statement(
        name="chunk.last_messages",
        text=f"SELECT r.seq, r.id, r.thread_id, r.revision, r.user_id, r.agent_id, r.layer, "
        f"{text}, c.id, c.position, c.token_count, {texts} FROM {t.record} r "
        f"JOIN {t.chunk} c ON c.record_seq = r.seq WHERE r.seq IN ("
        f"SELECT MAX(m.seq) FROM {t.record} m WHERE {condition} AND m.record_type = 'message' "
        f"GROUP BY m.thread_id) AND c.position = (SELECT MAX(x.position) FROM {t.chunk} x "
        f"WHERE x.record_seq = r.seq) ORDER BY r.seq",
        kind=StatementKind.QUERY,
        binds=binds,
    )


@dataclass(frozen=True, slots=True)
class Chunk:
    """One chunk of a record: where it stands, and the values of its text columns."""

    source: Indexed
    position: int
    values: Mapping[str, Any]


def chunks_of(source: Indexed, memo: TokenMemo) -> list[Chunk]:
    """Return the chunks of a record; at least one."""
    scope = _scope_of(source)
    made = index_fields(
        IndexSource(
            content=source.content or "",
            previous=source.previous if source.is_message else None,
            following=source.following if source.is_message else None,
            event_time=source.event_time,
            metadata=source.metadata or None,
            actor=source.actor,
            tags=source.tags,
        ),
        memo,
    )
    chunks = []
    for position, chunk in enumerate(made):
        chunks.append(Chunk(source, position, _text_values(field_texts(chunk), scope)))
    return chunks


def _scope_of(source: Indexed) -> str:
    return scope_tokens(
        source.user_id, source.agent_id, source.thread_id, source.record_type, source.layer
    )


def _text_values(texts: list[str], scope: str) -> dict[str, Any]:
    """Return the values of the text columns of a chunk."""
    return {
        "tokens": indexed_text(texts, scope),
        "fields": texts,
        "token_count": token_count(texts),
    }


@dataclass(frozen=True, slots=True)
class Draft:
    """A new record with its chunks, as far as they are known before it is stored.

    Args:
        source: The record.
        chunks: At least one. They know of the turns that are stored with it.
        leads: Whether it is a message and the first of its thread among those.
    """

    source: Indexed
    chunks: tuple[Chunk, ...]
    leads: bool


def draft(records: Iterable[ScopedRecord]) -> tuple[Draft, ...]:
    """Analyse new records, ahead of the transaction that stores them."""
    sources = [from_record(record) for record in records]
    last: dict[str | None, Indexed] = {}
    leading: set[str] = set()
    for source in sources:
        if not source.is_message:
            continue
        previous = last.get(source.thread_id)
        if previous is None:
            leading.add(source.id)
        else:
            source.previous, previous.following = previous.content, source.content
        last[source.thread_id] = source
    memo = TokenMemo()
    return tuple(
        Draft(source, tuple(chunks_of(source, memo)), source.id in leading) for source in sources
    )


def behind(made: Draft, text: str) -> Draft:
    """Return a draft whose first chunk stands behind a text that is stored already."""
    first, *further = made.chunks
    texts = list(first.values["fields"])
    texts[_PREVIOUS] = previous_tokens(text)
    values = _text_values(texts, _scope_of(made.source))
    return replace(made, chunks=(replace(first, values=values), *further))


def index_anew(t: Tables, sources: Iterable[Indexed], memo: TokenMemo) -> list[Statement]:
    """Return the statements that rewrite the chunks of records and keep their vectors."""
    listed_sources = list(sources)
    chunks = [chunk for source in listed_sources for chunk in chunks_of(source, memo)]
    if not chunks:
        return []
    statements = [
        *in_parts(partial(cut_chunks, t), [source.seq for source in listed_sources]),
        rewrite_chunks(
            t,
            [
                {"record_seq": chunk.source.seq, "position": 0, **chunk.values}
                for chunk in chunks
                if chunk.position == 0
            ],
        ),
    ]
    further = [chunk for chunk in chunks if chunk.position > 0]
    return [*statements, insert_chunks(t, further, {})] if further else statements


_CHUNK_TYPES: Final[Mapping[str, BindType]] = {
    **{name: BIND_TYPES[name] for name in FILTER_COLUMNS if name in BIND_TYPES},
    "effective_time": BindType.TIMESTAMP,
    "tokens": BindType.CLOB,
    "fields": BindType.JSON,
    "embedding": BindType.VECTOR,
}


def index_following(t: Tables, followed: Iterable[tuple[LastMessage, str]]) -> list[Statement]:
    """Return the statements that index messages with the texts that follow them now."""
    chunks = []
    for message, following in followed:
        texts = list(message.fields or ())
        texts[_FOLLOWING] = following_tokens(following)
        chunks.append(
            {
                "record_seq": message.seq,
                "position": message.position,
                **_text_values(texts, message.scope),
            }
        )
    return [rewrite_chunks(t, chunks)] if chunks else []


def insert_chunks(
    t: Tables, chunks: Sequence[Chunk], vectors: Mapping[str, FloatVector]
) -> Statement:
    """Insert chunks, the first one of each record with the vector there is for it."""
    columns = ("position", "tokens", "fields", "token_count", "embedding", *FILTER_COLUMNS)
    return Statement(
        name="chunk.insert",
        text=f"INSERT INTO {t.chunk} (record_seq, {', '.join(columns)}) VALUES ("
        f"(SELECT r.seq FROM {t.record} r WHERE r.id = :record_id), "
        f"{', '.join(f':{name}' for name in columns)})",
        kind=StatementKind.MANY,
        rows=tuple(
            {
                "record_id": chunk.source.id,
                "position": chunk.position,
                **chunk.values,
                "embedding": vectors.get(chunk.source.id) if chunk.position == 0 else None,
                **{name: getattr(chunk.source, name) for name in FILTER_COLUMNS},
            }
            for chunk in chunks
        ),
        types=_CHUNK_TYPES,
    )


def rewrite_chunks(t: Tables, chunks: Iterable[Mapping[str, Any]]) -> Statement:
    """Write new text into chunks; a vector that is there stays."""
    return Statement(
        name="chunk.rewrite",
        text=f"UPDATE {t.chunk} SET tokens = :tokens, fields = :fields, "
        f"token_count = :token_count WHERE record_seq = :record_seq AND position = :position",
        kind=StatementKind.MANY,
        rows=tuple(chunks),
        types={"tokens": BindType.CLOB, "fields": BindType.JSON},
    )


def cut_chunks(t: Tables, seqs: Iterable[int]) -> Statement:
    """Delete all but the first chunk of records."""
    condition, binds = listed("record_seq", "seq", seqs)
    return Statement(
        name="chunk.cut",
        text=f"DELETE FROM {t.chunk} WHERE {condition} AND position > 0",
        kind=StatementKind.DML,
        binds=binds,
    )


def copy_columns(t: Tables, seqs: Iterable[int]) -> Statement:
    """Bring the columns that chunks repeat in step with their records."""
    condition, binds = listed("c.record_seq", "seq", seqs)
    columns = ", ".join(FILTER_COLUMNS)
    values = ", ".join(f"r.{name}" for name in FILTER_COLUMNS)
    return Statement(
        name="chunk.copy",
        text=f"UPDATE {t.chunk} c SET ({columns}) = (SELECT {values} FROM {t.record} r "
        f"WHERE r.seq = c.record_seq) WHERE {condition}",
        kind=StatementKind.DML,
        binds=binds,
    )


def put_vectors(t: Tables, vectors: Mapping[str, FloatVector]) -> list[Statement]:
    """Store vectors by record id, replacing what was there; ids that are gone are left out."""
    if not vectors:
        return []
    return [
        Statement(
            name="vector.put",
            text=f"UPDATE {t.chunk} SET embedding = :embedding WHERE position = 0 "
            f"AND record_seq = (SELECT r.seq FROM {t.record} r WHERE r.id = :record_id)",
            kind=StatementKind.MANY,
            rows=tuple(
                {"embedding": vector, "record_id": record_id}
                for record_id, vector in vectors.items()
            ),
            types={"embedding": BindType.VECTOR},
        )
    ]


def held_vectors(t: Tables, seqs: Iterable[int]) -> Statement:
    """Read the ids of those of some records that have a vector, in the order of writing."""
    condition, binds = listed("c.record_seq", "seq", seqs)
    return Statement(
        name="vector.held",
        text=f"SELECT r.id FROM {t.chunk} c JOIN {t.record} r ON r.seq = c.record_seq "
        f"WHERE {condition} AND c.position = 0 AND c.embedding IS NOT NULL ORDER BY r.seq",
        kind=StatementKind.QUERY,
        binds=binds,
    )


def drop_vectors(t: Tables, seqs: Iterable[int]) -> Statement:
    """Remove the vectors of records."""
    condition, binds = listed("record_seq", "seq", seqs)
    return Statement(
        name="vector.drop",
        text=f"UPDATE {t.chunk} SET embedding = NULL WHERE {condition} AND position = 0 "
        f"AND embedding IS NOT NULL",
        kind=StatementKind.DML,
        binds=binds,
    )
