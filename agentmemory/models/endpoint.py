"""Where requests go and what they carry: addresses, keys, proxies and certificates.

May import: providers and secrets of this room, checks, errors. Everything is checked when a
client is built; nothing that may hold a secret is ever shown.
"""

from __future__ import annotations

import base64
import json
import re
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from agentmemory.checks import check_bool, check_int, check_number
from agentmemory.errors import ConfigurationError
from agentmemory.models.providers import Target
from agentmemory.models.secrets import Redactor, Secret

if TYPE_CHECKING:
    import ssl

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class HttpOptions(TypedDict, total=False):
    """How a client behaves on the wire; each has a default.

    Attributes:
        max_concurrent_requests: Requests at a time per event loop, and so connections; default
            16. A call that waits before it tries again lets others go first.
        connect_timeout: Seconds to reach the endpoint; default 10.
        read_timeout: Seconds between two pieces of an answer; default 120.
        total_timeout: Seconds for a request with all its further attempts and the waits between
            them, counted from its first turn; default 300.
        max_attempts: Attempts per request, 1 to 10; default 4. Only connection faults and the
            statuses 408, 409, 425, 429 and 5xx are tried again.
        proxy: `http://`, `https://` or (with the package `socksio`) `socks5://` address; default
            is what the environment says.
        ca_file: PEM file of the authorities to trust; default is the usual ones.
        cert_file: PEM file of the client's certificate.
        key_file: PEM file of its key, if it is not in `cert_file`.
        key_password: Password of that key.
        trust_env: Whether proxies and authorities in the environment count; default True.
        extra_headers: Headers of every request.
    """

    max_concurrent_requests: int
    connect_timeout: float
    read_timeout: float
    total_timeout: float
    max_attempts: int
    proxy: str | None
    ca_file: str | Path | None
    cert_file: str | Path | None
    key_file: str | Path | None
    key_password: str | None
    trust_env: bool
    extra_headers: Mapping[str, str] | None


class Endpoint:
    """The checked form of an address, its key and `HttpOptions`.

    Args:
        target: The model and where it is served.
        options: See `HttpOptions`.
        headers: Headers that the form of the API wants.
        api_version: For Azure's dated API: `api-version` of each request; without it, its `v1`.
        extra_body: JSON values that go into each request as they are.

    Raises:
        ConfigurationError: An option is unknown or unusable.
    """

    def __init__(
        self,
        target: Target,
        options: HttpOptions,
        *,
        headers: Mapping[str, str] | None = None,
        api_version: str | None = None,
        extra_body: Mapping[str, Any] | None = None,
    ) -> None:
        unknown = sorted(options.keys() - HttpOptions.__annotations__.keys())
        if unknown:
            raise ConfigurationError(
                f"`{unknown[0]}` is not an option; accepted are "
                f"{', '.join(sorted(HttpOptions.__annotations__))}"
            )
        self.max_concurrent_requests = check_int(
            options.get("max_concurrent_requests", 16),
            argument="max_concurrent_requests",
            minimum=1,
        )
        self.connect_timeout = _seconds(options, "connect_timeout", 10.0)
        self.read_timeout = _seconds(options, "read_timeout", 120.0)
        self.total_timeout = _seconds(options, "total_timeout", 300.0)
        self.max_attempts = check_int(
            options.get("max_attempts", 4), argument="max_attempts", minimum=1, maximum=10
        )
        self.trust_env = check_bool(options.get("trust_env", True), argument="trust_env")
        self.model = target.name

        address = _split(target.base_url.reveal(), "api_base", {"http", "https"})
        self.scheme, self.host, self.port = address.scheme, address.hostname or "", address.port
        origin = urllib.parse.urlunsplit((address.scheme, _place(address), "", "", ""))
        self._base = origin + _path(target, address.path.rstrip("/"), api_version)
        given_query = urllib.parse.parse_qsl(address.query, keep_blank_values=True)
        version = [] if api_version is None else [("api-version", api_version)]
        self._query = Secret(urllib.parse.urlencode([*given_query, *version]))

        sent = {"accept": "application/json", "accept-encoding": "gzip, deflate"}
        sent |= {"content-type": "application/json", "user-agent": "agentmemory"}
        sent |= headers or {}
        secrets = [value for _, value in given_query]
        if address.username is not None:
            pair = f"{_plain(address.username)}:{_plain(address.password)}"
            sent["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
            secrets += [
                _plain(address.password) or _plain(address.username),
                address.password or "",
            ]
            secrets.append(sent["authorization"].partition(" ")[2])
        if target.key is not None:
            key, header = target.key.reveal(), target.provider.key_header
            sent[header] = f"Bearer {key}" if header == "authorization" else key
            secrets.append(key)
        for name, value in _headers(options.get("extra_headers")).items():
            sent[name.lower()] = value
            secrets += [value, value.partition(" ")[2]]
        self._headers = [(name, Secret(value)) for name, value in sent.items()]

        self._proxy: Secret | None = None
        proxy = options.get("proxy")
        if proxy is not None:
            parts = _split(proxy, "proxy", {"http", "https", "socks5", "socks5h"})
            self._proxy = Secret(proxy)
            secrets += [parts.password or "", _plain(parts.password)]
            secrets += [proxy] if parts.username is not None else []
        self._ca_file = _file(options.get("ca_file"), "ca_file")
        self._cert_file = _file(options.get("cert_file"), "cert_file")
        self._key_file = _file(options.get("key_file"), "key_file")
        if self._key_file is not None and self._cert_file is None:
            raise ConfigurationError("`key_file` needs the certificate that it opens: `cert_file`")
        password = options.get("key_password")
        self._key_password = None if password is None else Secret(password)
        self.extra_body = ExtraBody(extra_body)
        secrets += _texts_in(self.extra_body)
        self.redactor = Redactor([*secrets, password or ""])

    @property
    def place(self) -> str:
        """The address without what may be secret in it."""
        return self._base

    def url(self, path: str) -> str:
        """Return the address of a path, as it is sent."""
        query = self._query.reveal()
        return f"{self._base}{path}" + (f"?{query}" if query else "")

    def headers(self) -> list[tuple[str, str]]:
        """Return the headers of every request, as they are sent."""
        return [(name, value.reveal()) for name, value in self._headers]

    def proxy(self) -> str | None:
        """Find the proxy to go through: the one given, else the environment's; reads settings."""
        if self._proxy is not None:
            return self._proxy.reveal()
        if not self.trust_env:
            return None
        import urllib.request

        if urllib.request.proxy_bypass(self.host):
            return None
        found = urllib.request.getproxies()
        proxy = found.get(self.scheme) or found.get("all")
        if proxy and "://" not in proxy:
            proxy = f"http://{proxy}"
        return proxy or None

    def tls(self) -> ssl.SSLContext:
        """Build the TLS settings; reads files, unless nothing of the way is encrypted.

        Raises:
            ConfigurationError: A file holds no certificate or key, or the password is wrong.
        """
        import ssl

        import httpx

        proxy = self.proxy() or ""
        if self.scheme == "http" and not proxy.startswith("https"):
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            if self._ca_file is not None:
                context = ssl.create_default_context(cafile=self._ca_file)
            else:
                context = httpx.create_ssl_context(trust_env=self.trust_env)
        except (OSError, ssl.SSLError):
            raise ConfigurationError(
                "`ca_file` is no file that holds a certificate; a PEM file is accepted"
            ) from None
        if self._cert_file is not None:
            password = "" if self._key_password is None else self._key_password.reveal()
            try:
                # Without a password OpenSSL would ask for one at the terminal.
                context.load_cert_chain(self._cert_file, self._key_file, password)
            except (OSError, ssl.SSLError):
                raise ConfigurationError(
                    "`cert_file` and `key_file` are no files that hold a certificate and its key, "
                    "or `key_password` is wrong; PEM files are accepted"
                ) from None
        return context


class ExtraBody(Mapping[str, Any]):
    """JSON values that go into each request and do not show.

    Args:
        given: The values; None for none.

    Raises:
        ConfigurationError: It is no mapping of names to JSON values.
    """

    def __init__(self, given: Mapping[str, Any] | None) -> None:
        try:
            self._text = Secret(json.dumps(dict(given or {})))
        except (TypeError, ValueError):
            raise ConfigurationError(
                "`extra_body` must be a mapping of names to JSON values; it is not shown"
            ) from None

    def __repr__(self) -> str:
        return "ExtraBody(***)"

    def __getitem__(self, name: str) -> Any:
        return self._values()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values())

    def __len__(self) -> int:
        return len(self._values())

    def _values(self) -> dict[str, Any]:
        values: dict[str, Any] = json.loads(self._text.reveal())
        return values


