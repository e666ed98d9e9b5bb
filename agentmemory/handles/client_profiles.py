"""What a client does with the profiles of users and agents; may import profiles and below."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentmemory.handles.base import ClientHandle
from agentmemory.profiles import (
    add_profile,
    delete_profile,
    get_profile,
    list_profiles,
    update_profile,
)
from agentmemory.records import Record, ScopedRecord
from agentmemory.requests import Deletion, Page
from agentmemory.scope import NOT_SET_MARKER, NotSet


class ClientProfiles(ClientHandle):
    """Users and agents of a client."""

    async def add_user(
        self, user_id: str, information: str, *, metadata: Mapping[str, Any] | None = None
    ) -> str:
        """Store what is to be known of a user as a profile, which searches find.

        Args:
            user_id: The user.
            information: What is to be known.
            metadata: JSON-like values of the caller's own.

        Returns:
            The user's id.

        Raises:
            ConflictError: There is a profile of this user.
            ValidationError: An argument is not as described.
        """
        return await add_profile(self._parts, "user", user_id, information, metadata=metadata)

    async def get_user(self, user_id: str) -> Record:
        """Return the profile of a user.

        Raises:
            NotFoundError: There is none.
        """
        return await get_profile(self._parts, "user", user_id)

    async def update_user(
        self,
        user_id: str,
        *,
        information: str | NotSet = NOT_SET_MARKER,
        metadata: Mapping[str, Any] | None | NotSet = NOT_SET_MARKER,
    ) -> Record:
        """Change what is given of the profile of a user.

        Raises:
            NotFoundError: There is none.
            ValidationError: Nothing to change, or an argument is not as described.
        """
        return await update_profile(
            self._parts, "user", user_id, information=information, metadata=metadata
        )

    async def delete_user(self, user_id: str, *, cascade: bool = True) -> Deletion:
        """Delete a user: the profile, and with `cascade` everything that belongs to the user.

        Args:
            user_id: The user.
            cascade: Whether the user's threads, messages, memories and images go too, with a
                profile or without. `forget` does the same and shows that no trace is left.

        Returns:
            How much of each kind was removed.

        Raises:
            NotFoundError: There is nothing to delete.
        """
        return await delete_profile(self._parts, "user", user_id, cascade=cascade)

    async def list_users(
        self,
        *,
        metadata_filter: Mapping[str, Any] | None = None,
        limit: int = 100,
        cursor: str | None = None,
        descending: bool = False,
    ) -> Page[ScopedRecord]:
        """Return one page of the profiles of all users in the order they were made.

        Args:
            metadata_filter: A metadata filter.
            limit: Most profiles on the page, 1 to 1000.
            cursor: `next_cursor` of the page before; None for the first.
            descending: Newest first.

        Raises:
            ValidationError: An argument is not as described.
        """
        return await list_profiles(
            self._parts,
            "user",
            metadata_filter=metadata_filter,
            limit=limit,
            cursor=cursor,
            descending=descending,
        )

    async def add_agent(
        self, agent_id: str, information: str, *, metadata: Mapping[str, Any] | None = None
    ) -> str:
        """Store what is to be known of an agent as a profile, which searches find.

        Args:
            agent_id: The agent.
            information: What is to be known.
            metadata: JSON-like values of the caller's own.

        Returns:
            The agent's id.

        Raises:
            ConflictError: There is a profile of this agent.
            ValidationError: An argument is not as described.
        """
        return await add_profile(self._parts, "agent", agent_id, information, metadata=metadata)

    async def get_agent(self, agent_id: str) -> Record:
        """Return the profile of an agent.

        Raises:
            NotFoundError: There is none.
        """
        return await get_profile(self._parts, "agent", agent_id)

    async def update_agent(
        self,
        agent_id: str,
        *,
        information: str | NotSet = NOT_SET_MARKER,
        metadata: Mapping[str, Any] | None | NotSet = NOT_SET_MARKER,
    ) -> Record:
        """Change what is given of the profile of an agent.

        Raises:
            NotFoundError: There is none.
            ValidationError: Nothing to change, or an argument is not as described.
        """
        return await update_profile(
            self._parts, "agent", agent_id, information=information, metadata=metadata
        )

    async def delete_agent(self, agent_id: str, *, cascade: bool = True) -> Deletion:
        """Delete an agent: the profile, and with `cascade` everything that belongs to the agent.

        Args:
            agent_id: The agent.
            cascade: Whether the agent's threads, messages, memories and images go too, with a
                profile or without. `forget` does the same and shows that no trace is left.

        Returns:
            How much of each kind was removed.

        Raises:
            NotFoundError: There is nothing to delete.
        """
        return await delete_profile(self._parts, "agent", agent_id, cascade=cascade)

    async def list_agents(
        self,
        *,
        metadata_filter: Mapping[str, Any] | None = None,
        limit: int = 100,
        cursor: str | None = None,
        descending: bool = False,
    ) -> Page[ScopedRecord]:
        """Return one page of the profiles of all agents in the order they were made.

        Args:
            metadata_filter: A metadata filter.
            limit: Most profiles on the page, 1 to 1000.
            cursor: `next_cursor` of the page before; None for the first.
            descending: Newest first.

        Raises:
            ValidationError: An argument is not as described.
        """
        return await list_profiles(
            self._parts,
            "agent",
            metadata_filter=metadata_filter,
            limit=limit,
            cursor=cursor,
            descending=descending,
        )
