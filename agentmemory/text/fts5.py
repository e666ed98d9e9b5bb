"""What SQLite's FTS5 needs to match our tokens and nothing else.

The analyzer decides what a token is; FTS5 only has to cut at white space and to leave each token
as it is. May import requests and errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from agentmemory.errors import ValidationError
from agentmemory.requests import QueryTerm

FTS5_TOKENIZER: Final = r"""ascii tokenchars '!""#$%&''()*+,-./:;<=>?@[\]^_`{|}~'"""
"""The value of FTS5's `tokenize` option, to be written between double quotes.

`ascii` takes every byte above 0x7F as it is, so that no Unicode table of SQLite's changes a token;
`tokenchars` adds all ASCII punctuation. What separates is white space and ASCII control
characters. It folds A-Z to a-z, which analysed tokens never hold: a token of another origin (an
id, say) must be encoded without capital letters if its case matters.
"""


def fts5_match(terms: Iterable[QueryTerm], columns: Sequence[str] | None = None) -> str | None:
    """Build the right-hand side of an FTS5 `MATCH` that finds any of the terms.

    Args:
        terms: What `analyze_query` gave.
        columns: Names of the columns to look in; None means all of them.

    Returns:
        The expression, to be bound as a parameter; None if there is no term, for then nothing
        can match and FTS5 should not be asked.

    Raises:
        ValidationError: `columns` is empty.
    """
    if columns is not None and not columns:
        raise ValidationError(
            "`columns` is empty; give at least one column name, or None for all",
            argument="columns",
        )
    alternatives = " OR ".join(
        f"{_quote(term.text)}*" if term.prefix else _quote(term.text) for term in terms
    )
    if not alternatives:
        return None
    if columns is None:
        return alternatives
    names = " ".join(_quote(column) for column in columns)
    return f"{{{names}}} : ({alternatives})"


def _quote(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
