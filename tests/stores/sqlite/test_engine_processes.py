"""Several processes on one file, killed ones, forked ones, and ones that just end."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Barrier
from pathlib import Path

import apsw
import pytest

from agentmemory.stores.sqlite.engine import SqliteEngine

WAIT_S = 60.0
ROUNDS = 3
WRITES = 30

PRELUDE = """
import asyncio, gc, os, sys, threading, time
import apsw
from agentmemory.errors import AgentMemoryError, StoreFullError, UsageError
from agentmemory.stores.sqlite.engine import SqliteEngine

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"

def create(connection):
    connection.execute("CREATE TABLE IF NOT EXISTS seen (number INTEGER)")

def insert(number):
    return lambda connection: connection.execute("INSERT INTO seen VALUES (?)", (number,)) and None

def count(connection):
    return connection.execute("SELECT count(*) FROM seen").get
"""


def command(script: str, *arguments: str) -> list[str]:
    return [
        *(sys.executable, "-W", "error", "-X", "faulthandler", "-c"),
        PRELUDE + textwrap.dedent(script),
        *arguments,
    ]


def run(script: str, *arguments: str) -> str:
    done = subprocess.run(
        command(script, *arguments), capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


@contextmanager
def started(script: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command(script, *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=WAIT_S)


def files(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())


def read(path: str, sql: str) -> list[tuple[object, ...]]:
    connection = apsw.Connection(path)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


async def _hammer(path: str) -> None:
    engine = SqliteEngine(path, readers=1, busy_timeout_s=30)
    await engine.open()

    def create(connection: apsw.Connection) -> None:
        connection.execute("CREATE TABLE IF NOT EXISTS counter (value INTEGER)")
        if connection.execute("SELECT count(*) FROM counter").get == 0:
            connection.execute("INSERT INTO counter VALUES (0)")

    def increase(connection: apsw.Connection) -> None:
        value = connection.execute("SELECT value FROM counter").get
        connection.execute("UPDATE counter SET value = ?", (value + 1,))

    await engine.write(create)
    last = 0
    for _ in range(WRITES):
        await engine.write(increase)
        value = await engine.read(
            lambda connection: connection.execute("SELECT value FROM counter").get
        )
        assert value > last
        last = value
    await engine.close()


def _hammer_new_files(barrier: Barrier, paths: list[str]) -> None:
    for path in paths:
        barrier.wait(WAIT_S)
        asyncio.run(_hammer(path))


def test_processes_that_open_the_same_new_file_at_once_lose_no_write(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(4)
    paths = [str(tmp_path / f"{number}.db") for number in range(ROUNDS)]
    processes = [context.Process(target=_hammer_new_files, args=(barrier, paths)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(WAIT_S)
    assert [process.exitcode for process in processes] == [0, 0, 0, 0]
    for path in paths:
        assert read(path, "SELECT value FROM counter") == [(4 * WRITES,)]
        assert read(path, "PRAGMA integrity_check") == [("ok",)]


def test_opening_and_closing_at_once_again_and_again_meets_no_error(tmp_path: Path) -> None:
    # The last to close removes the log while the others are opening it.
    script = """
        async def main(path):
            for number in range(25):
                engine = SqliteEngine(path, readers=1)
                await engine.open()
                await engine.write(create)
                await engine.write(insert(number))
                await engine.close()
        asyncio.run(main(sys.argv[1]))
    """
    path = str(tmp_path / "memory.db")
    processes = [subprocess.Popen(command(script, path)) for _ in range(3)]
    assert [process.wait(WAIT_S) for process in processes] == [0, 0, 0]
    assert read(path, "SELECT count(*) FROM seen") == [(75,)]


# Death


def test_a_writer_killed_inside_a_transaction_leaves_what_was_acknowledged(
    tmp_path: Path,
) -> None:
    script = """
        async def main(path):
            engine = SqliteEngine(path)
            await engine.open()
            await engine.write(create)
            for number in range(20):
                await engine.write(insert(number))
            def half(connection):
                for number in range(100, 5000):
                    insert(number)(connection)
                connection.cache_flush()
                print("inside", flush=True)
                time.sleep(600)
            await engine.write(half)
        asyncio.run(main(sys.argv[1]))
    """
    path = str(tmp_path / "memory.db")
    with started(script, path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "inside\n"
        process.send_signal(signal.SIGKILL)
        process.wait(WAIT_S)
    assert Path(path + "-wal").stat().st_size > 0

    async def reopen() -> None:
        engine = SqliteEngine(path)
        await engine.open()
        seen = await engine.read(lambda c: c.execute("SELECT number FROM seen").fetchall())
        assert [number for (number,) in seen] == list(range(20))
        assert await engine.read(lambda c: c.pragma("integrity_check")) == "ok"
        await engine.close()

    asyncio.run(reopen())


def test_writers_killed_at_any_moment_lose_nothing_they_acknowledged(tmp_path: Path) -> None:
    script = """
        async def main(path, start):
            engine = SqliteEngine(path, readers=1)
            await engine.open()
            await engine.write(create)
            for number in range(start, start + 1_000_000):
                def pair(connection, number=number):
                    insert(number)(connection)
                    insert(-number)(connection)
                await engine.write(pair)
                print(number, flush=True)
        asyncio.run(main(sys.argv[1], int(sys.argv[2])))
    """
    path = str(tmp_path / "memory.db")
    acknowledged: set[int] = set()
    for start, enough in ((1, 3), (2_000_000, 150), (4_000_000, 40)):
        with started(script, path, str(start)) as process:
            assert process.stdout is not None
            for _ in range(enough):
                acknowledged.add(int(process.stdout.readline()))
            process.send_signal(signal.SIGKILL)
            # A line cut short by the kill was not acknowledged.
            rest = process.stdout.read()
            acknowledged.update(int(line) for line in rest.splitlines(True) if line.endswith("\n"))
            process.wait(WAIT_S)
    kept = {int(str(number)) for (number,) in read(path, "SELECT number FROM seen")}
    assert acknowledged <= kept
    assert {number for number in kept if number > 0} == {-n for n in kept if n < 0}
    assert read(path, "PRAGMA integrity_check") == [("ok",)]


# No space


def test_a_full_disk_refuses_the_write_and_keeps_what_was_there(tmp_path: Path) -> None:
    directory = tmp_path / "small"
    directory.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(directory)],
        capture_output=True,
        check=False,
    )
    if mount.returncode != 0:
        pytest.skip("needs the right to mount a small file system")
    script = """
        MANY = (
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 2000) "
            "INSERT INTO seen SELECT i FROM n"
        )
        async def main(path):
            engine = SqliteEngine(path)
            await engine.open()
            await engine.write(create)
            written = 0
            try:
                while True:
                    await engine.write(lambda c: c.execute(MANY) and None)
                    written += 2000
            except StoreFullError as error:
                print(type(error.__cause__).__name__)
            assert written
            assert await engine.read(count) == written
            await engine.close()
            engine = SqliteEngine(path)
            await engine.open()
            assert await engine.read(count) == written
            assert await engine.read(lambda c: c.pragma("integrity_check")) == "ok"
            await engine.close()
        asyncio.run(main(sys.argv[1]))
    """
    try:
        assert run(script, str(directory / "memory.db")) == "FullError\n"
    finally:
        subprocess.run(["umount", str(directory)], check=True)


def test_a_quota_that_is_used_up_is_a_full_disk_too(tmp_path: Path) -> None:
    script = """
        import resource
        async def main(path):
            engine = SqliteEngine(path)
            await engine.open()
            await engine.write(create)
            await engine.write(insert(1))
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
            try:
                await engine.write(
                    lambda c: c.execute("CREATE TABLE big AS SELECT randomblob(1000000)") and None)
            except StoreFullError as error:
                print(error)
            await engine.write(insert(2))
            assert await engine.read(count) == 2
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            await engine.write(insert(3))
            assert await engine.read(count) == 3
            await engine.close()
        asyncio.run(main(sys.argv[1]))
    """
    path = str(tmp_path / "memory.db")
    out = run(script, path)
    assert "no space is left" in out
    assert path in out


# Forks


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_is_refused_and_cannot_touch_what_its_parent_has_open(
    tmp_path: Path,
) -> None:
    script = """
        import selectors
        path, other = sys.argv[1:]
        # The child must not tear down a kernel object that it shares with its parent's loop.
        loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
        engine, unopened = SqliteEngine(path), SqliteEngine(other)
        loop.run_until_complete(engine.open())
        loop.run_until_complete(engine.write(create))
        loop.run_until_complete(engine.write(insert(1)))
        busy, gate = threading.Event(), threading.Event()
        def slow(connection):
            insert(2)(connection)
            busy.set()
            gate.wait(60)
        async def write():
            await engine.write(slow)
        task = loop.create_task(write())
        loop.run_until_complete(asyncio.sleep(0))
        busy.wait(60)
        before = os.path.getsize(path + "-wal")
        assert before > 0
        pid = os.fork()
        if not pid:
            async def child():
                for call in (
                    lambda: engine.read(count),
                    lambda: engine.write(insert(9)),
                    lambda: engine.checkpoint(),
                    lambda: engine.close(),
                    lambda: SqliteEngine(path).open(),
                ):
                    try:
                        await call()
                        print("no error")
                    except UsageError as error:
                        print("refused:", "forked" in str(error))
                await unopened.open()
                await unopened.write(create)
                print("other", await unopened.read(count))
                await unopened.close()
            asyncio.run(child())
            globals().pop("engine")
            gc.collect()
            # From here the child ends as any program does: collecting, finalizing.
        else:
            assert os.waitpid(pid, 0)[1] == 0
            assert os.path.getsize(path + "-wal") == before
            gate.set()
            loop.run_until_complete(task)
            loop.run_until_complete(engine.write(insert(3)))
            print("parent", loop.run_until_complete(engine.read(count)))
            print(loop.run_until_complete(engine.read(lambda c: c.pragma("integrity_check"))))
            loop.run_until_complete(engine.close())
            loop.close()
            print(os.path.exists(path + "-wal"))
    """
    done = subprocess.run(
        command(script, str(tmp_path / "a.db"), str(tmp_path / "b.db")),
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        *["refused: True"] * 5,
        "other 0",
        "parent 3",
        "ok",
        "False",
    ]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_file_closed_before_the_fork_may_be_opened_in_the_child(tmp_path: Path) -> None:
    script = """
        async def use(number):
            engine = SqliteEngine(sys.argv[1])
            await engine.open()
            await engine.write(create)
            await engine.write(insert(number))
            print(await engine.read(count), flush=True)
            await engine.close()
        asyncio.run(use(1))
        pid = os.fork()
        asyncio.run(use(2)) if not pid else os.waitpid(pid, 0)
        if pid:
            asyncio.run(use(3))
    """
    assert run(script, str(tmp_path / "memory.db")).split() == ["1", "2", "3"]


# Exit without close


@pytest.mark.parametrize(
    "last_words",
    [
        "",
        "raise SystemExit(0)",
        "loop.create_task(run()); loop.run_until_complete(asyncio.sleep(0)); busy.wait(60)",
        "del engine; gc.collect()",
        "loop.close()",
    ],
    ids=["idle", "SystemExit", "busy", "collected", "loop-closed"],
)
def test_a_program_that_never_closes_ends_at_once_and_in_silence(
    tmp_path: Path, last_words: str
) -> None:
    script = f"""
        engine = SqliteEngine(sys.argv[1])
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda *_: None)
        loop.run_until_complete(engine.open())
        loop.run_until_complete(engine.write(create))
        loop.run_until_complete(engine.write(insert(1)))
        busy = threading.Event()
        def endless(connection):
            insert(2)(connection)
            busy.set()
            connection.execute(ENDLESS).fetchall()
        async def run():
            await engine.write(endless)
        import warnings
        warnings.simplefilter("ignore", ResourceWarning)  # of the loop that is not closed here
        {last_words}
    """
    path = str(tmp_path / "memory.db")
    assert run(script, path) == ""
    assert files(tmp_path) == ["memory.db"], "closed on the way out"
    assert read(path, "SELECT number FROM seen") == [(1,)]


@pytest.mark.parametrize("stuck", ["time.sleep(600)", "while True: pass"])
def test_not_even_an_operation_that_never_returns_keeps_a_program_alive(
    tmp_path: Path, stuck: str
) -> None:
    script = f"""
        async def main():
            engine = SqliteEngine(sys.argv[1], stop_grace_s=0.05)
            await engine.open()
            await engine.write(create)
            def work(connection):
                insert(1)(connection)
                {stuck}
            try:
                await engine.write(work, timeout_s=0.05)
            except TimeoutError:
                print("late")
        asyncio.run(main())
    """
    path = str(tmp_path / "memory.db")
    assert run(script, path) == "late\n"
    assert read(path, "SELECT count(*) FROM seen") == [(0,)]


def test_a_thread_that_ends_after_its_loop_was_closed_says_nothing(tmp_path: Path) -> None:
    script = """
        import agentmemory.stores.sqlite.engine as module
        module._CLOSE_PATIENCE_S = 0.05
        gate = threading.Event()
        async def main():
            engine = SqliteEngine(sys.argv[1], stop_grace_s=0.05)
            await engine.open()
            try:
                await engine.write(lambda _: gate.wait(60), timeout_s=0.05)
            except TimeoutError:
                print("late")
            await engine.close()
        asyncio.run(main())
        threads = [thread for thread in threading.enumerate() if "agentmemory" in thread.name]
        gate.set()
        for thread in threads:
            thread.join(60)
        print(len(threads))
    """
    assert run(script, str(tmp_path / "memory.db")).split() == ["late", "1"]


def test_ctrl_c_in_the_middle_of_a_write_undoes_it_and_ends_the_program(tmp_path: Path) -> None:
    script = """
        def tick():
            # A signal that comes just before the loop starts to wait is seen when it wakes.
            asyncio.get_running_loop().call_later(0.05, tick)
        async def main():
            tick()
            engine = SqliteEngine(sys.argv[1])
            await engine.open()
            try:
                await engine.write(create)
                def work(connection):
                    insert(1)(connection)
                    print("inside", flush=True)
                    connection.execute(ENDLESS).fetchall()
                await engine.write(work)
            finally:
                await engine.close()
                print("closed", flush=True)
        try:
            asyncio.run(main())
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """
    path = str(tmp_path / "memory.db")
    with started(script, path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "inside\n"
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=WAIT_S)
    assert (out, error, process.returncode) == ("closed\ninterrupted\n", "", 0)
    assert files(tmp_path) == ["memory.db"]
    assert read(path, "SELECT count(*) FROM seen") == [(0,)]