def _texts_in(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [text for part in value.values() for text in _texts_in(part)]
    return [text for part in value for text in _texts_in(part)] if isinstance(value, list) else []


def _seconds(options: HttpOptions, name: str, default: float) -> float:
    value: Any = options.get(name, default)
    return check_number(value, argument=name, minimum=0.001, maximum=86_400)


def _split(address: Any, argument: str, schemes: set[str]) -> urllib.parse.SplitResult:
    expected = " or ".join(f"{scheme}://…" for scheme in sorted(schemes))
    refused = ConfigurationError(
        f"`{argument}` must be an address {expected} with a host; what was given is not shown, "
        "for it may hold a key"
    )
    if not isinstance(address, str) or not address.isascii() or not address.isprintable():
        raise refused
    try:
        parts = urllib.parse.urlsplit(address.strip())
        port = parts.port
    except ValueError:
        raise refused from None
    if parts.scheme not in schemes or not parts.hostname or " " in address.strip() or port == 0:
        raise refused
    return parts


def _path(target: Target, path: str, api_version: str | None) -> str:
    """Complete the path of an address; Azure has two forms of it."""
    if target.provider.name != "azure":
        if api_version is not None:
            raise ConfigurationError("`api_version` is for models of the provider 'azure' only")
        return path
    if api_version is None:
        return path or "/openai/v1"
    return f"{path}/openai/deployments/{urllib.parse.quote(target.model, safe='')}"


def _place(address: urllib.parse.SplitResult) -> str:
    host = address.hostname or ""
    host = f"[{host}]" if ":" in host else host
    return host if address.port is None else f"{host}:{address.port}"


def _plain(quoted: str | None) -> str:
    return urllib.parse.unquote(quoted or "")


def _headers(given: Any) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ConfigurationError(
            f"`extra_headers` must map names to values, not {type(given).__name__}"
        )
    for name, value in given.items():
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise ConfigurationError("`extra_headers` has a name that no header can have")
        if not isinstance(value, str) or not value.isascii() or not value.isprintable():
            raise ConfigurationError(
                f"`extra_headers` has a value for {name!r} that is not printable ASCII; it is not "
                "shown"
            )
    return dict(given)


def _file(path: Any, argument: str) -> str | None:
    # Whether it exists is found out when it is read, for that must not happen on an event loop.
    if path is None or (isinstance(path, str | Path) and str(path).isprintable()):
        return None if path is None else str(path)
    raise ConfigurationError(
        f"`{argument}` must be the path of a PEM file; what was given is not shown, for it may be "
        "a key"
    )
