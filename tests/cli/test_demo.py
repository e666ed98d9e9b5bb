"""`agentmemory demo`: the story, what it leaves behind, and what it leaves alone."""

from __future__ import annotations

import json
import shlex
import sqlite3
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentmemory import AsyncAgentMemory
from agentmemory.cli.story import load_script
from agentmemory.records import MEMORY_TYPES
from tests.support.command_line import CommandLine, run_process

SCRIPT = load_script()


def told(cli: CommandLine, *arguments: str) -> dict[str, Any]:
    document = json.loads(cli.works("demo", "--json", *arguments).out)
    assert isinstance(document, dict)
    return document


def contents(document: dict[str, Any], query: str) -> list[str]:
    (search,) = [item for item in document["searches"] if item["query"] == query]
    return [result["content"] for result in search["results"]]


def test_the_story_is_two_sessions_weeks_apart_in_which_a_fact_changes() -> None:
    assert "Fictional" in SCRIPT.notice
    times = [
        [datetime.fromisoformat(message["timestamp"]) for message in session["messages"]]
        for session in SCRIPT.sessions
    ]
    first, second = times
    assert second[0] - first[-1] > timedelta(weeks=3)
    for turns in times:
        assert 12 <= len(turns) <= 16
        assert turns == sorted(turns)
    assert {memory["memory_type"] for memory in SCRIPT.memories} == set(MEMORY_TYPES)
    assert SCRIPT.fact("after")["memory_id_to_link"] == SCRIPT.fact("before")["memory_id"]
    assert SCRIPT.fact("after")["link_type"] == "supersedes"


def test_the_demo_tells_where_it_stores_what_it_finds_and_what_to_try_next(
    cli: CommandLine,
) -> None:
    out = cli.works("demo").out
    assert out.startswith("Fictional:")
    assert "Session 1  14 April 2026" in out
    assert '"Maya lives in Porto." is superseded by' in out
    assert "no longer valid, see demo-home-now" in out
    assert "? 陶芸" in out
    assert "why: words (BM25" in out
    assert "<context_card>" in out
    assert "It is all in memory.db" in out
    assert Path("memory.db").exists()


@pytest.mark.parametrize("embedder", ["local", "none"])
def test_the_fact_that_holds_comes_before_the_one_it_replaced(
    cli: CommandLine, embedder: str
) -> None:
    story = told(cli, "--embedder", embedder)
    (search,) = [item for item in story["searches"] if item["query"] == "Where does she live now?"]
    now, before = search["results"]
    assert now["id"] == story["change"]["after"]
    assert (now["status"], now["replaced_by"]) == ("valid", None)
    assert "Utrecht" in now["content"]
    assert before["id"] == story["change"]["before"]
    assert (before["status"], before["replaced_by"]) == ("invalid", now["id"])


@pytest.mark.parametrize("embedder", ["local", "none"])
def test_an_answer_is_found_by_the_turn_before_it_and_a_word_inside_a_japanese_sentence(
    cli: CommandLine, embedder: str
) -> None:
    story = told(cli, "--embedder", embedder)
    assert any("16:40" in text for text in contents(story, "When do the parents arrive?"))
    assert "陶芸の先生" in contents(story, "陶芸")[0]


def test_other_words_are_found_with_the_local_model_and_only_with_it(cli: CommandLine) -> None:
    with_model = told(cli, "--embedder", "local", "--db", "with.db")
    assert with_model["embedder"] == "local/wordllama"
    assert "hearing aid" in contents(with_model, "trouble with noise")[0]
    without = told(cli, "--embedder", "none", "--db", "without.db")
    assert without["embedder"] is None
    assert contents(without, "trouble with noise") == []
    assert "The local embedder, which is not in use, finds it." in " ".join(
        cli.works("demo", "--embedder", "none", "--db", ":memory:").out.split()
    )


@pytest.mark.parametrize("embedder", ["local", "none"])
def test_the_card_brings_what_the_last_question_needs(cli: CommandLine, embedder: str) -> None:
    card = told(cli, "--embedder", embedder)["card"]
    assert "lives in Utrecht" in card["content"]
    assert "Restaurants should be quiet" in card["content"]
    assert card["recent_messages"][-1]["content"] == card["query"]


def test_the_json_is_one_document_that_says_it_is_fictional(cli: CommandLine) -> None:
    answer = cli.works("demo", "--json")
    story = json.loads(answer.out)
    assert answer.err == ""
    assert story["fictional"] is True
    assert set(story) == {
        "agent_id",
        "card",
        "change",
        "database",
        "embedder",
        "fictional",
        "memories",
        "next",
        "notice",
        "searches",
        "sessions",
        "told_before",
        "user_id",
    }


def test_every_command_it_names_works_on_what_it_leaves_behind(cli: CommandLine) -> None:
    story = told(cli)
    assert len(story["next"]) >= 5
    for command in story["next"]:
        program, *arguments = shlex.split(command)
        assert program == "agentmemory"
        assert cli.works(*arguments).out


