"""The one seam to the network: requests with deadlines, attempts, permits and kept connections.

May import: the modules of this room that judge and count, telemetry, errors; httpx, tenacity and
orjson when the first request is sent, in a worker thread.

It drives an httpx transport instead of an httpx client, for the client logs every address it
calls, queries and passwords included, and would follow redirects with the key in hand.
"""

from __future__ import annotations

import asyncio
import json
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
import anyio.to_thread

from agentmemory.errors import BadModelOutput, ClosedError, ModelError, ModelTimeoutError
from agentmemory.models.accounting import Meter
from agentmemory.models.endpoint import Endpoint
from agentmemory.models.faults import (
    Fault,
    fault_of_exception,
    fault_of_status,
    request_id_of,
)
from agentmemory.telemetry import Event, emit

if TYPE_CHECKING:
    import httpx
    from tenacity import RetryCallState

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]

_LARGE: Final = 256 * 1024
_RAW_KEPT: Final = 20_000
_BACKOFF_FIRST: Final = 0.5
_BACKOFF_LONGEST: Final = 20.0


@dataclass(frozen=True, slots=True)
class Reply:
    """A successful answer: its decoded JSON and the provider's id of the request."""

    data: Any
    request_id: str | None


class Waits:
    """How back-off waits; replaced where tests must not wait."""

    sleep: Sleep = staticmethod(anyio.sleep)


class _FailedAttempt(Exception):  # noqa: N818 - it carries the error, it is none for anyone outside
    def __init__(self, fault: Fault, cause: BaseException | None = None) -> None:
        super().__init__()
        self.fault = fault
        self.cause = cause


class _Permit:
    """A turn to send; given back while the call only waits."""

    def __init__(self, limiter: anyio.CapacityLimiter) -> None:
        self._limiter = limiter
        self._held = False

    async def take(self) -> None:
        await self._limiter.acquire_on_behalf_of(self)
        self._held = True

    def give_back(self) -> None:
        if self._held:
            self._held = False
            self._limiter.release_on_behalf_of(self)


class _Lane:
    """What belongs to one event loop: its permits and its connections."""

    def __init__(self, permits: int) -> None:
        self.limiter = anyio.CapacityLimiter(permits)
        self.opening = anyio.Lock()
        self.transport: httpx.AsyncHTTPTransport | None = None


