"""Counting the tokens a text costs in a prompt: exact where tiktoken can, estimated otherwise.

May import errors and protocols; tiktoken is imported when it is used. This is the one module of
the room that touches the disk: it looks whether an encoding is in tiktoken's cache, because
tiktoken itself would go and fetch it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agentmemory.errors import ConfigurationError, ValidationError
from agentmemory.protocols import TokenCounter

if TYPE_CHECKING:
    import tiktoken

DEFAULT_ENCODING: Final = "o200k_base"

_LOGGER = logging.getLogger("agentmemory")

_PUBLIC = "https://openaipublic.blob.core.windows.net"
# What tiktoken loads for each encoding: addresses (its cache is keyed by them) and SHA-256 sums.
_O200K = (
    (
        f"{_PUBLIC}/encodings/o200k_base.tiktoken",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    ),
)
_P50K = (
    (
        f"{_PUBLIC}/encodings/p50k_base.tiktoken",
        "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069",
    ),
)
_FILES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "o200k_base": _O200K,
    "o200k_harmony": _O200K,
    "cl100k_base": (
        (
            f"{_PUBLIC}/encodings/cl100k_base.tiktoken",
            "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        ),
    ),
    "p50k_base": _P50K,
    "p50k_edit": _P50K,
    "r50k_base": (
        (
            f"{_PUBLIC}/encodings/r50k_base.tiktoken",
            "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
        ),
    ),
    "gpt2": (
        (
            f"{_PUBLIC}/gpt-2/encodings/main/vocab.bpe",
            "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
        ),
        (
            f"{_PUBLIC}/gpt-2/encodings/main/encoder.json",
            "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
        ),
    ),
}

# Character classes of the estimate. Each alternative of the pattern below stands for about one
# token of o200k_base; how many letters that is was measured per script.
_UPPER = "A-Z\u00c0-\u00d6\u00d8-\u00de"
_LOWER = "a-z\u00aa\u00b5\u00ba\u00df-\u00f6\u00f8-\u024f\u1e00-\u1eff"
_CYRILLIC = "\u0400-\u052f"
_OTHER_ALPHABETS = "\u0370-\u03ff\u0530-\u06ff\u0750-\u077f\u0900-\u0e7f\u10a0-\u10ff\u1f00-\u1fff"
_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_KANA = "\u3041-\u309f\u30a1-\u30ff"
_HANGUL = "\uac00-\ud7a3"
_ASCII_MARKS = r"!-/:-@\[-`{-~"
_MARKS = (
    "\u00a1-\u00a9\u00ab-\u00b4\u00b6-\u00b9\u00bb-\u00bf\u00d7\u00f7\u2000-\u206f\u20a0-\u20cf"
    "\u2190-\u22ff\u2500-\u257f\u25a0-\u25ff\u3000-\u303f\uff01-\uff0f\uff1a-\uff65"
)


def _pieces(word_chars: int) -> re.Pattern[str]:
    return re.compile(
        rf"[ _]?[{_UPPER}]?[{_LOWER}]{{1,{word_chars}}}(?:'(?:s|t|m|d|re|ve|ll)\b)?"
        rf"|[ _]?[{_UPPER}]{{1,5}}| ?[{_CYRILLIC}]{{1,4}}| ?[{_OTHER_ALPHABETS}]{{1,3}}"
        rf"|[{_HAN}]|[{_KANA}]{{1,2}}| ?[{_HANGUL}]"
        r"|[0-9]{1,3}|={4,80}|-{4,80}|\*{4,80}|_{4,80}|\#{4,80}"
        rf"| ?[{_ASCII_MARKS}]{{1,3}}[\r\n]*| ?[{_MARKS}]{{1,2}}|\s*[\r\n]+|[^\S\r\n]+"
    )


# English words are mostly one token. Other languages in Latin letters are cut finer, the more so
# the more letters of their own they have (German 2 % of all characters, Czech 12 %).
_ENGLISH = _pieces(12)
_OTHER_LATIN = _pieces(6)
_MARKED_LATIN = _pieces(4)
_LATIN_LETTER_WITH_MARK = re.compile("[\u00c0-\u024f\u1e00-\u1eff]")
_OTHER_LATIN_SHARE = 0.007
_MARKED_LATIN_SHARE = 0.05
# Every fourth character of Chinese and Korean shares a token with the one before it; the Han of
# Japanese, which has thrice as many Kana to tell it by, does not.
_HAN_LETTER = re.compile(f"[{_HAN}]")
_KANA_LETTER = re.compile(f"[{_KANA}]")
_HANGUL_LETTER = re.compile(f"[{_HANGUL}]")
_SHARED = 0.25
_HAN_PER_KANA = 3
_UNKNOWN = re.compile(
    rf"[^\s0-9{_UPPER}{_LOWER}{_CYRILLIC}{_OTHER_ALPHABETS}{_HAN}{_KANA}{_HANGUL}"
    rf"{_ASCII_MARKS}{_MARKS}]+"
)
_BYTES_PER_UNKNOWN_TOKEN = 2


class EstimatingTokenCounter:
    """Estimates tokens from the script of the text; needs no data and never downloads.

    The same text always gives the same number. Against o200k_base, texts of 200 tokens and more
    are within 25 % for English, code, JSON, Chinese and Japanese, and nearly always for Korean
    (measured on chat logs, manual pages, source code and software translations; the median is
    within 5 %, for translated Chinese and Korean interface texts 15 % above). A short text may be
    off by a third.
    """

    def count(self, text: str) -> int:
        """Return the estimated number of tokens; 0 for empty text, else at least 1.

        Args:
            text: Any text.
        """
        if text.isascii():
            return len(_ENGLISH.findall(text)) + _unknown_tokens(text)
        marked = len(_LATIN_LETTER_WITH_MARK.findall(text))
        if marked > len(text) * _MARKED_LATIN_SHARE:
            pattern = _MARKED_LATIN
        elif marked > len(text) * _OTHER_LATIN_SHARE:
            pattern = _OTHER_LATIN
        else:
            pattern = _ENGLISH
        return len(pattern.findall(text)) - _shared_tokens(text) + _unknown_tokens(text)

    def __repr__(self) -> str:
        return "EstimatingTokenCounter()"


class TiktokenCounter:
    """Counts with one of OpenAI's encodings, loaded from tiktoken's cache; never downloads.

    Loading reads some megabytes and takes up to a second: build it outside the event loop. It may
    be used from several threads.

    Args:
        encoding: The encoding's name, as tiktoken has it.

    Raises:
        ValidationError: `encoding` is not one of tiktoken's.
        ConfigurationError: The encoding is not in the cache, or the file there is damaged.
    """

    def __init__(self, encoding: str = DEFAULT_ENCODING) -> None:
        if not encoding_at_hand(encoding):
            raise ConfigurationError(
                f"`encoding` {encoding!r} is not in tiktoken's cache ({_cache_directory()}) and is "
                "not downloaded here; call `tiktoken.get_encoding` once where there is a network, "
                "or set TIKTOKEN_CACHE_DIR to a directory that has it"
            )
        import tiktoken

        self._encoding: tiktoken.Encoding = tiktoken.get_encoding(encoding)

    @property
    def encoding(self) -> str:
        """The encoding's name."""
        return self._encoding.name

    def count(self, text: str) -> int:
        """Return the number of tokens; what looks like a special token is counted as text.

        Args:
            text: Any text.
        """
        return len(self._encoding.encode_ordinary(text))

    def __repr__(self) -> str:
        return f"TiktokenCounter({self.encoding!r})"


