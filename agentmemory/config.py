"""Every configuration class and option enum; may import protocols and what lies below."""

from __future__ import annotations

import enum


class SchemaPolicy(enum.StrEnum):
    """What opening a store may do to the database's schema."""

    REQUIRE_EXISTING = "require_existing"
    """Use what is there; refuse a database without the store or of another version."""
    CREATE_IF_EMPTY = "create_if_empty"
    """Create the store where nothing of ours exists; refuse to upgrade."""
    CREATE_IF_NECESSARY = "create_if_necessary"
    """Create the store or upgrade it to this version."""
    RECREATE = "recreate"
    """Drop the store with all it holds and create it anew."""
    NO_CHECK = "no_check"
    """Look at nothing; the caller vouches for the schema."""


class SearchStrategy(enum.StrEnum):
    """Which arms a search uses."""

    VECTOR = "vector"
    KEYWORD = "keyword"
    HYBRID = "hybrid"


class SearchIndexSyncMode(enum.StrEnum):
    """When the database brings its search index up to date."""

    ON_COMMIT = "on_commit"
    MANUAL = "manual"
    AUTO = "auto"
