"""Keys that do not show; may import nothing of the package."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

_MASK = "***"
_SHORTEST = 4


class Secret:
    """A value that no repr, log line or error shows.

    Args:
        value: What to hide.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def __repr__(self) -> str:
        return f"Secret({_MASK!r})"

    __str__ = __repr__

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled or copied into other processes")

    def reveal(self) -> str:
        """Return the value, for the one place that sends it."""
        return self._value


class Redactor:
    """Takes known secrets out of text that comes from elsewhere.

    Args:
        values: The secrets; those of fewer than four characters cannot be told from plain words
            and are left alone.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Iterable[str]) -> None:
        # Longest first, so that a secret that contains another one goes as a whole.
        known = {value for value in values if len(value) >= _SHORTEST}
        self._values = tuple(Secret(value) for value in sorted(known, key=len, reverse=True))

    def scrub(self, text: str) -> str:
        """Return the text with every secret masked."""
        for value in self._values:
            text = text.replace(value.reveal(), _MASK)
        return text

    def scrub_error(self, error: BaseException | None) -> None:
        """Mask secrets in the arguments of an error and of everything that led to it."""
        seen: set[int] = set()
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            error.args = tuple(
                self.scrub(part) if isinstance(part, str) else part for part in error.args
            )
            error = error.__cause__ or error.__context__
