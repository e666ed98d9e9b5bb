"""How a result renders: every option, the branches of invalid records, and any text whatever."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any
from xml.etree import ElementTree as ET

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmemory import (
    Record,
    RecordRelation,
    RecordStatus,
    ScopedRecord,
    SearchResult,
    SearchResultFormatConfig,
    ValidationError,
)
from agentmemory.records import RECORD_TYPES
from agentmemory.results import DEFAULT_FORMAT
from agentmemory.text.xml import is_xml_name, replace_illegal

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


def scoped(record_id: str = "m1", content: str = "Only tea", **values: Any) -> ScopedRecord:
    given_ = {"record_type": "memory", "created_at": NOW, "updated_at": NOW, **values}
    return ScopedRecord(id=record_id, content=content, **given_)


def result(record: Record, **values: Any) -> SearchResult:
    return SearchResult(record=record, **{"score": 0.5, "distance": 0.25, **values})


def linked(source: str, target: str, label: str = "supersedes") -> RecordRelation:
    return RecordRelation(
        id=f"{source}-{target}",
        source_record_id=source,
        source_record_type="memory",
        target_record_id=target,
        target_record_type="memory",
        relation_type=label,
        opposite_relation_type=f"{label} (reverse)",
        created_at=NOW,
    )


EVERYTHING = SearchResultFormatConfig(
    **{item.name: True for item in fields(SearchResultFormatConfig)}
)
NOTHING = SearchResultFormatConfig(
    **{item.name: False for item in fields(SearchResultFormatConfig)}
)

FULL = scoped(
    content='Likes <b>tea</b> & "coffee"\n  with milk',
    record_type="message",
    user_id="u1",
    agent_id="a1",
    thread_id="t1",
    role="user",
    actor="Ann",
    metadata={"source": "chat", "n": {"a": 1}, "bad key": "x", "content": "mine", "on": True},
    status=RecordStatus.INVALID,
    invalidation_reason="superseded by m2",
    replaced_by="m2",
    review_reason="depends on m3, which was deleted",
)


def test_a_result_with_every_option_renders_in_a_fixed_order() -> None:
    assert result(FULL).format_content(EVERYTHING) == (
        "<message>\n"
        "  <record_id>m1</record_id>\n"
        "  <thread_id>t1</thread_id>\n"
        "  <estimated_relevance>0.75</estimated_relevance>\n"
        "  <timestamp>2026-05-04T12:00:00Z</timestamp>\n"
        "  <role>user</role>\n"
        "  <name>Ann</name>\n"
        "  <user_id>u1</user_id>\n"
        "  <agent_id>a1</agent_id>\n"
        "  <status>invalid</status>\n"
        "  <replaced_by>m2</replaced_by>\n"
        "  <review_reason>depends on m3, which was deleted</review_reason>\n"
        "  <source>chat</source>\n"
        '  <n>{"a":1}</n>\n'
        '  <metadata key="bad key">x</metadata>\n'
        '  <metadata key="content">mine</metadata>\n'
        "  <on>true</on>\n"
        "  <invalidation_reason>superseded by m2</invalidation_reason>\n"
        '  <content>Likes &lt;b&gt;tea&lt;/b&gt; &amp; "coffee"\n  with milk</content>\n'
        "</message>"
    )


def test_the_defaults_are_those_of_the_document() -> None:
    assert result(FULL).formatted_content == (
        "<message>\n"
        "  <record_id>m1</record_id>\n"
        "  <timestamp>2026-05-04T12:00:00Z</timestamp>\n"
        "  <role>user</role>\n"
        "  <name>Ann</name>\n"
        "  <status>invalid</status>\n"
        "  <replaced_by>m2</replaced_by>\n"
        "  <review_reason>depends on m3, which was deleted</review_reason>\n"
        '  <content>Likes &lt;b&gt;tea&lt;/b&gt; &amp; "coffee"\n  with milk</content>\n'
        "</message>"
    )
    shown = {item.name for item in fields(DEFAULT_FORMAT) if getattr(DEFAULT_FORMAT, item.name)}
    assert shown == {
        "show_record_id",
        "show_timestamp",
        "show_role",
        "show_status",
        "include_invalid_results",
    }


def test_an_invalid_record_loses_its_content_when_that_is_not_wanted() -> None:
    assert result(FULL).format_content(NOTHING) == "<message></message>"
    valid = scoped(content="Only tea")
    assert (
        result(valid).format_content(NOTHING)
        == "<memory>\n  <content>Only tea</content>\n</memory>"
    )


@pytest.mark.parametrize(
    ("option", "tags"),
    [
        ("show_record_id", {"record_id"}),
        ("show_thread_id", {"thread_id"}),
        ("show_distance", {"estimated_relevance"}),
        ("show_timestamp", {"timestamp"}),
        ("show_role", {"role", "name"}),
        ("show_user_id", {"user_id"}),
        ("show_agent_id", {"agent_id"}),
        ("show_status", {"status", "replaced_by", "review_reason"}),
        ("show_metadata", {"source", "n", "metadata", "on", "invalidation_reason"}),
        ("include_invalid_results", {"content"}),
    ],
)
def test_each_option_shows_its_part_and_nothing_else(option: str, tags: set[str]) -> None:
    alone = replace(NOTHING, **{option: True})
    root = ET.fromstring(result(FULL).format_content(alone))
    assert {child.tag for child in root} == tags


def test_an_omitted_option_falls_back_to_the_results_own_default_and_then_to_the_general() -> None:
    own = SearchResultFormatConfig(show_user_id=True, show_timestamp=False)
    shown = result(FULL, format_config=own).format_content(
        SearchResultFormatConfig(show_agent_id=True)
    )
    root = ET.fromstring(shown)
    tags = {child.tag for child in root}
    assert {"user_id", "agent_id", "record_id"} <= tags
    assert "timestamp" not in tags
    assert "thread_id" not in tags


def test_an_option_that_is_no_bool_is_refused() -> None:
    with pytest.raises(ValidationError, match="`show_status`"):
        SearchResultFormatConfig(show_status="yes")  # type: ignore[arg-type]


def test_what_a_record_does_not_have_is_left_out() -> None:
    plain = Record(id="p", record_type="user_profile", content="x", created_at=NOW, updated_at=NOW)
    root = ET.fromstring(result(plain).format_content(EVERYTHING))
    assert [child.tag for child in root] == [
        "record_id",
        "estimated_relevance",
        "timestamp",
        "status",
        "content",
    ]
    assert not isinstance(plain, ScopedRecord)


def test_linked_results_render_below_with_the_label_seen_from_the_parent() -> None:
    child = result(scoped("m2", "Now coffee", record_type="fact"), distance=1.0)
    grandchild = result(scoped("m3", "Since May"), distance=1.0)
    child = replace(child, linked_results=((linked("m2", "m3", "refines"), grandchild),))
    root = result(scoped("m1"), linked_results=((linked("m2", "m1"), child),))
    assert root.format_content(
        SearchResultFormatConfig(show_timestamp=False, show_status=False)
    ) == (
        "<memory>\n"
        "  <record_id>m1</record_id>\n"
        "  <content>Only tea</content>\n"
        "  <linked_records>\n"
        "    <linked_record>\n"
        "      <relation_type>supersedes (reverse)</relation_type>\n"
        "      <fact>\n"
        "        <record_id>m2</record_id>\n"
        "        <content>Now coffee</content>\n"
        "        <linked_records>\n"
        "          <linked_record>\n"
        "            <relation_type>refines</relation_type>\n"
        "            <memory>\n"
        "              <record_id>m3</record_id>\n"
        "              <content>Since May</content>\n"
        "            </memory>\n"
        "          </linked_record>\n"
        "        </linked_records>\n"
        "      </fact>\n"
        "    </linked_record>\n"
        "  </linked_records>\n"
        "</memory>"
    )


def test_without_invalid_results_dead_branches_go_and_dead_steps_keep_their_status() -> None:
    dead = {"status": RecordStatus.INVALID}
    leaf = result(scoped("leaf", "alive"))
    step = result(
        scoped("step", "dead step", **dead), linked_results=((linked("step", "leaf"), leaf),)
    )
    lost = result(
        scoped("lost", "dead end", **dead),
        linked_results=((linked("lost", "x"), result(scoped("x", "dead too", **dead))),),
    )
    root = result(
        scoped("root"),
        linked_results=((linked("root", "step"), step), (linked("root", "lost"), lost)),
    )
    shown = root.format_content(SearchResultFormatConfig(include_invalid_results=False))
    tree = ET.fromstring(shown)
    assert [item.text for item in tree.iter("record_id")] == ["root", "step", "leaf"]
    assert [item.text for item in tree.iter("status")] == ["valid", "invalid", "valid"]
    assert [item.text for item in tree.iter("content")] == ["Only tea", "alive"]
    everything = ET.fromstring(root.formatted_content)
    assert [item.text for item in everything.iter("content")] == [
        "Only tea",
        "dead step",
        "alive",
        "dead end",
        "dead too",
    ]


def test_a_result_has_the_members_of_the_document() -> None:
    found = result(FULL)
    assert (found.id, found.content, found.metadata) == (FULL.id, FULL.content, FULL.metadata)
    assert (found.status, found.timestamp) == (RecordStatus.INVALID, "2026-05-04T12:00:00Z")
    assert (found.distance, found.score, found.linked_results) == (0.25, 0.5, ())
    assert isinstance(found.record, ScopedRecord)
    happened = replace(FULL, event_time=datetime(2025, 1, 2, 3, 4, 5, 6, tzinfo=UTC))
    assert result(happened).timestamp == "2025-01-02T03:04:05.000006Z"


TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
KEYS = st.text(max_size=12) | st.sampled_from(
    ["content", "status", "record_id", "metadata", "a b", "xml", "é", "a:b", "名前", "x-1", "1x"]
)


def storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


@given(
    content=TEXT,
    record_id=TEXT,
    role=TEXT,
    metadata=st.dictionaries(KEYS.map(storable), JSON, max_size=4),
    record_type=st.sampled_from(RECORD_TYPES),
)
def test_a_parser_reads_back_any_content_id_role_and_metadata(
    content: str, record_id: str, role: str, metadata: dict[str, Any], record_type: str
) -> None:
    record = scoped(record_id, content, role=role, metadata=metadata, record_type=record_type)
    root = ET.fromstring(result(record).format_content(EVERYTHING))
    assert root.tag == record_type
    assert (root.findtext("content") or "") == replace_illegal(content)
    assert (root.findtext("record_id") or "") == replace_illegal(record_id)
    assert (root.findtext("role") or "") == replace_illegal(role)
    # What stands between the scope and the content is the metadata, one element for each entry.
    shown = list(root)[list(root).index(root.find("status")) + 1 : -1]  # type: ignore[arg-type]
    assert len(shown) == len(metadata)
    for element, (key, value) in zip(shown, metadata.items(), strict=True):
        text = value if isinstance(value, str) else orjson.dumps(value).decode()
        assert (element.text or "") == replace_illegal(text)
        if element.tag == "metadata":
            assert element.get("key") == replace_illegal(key)
        else:
            assert element.tag == key
            assert is_xml_name(key)


def test_a_deep_tree_of_links_renders() -> None:
    node = result(scoped("m0"))
    for depth in range(1, 60):
        node = result(
            scoped(f"m{depth}"), linked_results=((linked(f"m{depth}", f"m{depth - 1}"), node),)
        )
    root = ET.fromstring(node.formatted_content)
    assert len(list(root.iter("record_id"))) == 60
