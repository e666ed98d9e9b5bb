"""Lists of tokens that rules of translation change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.support.oracle_tokens import tokenize


class UntranslatableError(AssertionError):
    """SQL that the emulation does not know; it fails the test instead of guessing."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One token: kinds as of `oracle_tokens.Token`, and "raw" for finished SQL of PostgreSQL."""

    kind: str
    text: str

    @property
    def upper(self) -> str:
        """The text in capitals, of a word."""
        return self.text.upper() if self.kind == "word" else self.text


Pieces = list[Piece]


def cut(text: str) -> Pieces:
    """Cut Oracle SQL into tokens."""
    return [Piece(token.kind, token.text) for token in tokenize(text)]


def raw(text: str) -> Piece:
    """Return finished SQL."""
    return Piece("raw", text)


def words(text: str) -> Pieces:
    """Return keywords and marks of PostgreSQL, as they are."""
    return [raw(part) for part in text.split()]


def matches(pieces: Sequence[Piece], at: int, *expected: str) -> bool:
    """Whether tokens begin with words or marks; "*" is any token, "#" a number or bind."""
    if at < 0 or at + len(expected) > len(pieces):
        return False
    for offset, wanted in enumerate(expected):
        piece = pieces[at + offset]
        if wanted == "#":
            if piece.kind not in ("number", "bind"):
                return False
        elif wanted not in ("*", piece.upper):
            return False
    return True


def closing(pieces: Sequence[Piece], opening: int) -> int:
    """Return where the partner of an opening parenthesis stands."""
    depth = 0
    for place in range(opening, len(pieces)):
        if pieces[place].text == "(":
            depth += 1
        elif pieces[place].text == ")":
            depth -= 1
            if depth == 0:
                return place
    raise UntranslatableError("a parenthesis is left open")


def arguments(pieces: Sequence[Piece], opening: int) -> tuple[list[Pieces], int]:
    """Return the arguments between parentheses, and where the closing one stands."""
    end = closing(pieces, opening)
    return split(pieces[opening + 1 : end]), end


def split(pieces: Sequence[Piece], mark: str = ",") -> list[Pieces]:
    """Cut tokens at marks that stand in no parentheses."""
    parts: list[Pieces] = [[]]
    depth = 0
    for piece in pieces:
        depth += (piece.text == "(") - (piece.text == ")")
        if depth == 0 and piece.text == mark:
            parts.append([])
        else:
            parts[-1].append(piece)
    return [part for part in parts if part]


def calls(pieces: Sequence[Piece], *names: str) -> Iterator[int]:
    """Yield where functions of these names are called, the last call first."""
    for place in range(len(pieces) - 2, -1, -1):
        if (
            pieces[place].kind == "word"
            and pieces[place].upper in names
            and pieces[place + 1].text == "("
        ):
            yield place


def join(pieces: Sequence[Piece]) -> str:
    """Write tokens as SQL."""
    out: list[str] = []
    for piece in pieces:
        text = piece.text
        if out and (text in (".", ",", ")", ";") or out[-1] in (".", "(")):
            out.append(text)
        elif out:
            out.extend((" ", text))
        else:
            out.append(text)
    return "".join(out)
