"""Verbs on images that the client and its threads share; may import memories, parts and below.

An image is a record that is found by its description. Its file is checked, kept apart and handed
back only when asked for; an image is never an end of a link.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final, Literal

from anyio import to_thread

from agentmemory.checks import check_bool, check_choice, check_id, check_optional_time, check_text
from agentmemory.config import TimeToLiveAnchor
from agentmemory.errors import NotFoundError, ValidationError
from agentmemory.image_format import inspect_image
from agentmemory.memories import get_record, list_records, update_record
from agentmemory.parts import Parts, checked_metadata
from agentmemory.records import ImageContent, ImageRecord, RecordType, ScopedRecord, new_id
from agentmemory.requests import Page
from agentmemory.scope import NOT_SET_MARKER, NotSet, ScopeFilter

IMAGE: Final[tuple[RecordType, ...]] = ("image",)

_MIME_TYPES: Final = ("image/png", "image/jpeg", "image/webp")


async def check_image(parts: Parts, image: Any, mime_type: Any = None) -> ImageContent:
    """Accept the bytes of an image file within the client's limits.

    Raises:
        ValidationError: It is none, is damaged or too large, or is not of the type told.
    """
    if mime_type is not None:
        check_choice(mime_type, argument="mime_type", choices=_MIME_TYPES)
    limits = parts.image_limits
    # The check sums of a large file take milliseconds, which the event loop does not have.
    found = await to_thread.run_sync(
        lambda: inspect_image(
            image,
            argument="image",
            max_bytes=limits.max_image_bytes,
            max_pixels=limits.max_image_pixels,
        )
    )
    if mime_type is not None and mime_type != found.mime_type:
        msg = f"`mime_type` is {mime_type!r} but `image` is {found.mime_type!r}"
        raise ValidationError(msg, argument="mime_type")
    data = bytes(image)
    return ImageContent(
        mime_type=found.mime_type,
        width=found.width,
        height=found.height,
        size_bytes=len(data),
        data=data,
    )


async def add_image(
    parts: Parts,
    image: Any,
    *,
    description: Any,
    mime_type: Any,
    image_id: Any,
    user_id: str | None,
    agent_id: str | None,
    thread_id: str | None,
    metadata: Any,
    timestamp: Any,
    ttl_days: Any,
    ttl_anchor: Any,
) -> str:
    """Store one image and return its id."""
    check_text(description, argument="description")
    now = parts.clock.now()
    event_time = check_optional_time(timestamp, argument="timestamp")
    record = ScopedRecord(
        id=new_id() if image_id is None else check_id(image_id, argument="image_id"),
        record_type="image",
        content=description,
        metadata=checked_metadata(metadata),
        event_time=event_time,
        created_at=now,
        updated_at=now,
        expires_at=parts.retention.expiry(ttl_days, ttl_anchor, now=now, event_time=event_time),
        user_id=user_id,
        agent_id=agent_id,
        thread_id=thread_id,
    )
    content = await check_image(parts, image, mime_type)
    await parts.ready()
    await parts.recorder.add_memories((record,), images={record.id: content})
    return record.id


async def get_image(
    parts: Parts, image_id: str, *, scope: ScopeFilter, include_bytes: Any
) -> ImageRecord:
    """Return one image of a scope."""
    check_bool(include_bytes, argument="include_bytes")
    record = await get_record(parts, image_id, argument="image_id", scope=scope, record_types=IMAGE)
    return await _one(parts, record, include_bytes=include_bytes)


async def update_image(
    parts: Parts,
    image_id: str,
    *,
    scope: ScopeFilter,
    image: Any,
    description: str | NotSet,
    metadata: Mapping[str, Any] | None | NotSet,
    timestamp: Any,
    ttl_days: Any = NOT_SET_MARKER,
    ttl_anchor: Any = TimeToLiveAnchor.CREATED_AT,
) -> ImageRecord:
    """Change what is given of one image of a scope."""
    content = None if image is NOT_SET_MARKER else await check_image(parts, image)
    record = await update_record(
        parts,
        image_id,
        argument="image_id",
        scope=scope,
        record_types=IMAGE,
        content=description,
        content_argument="description",
        metadata=metadata,
        timestamp=timestamp,
        ttl_days=ttl_days,
        ttl_anchor=ttl_anchor,
        image=content,
    )
    return await _one(parts, record, include_bytes=False)


async def list_images(
    parts: Parts,
    *,
    scope: ScopeFilter,
    include_bytes: Any,
    metadata_filter: Mapping[str, Any] | None,
    limit: int,
    cursor: str | None,
    order: Literal["created", "event"],
    descending: bool,
) -> Page[ImageRecord]:
    """Return one page of the images of a scope."""
    check_bool(include_bytes, argument="include_bytes")
    page = await list_records(
        parts,
        scope=scope,
        record_types=IMAGE,
        default_types=IMAGE,
        metadata_filter=metadata_filter,
        include_invalid_results=True,
        limit=limit,
        cursor=cursor,
        order=order,
        descending=descending,
    )
    items = await _with_content(parts, page.items, include_bytes=include_bytes)
    return Page(items=items, next_cursor=page.next_cursor)


async def _one(parts: Parts, record: ScopedRecord, *, include_bytes: bool) -> ImageRecord:
    found = await _with_content(parts, (record,), include_bytes=include_bytes)
    if not found:
        msg = f"there is no image {record.id!r} in this scope"
        raise NotFoundError(msg)
    return found[0]


async def _with_content(
    parts: Parts, records: tuple[ScopedRecord, ...], *, include_bytes: bool
) -> tuple[ImageRecord, ...]:
    """Add what is stored of the images; one deleted in between is left out."""
    stored = await parts.store.get_images(
        [record.id for record in records], include_bytes=include_bytes
    )
    return tuple(
        ImageRecord(
            **{item.name: getattr(record, item.name) for item in fields(record)},
            image=stored[record.id],
        )
        for record in records
        if record.id in stored
    )