class HttpClient:
    """Sends JSON to one endpoint.

    Connections belong to the event loop that opened them; a client that is used from several
    loops keeps some for each, and the limit counts per loop.

    Args:
        endpoint: Where to and how.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._lanes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Lane] = (
            weakref.WeakKeyDictionary()
        )
        self._closed = False

    async def post(self, path: str, payload: Mapping[str, Any], meter: Meter) -> Reply:
        """Send a request and wait for its whole answer.

        Args:
            path: What follows the endpoint's address.
            payload: The JSON to send.
            meter: Counts the attempts.

        Returns:
            The answer.

        Raises:
            ModelError: As `faults` judges; `BadModelOutput` for an answer that is not JSON.
            ClosedError: After `aclose`.
        """

        async def send(transport: httpx.AsyncHTTPTransport) -> Reply:
            response = await transport.handle_async_request(self._request(path, body))
            try:
                content = await response.aread()
            finally:
                await response.aclose()
            if not response.is_success:
                raise _FailedAttempt(self._fault(response, content))
            return Reply(await self._decoded(response, content), request_id_of(response.headers))

        async with self._turn() as (lane, permit):
            transport = await self._transport(lane)
            body = _encoded(payload)
            with anyio.move_on_after(self.endpoint.total_timeout):
                return await self._attempts(send, transport, permit, meter)
            raise self._too_late()

    @asynccontextmanager
    async def stream(
        self, path: str, payload: Mapping[str, Any], meter: Meter
    ) -> AsyncGenerator[AsyncIterator[Any]]:
        """Send a request and read its answer as server-sent events.

        Attempts are repeated until the answer begins; a cut after that is an error. The total
        deadline covers the answer too.

        Args:
            path: What follows the endpoint's address.
            payload: The JSON to send.
            meter: Counts the attempts.

        Yields:
            The decoded JSON of each event, in order.

        Raises:
            ModelError: As for `post`.
            ClosedError: After `aclose`.
        """

        async def send(transport: httpx.AsyncHTTPTransport) -> httpx.Response:
            response = await transport.handle_async_request(self._request(path, body))
            if response.is_success:
                return response
            try:
                content = await response.aread()
            finally:
                await response.aclose()
            raise _FailedAttempt(self._fault(response, content))

        async with self._turn() as (lane, permit):
            transport = await self._transport(lane)
            body = _encoded(payload)
            deadline = anyio.current_time() + self.endpoint.total_timeout
            response: httpx.Response | None = None
            with anyio.move_on_at(deadline):
                response = await self._attempts(send, transport, permit, meter)
            if response is None:
                raise self._too_late()
            try:
                async with aclosing(self._events(response, deadline)) as events:
                    yield events
            finally:
                await response.aclose()

    async def aclose(self) -> None:
        """Close the connections of this event loop and refuse further calls."""
        self._closed = True
        lane = self._lanes.pop(asyncio.get_running_loop(), None)
        self._lanes.clear()
        if lane is not None and lane.transport is not None:
            await lane.transport.aclose()

    @asynccontextmanager
    async def _turn(self) -> AsyncGenerator[tuple[_Lane, _Permit]]:
        if self._closed:
            raise ClosedError(f"the client of {self.endpoint.model} is closed")
        loop = asyncio.get_running_loop()
        lane = self._lanes.get(loop)
        if lane is None:
            # The connections of a lane refer to their loop, so a dead one does not go by itself.
            for other in [one for one in self._lanes if one.is_closed()]:
                del self._lanes[other]
            lane = self._lanes[loop] = _Lane(self.endpoint.max_concurrent_requests)
        permit = _Permit(lane.limiter)
        await permit.take()
        try:
            yield lane, permit
        finally:
            permit.give_back()

    async def _transport(self, lane: _Lane) -> httpx.AsyncHTTPTransport:
        if lane.transport is None:
            async with lane.opening:
                if lane.transport is None:
                    lane.transport = await anyio.to_thread.run_sync(_open_transport, self.endpoint)
        return lane.transport

    async def _attempts(
        self,
        send: Callable[[httpx.AsyncHTTPTransport], Awaitable[T]],
        transport: httpx.AsyncHTTPTransport,
        permit: _Permit,
        meter: Meter,
    ) -> T:
        import httpx
        import tenacity

        started = anyio.current_time()
        longest = self.endpoint.total_timeout
        backoff = tenacity.wait_random_exponential(multiplier=_BACKOFF_FIRST, max=_BACKOFF_LONGEST)

        def wait(state: RetryCallState) -> float:
            after = _failure(state).fault.retry_after
            return backoff(state) if after is None else after

        def stop(state: RetryCallState) -> bool:
            # A wait that ends after the deadline helps nobody: tell at once what is wrong.
            late = anyio.current_time() - started + state.upcoming_sleep >= longest
            return state.attempt_number >= self.endpoint.max_attempts or late

        async def rest(seconds: float) -> None:
            permit.give_back()
            await Waits.sleep(seconds)
            await permit.take()

        def tell(state: RetryCallState) -> None:
            meter.retries += 1
            self._tell_retry(state)

        async def attempt() -> T:
            meter.calls += 1
            try:
                return await send(transport)
            except httpx.RequestError as error:
                fault = fault_of_exception(
                    error, model=self.endpoint.model, redactor=self.endpoint.redactor
                )
                raise _FailedAttempt(fault, error) from error

        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(
                lambda error: isinstance(error, _FailedAttempt) and error.fault.may_retry
            ),
            wait=wait,
            stop=stop,
            sleep=rest,
            before_sleep=tell,
            reraise=True,
        )
        try:
            return await retrying(attempt)
        except _FailedAttempt as failed:
            raise failed.fault.error from failed.cause

    def _request(self, path: str, body: bytes) -> httpx.Request:
        import httpx

        connect, read = self.endpoint.connect_timeout, self.endpoint.read_timeout
        timeouts = {"connect": connect, "read": read, "write": read, "pool": connect}
        return httpx.Request(
            "POST",
            self.endpoint.url(path),
            headers=self.endpoint.headers(),
            content=body,
            extensions={"timeout": timeouts},
        )

    def _fault(self, response: httpx.Response, content: bytes) -> Fault:
        try:
            body = _loads(content)
        except ValueError:
            body = content.decode("utf-8", "replace")
        return fault_of_status(
            response.status_code,
            response.headers,
            body,
            model=self.endpoint.model,
            redactor=self.endpoint.redactor,
        )

    async def _decoded(self, response: httpx.Response, content: bytes) -> Any:
        try:
            if len(content) < _LARGE:
                data = _loads(content)
            else:
                data = await anyio.to_thread.run_sync(_loads, content, abandon_on_cancel=True)
        except ValueError:
            raise BadModelOutput(
                f"{self.endpoint.model}: the answer is not JSON",
                raw=content[:_RAW_KEPT].decode("utf-8", "replace"),
                status=response.status_code,
                request_id=request_id_of(response.headers),
            ) from None
        self._refuse_error_in_success(data, response)
        return data

    def _refuse_error_in_success(self, data: Any, response: httpx.Response) -> None:
        # Gateways that answer before the model does report its failure under status 200.
        if not isinstance(data, Mapping) or not isinstance(data.get("error"), Mapping):
            return
        code = data["error"].get("code")
        status = code if isinstance(code, int) and 400 <= code < 600 else 502
        fault = fault_of_status(
            status,
            response.headers,
            data,
            model=self.endpoint.model,
            redactor=self.endpoint.redactor,
        )
        raise _FailedAttempt(fault)

    async def _events(self, response: httpx.Response, deadline: float) -> AsyncGenerator[Any]:
        lines = response.aiter_lines()
        while (line := await self._next_line(lines, deadline)) is not None:
            field, _, value = line.partition(":")
            if field != "data" or not value.strip():
                continue
            if value.strip() == "[DONE]":
                return
            try:
                data = _loads(value.encode())
            except ValueError:
                raise BadModelOutput(
                    f"{self.endpoint.model}: a piece of the answer is not JSON",
                    raw=value[:_RAW_KEPT],
                    status=response.status_code,
                    request_id=request_id_of(response.headers),
                ) from None
            try:
                self._refuse_error_in_success(data, response)
            except _FailedAttempt as failed:
                raise failed.fault.error from None
            yield data

    async def _next_line(self, lines: AsyncIterator[str], deadline: float) -> str | None:
        import httpx

        # The scope ends before the line is handed out: none may stay open while the reader works.
        try:
            with anyio.move_on_at(deadline):
                return await anext(lines)
        except StopAsyncIteration:
            return None
        except httpx.RequestError as error:
            fault = fault_of_exception(
                error, model=self.endpoint.model, redactor=self.endpoint.redactor
            )
            raise fault.error from error
        raise self._too_late()

    def _too_late(self) -> ModelTimeoutError:
        return ModelTimeoutError(
            f"{self.endpoint.model}: no answer within `total_timeout` of "
            f"{self.endpoint.total_timeout:g} s, all attempts included"
        )

    def _tell_retry(self, state: RetryCallState) -> None:
        error: ModelError = _failure(state).fault.error
        facts: dict[str, str | int | float] = {
            "gen_ai.request.model": self.endpoint.model,
            "attempt": state.attempt_number,
            "wait_s": round(state.upcoming_sleep, 3),
            "error.type": error.code,
        }
        if error.status is not None:
            facts["http.response.status_code"] = error.status
        emit(Event(name="model.retry", message="trying again", attributes=facts))


def _failure(state: RetryCallState) -> _FailedAttempt:
    error = None if state.outcome is None else state.outcome.exception()
    if not isinstance(error, _FailedAttempt):
        raise TypeError("only failed attempts are tried again") from error
    return error


def _open_transport(endpoint: Endpoint) -> httpx.AsyncHTTPTransport:
    """Import what requests need and read certificates; runs in a worker thread."""
    import httpcore
    import httpx
    import orjson
    import tenacity

    del httpcore, orjson, tenacity
    count = endpoint.max_concurrent_requests
    return httpx.AsyncHTTPTransport(
        verify=endpoint.tls(),
        proxy=endpoint.proxy(),
        limits=httpx.Limits(
            max_connections=count, max_keepalive_connections=count, keepalive_expiry=30.0
        ),
    )


def _encoded(payload: Mapping[str, Any]) -> bytes:
    import orjson

    try:
        return orjson.dumps(payload)
    except TypeError:
        # A lone surrogate, which no JSON in UTF-8 can hold, or an int above 64 bits.
        return json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace")


def _loads(content: bytes) -> Any:
    import orjson

    return orjson.loads(content)
