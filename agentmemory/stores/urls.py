"""Connection URLs: which are ours, and how they are shown without their secrets; pure.

May import nothing of the package.
"""

from __future__ import annotations

import re
from typing import Final

ORACLE_URL: Final = "oracle://"
"""How a URL of an Oracle database begins."""

_USER_INFO: Final = re.compile(r"(?<=://)[^/?#]*@")
_SECRET_OPTION: Final = re.compile(r"(?i)((?:password|token)=)[^&#]*")


def hide_secrets(text: str) -> str:
    """Return a URL of any kind without the password and tokens in it."""

    def user_only(found: re.Match[str]) -> str:
        user, colon, _ = found.group()[:-1].partition(":")
        return f"{user}:***@" if colon else f"{user}@"

    return _SECRET_OPTION.sub(r"\1***", _USER_INFO.sub(user_only, text, count=1))
