"""What ends, interrupts or splits a process: exit, Ctrl-C, fork."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from agentmemory import AgentMemory
from tests.sync import children

PREAMBLE = """
import asyncio, gc, os, signal, sys, threading
import anyio, anyio.to_thread
from agentmemory import AgentMemory, ClosedError, UsageError
from agentmemory.testing import HashEmbedder

path = sys.argv[1]

class Hanging(HashEmbedder):
    async def embed(self, texts, *, is_query=False):
        print("embedding", flush=True)
        try:
            await anyio.sleep_forever()
        finally:
            print("let go", flush=True)

class InWorkerThread(HashEmbedder):
    async def embed(self, texts, *, is_query=False):
        return await anyio.to_thread.run_sync(
            anyio.run, lambda: HashEmbedder().embed(texts, is_query=is_query)
        )
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


def stored(path: Path) -> list[str]:
    """What another process finds in the file, which has to be all of it."""
    assert not Path(f"{path}-wal").exists(), "the store was not closed"
    with AgentMemory(path, embedder=None) as memory:
        page = memory.list_memories(user_id="u1")
        return [record.content for record in page.items]


ENDINGS = {
    "at the end of the program": "",
    "by sys.exit in a function": "def end():\n    sys.exit(0)\nend()",
    "in a loop": "async def end():\n    sys.exit(0)\nasyncio.run(end())",
    "with handles of every kind": "kept = [memory.store, memory.create_thread(user_id='u1')]",
    "with the memory in a cycle": "cycle = [memory]\ncycle.append(cycle)\ndel memory, cycle",
    "with nothing but the thread": "thread = memory.create_thread()\ndel memory",
    "with a memory in another thread": (
        "thread = threading.Thread(target=lambda: memory.stats())\nthread.start()"
    ),
    "with a call running in another thread": (
        "other = AgentMemory(path, embedder=Hanging())\n"
        "arrived = threading.Event()\n"
        "def search():\n"
        "    arrived.set()\n"
        "    try:\n"
        "        other.search('tea', user_id='u1')\n"
        "    except ClosedError:\n"
        "        pass\n"
        "other.stats()\n"
        "threading.Thread(target=search, daemon=True).start()\n"
        "arrived.wait()"
    ),
    "with worker threads of the loop": (
        "other = AgentMemory(path, embedder=InWorkerThread())\nother.search('tea', user_id='u1')"
    ),
    "with threads of the loop's default executor": (
        "async def lookup():\n"
        "    await asyncio.get_running_loop().run_in_executor(None, os.getpid)\n"
        "memory._bridge.call(lookup)"
    ),
    "closed by hand in an exit handler": "import atexit\natexit.register(memory.close)",
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=list(ENDINGS))
def test_a_program_that_closes_nothing_ends_quietly_and_leaves_a_closed_file(
    path: Path, ending: str
) -> None:
    source = (
        f"{PREAMBLE}\nmemory = AgentMemory(path, embedder=None)\n"
        f"memory.add_memory('Prefers green tea.', user_id='u1')\n{ending}\n"
    )
    code, _, errors = children.run(source, path)
    assert (code, errors) == (0, "")
    assert stored(path) == ["Prefers green tea."]


def test_the_farewell_is_said_when_a_program_ends_and_calls_are_over_by_then() -> None:
    code, lines, errors = children.run(
        PREAMBLE.replace("sys.argv[1]", "None")
        + """
from agentmemory.sync.bridge import Bridge

begun = threading.Event()

async def wait():
    begun.set()
    try:
        await anyio.sleep_forever()
    finally:
        print("let go")

def call():
    try:
        bridge.call(wait)
    except ClosedError:
        pass

async def farewell():
    print("farewell")

bridge = Bridge(farewell)
threading.Thread(target=call, daemon=True).start()
begun.wait()
""",
    )
    assert (code, lines, errors) == (0, ["let go", "farewell"], "")


def test_a_farewell_that_takes_too_long_does_not_keep_the_program_from_ending() -> None:
    code, lines, errors = children.run(
        """
import anyio
from agentmemory.sync import portal
from agentmemory.sync.bridge import Bridge

portal._EXIT_GRACE_S = 0.01
portal._FAREWELL_S = 3600.0

async def work():
    print("worked")

async def farewell():
    await anyio.sleep_forever()

bridge = Bridge(farewell)
bridge.call(work)
""",
    )
    assert (code, lines, errors) == (0, ["worked"], "")


def test_a_program_that_fails_shows_its_own_error_only(path: Path) -> None:
    code, _, errors = children.run(
        f"{PREAMBLE}\nmemory = AgentMemory(path, embedder=None)\n"
        "memory.add_memory('Prefers green tea.', user_id='u1')\n"
        "memory.get_thread('no such thread')\n",
        path,
    )
    assert code == 1
    assert errors.count("Traceback (most recent call last)") == 1
    assert errors.rstrip().splitlines()[-1].startswith("agentmemory.errors.NotFoundError")
    assert stored(path) == ["Prefers green tea."]


def test_ctrl_c_cancels_the_running_call_and_nothing_of_it_is_stored(path: Path) -> None:
    child = children.start(
        PREAMBLE
        + """
memory = AgentMemory(path, embedder=Hanging())
thread = memory.create_thread(thread_id="t1", user_id="u1")
turns = [{"role": "user", "content": f"Turn {number}."} for number in range(5)]
try:
    thread.add_messages(turns)
except KeyboardInterrupt:
    print("interrupted")
print("messages", len(memory.list_messages(user_id="u1").items))
memory.close()
print("closed")
""",
        path,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "embedding\n"
    child.send_signal(signal.SIGINT)
    assert children.finish(child) == (
        0,
        ["let go", "interrupted", "messages 0", "closed"],
        "",
    )


def test_ctrl_c_that_nobody_catches_ends_the_program_and_closes_the_file(path: Path) -> None:
    child = children.start(
        PREAMBLE
        + """
memory = AgentMemory(path, embedder=None)
memory.add_memory('Prefers green tea.', user_id='u1')
other = AgentMemory(path, embedder=Hanging())
other.search("tea", user_id="u1")
""",
        path,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "embedding\n"
    child.send_signal(signal.SIGINT)
    code, lines, errors = children.finish(child)
    assert code == -signal.SIGINT
    assert lines == ["let go"]
    assert errors.rstrip().splitlines()[-1] == "KeyboardInterrupt"
    assert stored(path) == ["Prefers green tea."]


def test_ctrl_c_at_any_moment_of_a_write_keeps_all_of_it_or_nothing(path: Path) -> None:
    rounds, turns = 12, 400
    code, lines, errors = children.run(
        PREAMBLE
        + f"""
rounds, turns = {rounds}, {turns}
memory = AgentMemory(path, embedder=None)
memory.stats()
for number in range(rounds):
    thread = memory.create_thread(thread_id=f"t{{number}}", user_id="u1")
    messages = [
        {{"role": "user", "content": f"Turn {{turn}} of round {{number}}."}} for turn in range(turns)
    ]
    never = threading.Event()
    # From at once to long after the write: where it strikes differs from round to round.
    interrupter = threading.Timer(
        0.004 * number * number, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)
    )
    try:
        interrupter.start()
        thread.add_messages(messages)
        while True:
            never.wait(0.05)
    except KeyboardInterrupt:
        pass
    interrupter.join()
    found, cursor = 0, None
    while found == 0 or cursor is not None:
        page = thread.get_messages(limit=1000, cursor=cursor)
        found, cursor = found + len(page.items), page.next_cursor
        if not page.items:
            break
    print(found)
memory.close()
""",
        path,
    )
    assert (code, errors) == (0, "")
    assert len(lines) == rounds
    assert set(lines) <= {"0", str(turns)}


# Newer Pythons warn of any fork beside threads, which is what these are about.
FORKING = ("-W", "error", "-W", "ignore:This process:DeprecationWarning")
IN_CHILD = """
def in_child(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
            sys.stdout.flush()
        except BaseException as error:
            print("failed in the child:", repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")


@needs_fork
def test_after_a_fork_a_memory_that_was_used_is_refused_instead_of_hanging(path: Path) -> None:
    code, lines, errors = children.run(
        PREAMBLE
        + IN_CHILD
        + """
memory = AgentMemory(path, embedder=None)
thread = memory.create_thread(user_id="u1")

def work():
    for call in (memory.stats, thread.get_messages, lambda: memory.store.search("tea")):
        try:
            call()
        except UsageError as error:
            print(error)
    memory.close()
    memory.close()
    try:
        memory.stats()
    except ClosedError:
        print("closed in the child")

print(in_child(work))
memory.add_memory('Prefers green tea.', user_id='u1')
memory.close()
""",
        path,
        options=FORKING,
    )
    assert errors == ""
    assert code == 0
    assert len(lines) == 5
    assert all("make memories after a fork only" in line for line in lines[:3])
    assert lines[3:] == ["closed in the child", "0"]
    assert stored(path) == ["Prefers green tea."]


@needs_fork
def test_a_memory_that_was_made_but_not_used_before_a_fork_works_after_it(path: Path) -> None:
    code, lines, errors = children.run(
        PREAMBLE
        + IN_CHILD
        + """
memory = AgentMemory(path, embedder=None)

def work():
    memory.add_memory('Prefers green tea.', user_id='u1')
    memory.close()

print(in_child(work), in_child(work))
""",
        path,
        options=FORKING,
    )
    assert (code, lines, errors) == (0, ["0 0"], "")
    assert stored(path) == ["Prefers green tea."] * 2


@needs_fork
def test_a_child_that_leaves_the_parents_with_block_does_not_disturb_the_parent(
    path: Path,
) -> None:
    code, lines, errors = children.run(
        PREAMBLE
        + """
with AgentMemory(path, embedder=None) as memory:
    memory.stats()
    pid = os.fork()
    if pid == 0:
        with AgentMemory(":memory:", embedder=None) as own:
            own.add_memory('Prefers green tea.', user_id='u1')
        sys.exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    memory.add_memory('Prefers green tea.', user_id='u1')
""",
        path,
        options=FORKING,
    )
    assert (code, lines, errors) == (0, ["7"], "")
    assert stored(path) == ["Prefers green tea."]


@needs_fork
def test_a_fork_while_another_thread_starts_a_memory_leaves_no_lock_behind(path: Path) -> None:
    code, lines, errors = children.run(
        PREAMBLE
        + IN_CHILD
        + """
from agentmemory.sync import bridge

memory = AgentMemory(path, embedder=None)
held, release = threading.Event(), threading.Event()

def hold():
    with bridge._starting:
        held.set()
        release.wait()

thread = threading.Thread(target=hold)
thread.start()
held.wait()
print(in_child(lambda: memory.add_memory('Prefers green tea.', user_id='u1')))
release.set()
thread.join()
memory.close()
""",
        path,
        options=FORKING,
    )
    assert (code, lines, errors) == (0, ["0"], "")