def encoding_at_hand(encoding: str = DEFAULT_ENCODING) -> bool:
    """Tell whether tiktoken can load an encoding without a download.

    Looks for undamaged files in tiktoken's cache: `TIKTOKEN_CACHE_DIR`, else
    `DATA_GYM_CACHE_DIR`, else `data-gym-cache` in the system's temporary directory. A damaged one
    does not count, for tiktoken would delete it and fetch another. Reads the disk.

    Args:
        encoding: The encoding's name, as tiktoken has it.

    Raises:
        ValidationError: `encoding` is not one of tiktoken's.
    """
    files = _FILES.get(encoding)
    if files is None:
        raise ValidationError(
            f"`encoding` is {encoding!r}; accepted are {', '.join(sorted(_FILES))}",
            argument="encoding",
        )
    directory = _cache_directory()
    return directory is not None and all(
        _is_intact(directory / _cache_key(address), digest) for address, digest in files
    )


def default_token_counter() -> TokenCounter:
    """Return a `TiktokenCounter` when its encoding is at hand, else an `EstimatingTokenCounter`.

    That tokens are estimated is said once, at INFO, by the logger `agentmemory`. Reads the disk:
    call it outside the event loop.
    """
    if encoding_at_hand():
        return TiktokenCounter()
    _say_estimated()
    return EstimatingTokenCounter()


def _shared_tokens(text: str) -> int:
    han = len(_HAN_LETTER.findall(text))
    chinese = max(0, han - _HAN_PER_KANA * len(_KANA_LETTER.findall(text))) if han else 0
    return int(_SHARED * (chinese + len(_HANGUL_LETTER.findall(text))))


def _unknown_tokens(text: str) -> int:
    size = sum(len(run.encode("utf-8", "surrogatepass")) for run in _UNKNOWN.findall(text))
    return -(-size // _BYTES_PER_UNKNOWN_TOKEN)


def _cache_directory() -> Path | None:
    """Return where tiktoken caches; None if it was told not to (an empty variable)."""
    for variable in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        if variable in os.environ:
            return Path(os.environ[variable]) if os.environ[variable] else None
    return Path(tempfile.gettempdir()) / "data-gym-cache"


def _cache_key(address: str) -> str:
    return hashlib.sha1(address.encode(), usedforsecurity=False).hexdigest()


def _is_intact(path: Path, digest: str) -> bool:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == digest
    except OSError:
        return False


@cache
def _say_estimated() -> None:
    _LOGGER.info(
        "Token counts are estimates: the encoding %s is not in tiktoken's cache (%s).",
        DEFAULT_ENCODING,
        _cache_directory(),
    )
