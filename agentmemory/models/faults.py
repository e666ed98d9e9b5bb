"""From what an endpoint answered, or how it failed, to one of our errors.

May import: secrets of this room, errors. The one place where foreign errors become ours.
"""

from __future__ import annotations

import email.utils
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from agentmemory.errors import (
    AuthenticationError,
    ContextLengthError,
    ModelError,
    ModelRequestError,
    ModelTimeoutError,
    ModelUnavailableError,
    RateLimitedError,
)
from agentmemory.models.secrets import Redactor

_RETRIED = frozenset({408, 409, 425, 429})
_REQUEST_ID_HEADERS = ("x-request-id", "request-id", "apim-request-id", "x-amzn-requestid")
_LONGEST_REASON = 300
_TOO_LONG = re.compile(
    r"context[ _-]?(length|window|size)"
    r"|maximum (context|input|sequence|token|number of tokens)"
    r"|(prompt|input|text|request|sequence|string)[^.]{0,40} too (long|large|many tokens)"
    r"|too many (input )?tokens"
    r"|exceeds? (the )?(maximum|max|available|limit)[^.]{0,40}(token|length|context)"
    r"|(reduce|shorten) (the length|your (prompt|input))"
    r"|must have less than \d+ tokens"
    r"|string_above_max_length",
    re.IGNORECASE,
)
_OUT_OF_QUOTA = re.compile(r"insufficient[_ ]quota|exceeded your current quota", re.IGNORECASE)
_BAD_GRAMMAR = re.compile(r"grammar|json[_ ]schema|response_format", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Fault:
    """A failed attempt: the error it becomes, and whether another attempt may help."""

    error: ModelError
    may_retry: bool
    retry_after: float | None = None


def fault_of_status(
    status: int,
    headers: Mapping[str, str],
    body: Any,
    *,
    model: str,
    redactor: Redactor,
    now: datetime | None = None,
) -> Fault:
    """Judge an answer that is not a success.

    Args:
        status: HTTP status.
        headers: Its headers.
        body: The decoded JSON, or the text if it was none.
        model: The model's name, for the message.
        redactor: Takes our secrets out of what the provider says.
        now: The time that dates in `Retry-After` are compared with.
    """
    reason, kind = reason_of(body)
    shown = redactor.scrub(reason)[:_LONGEST_REASON]
    request_id = request_id_of(headers)
    told = (
        f"{model}: HTTP {status}" + (f" ({kind})" if kind else "") + (f": {shown}" if shown else "")
    )
    facts: dict[str, Any] = {"status": status, "request_id": request_id}
    judged = f"{kind} {reason}"
    wait = retry_after_of(headers, now=now)
    if status in {401, 403}:
        return Fault(AuthenticationError(told, **facts), may_retry=False)
    if status == 429:
        spent = bool(_OUT_OF_QUOTA.search(judged))
        limited = RateLimitedError(told, retry_after=wait, retryable=not spent, **facts)
        return Fault(limited, may_retry=not spent, retry_after=wait)
    if status in {400, 413, 422, 500} and _TOO_LONG.search(judged):
        return Fault(ContextLengthError(told, **facts), may_retry=False)
    if status == 500 and _BAD_GRAMMAR.search(judged):
        # Servers that compile the schema into a grammar fail so when they cannot.
        return Fault(ModelRequestError(told, **facts), may_retry=False)
    if status == 408 or status >= 500:
        return Fault(ModelUnavailableError(told, **facts), may_retry=True, retry_after=wait)
    if status == 404:
        told += "; check the model's name, and whether `api_base` ends where the paths begin (…/v1)"
    elif 300 <= status < 400:
        told += "; redirects are not followed, set `api_base` to the final address"
    retried = status in _RETRIED
    refused = ModelRequestError(told, retryable=retried, **facts)
    return Fault(refused, may_retry=retried, retry_after=wait)


def fault_of_exception(error: Exception, *, model: str, redactor: Redactor) -> Fault:
    """Judge a failure of the connection.

    Args:
        error: An `httpx.RequestError`.
        model: The model's name, for the message.
        redactor: Takes our secrets out of the message.
    """
    kind = type(error).__name__
    redactor.scrub_error(error)
    told = f"{model}: {kind}" + (f": {error}" if str(error) else "")
    if kind in {"ConnectTimeout", "PoolTimeout"}:
        return Fault(ModelTimeoutError(told), may_retry=True)
    if kind in {"ReadTimeout", "WriteTimeout"}:
        # The model may be at work; asking again would pay twice and wait as long.
        return Fault(ModelTimeoutError(f"{told}: no answer in time"), may_retry=False)
    if "CERTIFICATE_VERIFY_FAILED" in told:
        told += "; pass the authority that signed it as `ca_file`"
        return Fault(ModelUnavailableError(told, retryable=False), may_retry=False)
    if kind in {"LocalProtocolError", "UnsupportedProtocol"}:
        return Fault(ModelRequestError(told), may_retry=False)
    return Fault(ModelUnavailableError(told), may_retry=True)


def reason_of(body: Any) -> tuple[str, str]:
    """Find the sentence and the short code in an error answer of any provider."""
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, Mapping):
        text = body if isinstance(body, str) else ""
        # A page of a proxy says nothing that its status does not.
        return ("", "") if text.lstrip().startswith("<") else (text.strip(), "")
    inner = body.get("error")
    source: Mapping[str, Any] = inner if isinstance(inner, Mapping) else body
    reason = inner if isinstance(inner, str) else source.get("message") or source.get("detail")
    kind = source.get("code") or source.get("type") or body.get("error_type")
    if not isinstance(kind, str) or not re.fullmatch(r"[\w.\-]{1,64}", kind):
        kind = ""
    return ("" if reason is None else str(reason)), kind


def request_id_of(headers: Mapping[str, str]) -> str | None:
    """Find the provider's id of the request."""
    return next((headers[name] for name in _REQUEST_ID_HEADERS if name in headers), None)


def retry_after_of(headers: Mapping[str, str], *, now: datetime | None = None) -> float | None:
    """Read how many seconds to wait: `retry-after-ms`, or `Retry-After` in seconds or as a date."""
    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        value = headers.get("retry-after", "").strip()
        if not value:
            return None
        if re.fullmatch(r"\d+(\.\d+)?", value):
            return float(value)
        until = email.utils.parsedate_to_datetime(value)
        if until.tzinfo is None:
            until = until.replace(tzinfo=UTC)
        return max(0.0, (until - (now or datetime.now(UTC))).total_seconds())
    except ValueError:
        return None
