"""XML rendering: a real parser gives back what went in."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmemory.errors import ValidationError
from agentmemory.text.xml import (
    REPLACEMENT,
    Node,
    element,
    escape_attribute,
    escape_text,
    is_xml_name,
    render,
    replace_illegal,
)

anything = st.text(
    st.one_of(
        st.sampled_from("ab<>&\"'\r\n\t \x00\x0b\x1f\x7f\x85\u2028\ud800\udfff\ufffe]]>"),
        st.characters(),
    )
)
names = st.sampled_from(["memory", "content", "record_id", "用户", "a-b.c", "_x", "Größe"])
thorough = settings(deadline=None, max_examples=200)


def trees() -> st.SearchStrategy[Node]:
    attributes = st.dictionaries(names, anything, max_size=2)
    leaves = st.builds(Node, names, anything, attributes)
    return st.recursive(
        leaves,
        lambda children: st.builds(Node, names, st.lists(children, max_size=3), attributes),
        max_leaves=8,
    )


def wrong(value: Any) -> Any:
    """Pass something that the annotations exclude."""
    return value


def assert_same(parsed: ET.Element, node: Node) -> None:
    assert parsed.tag == node.tag
    assert parsed.attrib == {
        name: replace_illegal(value) for name, value in node.attributes.items()
    }
    assert len(parsed) == len(node.children)
    if not node.children:
        assert (parsed.text or "") == replace_illegal(node.text)
    for child, expected in zip(parsed, node.children, strict=True):
        assert_same(child, expected)


@thorough
@given(trees(), st.sampled_from([None, 0, 2, 4]))
def test_parser_gives_back_any_tree(node: Node, indent: int | None) -> None:
    assert_same(ET.fromstring(render(node, indent)), node)


@thorough
@given(anything)
def test_parser_gives_back_any_text(text: str) -> None:
    assert (ET.fromstring(element("content", text)).text or "") == replace_illegal(text)
    attribute = ET.fromstring(f'<a b="{escape_attribute(text)}"/>').attrib["b"]
    assert attribute == replace_illegal(text)


@thorough
@given(anything)
def test_rendering_can_be_encoded(text: str) -> None:
    element("content", text).encode("utf-8")


@pytest.mark.parametrize(
    "text", ["\x00", "\x0b", "\x1f", "\ud800", chr(0xDFFF), "\ufffe", "\uffff"]
)
def test_character_that_xml_cannot_hold_is_replaced_visibly(text: str) -> None:
    assert replace_illegal(f"a{text}b") == f"a{REPLACEMENT}b"


@pytest.mark.parametrize(
    "text", ["\t", "\n", "\r", "\x7f", "\x85", "\u2028", "\ue000", "🙂", "\ufffd"]
)
def test_character_that_xml_can_hold_is_kept(text: str) -> None:
    assert replace_illegal(text) is text


def test_text_is_escaped() -> None:
    assert escape_text('a & b <i>"c"</i> ]]>\r\n') == (
        'a &amp; b &lt;i&gt;"c"&lt;/i&gt; ]]&gt;&#13;\n'
    )
    assert escape_attribute("\"<&>\t\n\r'") == "&quot;&lt;&amp;&gt;&#9;&#10;&#13;'"


def test_tree_renders_indented_and_text_keeps_its_lines() -> None:
    node = Node(
        "context_card",
        [
            Node("topics", [Node("topic", "a & b")]),
            Node("summary"),
            Node("memory", [Node("content", "first\n  second\n")], {"kind": "fact"}),
        ],
    )
    assert render(node) == (
        "<context_card>\n"
        "  <topics>\n"
        "    <topic>a &amp; b</topic>\n"
        "  </topics>\n"
        "  <summary></summary>\n"
        '  <memory kind="fact">\n'
        "    <content>first\n"
        "  second\n"
        "</content>\n"
        "  </memory>\n"
        "</context_card>"
    )


def test_without_indentation_nothing_stands_between_elements() -> None:
    node = Node("a", [Node("b", " x "), Node("c", [Node("d")])])
    assert render(node, None) == "<a><b> x </b><c><d></d></c></a>"
    assert render(node, 0) == "<a>\n<b> x </b>\n<c>\n<d></d>\n</c>\n</a>"


@pytest.mark.parametrize("depth", [1_000, 20_000])
def test_depth_is_not_bounded_by_the_recursion_limit(depth: int) -> None:
    node = Node("leaf", "deep")
    for _ in range(depth):
        node = Node("level", [node])
    parsed = ET.fromstring(render(node, 0))
    for _ in range(depth):
        parsed = parsed[0]
    assert parsed.text == "deep"
    assert repr(node) == "Node('level', 1 children)"


def test_children_may_come_from_an_iterator() -> None:
    node = Node("a", (Node("b", str(number)) for number in range(2)))
    assert render(node, None) == render(node, None) == "<a><b>0</b><b>1</b></a>"


@pytest.mark.parametrize(
    "name", ["a", "_a", "record_id", "a-1.b", "用户", "пользователь", "ключ", "사용자"]
)
def test_name_that_every_parser_takes(name: str) -> None:
    assert is_xml_name(name)
    assert ET.fromstring(f"<{name} {name}='x'/>").tag == name


@pytest.mark.parametrize(
    "name",
    ["", " ", "a b", "1a", "-a", ".a", "a:b", "xml", "XMLa", "xmlns", "a>", "a\n", "🙂", "a\x00"],
)
def test_name_that_some_parser_refuses_or_that_is_reserved(name: str) -> None:
    assert not is_xml_name(name)


def test_every_accepted_letter_is_accepted_by_the_parser() -> None:
    letters = [chr(code) for code in range(0x10000) if is_xml_name("a" + chr(code))]
    starts = [letter for letter in letters if is_xml_name(letter)]
    assert len(starts) > 30_000
    ET.fromstring(f"<a{''.join(letters)}/>")
    ET.fromstring("<r>" + "".join(f"<{letter}/>" for letter in starts) + "</r>")


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: element("a b", "x"), "tag"),
        (lambda: element("a", wrong(3)), "text"),
        (lambda: Node("a>"), "tag"),
        (lambda: Node(wrong(3)), "tag"),
        (lambda: Node("a", wrong(3)), "content"),
        (lambda: Node("a", wrong(["text"])), "content"),
        (lambda: Node("a", "", {"b c": "x"}), "attributes"),
        (lambda: Node("a", "", {"b": wrong(3)}), "attributes"),
        (lambda: render(Node("a"), -1), "indent"),
    ],
)
def test_bad_argument_is_named(call: Callable[[], Any], argument: str) -> None:
    with pytest.raises(ValidationError, match=f"`{argument}`") as caught:
        call()
    assert caught.value.argument == argument
