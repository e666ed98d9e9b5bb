"""Erasure that can be shown: what was deleted is nowhere in the file any more.

A delete alone leaves traces. `secure_delete` overwrites deleted cells and freed pages, and the
text index drops deleted words from its lists, but three places keep some of them:

- pages that SQLite rebalanced hold stale copies of cells in their unused space;
- the segments of FTS5 keep words as separators of their inner index pages;
- the write-ahead log holds the pages as they were.

So an erasure merges the segments of the text index into a new one (`optimize`), builds the file
anew from what is alive (`VACUUM`), moves the log into it and empties it. Then the bytes of both
are searched for samples of what was deleted. The `-shm` file is not read: it is an index of page
numbers that never holds content, and closing it would drop SQLite's locks in this process.

May import requests, query and text.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agentmemory.requests import Deletion, ResidualScan
from agentmemory.scope import ScopeFilter
from agentmemory.stores.sqlite.query import fetch_all, fetch_value
from agentmemory.stores.sqlite.rows import dump_json, to_micros
from agentmemory.text.analyzer import analyze

if TYPE_CHECKING:
    import apsw

    from agentmemory.stores.sqlite.schema import Tables

_SAMPLED_RECORDS: Final = 32
_PROBE_BYTES: Final = 40
_EXCERPT_CHARS: Final = 2000
_SHORTEST_PROBE: Final = 8
_BLOCK_BYTES: Final = 4 * 1024 * 1024


def sample(connection: apsw.Connection, t: Tables) -> tuple[bytes, ...]:
    """Return byte strings that stand in the records of `temp.gone`, spread over all of them.

    From each sampled record: the middle of its text and its longest word as it is indexed.
    """
    total = fetch_value(connection, "SELECT count(*) FROM temp.gone")
    step = max(1, total // _SAMPLED_RECORDS)
    rows = fetch_all(
        connection,
        f"SELECT r.content FROM (SELECT seq, row_number() OVER (ORDER BY seq) AS place "
        f"FROM temp.gone) g CROSS JOIN {t.record} r ON r.seq = g.seq "
        f"WHERE g.place % ? = 0 ORDER BY g.seq LIMIT ?",
        (step, _SAMPLED_RECORDS),
    )
    probes: dict[bytes, None] = {}
    for (content,) in rows:
        text = content.encode()
        start = max(0, (len(text) - _PROBE_BYTES) // 2)
        word = max(analyze(_excerpt(content)), key=len, default="").encode()
        for probe in (text[start : start + _PROBE_BYTES], word):
            if len(probe) >= _SHORTEST_PROBE:
                probes[probe] = None
    return tuple(probes)


def _excerpt(content: str) -> str:
    """Return the beginning of a text up to a whole word: other writers wait for its analysis."""
    if len(content) <= _EXCERPT_CHARS:
        return content
    head = content[:_EXCERPT_CHARS]
    return head.rpartition(" ")[0] or head


def still_alive(connection: apsw.Connection, t: Tables, probes: Sequence[bytes]) -> set[bytes]:
    """Return the probes that stand in what was not deleted, so that finding them proves nothing."""
    alive = set()
    for probe in probes:
        text = probe.decode("utf-8", "ignore")
        if (
            fetch_value(connection, f"SELECT 1 FROM {t.vocabulary} WHERE term = ? LIMIT 1", (text,))
            or fetch_value(
                connection,
                f"SELECT 1 FROM {t.record} WHERE instr(content, ?) OR instr(metadata, ?) "
                f"OR instr(id, ?) LIMIT 1",
                (text, text, text),
            )
            or fetch_value(
                connection, f"SELECT 1 FROM {t.fts} WHERE instr(content, ?) LIMIT 1", (text,)
            )
        ):
            alive.add(probe)
    return alive


def note_erasure(
    connection: apsw.Connection, t: Tables, scope: ScopeFilter, now: datetime, deletion: Deletion
) -> None:
    """Write into the audit that something was erased: how much, and a digest of whose."""
    connection.execute(
        f"INSERT INTO {t.audit} (at, action, subject, detail) VALUES (?, 'forget', ?, ?)",
        (to_micros(now), scope_digest(scope), dump_json(dict(deletion.counts))),
    )


def scope_digest(scope: ScopeFilter) -> str:
    """Return the name by which the audit knows a scope; the ids cannot be read from it."""
    parts = [[match.exact, match.value] for match in (scope.user, scope.agent, scope.thread)]
    return hashlib.blake2b(dump_json(parts).encode(), digest_size=16).hexdigest()


def merge_segments(connection: apsw.Connection, t: Tables) -> None:
    """Write the text index anew without the words that no chunk holds."""
    connection.execute(f"INSERT INTO {t.fts} ({t.fts}) VALUES ('optimize')")


def rebuild_file(connection: apsw.Connection) -> None:
    """Build the file anew from what is alive; runs outside a transaction."""
    connection.execute("VACUUM")


def scan(path: str, probes: Sequence[bytes], *, log_emptied: bool) -> ResidualScan:
    """Search the bytes of the database file and of its log; blocks, so run it in a thread."""
    found: dict[bytes, None] = {}
    size = 0
    longest = max(map(len, probes), default=1)
    for blocks in (_database(path), _log(path)):
        tail = b""
        for block in blocks:
            size += len(block)
            window = tail + block
            found.update((probe, None) for probe in probes if probe in window)
            tail = window[-(longest - 1) :] if longest > 1 else b""
    return ResidualScan(
        probes=len(probes),
        bytes_scanned=size,
        residues=tuple(probe.decode("utf-8", "replace") for probe in found),
        log_emptied=log_emptied,
    )


def _database(path: str) -> Iterator[bytes]:
    """Read the file through SQLite's own file layer.

    Closing a descriptor of one's own would drop the locks that SQLite holds in this process.
    """
    import apsw

    flags = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY
    file = apsw.VFSFile("", path, [flags, 0])
    try:
        size = file.xFileSize()
        for offset in range(0, size, _BLOCK_BYTES):
            yield file.xRead(min(_BLOCK_BYTES, size - offset), offset)
    finally:
        file.xClose()


def _log(path: str) -> Iterator[bytes]:
    with contextlib.suppress(FileNotFoundError), Path(f"{path}-wal").open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            yield block
