"""What a search and a context card hand back, and how they render for a prompt.

May import text, records, scope and errors. Every rendering goes through `agentmemory.text.xml`,
so that a parser reads back whatever was stored.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, Final

import orjson

from agentmemory.checks import check_bool
from agentmemory.records import (
    Record,
    RecordRelation,
    RecordStatus,
    ScopedRecord,
)
from agentmemory.scope import NOT_SET_MARKER, OptionalFlag
from agentmemory.text.xml import Node, is_xml_name, render

_OWN_TAGS: Final = frozenset(
    {
        "record_id",
        "thread_id",
        "estimated_relevance",
        "timestamp",
        "role",
        "name",
        "user_id",
        "agent_id",
        "status",
        "replaced_by",
        "invalidation_reason",
        "review_reason",
        "metadata",
        "content",
        "linked_records",
        "linked_record",
        "relation_type",
    }
)
"""Tags of ours; a metadata key of the same name is rendered as `<metadata key="…">`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResultFormatConfig:
    """What the rendering of a result shows; an omitted option takes the result's own default.

    Args:
        show_record_id: The record's id. Default True.
        show_thread_id: The thread's id. Default False.
        show_distance: The estimated relevance, `1 - distance`. Default False.
        show_timestamp: The time. Default True.
        show_role: A message's role and the speaker's name. Default True.
        show_user_id: The user's id. Default False.
        show_agent_id: The agent's id. Default False.
        show_status: The status, and what replaced an invalid record. Default True.
        show_metadata: The caller's metadata and the reason of an invalidation. Default False.
        include_invalid_results: Whether invalid linked records show their content. If not,
            branches with nothing valid are left out. Default True.
    """

    show_record_id: OptionalFlag = NOT_SET_MARKER
    show_thread_id: OptionalFlag = NOT_SET_MARKER
    show_distance: OptionalFlag = NOT_SET_MARKER
    show_timestamp: OptionalFlag = NOT_SET_MARKER
    show_role: OptionalFlag = NOT_SET_MARKER
    show_user_id: OptionalFlag = NOT_SET_MARKER
    show_agent_id: OptionalFlag = NOT_SET_MARKER
    show_status: OptionalFlag = NOT_SET_MARKER
    show_metadata: OptionalFlag = NOT_SET_MARKER
    include_invalid_results: OptionalFlag = NOT_SET_MARKER

    def __post_init__(self) -> None:
        for option in fields(self):
            value = getattr(self, option.name)
            if value is not NOT_SET_MARKER:
                check_bool(value, argument=option.name)

    def over(self, base: SearchResultFormatConfig) -> SearchResultFormatConfig:
        """Fill what this configuration leaves out from another."""
        if NOT_SET_MARKER not in _OPTIONS(self):
            return self
        return _filled(self, base)


_OPTIONS: Final = attrgetter(*(option.name for option in fields(SearchResultFormatConfig)))


@functools.lru_cache(maxsize=256)
def _filled(
    config: SearchResultFormatConfig, base: SearchResultFormatConfig
) -> SearchResultFormatConfig:
    values = {}
    for option in fields(config):
        own = getattr(config, option.name)
        values[option.name] = getattr(base, option.name) if own is NOT_SET_MARKER else own
    return SearchResultFormatConfig(**values)


