"""Search tokens as words that every Oracle Text lexer leaves as they are; pure.

Our tokens hold what a lexer would cut, join or drop (`c++`, `v2.3.1`, `user_name`, bigrams of
Han). So what is indexed is an encoding of each token in ASCII letters and digits, which the
basic lexer keeps whole whatever its settings; the query is encoded the same way. May import
nothing of ours.

The encoding of a token, character by character, after a first letter that says what it is
(`x` a word of the text, `q` a token of the scope; no operator of Oracle Text begins with either,
so nothing has to be escaped):

- a to y and 0 to 9 stand for themselves, z is `zz`;
- any other character is `z` and four hexadecimal digits, above U+FFFF `zx` and six.

No code is the start of another one, so that two tokens never share an encoding and a token
begins with another one exactly if its encoding does. An encoding longer than `MAX_WORD_CHARS`
is cut and ends in a digest of the token instead.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Final

ENCODING_VERSION: Final = 1
"""Rises whenever the same token would give another word, so that a store knows to index anew."""

MAX_WORD_CHARS: Final = 60
"""Longest word: Oracle Text used to keep 64 bytes of a token and keeps 255 today."""

WORD: Final = "x"
"""First letter of a word of the text."""

SCOPE: Final = "q"
"""First letter of a token of the scope."""

_DIGEST_CHARS = 20
_KEPT_CHARS = MAX_WORD_CHARS - _DIGEST_CHARS
_CODED = re.compile("[^a-y0-9]")
_CODED_OR_SPACE = re.compile("[^a-y0-9 ]")


def encode_token(token: str) -> str:
    """Return the indexed word of a token of the text."""
    return _whole(WORD + _CODED.sub(_code, token), token)


def encode_scope_token(token: str) -> str:
    """Return the indexed word of a token of the scope."""
    return _whole(SCOPE + _CODED.sub(_code, token), token)


def encode_prefix(token: str) -> str:
    """Return what the indexed word of every token that begins with this one begins with.

    Of a prefix longer than any the analyzer makes only a part is compared.
    """
    return (WORD + _CODED.sub(_code, token))[:_KEPT_CHARS]


def indexed_text(fields: Iterable[str], scope: str) -> str:
    """Return what Oracle Text indexes of a chunk.

    Args:
        fields: The chunk's fields, tokens separated by single spaces.
        scope: The tokens of its scope, likewise.

    Returns:
        The words in order, with a space before and after each, so that the words of a chunk can
        be looked for without a text index too.
    """
    words: list[str] = []
    for field in fields:
        if field:
            encoded = _CODED_OR_SPACE.sub(_code, field).split(" ")
            tokens = field.split(" ")
            words += [
                _whole(WORD + code, token) for code, token in zip(encoded, tokens, strict=True)
            ]
    words += [encode_scope_token(token) for token in scope.split(" ") if token]
    return f" {' '.join(words)} "


def _whole(word: str, token: str) -> str:
    if len(word) <= MAX_WORD_CHARS:
        return word
    digest = hashlib.blake2b(token.encode("utf-8", "surrogatepass"), digest_size=10)
    return word[:_KEPT_CHARS] + digest.hexdigest()


def _code(match: re.Match[str]) -> str:
    character = match[0]
    if character == "z":
        return "zz"
    number = ord(character)
    return f"z{number:04x}" if number <= 0xFFFF else f"zx{number:06x}"
