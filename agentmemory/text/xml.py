"""XML rendering for prompts: whatever the content, a parser reads it back.

Search results and context cards are trees of `Node`, rendered here and nowhere else. May import
errors.

What is promised:

- Text comes back as it went in, line breaks and white space included: indentation stands between
  elements only, never inside text.
- Characters that XML 1.0 cannot hold (control characters other than tab, line feed and carriage
  return; lone surrogates; U+FFFE and U+FFFF) become `REPLACEMENT`, U+FFFD, visibly.
- A carriage return is written as `&#13;`, for parsers turn a bare one into a line feed (XML 1.0,
  2.11).
- Depth is limited by memory, not by the recursion limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from agentmemory.errors import ValidationError

REPLACEMENT: Final = "\ufffd"
"""Stands for each character that XML 1.0 cannot hold."""

# Text that stays as it is: XML 1.0 characters without those that are escaped. Most text is.
_PLAIN = re.compile("[\t\n\u0020-%'-;=?-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*")
# XML 1.0 (fifth edition), production 2: everything that is not a Char.
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SPECIAL_IN_TEXT = re.compile("[&<>\r]")
_TEXT_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"}
_SPECIAL_IN_ATTRIBUTE = re.compile('[&<>"\t\n\r]')
_ATTRIBUTE_ESCAPES = _TEXT_ESCAPES | {'"': "&quot;", "\t": "&#9;", "\n": "&#10;"}

# Letters that every edition of XML 1.0 allows in names; parsers differ over the rest.
_NAME_START = (
    "A-Z_a-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u0131\u0134-\u013e\u0141-\u0148\u014a-\u017e"
    "\u0388-\u038a\u038e-\u03a1\u03a3-\u03ce\u0401-\u040c\u040e-\u044f\u0451-\u045c\u045e-\u0481"
    "\u05d0-\u05ea\u0621-\u063a\u0641-\u064a\u0905-\u0939\u3041-\u3094\u30a1-\u30fa"
    "\u4e00-\u9fa5\uac00-\ud7a3"
)
_NAME = re.compile(f"(?![Xx][Mm][Ll])[{_NAME_START}][{_NAME_START}0-9.\\-]*")


def replace_illegal(text: str) -> str:
    """Put `REPLACEMENT` where XML 1.0 allows no character; other text is returned as it is."""
    return _ILLEGAL.sub(REPLACEMENT, text)


def escape_text(text: str) -> str:
    """Return the text as it must stand between two tags."""
    if _PLAIN.fullmatch(text):
        return text
    return _SPECIAL_IN_TEXT.sub(lambda found: _TEXT_ESCAPES[found[0]], replace_illegal(text))


def escape_attribute(text: str) -> str:
    """Return the text as it must stand in an attribute value between double quotes."""
    return _SPECIAL_IN_ATTRIBUTE.sub(
        lambda found: _ATTRIBUTE_ESCAPES[found[0]], replace_illegal(text)
    )


@lru_cache(maxsize=1024)
def is_xml_name(name: str) -> bool:
    """Tell whether a tag or attribute may have this name, for every parser.

    Stricter than the standard: no colon (it would need a namespace), nothing that starts with
    "xml" in any case (reserved), and only letters known to all editions of XML 1.0.
    """
    return _NAME.fullmatch(name) is not None


def element(tag: str, text: str) -> str:
    """Render one element with text on a single logical line.

    Args:
        tag: A name, as `is_xml_name` accepts it.
        text: Its content; any string.

    Returns:
        The start tag, the escaped text and the end tag, without white space around them.

    Raises:
        ValidationError: `tag` is not a name.
    """
    _check_name(tag, "tag")
    _check_text(text, "text")
    return f"<{tag}>{escape_text(text)}</{tag}>"


_NO_ATTRIBUTES: Final[Mapping[str, str]] = MappingProxyType({})


class Node:
    """An element to be rendered: with text or with children, never with both.

    Args:
        tag: A name, as `is_xml_name` accepts it.
        content: The text, or the children in order; the default is an element without content.
        attributes: Names and values, rendered in the order given.

    Raises:
        ValidationError: A name is not one, or `content` is neither text nor nodes.
    """

    __slots__ = ("attributes", "children", "tag", "text")

    tag: str
    text: str
    children: tuple[Node, ...]
    attributes: Mapping[str, str]

    def __init__(
        self,
        tag: str,
        content: str | Iterable[Node] = "",
        attributes: Mapping[str, str] | None = None,
    ) -> None:
        _check_name(tag, "tag")
        self.tag = tag
        self.attributes = _NO_ATTRIBUTES
        if attributes:
            for name, value in attributes.items():
                _check_name(name, "attributes")
                _check_text(value, "attributes")
            self.attributes = MappingProxyType(dict(attributes))
        if isinstance(content, str):
            self.text = content
            self.children = ()
        else:
            self.text = ""
            self.children = _children(content)

    def __repr__(self) -> str:
        """Show the tag and what kind of content it has; a whole tree would not fit."""
        what = f"{len(self.children)} children" if self.children else repr(self.text)
        return f"Node({self.tag!r}, {what})"


def render(node: Node, indent: int | None = 2) -> str:
    """Render a tree.

    Args:
        node: The root.
        indent: Spaces per level, each element with children on lines of its own; None renders
            everything without white space between elements.

    Returns:
        XML without a declaration and without a line break at the end. An element without content
        is an empty pair of tags.

    Raises:
        ValidationError: `indent` is negative.
    """
    if indent is not None and indent < 0:
        raise ValidationError(
            f"`indent` is {indent!r}; accepted are None and integers from 0", argument="indent"
        )
    parts: list[str] = []
    # Each entry is a node to open, or the end tag of one whose children have been pushed above it.
    stack: list[tuple[int, Node | str]] = [(0, node)]
    while stack:
        depth, entry = stack.pop()
        if parts and indent is not None:
            parts.append("\n" + " " * (indent * depth))
        if isinstance(entry, str):
            parts.append(entry)
            continue
        start = _start_tag(entry)
        end = f"</{entry.tag}>"
        if not entry.children:
            parts.append(f"{start}{escape_text(entry.text)}{end}")
            continue
        parts.append(start)
        stack.append((depth, end))
        stack.extend((depth + 1, child) for child in reversed(entry.children))
    return "".join(parts)


def _start_tag(node: Node) -> str:
    if not node.attributes:
        return f"<{node.tag}>"
    attributes = "".join(
        f' {name}="{escape_attribute(value)}"' for name, value in node.attributes.items()
    )
    return f"<{node.tag}{attributes}>"


def _children(content: Any) -> tuple[Node, ...]:
    children = tuple(content) if isinstance(content, Iterable) else (content,)
    for child in children:
        if not isinstance(child, Node):
            raise ValidationError(
                f"`content` is or holds {child!r}; accepted are text and an iterable of Node",
                argument="content",
            )
    return children


def _check_name(name: Any, argument: str) -> None:
    if not isinstance(name, str) or not is_xml_name(name):
        raise ValidationError(
            f"`{argument}` has the name {name!r}; accepted are letters, digits, '_', '-' and '.', "
            "starting with a letter or '_' and not with 'xml'",
            argument=argument,
        )


def _check_text(value: Any, argument: str) -> None:
    if not isinstance(value, str):
        raise ValidationError(f"`{argument}` holds {value!r}; accepted is text", argument=argument)
