"""Metadata as a list of terms, which filters ask for by equality and range; pure.

JSON paths of the database cannot say what a filter means: they know no time text, convert between
types, and a key of the caller's would have to be part of the path. So the terms of a record's
metadata are stored beside it, a canonical form in which each condition of a filter is "a term
equals this" or "a term lies between these", and the path is always the same. May import filters
and below.

A term is a place, a type and a value, in ASCII letters and digits in the order of their codes:

- The place is a digest of the keys that lead to the value, after `v` for the value itself or `e`
  for a scalar in the array there.
- The types are `n` null, `b` boolean, `d` number, `s` text, `a` array, `o` object; so all terms of
  one type at one place are neighbours.
- A number is its nearest double as 16 hexadecimal digits that sort as the numbers do, and how far
  it is above that, as 4: two numbers are equal, or in order, exactly if their terms are.
- Text, time text in canonical form, is its UTF-8 in hexadecimal, whose order is that of code
  points. What is longer than `SEGMENT_BYTES` has a term of its first segment, ended by a digest
  of the whole, and terms of the segments that follow at places named by what comes before them.
- An array or object is a digest of its canonical form.

A digest is 16 bytes of BLAKE2b: no two values share one by chance.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from agentmemory.stores.filters import canonical_text

SEGMENT_BYTES: Final = 1500
"""How much of a text one term holds: a bind must not exceed 4000 bytes."""

VALUE: Final = "v"
ELEMENT: Final = "e"

LAST: Final = "z"
"""Comes after every character that follows a place or a type in a term."""

ROOT: Final = hashlib.blake2b(b"metadata", digest_size=16).hexdigest()
"""The place of the metadata object itself."""


def metadata_terms(metadata: Mapping[str, Any]) -> list[str]:
    """Return the terms of metadata, without duplicates.

    Args:
        metadata: What `validate_metadata` returned.
    """
    return list(dict.fromkeys(_terms(metadata, ROOT)))


def key_place(place: str, key: str) -> str:
    """Return the place of a key's value in the object at a place."""
    return _digest(f"{place}.{key}")


def value_term(mark: str, place: str, value: object) -> str:
    """Return the term that a value has at a place.

    Args:
        mark: `VALUE` or `ELEMENT`.
        place: Where.
        value: A JSON value.
    """
    return f"{mark}{place}{_encoded(value)}"


def text_segments(place: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield for each segment of a text the place of its term and what it holds, in order.

    Args:
        place: Where the text is.
        text: In canonical form.

    Yields:
        Beginnings of terms, complete but for what follows the segment.
    """
    data = text.encode()
    at = place
    for start in range(0, max(len(data), 1), SEGMENT_BYTES):
        segment = data[start : start + SEGMENT_BYTES]
        yield f"{VALUE}{at}s", segment.hex()
        at = _digest(f"{at}+{segment.hex()}")


def _terms(value: object, place: str) -> Iterator[str]:
    yield value_term(VALUE, place, value)
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _terms(item, key_place(place, key))
    elif isinstance(value, list):
        for item in value:
            if not isinstance(item, Mapping | list):
                yield value_term(ELEMENT, place, item)
    elif isinstance(value, str):
        text = canonical_text(value)
        if len(text.encode()) > SEGMENT_BYTES:
            segments = list(text_segments(place, text))
            for head, segment in segments[1:-1]:
                # More follows: behind whatever equals the segment alone.
                yield f"{head}{segment}g"
            head, segment = segments[-1]
            yield f"{head}{segment}"


def _encoded(value: object) -> str:
    if value is None:
        return "n"
    if isinstance(value, bool):
        return f"b{int(value)}"
    if isinstance(value, int | float):
        return f"d{_number(value)}"
    if isinstance(value, str):
        data = canonical_text(value).encode()
        if len(data) <= SEGMENT_BYTES:
            return f"s{data.hex()}"
        # "g" comes after every digit of what could follow, so that longer text is greater.
        return f"s{data[:SEGMENT_BYTES].hex()}g{hashlib.blake2b(data, digest_size=16).hexdigest()}"
    kind = "o" if isinstance(value, Mapping) else "a"
    return f"{kind}{_digest(_canonical(value))}"


def _number(value: float) -> str:
    nearest = float(value)
    above = value - int(nearest) if isinstance(value, int) else 0
    # The bits of a double are in order but for the sign; -0.0 is 0.0.
    (bits,) = struct.unpack(">Q", struct.pack(">d", nearest + 0.0))
    bits = bits ^ 0xFFFF_FFFF_FFFF_FFFF if bits >> 63 else bits | 1 << 63
    return f"{bits:016x}{above + 0x8000:04x}"


def _canonical(value: object) -> str:
    """Return JSON that two values share exactly if they are equal."""
    return orjson.dumps(_plain(value), option=orjson.OPT_SORT_KEYS).decode()


def _plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return _encoded(value)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
