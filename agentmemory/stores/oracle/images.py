"""The files of image records on an Oracle store; pure. May import records, rows, lists, schema.

They lie in a table of their own, so that reading records never reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from agentmemory.records import ImageContent
from agentmemory.stores.oracle.lists import listed
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.statement import BindType, Statement, StatementKind

PLAN_NOTES: Final[Mapping[str, str]] = {
    "image.read": "unique key of record (id) for each listed id, then the primary key of image",
    "image.delete": "unique key of record (id), then the primary key of image",
    "image.insert": "unique key of record (id) for the seq",
}
"""The index each statement is meant to use, for a store of any size."""


def put_images(t: Tables, images: Mapping[str, ImageContent]) -> list[Statement]:
    """Store the files of image records by record id, replacing those that were there."""
    if not images:
        return []
    condition, binds = listed("r.id", "id", images)
    return [
        Statement(
            name="image.delete",
            text=f"DELETE FROM {t.image} WHERE record_seq IN ("
            f"SELECT r.seq FROM {t.record} r WHERE {condition})",
            kind=StatementKind.DML,
            binds=binds,
        ),
        Statement(
            name="image.insert",
            text=f"INSERT INTO {t.image} (record_seq, mime_type, width, height, size_bytes, data) "
            f"VALUES ((SELECT r.seq FROM {t.record} r WHERE r.id = :record_id), "
            f":mime_type, :width, :height, :size_bytes, :data)",
            kind=StatementKind.MANY,
            rows=tuple(
                {
                    "record_id": record_id,
                    "mime_type": image.mime_type,
                    "width": image.width,
                    "height": image.height,
                    "size_bytes": len(image.data or b""),
                    "data": image.data,
                }
                for record_id, image in images.items()
            ),
            types={"data": BindType.BLOB},
        ),
    ]


def read_images(t: Tables, ids: Iterable[str], *, include_bytes: bool) -> Statement:
    """Read what is stored of images; the files only if asked for."""
    condition, binds = listed("r.id", "id", ids)
    data = ", i.data" if include_bytes else ""
    return Statement(
        name="image.read",
        text=f"SELECT r.id, i.mime_type, i.width, i.height, i.size_bytes{data} "
        f"FROM {t.record} r JOIN {t.image} i ON i.record_seq = r.seq WHERE {condition}",
        kind=StatementKind.QUERY,
        binds=binds,
    )


def image_from_row(row: Sequence[Any]) -> tuple[str, ImageContent]:
    """Build an image from a row of `read_images`, with the id of its record."""
    name, mime_type, width, height, size, *data = row
    return name, ImageContent(
        mime_type=mime_type,
        width=width,
        height=height,
        size_bytes=size,
        data=data[0] if data else None,
    )
