"""Calls through a bridge: from anywhere, interrupted at any point, and after its end."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import logging
import signal
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from agentmemory.errors import ClosedError, UsageError
from agentmemory.sync import portal as portal_module
from agentmemory.sync.bridge import Bridge

PATIENCE_S = 20.0


class Farewell:
    """What closes the async side; remembers how often, and where it ran."""

    def __init__(self) -> None:
        self.threads: list[str] = []
        self.error: Exception | None = None

    async def __call__(self) -> None:
        self.threads.append(threading.current_thread().name)
        if self.error is not None:
            raise self.error


@pytest.fixture
def farewell() -> Farewell:
    return Farewell()


@pytest.fixture
def bridge(farewell: Farewell) -> Iterator[Bridge]:
    bridge = Bridge(farewell)
    yield bridge
    bridge.close(farewell)


def thread_of(bridge: Bridge) -> threading.Thread:
    assert bridge._portal is not None
    return bridge._portal._thread


def ended(thread: threading.Thread) -> bool:
    thread.join(PATIENCE_S)
    return not thread.is_alive()


async def double(number: int, *, plus: int = 0) -> int:
    await anyio.lowlevel.checkpoint()
    return 2 * number + plus


def test_a_call_passes_arguments_and_returns_the_result(bridge: Bridge) -> None:
    assert bridge.call(double, 20, plus=2) == 42


def test_no_thread_is_started_before_the_first_call(bridge: Bridge) -> None:
    assert bridge._portal is None
    bridge.call(double, 1)
    assert thread_of(bridge).daemon


def test_the_error_of_a_call_is_the_very_one_that_was_raised(bridge: Bridge) -> None:
    error = LookupError("gone")

    async def fail() -> None:
        await anyio.lowlevel.checkpoint()
        raise error

    with pytest.raises(LookupError) as caught:
        bridge.call(fail)
    assert caught.value is error
    assert error.__cause__ is None
    assert error.__context__ is None


def test_a_traceback_leads_from_the_caller_to_the_async_code(bridge: Bridge) -> None:
    async def innermost() -> None:
        raise LookupError

    async def outer() -> None:
        await innermost()

    with pytest.raises(LookupError) as caught:
        bridge.call(outer)
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names == [
        "test_a_traceback_leads_from_the_caller_to_the_async_code",
        *("call", "call"),
        *("outer", "innermost"),
    ]


def test_calls_that_fail_side_by_side_each_raise_their_own_error_and_never_a_group(
    bridge: Bridge,
) -> None:
    errors = [LookupError(number) for number in range(8)]
    failing: list[LookupError] = []
    everybody: list[anyio.Event] = []

    async def fail(error: LookupError) -> None:
        if not everybody:
            everybody.append(anyio.Event())
        failing.append(error)
        if len(failing) == len(errors):
            everybody[0].set()
        with anyio.fail_after(PATIENCE_S):
            await everybody[0].wait()
        raise error

    with ThreadPoolExecutor(len(errors)) as threads:
        running = [threads.submit(bridge.call, fail, error) for error in errors]
        assert [each.exception(PATIENCE_S) for each in running] == errors
    assert bridge.call(double, 1) == 2


def test_an_error_is_freed_when_its_handler_is_left(bridge: Bridge) -> None:
    class Marker:
        pass

    markers: list[weakref.ref[Marker]] = []

    async def fail() -> None:
        marker = Marker()
        markers.append(weakref.ref(marker))
        raise LookupError

    gc.collect()
    gc.disable()
    try:
        with contextlib.suppress(LookupError):
            bridge.call(fail)
        # The loop may still hold the finished task of the last call, but not of the one before.
        bridge.call(double, 1)
        bridge.call(double, 1)
        assert markers[0]() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), asyncio.CancelledError()])
def test_even_what_ends_programs_passes_through_and_leaves_the_bridge_working(
    bridge: Bridge, error: BaseException
) -> None:
    async def fail() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        bridge.call(fail)
    assert caught.value is error
    assert bridge.call(double, 4) == 8


def test_context_variables_of_the_caller_are_seen_and_not_changed(bridge: Bridge) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="none")

    async def read_and_set() -> str:
        await anyio.lowlevel.checkpoint()
        seen = variable.get()
        variable.set("set by the call")
        return seen

    for value in ("first", "second"):
        variable.set(value)
        assert bridge.call(read_and_set) == value
        assert variable.get() == value


async def test_a_call_works_where_a_loop_is_running(bridge: Bridge) -> None:
    assert bridge.call(double, 5) == 10
    await anyio.lowlevel.checkpoint()
    assert bridge.call(double, 6) == 12


def test_calls_of_many_threads_run_side_by_side(bridge: Bridge) -> None:
    count = 8
    arrived: list[int] = []
    everybody: list[anyio.Event] = []

    async def meet(number: int) -> int:
        if not everybody:
            everybody.append(anyio.Event())
        arrived.append(number)
        if len(arrived) == count:
            everybody[0].set()
        with anyio.fail_after(PATIENCE_S):
            await everybody[0].wait()
        return number

    with ThreadPoolExecutor(count) as threads:
        assert list(threads.map(lambda number: bridge.call(meet, number), range(count))) == list(
            range(count)
        )


def test_first_calls_of_many_threads_share_one_thread(bridge: Bridge) -> None:
    count = 8
    start = threading.Barrier(count)

    async def where() -> int:
        return threading.get_ident()

    def first_call(_: int) -> int:
        start.wait(PATIENCE_S)
        return bridge.call(where)

    with ThreadPoolExecutor(count) as threads:
        assert len(set(threads.map(first_call, range(count)))) == 1


def test_a_call_from_the_bridges_own_loop_is_refused(bridge: Bridge) -> None:
    async def call_again() -> int:
        return bridge.call(double, 1)

    async def close() -> None:
        bridge.close(double, 1)  # type: ignore[arg-type]

    with pytest.raises(UsageError, match="use the async API inside callbacks"):
        bridge.call(call_again)
    with pytest.raises(UsageError, match="use the async API inside callbacks"):
        bridge.call(close)
    assert bridge.call(double, 1) == 2


def test_a_call_from_a_worker_thread_of_the_loop_works(bridge: Bridge) -> None:
    async def call_from_worker() -> int:
        return await anyio.to_thread.run_sync(lambda: bridge.call(double, 3))

    assert bridge.call(call_from_worker) == 6


class Waiting:
    """An async function that waits until it is cancelled, and then takes a while to let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.log: list[str] = []

    async def __call__(self) -> None:
        self.log.append("begun")
        self.begun.set()
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            self.log.append("cancelled")
            raise
        finally:
            with anyio.CancelScope(shield=True):
                for _ in range(10):
                    await anyio.lowlevel.checkpoint()
            self.log.append("let go")


