"""Cursors of listings, the same for every store; pure. May import errors.

A cursor names the last row of a page by its sort key, so that pages never skip or repeat a row,
whatever is written meanwhile.
"""

from __future__ import annotations

import base64
import binascii

import orjson

from agentmemory.errors import ValidationError


def write_cursor(kind: str, time: int, seq: int) -> str:
    """Return an opaque text that names the last row of a page by its sort key.

    Args:
        kind: What is listed, and in which order.
        time: Whole microseconds since 1970 in UTC; 0 for an order without a time.
        seq: The row's place in the order of writing.
    """
    return base64.urlsafe_b64encode(orjson.dumps([kind, time, seq])).decode()


def read_cursor(cursor: str, kind: str) -> tuple[int, int]:
    """Return the sort key a cursor names: time and seq.

    Raises:
        ValidationError: It is no cursor, or one of another listing.
    """
    try:
        found, time, seq = orjson.loads(base64.urlsafe_b64decode(cursor.encode()))
    except (ValueError, TypeError, AttributeError, binascii.Error):
        found, time, seq = None, None, None
    if found != kind or type(time) is not int or type(seq) is not int:
        msg = (
            f"`cursor` is {cursor!r}; accepted: the `next_cursor` of a page of the same listing "
            "in the same order"
        )
        raise ValidationError(msg, argument="cursor")
    return time, seq
