"""An engine opens with care, closes for good, and is gone when nobody holds it."""

from __future__ import annotations

import asyncio
import gc
import inspect
import math
import subprocess
import sys
import textwrap
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from agentmemory.errors import (
    AgentMemoryError,
    ClosedError,
    ConflictError,
    SchemaMismatchError,
    StoreBusyError,
    StoreUnavailableError,
    UsageError,
    ValidationError,
)
from agentmemory.stores.sqlite.engine import SqliteEngine
from tests.support.engine import (
    WAIT_S,
    add,
    assert_threads_end,
    content,
    create,
    files,
    own_threads,
    pragma,
    texts,
)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "memory.db")


@pytest.fixture(params=["file", "memory"])
async def engine(request: pytest.FixtureRequest, path: str) -> AsyncIterator[SqliteEngine]:
    engine = SqliteEngine(path if request.param == "file" else ":memory:")
    await engine.open()
    await engine.write(create)
    yield engine
    await engine.close()


@pytest.fixture
async def filed(path: str) -> AsyncIterator[SqliteEngine]:
    engine = SqliteEngine(path)
    await engine.open()
    await engine.write(create)
    yield engine
    await engine.close()


# Opening


def run_script(script: str, *arguments: str, timeout: float = 60) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script), *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


async def refusal(path: str) -> AgentMemoryError:
    engine = SqliteEngine(path)
    with pytest.raises(AgentMemoryError) as caught:
        await engine.open()
    return caught.value


async def test_a_path_that_cannot_be_opened_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    cases = {
        str(tmp_path / "missing" / "memory.db"): "does not exist",
        str(tmp_path): "it is a directory",
        str(tmp_path / "file" / "memory.db"): "is not a directory",
        str(tmp_path / "memory.db") + "/": "must name a file",
        "": "must name a file",
        str(tmp_path / ("long" * 100)): "name too long",
    }
    for path, reason in cases.items():
        error = await refusal(path)
        assert type(error) is StoreUnavailableError
        assert repr(path) in str(error)
        assert reason in str(error).lower()
    assert files(tmp_path) == ["file"]


async def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("shopping list\n" * 500, encoding="utf-8")
    before = content(str(file))
    error = await refusal(str(file))
    assert type(error) is SchemaMismatchError
    assert "is not an agentmemory database" in str(error)
    assert isinstance(error.__cause__, apsw.NotADBError)
    assert content(str(file)) == before
    assert files(tmp_path) == ["notes.txt"]


async def test_a_foreign_database_can_be_refused_before_anything_in_it_changes(path: str) -> None:
    other = apsw.Connection(path)
    other.execute("CREATE TABLE theirs (x)")
    other.close()
    before = content(path)

    def admit(connection: apsw.Connection) -> None:
        if connection.table_exists("main", "theirs"):
            raise SchemaMismatchError("theirs")

    with pytest.raises(SchemaMismatchError, match="theirs"):
        await SqliteEngine(path, admit=admit).open()
    assert content(path) == before
    assert files(Path(path).parent) == ["memory.db"]


async def test_a_failed_open_leaves_no_thread_and_may_be_repeated(tmp_path: Path) -> None:
    directory = tmp_path / "later"
    engine = SqliteEngine(str(directory / "memory.db"))
    for _ in range(20):
        with pytest.raises(StoreUnavailableError):
            await engine.open()
    assert_threads_end()
    directory.mkdir()
    await engine.open()
    await engine.write(create)
    assert await engine.read(texts) == []
    await engine.close()


async def test_a_reader_that_cannot_be_set_up_undoes_the_whole_opening(path: str) -> None:
    failing = True

    def setup(_: apsw.Connection) -> None:
        if failing and threading.current_thread().name == "agentmemory-reader":
            raise KeyError("function")

    engine = SqliteEngine(path, setup=setup)
    for _ in range(5):
        with pytest.raises(KeyError):
            await engine.open()
        assert_threads_end()
    failing = False
    await engine.open()
    await engine.write(create)
    assert await engine.read(texts) == []
    await engine.close()


async def test_a_relative_path_survives_a_change_of_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "first").mkdir()
    monkeypatch.chdir(tmp_path / "first")
    engine = SqliteEngine("memory.db", readers=1)
    await engine.open()
    monkeypatch.chdir(tmp_path)
    await engine.write(create)
    await engine.write(add("tea"))
    leaked: list[apsw.Cursor] = []

    def leak(connection: apsw.Connection) -> None:
        leaked.append(connection.execute("SELECT text FROM note UNION ALL SELECT text FROM note"))

    await engine.read(leak)
    assert await engine.read(texts) == ["tea"], "the reader was replaced by a new connection"
    await engine.close()
    assert engine.path == str(tmp_path / "first" / "memory.db")
    assert files(tmp_path / "first") == ["memory.db"]
    assert files(tmp_path) == ["first"]


