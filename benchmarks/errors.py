"""The one error a person who starts a benchmark sees as a line of text."""

from __future__ import annotations


class BenchmarkError(Exception):
    """A benchmark cannot run as asked; the message says why, in one line."""