def test_the_commands_it_names_say_where_the_database_is_unless_it_is_the_default(
    cli: CommandLine,
) -> None:
    assert not any("--db" in command for command in told(cli)["next"])
    elsewhere = told(cli, "--db", "my demo.db")
    assert all(command.endswith("--db 'my demo.db'") for command in elsewhere["next"])


def test_the_whole_way_works_in_processes_of_their_own(tmp_path: Path) -> None:
    env = {"AGENTMEMORY_DB": "story.db"}

    def run(*arguments: str) -> str:
        answer = run_process(*arguments, directory=tmp_path, env=env)
        assert answer.code == 0, answer
        return answer.out

    assert "It is all in story.db" in run("demo")
    assert "stand number 27" in run("search", "stand number", "--user", "maya")
    run("add", "Maya is left-handed.", "--user", "maya", "--type", "preference")
    assert "left-handed" in run("search", "left-handed", "--user", "maya", "--type", "preference")
    assert "<context_card>" in run("card", "--thread", "demo-session-2")
    assert "demo-session-1" in run("threads")
    assert "preference 4" in run("stats")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["story.db"]


def test_told_twice_it_stores_nothing_twice_and_keeps_what_was_added(cli: CommandLine) -> None:
    assert told(cli)["told_before"] is False
    cli.works("add", "Maya is left-handed.", "--user", "maya")
    before = json.loads(cli.works("stats", "--json").out)
    again = told(cli)
    assert again["told_before"] is True
    assert json.loads(cli.works("stats", "--json").out)["records"] == before["records"]
    assert before["records"]["memory"] == 2
    assert "nothing was stored twice" in cli.works("demo").out


def test_what_the_suggested_command_adds_is_found_by_the_threads_card(cli: CommandLine) -> None:
    told(cli)
    (add,) = (line for line in cli.works("demo").out.splitlines() if "agentmemory add" in line)
    cli.works(*shlex.split(add)[1:])
    card = cli.works("card", "--thread", "demo-session-2", "--query", "Which hand does she use?")
    assert "Maya is left-handed." in card.out


async def test_what_an_interrupted_run_left_out_is_made_up_for(tmp_path: Path) -> None:
    async with AsyncAgentMemory(tmp_path / "memory.db", embedder=None) as memory:
        await memory.create_thread(
            thread_id="demo-session-1", user_id=SCRIPT.user_id, agent_id=SCRIPT.agent_id
        )
    answer = run_process("demo", "--json", directory=tmp_path)
    story = json.loads(answer.out)
    assert story["told_before"] is True
    async with AsyncAgentMemory(tmp_path / "memory.db", embedder=None) as memory:
        for session in SCRIPT.sessions:
            thread = await memory.get_thread(session["thread_id"])
            stored = await thread.get_messages()
            assert [item.content for item in stored] == [
                item["content"] for item in session["messages"]
            ]
        assert (await memory.stats()).records["fact"] == 3


def test_a_story_told_without_the_model_gets_its_vectors_later(cli: CommandLine) -> None:
    told(cli, "--embedder", "none")
    assert json.loads(cli.works("stats", "--json").out)["vectors"] == 0
    story = told(cli)
    assert "hearing aid" in contents(story, "trouble with noise")[0]
    stats = json.loads(cli.works("stats", "--json").out)
    assert stats["vectors"] == stats["chunks"]


def test_it_does_not_touch_a_database_of_other_memories_unless_forced(cli: CommandLine) -> None:
    cli.works("add", "The shed key hangs behind the door.", "--user", "bo")
    before = json.loads(cli.works("stats", "--json").out)
    line = cli.fails("demo")
    assert "'memory.db' exists and holds other memories" in line
    assert "--force" in line
    assert json.loads(cli.works("stats", "--json").out) == before
    assert told(cli, "--force")["told_before"] is False
    assert "shed key" in cli.works("search", "shed key", "--user", "bo").out
    assert told(cli)["told_before"] is True


def test_it_uses_a_database_that_holds_nothing_yet(cli: CommandLine) -> None:
    Path("memory.db").touch()
    assert told(cli)["told_before"] is False


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_it_leaves_files_of_others_as_they_are(cli: CommandLine, force: tuple[str, ...]) -> None:
    Path("notes.txt").write_text("my diary", encoding="utf-8")
    connection = sqlite3.connect("foreign.db")
    connection.execute("CREATE TABLE mine (x)")
    connection.commit()
    connection.close()
    for name in ("notes.txt", "foreign.db"):
        before = Path(name).read_bytes()
        assert name in cli.fails("demo", "--db", name, *force)
        assert Path(name).read_bytes() == before
    assert sorted(path.name for path in Path().iterdir()) == ["foreign.db", "notes.txt"]


def test_in_memory_it_leaves_nothing_behind(cli: CommandLine) -> None:
    assert "nothing is left behind" in cli.works("demo", "--db", ":memory:").out
    story = told(cli, "--db", ":memory:")
    assert story["database"] is None
    assert story["next"] == []
    assert list(Path().iterdir()) == []