def test_missing_permissions_are_told_apart(tmp_path: Path) -> None:
    script = """
        import asyncio, os, sys, tempfile
        from agentmemory.errors import AgentMemoryError
        from agentmemory.stores.sqlite.engine import SqliteEngine

        async def attempt(path):
            engine = SqliteEngine(path)
            try:
                await engine.open()
                await engine.write(lambda c: c.execute("CREATE TABLE IF NOT EXISTS t (x)") and None)
            finally:
                await engine.close()

        with tempfile.TemporaryDirectory() as top:
            os.chmod(top, 0o755)
            readonly, locked, shut = (os.path.join(top, n) for n in ("a.db", "b.db", "shut"))
            for path in (readonly, locked):
                asyncio.run(attempt(path))
            os.chmod(readonly, 0o444)
            os.chmod(locked, 0o000)
            os.mkdir(shut, 0o700)
            cases = (readonly, locked, os.path.join(shut, "c.db"), os.path.join(top, "new.db"))
            os.chmod(top, 0o555)
            pid = os.fork()
            if not pid:
                if os.getuid() == 0:
                    os.setuid(65534)
                for path in cases:
                    try:
                        asyncio.run(attempt(path))
                    except AgentMemoryError as error:
                        print(type(error).__name__, os.path.basename(path), error)
                    else:
                        print("opened", path)
                sys.stdout.flush()
                os._exit(0)
            os.waitpid(pid, 0)
            os.chmod(top, 0o755)
    """
    lines = run_script(script).splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["StoreUnavailableError", name] for name in ("a.db", "b.db", "c.db", "new.db")
    ]
    assert "read-only" in lines[0]
    for line in lines[1:]:
        assert "permission" in line.lower()


async def test_opening_waits_for_a_lock_and_then_gives_up(path: str) -> None:
    other = apsw.Connection(path)
    other.execute("CREATE TABLE early (x)")
    other.execute("BEGIN EXCLUSIVE")
    engine = SqliteEngine(path, busy_timeout_s=0.1)
    with pytest.raises(StoreBusyError, match=r"busy timeout of 0\.1 s"):
        await engine.open()
    loop, trying = asyncio.get_running_loop(), asyncio.Event()

    def admit(connection: apsw.Connection) -> None:
        loop.call_soon_threadsafe(trying.set)
        connection.pragma("application_id")

    patient = SqliteEngine(path, admit=admit)
    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as group:
        opening = group.create_task(patient.open())
        await trying.wait()
        assert not opening.done()
        other.execute("COMMIT")
    assert await patient.read(pragma("journal_mode")) == "wal"
    await patient.close()
    other.close()


async def test_a_lock_that_sqlite_does_not_wait_for_is_waited_for_when_opening(path: str) -> None:
    # Where waiting could deadlock, and while another process recovers the log, SQLite fails at
    # once without asking the busy handler.
    failures: list[apsw.Error] = [apsw.BusyError("locked"), apsw.ProtocolError("locking protocol")]

    def admit(_: apsw.Connection) -> None:
        if failures:
            raise failures.pop()

    engine = SqliteEngine(path, admit=admit)
    await engine.open()
    await engine.close()
    assert failures == []


def test_bad_arguments_are_named() -> None:
    cases: list[tuple[str, dict[str, Any]]] = [
        ("path", {"path": 7}),
        ("path", {"path": "a\0b"}),
        ("readers", {"readers": 0}),
        ("readers", {"readers": True}),
        ("readers", {"readers": 65}),
        ("durability", {"durability": "fast"}),
        ("busy_timeout_s", {"busy_timeout_s": -1}),
        ("operation_timeout_s", {"operation_timeout_s": 0}),
        ("operation_timeout_s", {"operation_timeout_s": math.nan}),
        ("stop_grace_s", {"stop_grace_s": "5"}),
    ]
    for argument, given in cases:
        with pytest.raises(ValidationError, match=f"`{argument}`") as caught:
            SqliteEngine(**{"path": "memory.db", **given})
        assert caught.value.argument == argument
        assert repr(given[argument]) in str(caught.value)


async def test_a_bad_timeout_of_one_call_is_named(engine: SqliteEngine) -> None:
    with pytest.raises(ValidationError, match="`timeout_s`"):
        await engine.read(texts, timeout_s=0)
    assert await engine.read(texts, timeout_s=math.inf) == []


# The life of an engine


async def test_it_must_be_opened_first_and_only_once(path: str) -> None:
    engine = SqliteEngine(path)
    with pytest.raises(UsageError, match="open"):
        await engine.read(texts)
    await engine.open()
    with pytest.raises(UsageError, match="already"):
        await engine.open()
    await engine.close()


async def test_after_close_every_call_says_so_and_closing_again_does_no_harm(
    path: str,
) -> None:
    engine = SqliteEngine(path)
    await engine.open()
    await engine.write(create)
    await engine.close()
    await engine.close()
    for call in (engine.read, engine.write, engine.maintain):
        with pytest.raises(ClosedError):
            await call(lambda _: None)
    for again in (engine.open, engine.checkpoint):
        with pytest.raises(ClosedError):
            await again()
    assert files(Path(path).parent) == ["memory.db"], "the log is merged and gone"
    assert_threads_end()


async def test_an_engine_that_was_never_opened_can_be_closed(path: str) -> None:
    engine = SqliteEngine(path)
    await engine.close()
    with pytest.raises(ClosedError):
        await engine.open()
    assert files(Path(path).parent) == []


