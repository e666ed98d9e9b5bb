"""Secrets in text: keys, tokens and payment cards are blacked out before text is remembered.

Neighbouring characters do not matter, so that a key right after 密码是 is found as well. Pure;
imports nothing of the package.
"""

from __future__ import annotations

import re
from typing import Final

REDACTED: Final = "[redacted]"
"""What stands where a secret stood."""

_BEFORE: Final = r"(?<![A-Za-z0-9_-])"
_AFTER: Final = r"(?![A-Za-z0-9_-])"
_SHAPES: Final = re.compile(
    "|".join(
        (
            # Private keys, whole.
            r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)",
            # Prefixes that issuers give their keys: OpenAI and the like, Stripe, GitHub, GitLab,
            # Slack, AWS, Google, Hugging Face, npm, PyPI, SendGrid.
            rf"{_BEFORE}(?:sk|pk|rk)[-_][A-Za-z0-9_-]{{16,}}{_AFTER}",
            rf"{_BEFORE}(?:gh[pousr]_|github_pat_)[A-Za-z0-9_]{{20,}}{_AFTER}",
            rf"{_BEFORE}glpat-[A-Za-z0-9_-]{{16,}}{_AFTER}",
            rf"{_BEFORE}xox[abeoprs]-[A-Za-z0-9-]{{10,}}{_AFTER}",
            rf"{_BEFORE}(?:AKIA|ASIA)[A-Z0-9]{{16}}{_AFTER}",
            rf"{_BEFORE}AIza[A-Za-z0-9_-]{{35}}{_AFTER}",
            rf"{_BEFORE}(?:hf|npm)_[A-Za-z0-9]{{30,}}{_AFTER}",
            rf"{_BEFORE}pypi-[A-Za-z0-9_-]{{30,}}{_AFTER}",
            rf"{_BEFORE}SG\.[A-Za-z0-9_-]{{16,}}\.[A-Za-z0-9_-]{{16,}}{_AFTER}",
            # JSON Web Tokens.
            rf"{_BEFORE}eyJ[A-Za-z0-9_-]{{8,}}\.[A-Za-z0-9_-]{{8,}}\.[A-Za-z0-9_-]*",
        )
    ),
    re.DOTALL,
)
# What is called a secret by its name: the name and the sign stay.
_NAMED: Final = re.compile(
    r"((?:api[ _-]?key|secret(?:[ _-]?key)?|access[ _-]?token|auth[ _-]?token|bearer|password"
    r"|passwd|passphrase|pwd|密码|口令|密钥|令牌|パスワード|비밀번호)"
    r"(?:\s*(?:is|=|:|：|＝|是|为|は|は、|는|은)\s*|\s+(?=[^\s]*[0-9])(?=[^\s]{12,}))"
    r"[\"'“「`]?)([^\s\"'”」`,，、。;；]{6,})",
    re.IGNORECASE,
)
_CARD: Final = re.compile(r"(?<![0-9])(?:[0-9][ -]?){12,18}[0-9](?![0-9])")


def redact_secrets(text: str) -> str:
    """Return a text with its keys, tokens, passwords and payment cards blacked out.

    Payment cards are numbers of 13 to 19 digits that begin as cards do and pass the Luhn check
    (ISO/IEC 7812-1).
    """
    shaped = _SHAPES.sub(REDACTED, text)
    named = _NAMED.sub(_value, shaped)
    return _CARD.sub(_card, named)


def _value(found: re.Match[str]) -> str:
    """Leave the plain word of a sentence: "the password is secret" gives nothing away."""
    if found[2].rstrip(".!?").isalpha() and not re.search(r"[=:：＝]\s*[\"'“「`]?\Z", found[1]):
        return found[0]
    return found[1] + REDACTED


def _card(found: re.Match[str]) -> str:
    digits = [int(char) for char in found[0] if char.isdigit()]
    if digits[0] not in (2, 3, 4, 5, 6) or len(set(digits)) == 1:
        return found[0]
    doubled = [
        digit if place % 2 == 0 else sum(divmod(2 * digit, 10))
        for place, digit in enumerate(reversed(digits))
    ]
    return REDACTED if sum(doubled) % 10 == 0 else found[0]