def interrupt_when(begun: threading.Event) -> threading.Thread:
    """Send this process Ctrl-C as soon as the event is set."""
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        if begun.wait(PATIENCE_S):
            signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    return thread


def test_ctrl_c_cancels_the_task_and_waits_until_it_has_let_go(bridge: Bridge) -> None:
    waiting = Waiting()
    thread = interrupt_when(waiting.begun)
    with pytest.raises(KeyboardInterrupt):
        bridge.call(waiting)
    assert waiting.log == ["begun", "cancelled", "let go"]
    assert ended(thread)
    assert bridge.call(double, 1) == 2


def test_a_call_that_outlives_many_steps_of_waiting_still_returns(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portal_module, "_WAIT_STEP_S", 0.0001)

    async def long() -> int:
        for _ in range(1000):
            await anyio.lowlevel.checkpoint()
        return 1

    assert bridge.call(long) == 1


def test_an_interrupted_caller_does_not_wait_forever_for_a_task_that_does_not_let_go(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portal_module, "_PATIENCE_S", 0.01)
    begun, release = threading.Event(), threading.Event()

    async def stubborn() -> None:
        begun.set()
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(release.wait, PATIENCE_S)

    thread = interrupt_when(begun)
    with pytest.raises(KeyboardInterrupt):
        bridge.call(stubborn)
    assert not release.is_set()
    release.set()
    assert ended(thread)


