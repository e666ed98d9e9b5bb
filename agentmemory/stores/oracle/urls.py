"""`oracle://` URLs, and what may be said of a connection without giving a secret away; pure.

May import errors and the stores' `urls`.

::

    oracle://user:password@host:1521/service?option=value
    oracle://user:password@alias?config_dir=/etc/oracle

Special characters of user and password are percent-encoded. Without a service the host is a name
from `tnsnames.ora`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from agentmemory.errors import ConfigurationError
from agentmemory.stores.urls import hide_secrets

_ACCEPTED: Final = "oracle://user:password@host:port/service"
_TOKEN_FILE: Final = "token"  # noqa: S105 - the name of a file, as Oracle's command line writes it
_KEY_FILE: Final = "oci_db_key.pem"


def _flag(text: str) -> bool:
    values = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    return values[text.lower()]


def _protocol(text: str) -> str:
    if text not in ("tcp", "tcps"):
        raise ValueError(text)
    return text


_DRIVER_OPTIONS: Final[Mapping[str, Callable[[str], Any]]] = {
    "access_token": str,
    "cclass": str,
    "config_dir": str,
    "edition": str,
    "expire_time": int,
    "https_proxy": str,
    "https_proxy_port": int,
    "protocol": _protocol,
    "proxy_user": str,
    "retry_count": int,
    "retry_delay": int,
    "server_type": str,
    "sid": str,
    "ssl_server_cert_dn": str,
    "ssl_server_dn_match": _flag,
    "tcp_connect_timeout": float,
    "use_sni": _flag,
    "wallet_location": str,
    "wallet_password": str,
}
"""Options that go to the driver as they are named here, and how their text is read."""

_ENGINE_OPTIONS: Final[Mapping[str, Callable[[str], Any]]] = {
    "acquire_timeout_s": float,
    "max_connections": int,
    "operation_timeout_s": float,
}
"""Options of the engine, and how their text is read."""

OPTIONS: Final = (*sorted((*_DRIVER_OPTIONS, *_ENGINE_OPTIONS, "token_location")),)


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleUrl:
    """What an `oracle://` URL says.

    Args:
        where: Names the database, without secrets.
        driver: Arguments of the driver's pools; hidden in the representation.
        engine: Arguments of the engine.
        token_location: A directory or file with an access token; None for none.
    """

    where: str
    driver: Mapping[str, Any] = field(repr=False)
    engine: Mapping[str, Any] = field(default_factory=dict)
    token_location: str | None = None


def parse_url(url: str) -> OracleUrl:
    """Read an `oracle://` URL.

    Raises:
        ConfigurationError: It is malformed; the text holds neither password nor token.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _malformed(url, "its host or port is malformed") from None
    if not parts.hostname:
        raise _malformed(url, "it names no host")
    options = _options(url, parts)
    service = unquote(parts.path).strip("/")
    driver: dict[str, Any] = {name: options[name] for name in _DRIVER_OPTIONS if name in options}
    if service and "sid" in driver:
        raise _malformed(url, "it gives both a service and the option `sid`")
    if parts.username:
        driver["user"] = unquote(parts.username)
    if parts.password:
        driver["password"] = unquote(parts.password)
    if not _has_credentials(driver, options):
        raise _malformed(url, "it gives no password, `access_token` or `token_location`")
    if service or "sid" in driver or port is not None:
        driver["host"] = parts.hostname
        driver["port"] = port or 1521
        if service:
            driver["service_name"] = service
        where = f"{parts.hostname}:{driver['port']}/{service or driver.get('sid', '')}"
    else:
        driver["dsn"] = where = parts.hostname
    return OracleUrl(
        where=f"the Oracle database {where!r}",
        driver=driver,
        engine={name: options[name] for name in _ENGINE_OPTIONS if name in options},
        token_location=options.get("token_location"),
    )


def _options(url: str, parts: SplitResult) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for name, text in parse_qsl(parts.query, keep_blank_values=True):
        if name in options:
            raise _malformed(url, f"its option `{name}` is given twice")
        if name not in OPTIONS:
            raise _malformed(
                url, f"its option {name!r} is not known; accepted: {', '.join(OPTIONS)}"
            )
        read = _DRIVER_OPTIONS.get(name) or _ENGINE_OPTIONS.get(name, str)
        try:
            options[name] = read(text)
        except (ValueError, KeyError):
            raise _malformed(url, f"its option `{name}` is {text!r}") from None
    if "access_token" in options and "token_location" in options:
        raise _malformed(url, "it gives both `access_token` and `token_location`")
    return options


def _has_credentials(driver: Mapping[str, Any], options: Mapping[str, Any]) -> bool:
    if "access_token" in options or "token_location" in options:
        return True
    return "user" in driver and "password" in driver


def _malformed(url: str, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"`connection` is {hide_secrets(url)!r}: {problem}; accepted: {_ACCEPTED}, and options "
        "after a question mark"
    )


def describe_dsn(dsn: object) -> str:
    """Return a name for the database that a driver's object leads to, without secrets."""
    text = dsn if isinstance(dsn, str) else ""
    if text.lstrip().startswith("("):
        found = re.search(r"(?i)\(\s*(?:SERVICE_NAME|SID)\s*=\s*([^)\s]+)", text)
        text = found.group(1) if found else ""
    text = text.rpartition("@")[2].partition("?")[0]
    return f"the Oracle database {text!r}" if text else "the Oracle database"


class TokenFile:
    """Gives the driver an access token that another program renews in a file.

    Args:
        location: A file that holds the token, or a directory with the files `token` and, for
            tokens of Oracle's cloud, `oci_db_key.pem`.
    """

    def __init__(self, location: str) -> None:
        self._location = Path(location)
        self._read: str | tuple[str, str] | None = None

    def __repr__(self) -> str:
        return f"TokenFile({str(self._location)!r})"

    def load(self) -> None:
        """Read the token; blocks.

        Raises:
            ConfigurationError: It cannot be read.
        """
        try:
            if not self._location.is_dir():
                self._read = self._location.read_text(encoding="utf-8").strip()
                return
            token = (self._location / _TOKEN_FILE).read_text(encoding="utf-8").strip()
            key = self._location / _KEY_FILE
            self._read = (token, key.read_text(encoding="utf-8")) if key.exists() else token
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise ConfigurationError(
                f"`connection` gives `token_location` {str(self._location)!r}, which cannot be "
                f"read: {reason}"
            ) from None

    def __call__(self, refresh: bool) -> str | tuple[str, str]:  # noqa: FBT001 - as the driver calls
        """Return the token, read anew if the driver found it expired."""
        if refresh or self._read is None:
            self.load()
        return self._read or ""