DEFAULT_FORMAT: Final = SearchResultFormatConfig(
    show_record_id=True,
    show_thread_id=False,
    show_distance=False,
    show_timestamp=True,
    show_role=True,
    show_user_id=False,
    show_agent_id=False,
    show_status=True,
    show_metadata=False,
    include_invalid_results=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTrace:
    """What one stage of the pipeline did to a result.

    Args:
        stage: The stage's name.
        rank: The result's place after the stage, from 1.
        score: Its score after the stage.
        reason: Why, in words.
        duration_s: Seconds the stage took for all results; only when the search was traced.
    """

    stage: str
    rank: int | None = None
    score: float | None = None
    reason: str = ""
    duration_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a result is where it is.

    Args:
        lexical: BM25 of its best chunk; None if words were not searched.
        cosine: Cosine similarity to the query; None if no vector was compared.
        lexical_rank: Its place in the lexical arm, from 1; None if that arm did not bring it.
        vector_rank: Its place in the vector arm, from 1; None if that arm did not bring it.
        distance_kind: "cosine" if `distance` is a cosine distance, else "score" (`1 - score`).
        stages: What each stage did, in order.
        notes: What went wrong or was left out on the way.
    """

    lexical: float | None = None
    cosine: float | None = None
    lexical_rank: int | None = None
    vector_rank: int | None = None
    distance_kind: str = "score"
    stages: tuple[StageTrace, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """One record that a search found.

    Args:
        record: The record; a `ScopedRecord` unless it is a profile.
        score: Relevance, greater is better; comparable within one search only.
        distance: Cosine distance to the query where a vector was compared, else `1 - score`.
        explain: Why it is where it is.
        linked_results: Linked memories as a shortest-path tree: pairs of the link and the
            result it leads to.
        format_config: Rendering defaults of this result.
    """

    record: Record
    score: float
    distance: float
    explain: Explanation = field(default_factory=Explanation)
    linked_results: tuple[tuple[RecordRelation, SearchResult], ...] = ()
    format_config: SearchResultFormatConfig = DEFAULT_FORMAT

    @property
    def id(self) -> str:
        """The record's id."""
        return self.record.id

    @property
    def content(self) -> str:
        """The record's text."""
        return self.record.content

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The caller's metadata."""
        return self.record.metadata

    @property
    def status(self) -> RecordStatus:
        """Whether the record still stands."""
        return self.record.status

    @property
    def timestamp(self) -> str | None:
        """The record's time as ISO-8601 text in UTC."""
        return self.record.timestamp

    @property
    def formatted_content(self) -> str:
        """The XML rendering with this result's own defaults."""
        return self.format_content()

    def format_content(self, format_config: SearchResultFormatConfig | None = None) -> str:
        """Render the result and what is linked to it as XML for a prompt.

        Args:
            format_config: Options for this call; what it omits is taken from the result's own
                defaults.
        """
        return render(result_node(self, format_config))


def result_node(
    result: SearchResult, format_config: SearchResultFormatConfig | None = None
) -> Node:
    """Return the XML tree of a result."""
    own = result.format_config.over(DEFAULT_FORMAT)
    config = own if format_config is None else format_config.over(own)
    return _node(result, config, root=True)


def _node(result: SearchResult, config: SearchResultFormatConfig, *, root: bool) -> Node:
    record = result.record
    shown: list[tuple[str, str | None]] = []
    if config.show_record_id is True:
        shown.append(("record_id", record.id))
    if config.show_thread_id is True and isinstance(record, ScopedRecord):
        shown.append(("thread_id", record.thread_id))
    if config.show_distance is True and root:
        shown.append(("estimated_relevance", f"{1 - result.distance:.7g}"))
    if config.show_timestamp is True:
        shown.append(("timestamp", record.timestamp))
    if config.show_role is True:
        shown += (("role", record.role), ("name", record.actor))
    if config.show_user_id is True and isinstance(record, ScopedRecord):
        shown.append(("user_id", record.user_id))
    if config.show_agent_id is True and isinstance(record, ScopedRecord):
        shown.append(("agent_id", record.agent_id))
    if config.show_status is True:
        shown += (
            ("status", record.status.value),
            ("replaced_by", record.replaced_by),
            ("review_reason", record.review_reason),
        )
    children = [Node(tag, text) for tag, text in shown if text is not None]
    if config.show_metadata is True:
        children.extend(metadata_node(key, value) for key, value in record.metadata.items())
        if record.invalidation_reason is not None:
            children.append(Node("invalidation_reason", record.invalidation_reason))
    if record.status is RecordStatus.VALID or config.include_invalid_results is True:
        children.append(Node("content", record.content))
    linked = [
        Node(
            "linked_record",
            (
                Node("relation_type", relation.label_from(record.id)),
                _node(child, config, root=False),
            ),
        )
        for relation, child in result.linked_results
        if config.include_invalid_results is True or _has_valid(child)
    ]
    if linked:
        children.append(Node("linked_records", linked))
    return Node(record.record_type, children)


def metadata_node(key: str, value: Any) -> Node:
    """Return one metadata entry; a key that is no tag of its own becomes an attribute."""
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    if is_xml_name(key) and key not in _OWN_TAGS:
        return Node(key, text)
    return Node("metadata", text, {"key": key})


def _has_valid(result: SearchResult) -> bool:
    return result.status is RecordStatus.VALID or any(
        _has_valid(child) for _, child in result.linked_results
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A summary of a thread.

    Args:
        content: The text; empty if there is nothing to summarise.
        topics: What the thread is about, in stable order.
    """

    content: str
    topics: tuple[str, ...] = ()

    @property
    def formatted_content(self) -> str:
        """The XML rendering."""
        return render(Node("summary", self.content))

    def __str__(self) -> str:
        return self.content


@dataclass(frozen=True, slots=True, kw_only=True)
class CardExplanation:
    """How a card was made.

    Args:
        query: What was searched for.
        sections: Estimated tokens of each section.
        token_count: Estimated tokens of the whole card.
        notes: What went wrong or was left out.
    """

    query: str
    sections: Mapping[str, int] = field(default_factory=dict)
    token_count: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextCard:
    """Compact context of a conversation, ready for a prompt.

    Args:
        content: The card as XML; empty if there is nothing to say.
        summary: The summary's text.
        topics: Topics of the conversation.
        relevant_results: The records shown as relevant, in order.
        recent_messages: The last messages shown, oldest first.
        always_on: Records shown whatever was asked: what is critical, and guidelines on request.
        profiles: The profiles of the user and the agent, on request.
        explain: How the card was made.
    """

    content: str
    summary: str = ""
    topics: tuple[str, ...] = ()
    relevant_results: tuple[SearchResult, ...] = ()
    recent_messages: tuple[Record, ...] = ()
    always_on: tuple[SearchResult, ...] = ()
    profiles: tuple[SearchResult, ...] = ()
    explain: CardExplanation

    @property
    def formatted_content(self) -> str:
        """The same text as `content`."""
        return self.content

    def __str__(self) -> str:
        return self.content