async def test_closing_finishes_what_was_called_before(engine: SqliteEngine) -> None:
    loop = asyncio.get_running_loop()
    running, gate = asyncio.Event(), threading.Event()
    ran: list[str] = []

    def first(_: apsw.Connection) -> None:
        loop.call_soon_threadsafe(running.set)
        assert gate.wait(WAIT_S)
        ran.append("first")

    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as group:
        group.create_task(engine.write(first))
        group.create_task(engine.write(lambda _: ran.append("second")))
        await running.wait()
        closings = [group.create_task(engine.close()) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(ClosedError):
            await engine.write(lambda _: ran.append("late"))
        assert not any(closing.done() for closing in closings)
        gate.set()
    assert ran == ["first", "second"]


async def test_closing_checkpoints_beside_an_open_reader_of_another_process(path: str) -> None:
    engine = SqliteEngine(path)
    await engine.open()
    await engine.write(create)
    other = apsw.Connection(path)
    other.execute("BEGIN")
    other.execute("SELECT * FROM note").fetchall()
    await engine.write(add("tea"))
    await engine.close()
    assert other.execute("SELECT * FROM note").fetchall() == []
    other.execute("COMMIT")
    assert other.execute("SELECT text FROM note").get == "tea"
    other.close()


def test_another_event_loop_is_refused_but_may_close(path: str) -> None:
    engine = SqliteEngine(path)
    asyncio.run(engine.open())

    async def use() -> None:
        with pytest.raises(UsageError, match="another event loop"):
            await engine.read(texts)
        await engine.close()
        with pytest.raises(ClosedError):
            await engine.read(texts)

    asyncio.run(use())
    assert_threads_end()


def test_without_an_event_loop_it_says_what_it_needs(path: str) -> None:
    coroutine = SqliteEngine(path).open()
    with pytest.raises(UsageError, match="asyncio"):
        coroutine.send(None)


def test_a_loop_that_closes_under_a_running_write_leaves_the_worker_at_work(path: str) -> None:
    engine = SqliteEngine(path)
    running, gate = threading.Event(), threading.Event()

    def work(connection: apsw.Connection) -> None:
        running.set()
        assert gate.wait(WAIT_S)
        add("tea")(connection)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(engine.open())
    loop.run_until_complete(engine.write(create))
    write = engine.write(work)
    handle = loop.create_task(write)
    loop.run_until_complete(asyncio.sleep(0))
    assert running.wait(WAIT_S)
    loop.set_exception_handler(lambda *_: None)  # it would log that a task is still pending
    loop.close()
    gate.set()
    del handle, write
    gc.collect()
    asyncio.run(engine.close())
    other = apsw.Connection(path)
    assert texts(other) == ["tea"]
    other.close()


@pytest.fixture
def no_garbage() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def test_an_engine_that_nobody_closed_is_collected_with_its_threads(
    path: str, no_garbage: None
) -> None:
    engine = SqliteEngine(path)
    await engine.open()
    await engine.write(create)
    assert await engine.read(texts) == []
    with pytest.raises(ConflictError):
        await engine.write(lambda connection: [add("tea")(connection) for _ in range(2)])
    threads = own_threads()
    assert len(threads) == 3
    gone = weakref.ref(engine)
    del engine
    gc.collect()
    assert gone() is None
    assert_threads_end()
    assert files(Path(path).parent) == ["memory.db"], "the last to leave tidied up"


async def freed(gone: weakref.ref[Any]) -> bool:
    for _ in range(1000):
        if gone() is None:
            return True
        # The thread drops its last reference just after it has answered.
        await asyncio.sleep(0.001)
    return False


async def test_results_and_closures_are_not_kept_alive_by_an_idle_thread(
    engine: SqliteEngine, no_garbage: None
) -> None:
    class Thing:
        pass

    def operation() -> tuple[Callable[[apsw.Connection], Thing], weakref.ref[Thing]]:
        thing = Thing()
        return lambda _: thing, weakref.ref(thing)

    for call in (engine.read, engine.write):
        work, gone = operation()
        await call(work)
        del work
        assert await freed(gone)


async def test_an_error_that_was_handled_is_gone_without_the_collector(
    engine: SqliteEngine, no_garbage: None
) -> None:
    class FaultError(Exception):
        pass

    def fail(connection: apsw.Connection) -> None:
        raise FaultError

    def clash(connection: apsw.Connection) -> None:
        add("tea")(connection)
        add("tea")(connection)

    for work in (fail, clash):
        gone: weakref.ref[BaseException] | None = None
        try:
            await engine.write(work)
        except (FaultError, ConflictError) as error:
            gone = weakref.ref(error)
        assert gone is not None
        assert await freed(gone)


def test_what_a_caller_gives_is_keyword_only_behind_the_first_argument() -> None:
    for function in (SqliteEngine, SqliteEngine.read, SqliteEngine.write, SqliteEngine.maintain):
        parameters = [
            parameter
            for name, parameter in inspect.signature(function).parameters.items()
            if name != "self"
        ]
        assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters[1:])
