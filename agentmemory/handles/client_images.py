"""What a client does with images; may import images and below."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Literal

from agentmemory.checks import check_optional_id
from agentmemory.config import TimeToLiveAnchor
from agentmemory.handles.base import ClientHandle, explicit_user
from agentmemory.images import IMAGE, add_image, get_image, list_images, update_image
from agentmemory.memories import delete_record, exact_scope
from agentmemory.records import ImageMimeType, ImageRecord
from agentmemory.requests import Deletion, Page
from agentmemory.scope import NOT_SET_MARKER, NotSet, OptionalId


class ClientImages(ClientHandle):
    """Images of a client."""

    async def add_image(
        self,
        image: bytes,
        *,
        description: str,
        user_id: OptionalId = NOT_SET_MARKER,
        agent_id: str | None = None,
        thread_id: str | None = None,
        mime_type: ImageMimeType | None = None,
        image_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        timestamp: datetime | str | None = None,
        ttl_days: float | timedelta | None | NotSet = NOT_SET_MARKER,
        ttl_anchor: TimeToLiveAnchor | Literal["created_at", "timestamp"] = (
            TimeToLiveAnchor.CREATED_AT
        ),
    ) -> str:
        """Store a still image; searches find it by its description.

        Args:
            image: The bytes of a PNG, JPEG or WebP file within the client's limits.
            description: What it shows.
            user_id: The user it belongs to, or None for none; always needed.
            agent_id: The agent it belongs to; default none.
            thread_id: The conversation it belongs to; default none.
            mime_type: What the file is; default as it says itself.
            image_id: The caller's id; default a new UUIDv7.
            metadata: JSON-like values of the caller's own.
            timestamp: When what it shows happened; default unknown.
            ttl_days: Days, or a `timedelta`, until it disappears; None: as long as allowed;
                default as the client's retention says.
            ttl_anchor: From when `ttl_days` counts: "created_at" or "timestamp".

        Returns:
            The image's id.

        Raises:
            ScopeError: No `user_id`.
            ValidationError: An argument is not as described; the file is damaged or too large.
            ConflictError: The id is taken.
            NotFoundError: There is no such thread.
        """
        return await add_image(
            self._parts,
            image,
            description=description,
            mime_type=mime_type,
            image_id=image_id,
            user_id=check_optional_id(explicit_user(user_id), argument="user_id"),
            agent_id=check_optional_id(agent_id, argument="agent_id"),
            thread_id=check_optional_id(thread_id, argument="thread_id"),
            metadata=metadata,
            timestamp=timestamp,
            ttl_days=ttl_days,
            ttl_anchor=ttl_anchor,
        )

    async def get_image(
        self,
        image_id: str,
        *,
        include_bytes: bool = False,
        user_id: OptionalId = NOT_SET_MARKER,
        agent_id: OptionalId = NOT_SET_MARKER,
        thread_id: OptionalId = NOT_SET_MARKER,
    ) -> ImageRecord:
        """Return an image, with its file only if asked for.

        Raises:
            NotFoundError: No such image in that scope.
        """
        return await get_image(
            self._parts,
            image_id,
            scope=exact_scope(user_id, agent_id, thread_id),
            include_bytes=include_bytes,
        )

    async def update_image(
        self,
        image_id: str,
        *,
        image: bytes | NotSet = NOT_SET_MARKER,
        description: str | NotSet = NOT_SET_MARKER,
        metadata: Mapping[str, Any] | None | NotSet = NOT_SET_MARKER,
        timestamp: datetime | str | None | NotSet = NOT_SET_MARKER,
        ttl_days: float | timedelta | None | NotSet = NOT_SET_MARKER,
        ttl_anchor: TimeToLiveAnchor | Literal["created_at", "timestamp"] = (
            TimeToLiveAnchor.CREATED_AT
        ),
        user_id: OptionalId = NOT_SET_MARKER,
        agent_id: OptionalId = NOT_SET_MARKER,
        thread_id: OptionalId = NOT_SET_MARKER,
    ) -> ImageRecord:
        """Change what is given of an image; what is not given stays as it is.

        Raises:
            NotFoundError: No such image in that scope.
            ValidationError: Nothing to change, or an argument is not as described.
        """
        return await update_image(
            self._parts,
            image_id,
            scope=exact_scope(user_id, agent_id, thread_id),
            image=image,
            description=description,
            metadata=metadata,
            timestamp=timestamp,
            ttl_days=ttl_days,
            ttl_anchor=ttl_anchor,
        )

    async def delete_image(
        self,
        image_id: str,
        *,
        user_id: OptionalId = NOT_SET_MARKER,
        agent_id: OptionalId = NOT_SET_MARKER,
        thread_id: OptionalId = NOT_SET_MARKER,
    ) -> Deletion:
        """Delete an image.

        Raises:
            NotFoundError: No such image in that scope.
        """
        return await delete_record(
            self._parts,
            image_id,
            argument="image_id",
            scope=exact_scope(user_id, agent_id, thread_id),
            record_types=IMAGE,
        )

    async def list_images(
        self,
        *,
        user_id: OptionalId = NOT_SET_MARKER,
        agent_id: OptionalId = NOT_SET_MARKER,
        thread_id: OptionalId = NOT_SET_MARKER,
        include_bytes: bool = False,
        metadata_filter: Mapping[str, Any] | None = None,
        limit: int = 100,
        cursor: str | None = None,
        order: Literal["created", "event"] = "created",
        descending: bool = False,
    ) -> Page[ImageRecord]:
        """Return one page of a user's images.

        Args:
            user_id: The user, or None for images without one; always needed.
            agent_id: Only those of this agent, or None for those without one; default all.
            thread_id: Likewise for the thread.
            include_bytes: Whether the files come too.
            metadata_filter: A metadata filter.
            limit: Most images on the page, 1 to 1000.
            cursor: `next_cursor` of the page before; None for the first.
            order: "created" (order of writing) or "event" (when it happened).
            descending: Newest first.

        Raises:
            ScopeError: No `user_id`.
            ValidationError: An argument is not as described.
        """
        return await list_images(
            self._parts,
            scope=exact_scope(explicit_user(user_id), agent_id, thread_id),
            include_bytes=include_bytes,
            metadata_filter=metadata_filter,
            limit=limit,
            cursor=cursor,
            order=order,
            descending=descending,
        )