def test_an_interruption_before_the_call_is_handed_over_leaves_nothing_to_run(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    # There is nothing to wait for; were it waited for, the test would not end.
    monkeypatch.setattr(portal_module, "_PATIENCE_S", 3600.0)
    bridge.call(double, 1)
    waiting = Waiting()

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(bridge._portal._portal, "start_task_soon", interrupted)  # type: ignore[union-attr]
        with pytest.raises(KeyboardInterrupt):
            bridge.call(waiting)
    assert bridge.call(double, 1) == 2
    assert waiting.log == []


def test_an_interruption_while_the_call_is_handed_over_cancels_it(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    bridge.call(double, 1)
    assert bridge._portal is not None
    assert bridge._portal._portal is not None
    hand_over = bridge._portal._portal.start_task_soon
    waiting = Waiting()

    def interrupted(function: Callable[..., Any]) -> None:
        hand_over(function)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(bridge._portal._portal, "start_task_soon", interrupted)
        with pytest.raises(KeyboardInterrupt):
            bridge.call(waiting)
    assert bridge.call(double, 1) == 2
    assert waiting.log in ([], ["begun", "cancelled", "let go"])


def test_an_interruption_of_a_handed_over_call_that_has_not_begun_keeps_it_from_beginning(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    bridge.call(double, 1)
    assert bridge._portal is not None
    assert bridge._portal._portal is not None
    waiting = Waiting()
    late: list[Callable[..., Any]] = []

    def interrupted(function: Callable[..., Any]) -> None:
        late.append(function)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(bridge._portal._portal, "start_task_soon", interrupted)
        with pytest.raises(KeyboardInterrupt):
            bridge.call(waiting)
    bridge.call(late[0])
    assert waiting.log == []


def test_after_close_every_call_is_refused_and_the_thread_is_gone(
    bridge: Bridge, farewell: Farewell
) -> None:
    bridge.call(double, 1)
    thread = thread_of(bridge)
    bridge.close(farewell)
    assert not thread.is_alive()
    assert set(farewell.threads) == {"agentmemory-portal"}
    with pytest.raises(ClosedError, match="open a new one"):
        bridge.call(double, 1)


def test_closing_twice_does_no_harm(bridge: Bridge, farewell: Farewell) -> None:
    bridge.call(double, 1)
    bridge.close(farewell)
    before = list(farewell.threads)
    bridge.close(farewell)
    assert farewell.threads == before


def test_a_bridge_that_was_never_used_closes_without_a_thread(
    bridge: Bridge, farewell: Farewell
) -> None:
    bridge.close(farewell)
    assert bridge._portal is None
    with pytest.raises(ClosedError):
        bridge.call(double, 1)


def test_whoever_closes_at_the_same_time_waits_until_it_is_closed(bridge: Bridge) -> None:
    bridge.call(double, 1)
    thread = thread_of(bridge)
    closing, release = threading.Event(), threading.Event()
    log: list[str] = []

    async def close() -> None:
        closing.set()
        await anyio.to_thread.run_sync(release.wait, PATIENCE_S)
        log.append("closed")

    async def close_again() -> None:
        log.append("closed again")

    def second() -> bool:
        assert closing.wait(PATIENCE_S)
        threading.Timer(0, release.set).start()
        bridge.close(close_again)
        log.append("returned")
        return thread.is_alive()

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(bridge.close, close)
        assert threads.submit(second).result(PATIENCE_S) is False
        first.result(PATIENCE_S)
    assert log == ["closed", "returned"]


def test_a_call_that_is_running_when_the_bridge_closes_ends_with_closed_error(
    bridge: Bridge, farewell: Farewell
) -> None:
    waiting = Waiting()
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(bridge.call, waiting)
        assert waiting.begun.wait(PATIENCE_S)
        bridge.close(farewell)
        with pytest.raises(ClosedError):
            running.result(PATIENCE_S)
    assert waiting.log == ["begun", "cancelled", "let go"]


def test_a_caller_that_was_about_to_hand_over_when_the_bridge_closed_is_answered(
    bridge: Bridge, farewell: Farewell, monkeypatch: pytest.MonkeyPatch
) -> None:
    bridge.call(double, 1)
    assert bridge._portal is not None
    about_to, expected = threading.Event(), threading.Event()
    is_awaited = portal_module.Portal._is_awaited
    hand_over = bridge._portal._portal._spawn_task_from_thread  # type: ignore[union-attr]

    def watched(portal: portal_module.Portal) -> bool:
        if awaited := is_awaited(portal):
            expected.set()
        return awaited

    def delayed(*arguments: Any) -> None:
        about_to.set()
        assert expected.wait(PATIENCE_S), "the loop did not wait for the caller"
        hand_over(*arguments)

    # Between anyio's look whether the portal runs and the hand-over itself.
    monkeypatch.setattr(bridge._portal._portal, "_spawn_task_from_thread", delayed)
    waiting = Waiting()
    with ThreadPoolExecutor(2) as threads:
        running = threads.submit(bridge.call, waiting)
        assert about_to.wait(PATIENCE_S)
        monkeypatch.setattr(portal_module.Portal, "_is_awaited", watched)
        bridge._portal.leave()
        with pytest.raises(ClosedError):
            running.result(PATIENCE_S)
    assert ended(thread_of(bridge))
    assert waiting.log in ([], ["begun", "cancelled", "let go"])


def test_calls_that_race_with_close_are_answered_or_refused(farewell: Farewell) -> None:
    count = 4
    for _ in range(20):
        bridge = Bridge(farewell)
        bridge.call(double, 1)
        start = threading.Barrier(count + 1)

        def call_until_closed(bridge: Bridge = bridge, start: threading.Barrier = start) -> int:
            start.wait(PATIENCE_S)
            for number in range(1_000_000):
                try:
                    assert bridge.call(double, number) == 2 * number
                except ClosedError:
                    return number
            raise AssertionError("it was never closed")

        with ThreadPoolExecutor(count) as threads:
            callers = [threads.submit(call_until_closed) for _ in range(count)]
            start.wait(PATIENCE_S)
            bridge.close(farewell)
            assert all(caller.result(PATIENCE_S) >= 0 for caller in callers)


def test_an_error_of_closing_reaches_the_caller_and_the_thread_ends_all_the_same(
    bridge: Bridge, farewell: Farewell
) -> None:
    bridge.call(double, 1)
    thread = thread_of(bridge)
    error = LookupError("cannot close")

    async def close() -> None:
        raise error

    with pytest.raises(LookupError) as caught:
        bridge.close(close)
    assert caught.value is error
    assert not thread.is_alive()
    bridge.close(close)


def test_ctrl_c_while_closing_ends_the_thread_all_the_same(bridge: Bridge) -> None:
    bridge.call(double, 1)
    thread = thread_of(bridge)
    waiting = Waiting()
    interrupter = interrupt_when(waiting.begun)
    with pytest.raises(KeyboardInterrupt):
        bridge.close(waiting)
    assert waiting.log == ["begun", "cancelled", "let go"]
    assert not thread.is_alive()
    assert ended(interrupter)


def test_a_collected_bridge_says_farewell_and_ends_its_thread(farewell: Farewell) -> None:
    bridge = Bridge(farewell)
    bridge.call(double, 1)
    thread = thread_of(bridge)
    del bridge
    assert ended(thread)
    assert farewell.threads == ["agentmemory-portal"]


def test_a_portal_that_is_to_leave_before_its_loop_runs_leaves_as_soon_as_it_does(
    farewell: Farewell,
) -> None:
    portal = portal_module.Portal(farewell)
    portal.leave()
    portal.start()
    assert ended(portal._thread)
    assert farewell.threads == ["agentmemory-portal"]


def test_a_bridge_in_a_cycle_is_collected_in_any_thread(farewell: Farewell) -> None:
    bridge = Bridge(farewell)
    bridge.call(double, 1)
    thread = thread_of(bridge)
    cycle: list[Any] = [bridge]
    cycle.append(cycle)
    # The collector may well run in the thread that is to end.
    other = Bridge(farewell)
    del bridge, cycle

    async def collect() -> None:
        gc.collect()

    other.call(collect)
    assert ended(thread)
    other.close(farewell)


def test_a_farewell_that_fails_with_nobody_to_tell_is_logged(
    farewell: Farewell, caplog: pytest.LogCaptureFixture
) -> None:
    farewell.error = LookupError("cannot close")
    bridge = Bridge(farewell)
    bridge.call(double, 1)
    thread = thread_of(bridge)
    with caplog.at_level(logging.WARNING, logger="agentmemory"):
        del bridge
        assert ended(thread)
    assert "could not be closed properly" in caplog.text
    assert "cannot close" in caplog.text


def test_a_loop_that_dies_answers_its_callers(
    farewell: Farewell, caplog: pytest.LogCaptureFixture
) -> None:
    bridge = Bridge(farewell)
    waiting = Waiting()

    async def stop_the_loop() -> None:
        asyncio.get_running_loop().stop()
        await anyio.sleep_forever()

    with ThreadPoolExecutor(1) as threads, caplog.at_level(logging.WARNING, logger="agentmemory"):
        running = threads.submit(bridge.call, waiting)
        assert waiting.begun.wait(PATIENCE_S)
        with pytest.raises((ClosedError, asyncio.CancelledError)):
            bridge.call(stop_the_loop)
        with pytest.raises((ClosedError, asyncio.CancelledError)):
            running.result(PATIENCE_S)
    assert ended(thread_of(bridge))
    assert "ended with an error" in caplog.text
    with pytest.raises(ClosedError):
        bridge.call(double, 1)
    bridge.close(farewell)
    assert farewell.threads == []


def test_a_loop_that_dies_while_it_cancels_its_calls_answers_them_as_well(
    farewell: Farewell, caplog: pytest.LogCaptureFixture
) -> None:
    bridge = Bridge(farewell)

    async def stop_the_loop() -> None:
        loop = asyncio.get_running_loop()
        try:
            loop.stop()
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            loop.stop()
            await asyncio.Event().wait()

    with caplog.at_level(logging.WARNING, logger="agentmemory"), pytest.raises(ClosedError):
        bridge.call(stop_the_loop)
    assert ended(thread_of(bridge))


def test_a_fork_leaves_the_loop_of_its_parent_alone(bridge: Bridge) -> None:
    bridge.call(double, 1)
    portal = bridge._portal
    assert portal is not None
    assert portal._stop is not None
    pid, portal._pid = portal._pid, -1
    portal.leave()
    portal._pid, portal._leaving = pid, False
    # What was sent to the loop before this call has arrived when it returns.
    bridge.call(double, 1)
    assert not portal._stop.is_set()


def test_a_thread_that_cannot_be_started_is_a_usage_error_and_may_start_later(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(UsageError, match="can't start new thread"):
            bridge.call(double, 1)
    assert bridge.call(double, 1) == 2


def test_a_loop_that_cannot_be_started_is_a_usage_error_and_may_start_later(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_loop() -> asyncio.AbstractEventLoop:
        raise OSError("too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(asyncio.events, "new_event_loop", no_loop)
        with pytest.raises(UsageError, match="event loop") as caught:
            bridge.call(double, 1)
    assert isinstance(caught.value.__cause__, OSError)
    assert bridge.call(double, 1) == 2


def test_a_first_call_that_is_interrupted_leaves_a_bridge_that_works(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(portal_module.Portal, "_hand_over", interrupted)
        with pytest.raises(KeyboardInterrupt):
            bridge.call(double, 1)
    thread = thread_of(bridge)
    assert bridge.call(double, 1) == 2
    assert thread_of(bridge) is thread
