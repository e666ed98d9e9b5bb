"""What a search reads of a record: its fields as analysed tokens, the same for every store.

A message is indexed with the turns around it and its date; a long record in chunks. What each
field is worth to a search stands in `FIELD_WEIGHTS`. May import text, records and filters.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from agentmemory.stores.filters import string_leaves
from agentmemory.text.analyzer import analyze, default_analyzer
from agentmemory.text.sentences import chunk_text

CHUNK_CHARS: Final = 500
"""Target size of a chunk; see docs/retrieval-experiments.md."""

NEIGHBOUR_CHARS: Final = 200
"""How much adjoining text is indexed: the end of what precedes, the start of what follows."""


_MEMO_TEXTS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldWeights:
    """What one occurrence of a word is worth by the field it stands in."""

    content: float = 1.0
    previous: float = 0.6
    following: float = 0.25
    date: float = 1.5
    metadata: float = 0.7
    actor: float = 0.0
    tags: float = 0.7


FIELD_WEIGHTS: Final = FieldWeights()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkFields:
    """One chunk's fields; tokens separated by single spaces."""

    content: str
    previous: str = ""
    following: str = ""
    date: str = ""
    metadata: str = ""
    actor: str = ""
    tags: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSource:
    """What a record's index rows are made of.

    Args:
        content: The record's text.
        previous: The turn before it in its thread, if it is a message and has one.
        following: The turn after it.
        event_time: When it happened, if that is known.
        metadata: The caller's metadata.
        actor: The speaker's name.
        tags: What it is found by besides.
    """

    content: str
    previous: str | None = None
    following: str | None = None
    event_time: datetime | None = None
    metadata: Mapping[str, Any] | None = None
    actor: str | None = None
    tags: Sequence[str] = ()


def index_fingerprint() -> str:
    """What an index was made with; one made otherwise has to be made anew."""
    return f"{default_analyzer().fingerprint}:{CHUNK_CHARS}:{NEIGHBOUR_CHARS}"


class TokenMemo(dict[str, str]):
    """Remembers the tokens of texts while records are indexed: neighbours share theirs."""

    def __missing__(self, text: str) -> str:
        if len(self) >= _MEMO_TEXTS:
            self.clear()
        tokens = self[text] = " ".join(analyze(text))
        return tokens


def index_fields(source: IndexSource, memo: TokenMemo | None = None) -> tuple[ChunkFields, ...]:
    """Return the chunks to be indexed for one record; at least one.

    A chunk is indexed with the text it stands next to: the chunks around it, or at the ends of
    the record the turns around that. Date, metadata and speaker belong to every chunk, so that
    each competes on equal terms.
    """
    tokens = TokenMemo() if memo is None else memo
    chunks = chunk_text(source.content, target_chars=CHUNK_CHARS, overlap_sentences=0)
    date = date_tokens(source.event_time, tokens)
    metadata = metadata_tokens(source.metadata, tokens)
    actor = tokens[source.actor] if source.actor else ""
    tags = tag_tokens(source.tags, tokens)
    around = (source.previous, *chunks, source.following)
    return tuple(
        ChunkFields(
            content=tokens[chunk],
            previous=previous_tokens(around[index], tokens),
            following=following_tokens(around[index + 2], tokens),
            date=date,
            metadata=metadata,
            actor=actor,
            tags=tags,
        )
        for index, chunk in enumerate(chunks)
    )


def previous_tokens(text: str | None, memo: TokenMemo | None = None) -> str:
    """Return what a chunk is indexed with of the text before it: tokens of that text's end."""
    return _tokens_of(text[-NEIGHBOUR_CHARS:], memo) if text else ""


def following_tokens(text: str | None, memo: TokenMemo | None = None) -> str:
    """Return what a chunk is indexed with of the text after it: tokens of that text's start."""
    return _tokens_of(text[:NEIGHBOUR_CHARS], memo) if text else ""


def date_tokens(event_time: datetime | None, memo: TokenMemo | None = None) -> str:
    """Return the tokens of a time, if there is one."""
    return "" if event_time is None else _tokens_of(_date_text(event_time), memo)


def metadata_tokens(metadata: Mapping[str, Any] | None, memo: TokenMemo | None = None) -> str:
    """Return the tokens of every text in metadata."""
    return _tokens_of("\n".join(string_leaves(metadata)), memo) if metadata else ""


def tag_tokens(tags: Sequence[str], memo: TokenMemo | None = None) -> str:
    """Return the tokens of tags."""
    return _tokens_of("\n".join(tags), memo) if tags else ""


def _tokens_of(text: str, memo: TokenMemo | None) -> str:
    return (TokenMemo() if memo is None else memo)[text]


def scope_tokens(
    user_id: str | None,
    agent_id: str | None,
    thread_id: str | None,
    record_type: str,
    layer: str | None = None,
) -> str:
    """Return the tokens that stand for a record's scope in the text index.

    Ids are hashed, for they may hold any character. The index only narrows by these tokens;
    the exact ids are compared on the record afterwards.
    """
    tokens = [
        user_token(user_id),
        user_type_token(user_id, record_type),
        thread_token(thread_id),
        agent_token(agent_id),
    ]
    if layer is not None:
        tokens.append(layer_token(user_id, layer))
    return " ".join(tokens)


def user_token(user_id: str | None) -> str:
    """Return the scope token of a user."""
    return f"u{_digest(user_id)}"


def user_type_token(user_id: str | None, record_type: str) -> str:
    """Return the scope token of a user's records of one type."""
    return f"k{_digest(user_id)}{record_type.replace('_', '')}"


def layer_token(user_id: str | None, layer: str) -> str:
    """Return the scope token of a user's memories of one layer."""
    return f"y{_digest(user_id)}{layer}"


def thread_token(thread_id: str | None) -> str:
    """Return the scope token of a thread."""
    return f"t{_digest(thread_id)}"


def agent_token(agent_id: str | None) -> str:
    """Return the scope token of an agent."""
    return f"a{_digest(agent_id)}"


def _digest(value: str | None) -> str:
    if value is None:
        return "0"
    return hashlib.blake2b(value.encode(), digest_size=12).hexdigest()


def _date_text(value: datetime) -> str:
    """Return a date the way people ask for it, in English and in Chinese and Japanese."""
    utc = value.astimezone(UTC)
    return f"{utc.day} {_MONTHS[utc.month - 1]} {utc.year} {utc.year}年{utc.month}月{utc.day}日"


_MONTHS: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
