"""What people see: text made harmless, two consoles, progress. May import rich.

Stored text is data. It never becomes markup, and what would steer a terminal or reorder a line
(control characters, bidirectional overrides) is shown as an escape instead of sent.
"""

from __future__ import annotations

import io
import re
import sys
import textwrap
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

import orjson
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

_STEERING: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_LINE_ENDS: Final = re.compile("\r\n|[\r\u2028\u2029]")
_PROSE_WIDTH: Final = 80
_LABEL_WIDTH: Final = 10


def harmless(text: str) -> str:
    """Return text that can only be read, its line breaks kept."""
    return _STEERING.sub(_escape, _LINE_ENDS.sub("\n", text))


def harmless_line(text: str) -> str:
    """Return text that can only be read and stays on its line."""
    return harmless(text).replace("\n", "\\n").replace("\t", "\\t")


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


class ReaderGoneError(Exception):
    """Whoever read the answer has closed the pipe."""


class _Console(Console):
    """A console whose reader may go away."""

    def on_broken_pipe(self) -> None:
        """Let the caller end the program, instead of ending it here."""
        raise ReaderGoneError


class Screen:
    """The two streams of one command: answers go to stdout, everything else to stderr."""

    def __init__(self) -> None:
        # Whatever the locale can hold: a character it cannot is no reason to fail.
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        self._out = _Console(highlight=False, markup=False, emoji=False, soft_wrap=False)
        self._err = _Console(stderr=True, highlight=False, markup=False, emoji=False)
        # Lines are cut to the width of a screen, and left whole for a program that reads them.
        self._wraps = self._out.is_terminal

    @property
    def is_terminal(self) -> bool:
        """Whether a person reads the answers as they come."""
        return self._out.is_terminal

    def line(self, *parts: str | tuple[str, str], indent: int = 0) -> None:
        """Print one line of parts, each a text or a text and its style.

        The text of the parts is printed as it stands: whoever passes stored text makes it
        harmless first.
        """
        self._print(Text.assemble(*parts), indent)

    def paragraph(self, text: str, *, indent: int = 0, style: str = "") -> None:
        """Print stored text, made harmless and wrapped to the screen."""
        self._print(Text(harmless(text), style=style), indent)

    def prose(self, text: str, *, indent: int = 0, style: str = "") -> None:
        """Print words of our own as a paragraph of at most 80 columns, whoever reads it."""
        width = max(min(self._out.width, _PROSE_WIDTH) - indent, 20)
        for line in textwrap.wrap(text, width):
            self._print(Text(line, style=style), indent)

    def snippet(self, text: str, *, indent: int = 0, style: str = "") -> None:
        """Print the beginning of stored text on one line."""
        shown = Text(harmless(text).replace("\n", " "), style=style)
        shown.truncate(max(self._out.width - indent, 1), overflow="ellipsis")
        self._print(shown, indent)

    def labelled(self, label: str, text: str, *, indent: int = 0) -> None:
        """Print a quiet label of ten columns and a text that stays to the right of it."""
        head = Text(f"{label:<{_LABEL_WIDTH}}", style="dim")
        if not self._wraps:
            self._print(head + text, indent)
            return
        width = max(self._out.width - indent - _LABEL_WIDTH, 20)
        for number, line in enumerate(Text(text).wrap(self._out, width)):
            shown = head if number == 0 else Text(" " * _LABEL_WIDTH)
            self._print(shown + line, indent)

    def block(self, text: str) -> None:
        """Print text that is indented by itself; wrapped lines keep their indentation."""
        if not self._wraps:
            self.raw(text)
            return
        for line in harmless(text).split("\n"):
            inner = line.lstrip(" ")
            self._print(Text(inner), len(line) - len(inner))

    def raw(self, text: str) -> None:
        """Print text for a program as it is, for a person harmless; never wrapped."""
        shown = Text(harmless(text) if self._wraps else text)
        self._out.print(shown, soft_wrap=True)

    def json(self, document: Any) -> None:
        """Print a JSON document, and nothing but that, in UTF-8 whatever the locale says."""
        data = orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        binary = getattr(sys.stdout, "buffer", None)
        if binary is None:
            sys.stdout.write(data.decode())
            return
        try:
            sys.stdout.flush()
            binary.write(data)
            binary.flush()
        except BrokenPipeError:
            # Typer ends the program on this one, with an exit code of its own.
            raise ReaderGoneError from None

    def note(self, text: str) -> None:
        """Say something beside the answer, on stderr."""
        self._err.print(Text(f"note: {harmless_line(text)}", style="dim"), soft_wrap=True)

    def error(self, text: str) -> None:
        """Say on one line of stderr what went wrong."""
        shown = Text.assemble(("error: ", "bold red"), harmless_line(text))
        self._err.print(shown, soft_wrap=True)

    @contextmanager
    def progress(self) -> Generator[Progress]:
        """Show what is being done, on stderr and only to a person."""
        if not self._err.is_terminal:
            yield Progress()
            return
        with self._err.status(Text("Opening the database")) as status:
            yield Progress(status.update)

    def _print(self, text: Text, indent: int) -> None:
        if self._wraps:
            self._out.print(Padding(text, (0, 0, 0, indent), expand=False))
            return
        for line in text.split("\n", allow_blank=True):
            self._out.print(Text(" " * indent) + line, soft_wrap=True)


class Progress:
    """Tells what is being done; silent when nobody looks."""

    def __init__(self, update: Any = None) -> None:
        self._update = update

    def stage(self, text: str) -> None:
        """Say what happens now."""
        if self._update is not None:
            self._update(Text(text))
