"""The files of image records on a SQLite store; may import records, query and rows.

They lie in a table of their own, so that reading records never reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentmemory.records import ImageContent
from agentmemory.stores.sqlite.query import fetch_all
from agentmemory.stores.sqlite.rows import dump_json

if TYPE_CHECKING:
    import apsw

    from agentmemory.stores.sqlite.schema import Tables


def put_image(connection: apsw.Connection, t: Tables, seq: int, image: ImageContent) -> None:
    """Store the file of an image record, replacing the one that was there."""
    connection.execute(
        f"INSERT INTO {t.image} (record_seq, mime_type, width, height, data) "
        f"VALUES (?, ?, ?, ?, ?) ON CONFLICT (record_seq) DO UPDATE SET "
        f"mime_type = excluded.mime_type, width = excluded.width, height = excluded.height, "
        f"data = excluded.data",
        (seq, image.mime_type, image.width, image.height, image.data or b""),
    )


def read_images(
    connection: apsw.Connection, t: Tables, ids: Sequence[str], *, include_bytes: bool
) -> dict[str, ImageContent]:
    """Return what is stored of images by record id; the files only if asked for."""
    data = "i.data" if include_bytes else "NULL"
    rows = fetch_all(
        connection,
        f"SELECT r.id, i.mime_type, i.width, i.height, length(i.data), {data} "
        f"FROM json_each(?) j CROSS JOIN {t.record} r ON r.id = j.value "
        f"JOIN {t.image} i ON i.record_seq = r.seq",
        (dump_json(list(ids)),),
    )
    return {
        name: ImageContent(mime_type=mime, width=width, height=height, size_bytes=size, data=data)
        for name, mime, width, height, size, data in rows
    }
