"""What the library warns about reaches the user as a note on stderr. May import the screen."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager

from agentmemory.cli.screen import Screen


class _Notes(logging.Handler):
    def __init__(self, screen: Screen) -> None:
        super().__init__(logging.WARNING)
        self._screen = screen

    def emit(self, record: logging.LogRecord) -> None:
        self._screen.note(record.getMessage())


@contextmanager
def show_warnings(screen: Screen) -> Generator[None]:
    """Show warnings of the library for as long as a command runs."""
    logger = logging.getLogger("agentmemory")
    handler = _Notes(screen)
    propagates, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates
