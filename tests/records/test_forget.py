"""What was forgotten is nowhere in the file, and the receipt says how that was checked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest

from agentmemory import AgentMemory, AsyncAgentMemory, ForgetReceipt
from agentmemory.requests import ResidualScan
from agentmemory.stores.sqlite import erasure
from agentmemory.stores.sqlite.erasure import scan
from agentmemory.stores.sqlite.store import SqliteStore
from agentmemory.testing import HashEmbedder
from agentmemory.testing.conformance.lists import small_png
from agentmemory.text.analyzer import analyze

PLANTED = "Zxqvorlabium"
WORDS = (PLANTED, PLANTED.lower(), "Kwzintafel")


def files_with(path: Path, words: tuple[str, ...]) -> set[str]:
    """Look into every file of a database from another process, whose locks are its own."""
    program = (
        "import sys, pathlib\n"
        "words = [word.encode() for word in sys.argv[2:]]\n"
        "for file in pathlib.Path(sys.argv[1]).parent.iterdir():\n"
        "    data = file.read_bytes()\n"
        "    for word in words:\n"
        "        if word in data:\n"
        "            print(file.name, word.decode())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path), *words],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return set(done.stdout.splitlines())


async def fill(memory: AsyncAgentMemory, user: str, word: str, *, count: int) -> Any:
    thread = await memory.create_thread(user_id=user, metadata={"topic": word})
    await thread.add_messages(
        [
            {
                "role": "user",
                "content": f"{word} {number} came up with plain words {number * 7}",
                "name": word,
                "metadata": {"note": f"{word} in metadata"},
            }
            for number in range(count)
        ]
    )
    one = await thread.add_memory(f"{word} is remembered", metadata={"deep": [{"k": word}]})
    await memory.add_memory(
        f"{word} again",
        user_id=user,
        memory_id_to_link=one,
        link_type="supersedes",
        link_metadata={"why": word},
    )
    await memory.add_user(user, f"Loves {word}")
    await thread.add_image(small_png(), description=f"A picture of {word}")
    return thread


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store" / "memory.db"


@pytest.fixture(autouse=True)
def _directory(path: Path) -> None:
    path.parent.mkdir()


@pytest.mark.parametrize("embedder", [None, HashEmbedder()], ids=["words", "vectors"])
async def test_a_planted_word_is_nowhere_in_the_files_after_forgetting(
    path: Path, embedder: Any
) -> None:
    async with AsyncAgentMemory(path, embedder=embedder) as memory:
        await fill(memory, "u2", "Kwzintafel", count=40)
        thread = await fill(memory, "u1", PLANTED, count=120)
        await fill(memory, "u3", "Other", count=40)
        # Text that was overwritten or deleted before has to be gone as well.
        page = await thread.get_messages(limit=3)
        await thread.update_message(page.items[0].id, content=f"{PLANTED} rewritten")
        await thread.delete_message(page.items[1].id)
        assert files_with(path, WORDS)
        receipt = await memory.forget(user_id="u1")
        assert receipt.is_clean
        assert receipt.scan is not None
        assert receipt.scan.probes > 10
        assert receipt.scan.bytes_scanned >= path.stat().st_size
        assert receipt.counts["message"] == 119
        # While the database is open, so that its log and its shared memory are looked at too.
        assert {f.name for f in path.parent.iterdir()} == {
            "memory.db",
            "memory.db-shm",
            "memory.db-wal",
        }
        assert files_with(path, WORDS) == {"memory.db Kwzintafel"}
        assert len(await memory.search("kwzintafel", user_id="u2", max_results=100)) == 44


async def test_a_plain_delete_may_leave_what_forget_finds_the_reason_for_the_rebuild(
    path: Path,
) -> None:
    async with AsyncAgentMemory(path, embedder=None) as memory:
        thread = await fill(memory, "u1", PLANTED, count=50)
        await memory.delete_user("u1")
        assert (await memory.stats()).records == {}
        assert any(line.startswith("memory.db-wal") for line in files_with(path, WORDS))
        assert thread.user_id == "u1"
        receipt = await memory.forget(user_id="u1")
        assert receipt.records == 0
        assert receipt.is_clean
        assert files_with(path, WORDS) == set()


async def test_forgetting_leaves_a_sound_file_and_other_users_alone(path: Path) -> None:
    async with AsyncAgentMemory(path, embedder=HashEmbedder()) as memory:
        for user in ("u1", "u2"):
            await fill(memory, user, f"Word{user}", count=30)
        before = [hit.content for hit in await memory.search("wordu2", user_id="u2")]
        await memory.forget(user_id="u1")
        assert [hit.content for hit in await memory.search("wordu2", user_id="u2")] == before
        stats = await memory.stats()
        assert stats.vectors == sum(stats.records.values()) == 34
        assert stats.chunks == 34
    with apsw.Connection(str(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        connection.execute("INSERT INTO DEFAULT_fts (DEFAULT_fts) VALUES ('integrity-check')")
        assert connection.execute("PRAGMA freelist_count").fetchall() == [(0,)]


async def test_the_audit_says_that_something_was_forgotten_but_not_whose(path: Path) -> None:
    async with AsyncAgentMemory(path, embedder=None) as memory:
        await fill(memory, "secret-user", PLANTED, count=2)
        await memory.forget(user_id="secret-user")
        assert files_with(path, ("secret-user",)) == set()
    with apsw.Connection(str(path)) as connection:
        ((action, subject, detail),) = connection.execute(
            "SELECT action, subject, detail FROM DEFAULT_audit"
        ).fetchall()
    assert action == "forget"
    assert len(str(subject)) == 32
    assert '"message":2' in str(detail)


async def test_another_process_that_reads_keeps_the_receipt_from_claiming_too_much(
    path: Path,
) -> None:
    store = SqliteStore(str(path), busy_timeout_s=0.2)
    async with AsyncAgentMemory(store=store, embedder=None) as memory:
        await fill(memory, "u1", PLANTED, count=20)
        reader = apsw.Connection(str(path))
        try:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM DEFAULT_record").fetchall()
            receipt = await memory.forget(user_id="u1")
            assert receipt.scan is not None
            assert not receipt.scan.log_emptied
            assert not receipt.is_clean
        finally:
            reader.close()
        again = await memory.forget(user_id="u1")
        assert again.is_clean
        assert files_with(path, WORDS) == set()


def test_the_scan_finds_what_is_there_also_across_blocks(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with apsw.Connection(str(path)) as connection:
        connection.execute("CREATE TABLE a (x)")
        connection.execute("INSERT INTO a VALUES (?)", ("lorem " * 900 + PLANTED,))
    monkeypatch.setattr("agentmemory.stores.sqlite.erasure._BLOCK_BYTES", 512)
    found = scan(str(path), [PLANTED.encode(), b"not there"], log_emptied=True)
    assert found.residues == (PLANTED,)
    assert found.probes == 2
    assert found.bytes_scanned == path.stat().st_size


def test_a_receipt_is_clean_only_if_it_was_looked_and_nothing_was_found() -> None:
    assert not ForgetReceipt().is_clean
    assert ForgetReceipt(scan=ResidualScan()).is_clean
    assert not ForgetReceipt(scan=ResidualScan(residues=("x",))).is_clean
    assert not ForgetReceipt(scan=ResidualScan(log_emptied=False)).is_clean
    assert ForgetReceipt(counts={"message": 2, "link": 5, "fact": 1}).records == 3


async def test_in_memory_there_is_no_file_to_search() -> None:
    async with AsyncAgentMemory(":memory:", embedder=HashEmbedder()) as memory:
        await fill(memory, "u1", PLANTED, count=3)
        receipt = await memory.forget(user_id="u1")
        assert receipt.scan is None
        assert receipt.counts["message"] == 3


async def test_survivors_whose_neighbour_was_forgotten_are_embedded_anew(path: Path) -> None:
    async with AsyncAgentMemory(path, embedder=HashEmbedder()) as memory:
        thread = await memory.create_thread(user_id="u1")
        await thread.add_messages([{"role": "user", "content": w} for w in ("one", "two", "three")])
        # An agent's message in a user's thread goes with the agent; the others stay.
        store = memory._parts.store
        await store._engine.write(  # type: ignore[attr-defined]
            lambda c: c.execute("UPDATE DEFAULT_record SET agent_id = 'a' WHERE content = 'two'")
        )
        receipt = await memory.forget(agent_id="a")
        assert dict(receipt.counts) == {"message": 1}
        assert receipt.rebuilt["reindexed"] == 2
        assert receipt.rebuilt["reembedded"] == 1
        assert (await memory.stats()).vectors == 2


def test_forget_works_without_async(path: Path) -> None:
    with AgentMemory(path, embedder=None) as memory:
        memory.add_memory(f"{PLANTED} once", user_id="u1")
        assert memory.forget(user_id="u1", dry_run=True).records == 1
        assert memory.forget(user_id="u1").is_clean
    assert files_with(path, WORDS) == set()


async def test_of_a_long_text_a_part_is_analysed_while_other_writers_wait(tmp_path, monkeypatch):
    lengths: list[int] = []

    def counted(text: str) -> Any:
        lengths.append(len(text))
        return analyze(text)

    monkeypatch.setattr(erasure, "analyze", counted)
    path = tmp_path / "database" / "m.db"
    path.parent.mkdir()
    async with AsyncAgentMemory(path, embedder=None) as memory:
        await memory.add_memory(f"{PLANTED} " + "far away " * 20_000, user_id="u1")
        receipt = await memory.forget(user_id="u1")
    assert lengths
    assert max(lengths) <= 2000
    assert receipt.is_clean
    assert files_with(path, WORDS) == set()
