"""The detector of blocking calls trips on what blocks, and only there."""

from __future__ import annotations

import functools
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio.to_thread
import apsw
import pytest
from blockbuster import BlockingError

from tests.support.blocking import PACKAGE, BlockingCalls

ROOT = Path(__file__).parents[2]

SAMPLES = """
import time
import apsw

def sleep():
    time.sleep(0)

def read_file(path):
    with open(path) as file:
        return file.read()

def open_database():
    return apsw.Connection(":memory:")

def execute(db):
    return db.execute("SELECT 1").fetchall()

def execute_many(db):
    return db.executemany("SELECT ?", [(1,), (2,)])

def full_text(db):
    return db.execute("SELECT * FROM notes WHERE notes MATCH 'tea'").fetchall()

def transaction(db):
    with db:
        pass

def fetch(cursor):
    return cursor.fetchall()

def next_row(cursor):
    return next(cursor)

def backup(source, target):
    with target.backup("main", source, "main") as copy:
        copy.step(1)

def read_blob(db):
    return db.blob_open("main", "files", "body", 1, False).read()

def checkpoint(db):
    return db.wal_checkpoint()

def close(db):
    db.close()

def swallow():
    try:
        time.sleep(0)
    except Exception:
        pass
"""


def _sample(name: str) -> Callable[..., Any]:
    """Give a function whose frame lies in the package."""
    space: dict[str, Any] = {}
    exec(compile(SAMPLES, str(Path(PACKAGE) / "sample.py"), "exec"), space)
    return space[name]


def _database() -> apsw.Connection:
    db = apsw.Connection(":memory:")
    db.execute("CREATE TABLE files (id INTEGER PRIMARY KEY, body BLOB)")
    db.execute("INSERT INTO files VALUES (1, x'0102')")
    db.execute("CREATE VIRTUAL TABLE notes USING fts5(text)")
    db.execute("INSERT INTO notes VALUES ('green tea')")
    return db


def _two_rows() -> apsw.Cursor:
    return _database().execute("SELECT 1 UNION SELECT 2")


ARGUMENTS: dict[str, Callable[[], tuple[Any, ...]]] = {
    "sleep": tuple,
    "read_file": lambda: (__file__,),
    "open_database": tuple,
    "execute": lambda: (_database(),),
    "execute_many": lambda: (_database(),),
    "full_text": lambda: (_database(),),
    "transaction": lambda: (_database(),),
    "fetch": lambda: (_two_rows(),),
    "next_row": lambda: (_two_rows(),),
    "backup": lambda: (_database(), _database()),
    "read_blob": lambda: (_database(),),
    "checkpoint": lambda: (_database(),),
    "close": lambda: (_database(),),
}


@pytest.fixture(params=sorted(ARGUMENTS))
def call(request: pytest.FixtureRequest) -> Callable[[], Any]:
    return functools.partial(_sample(request.param), *ARGUMENTS[request.param]())


async def test_a_blocking_call_of_the_package_on_the_loop_is_found(
    call: Callable[[], Any], blocking_calls: BlockingCalls
) -> None:
    with blocking_calls.expected() as found, pytest.raises(BlockingError):
        call()
    assert len(found) == 1
    assert "sample.py" in found[0]


async def test_the_same_call_in_a_worker_thread_is_fine(call: Callable[[], Any]) -> None:
    await anyio.to_thread.run_sync(call)


def test_the_same_call_without_a_loop_is_fine(call: Callable[[], Any]) -> None:
    call()


async def test_a_plain_thread_beside_a_running_loop_is_fine(call: Callable[[], Any]) -> None:
    errors: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    await anyio.to_thread.run_sync(thread.join)
    assert errors == []


async def test_what_a_test_does_by_itself_is_its_own_business(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_text("text", encoding="utf-8")
    assert path.read_text(encoding="utf-8") == "text"
    assert _database().execute("SELECT count(*) FROM notes").get == 1


async def test_a_find_is_kept_when_the_code_swallows_the_error(
    blocking_calls: BlockingCalls,
) -> None:
    with blocking_calls.expected() as found:
        _sample("swallow")()
    assert len(found) == 1


def test_a_swallowed_find_fails_the_test_it_happened_in(tmp_path: Path) -> None:
    (tmp_path / "test_inner.py").write_text(
        textwrap.dedent(f"""
            import time

            SOURCE = '''
            import time
            def swallow():
                try:
                    time.sleep(0)
                except Exception:
                    pass
            '''

            async def test_blocks():
                space = {{}}
                name = {str(Path(PACKAGE) / "sample.py")!r}
                exec(compile(SOURCE, name, "exec"), space)
                space["swallow"]()

            async def test_does_not_block():
                pass
        """),
        encoding="utf-8",
    )
    run = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("-p", "tests.support.blocking", "-c", str(ROOT / "pyproject.toml")),
            *("--rootdir", str(tmp_path), str(tmp_path / "test_inner.py")),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "2 passed, 1 error" in run.stdout, run.stdout + run.stderr
    assert "the event loop was blocked by" in run.stdout
