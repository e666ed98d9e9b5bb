"""What each command answers, to a person and as JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import agentmemory
from agentmemory import AsyncAgentMemory
from agentmemory.testing import HashEmbedder
from tests.support.command_line import Answer, CommandLine, run_process, the_error

RECORD_KEYS = {
    "agent_id",
    "content",
    "created_at",
    "expires_at",
    "id",
    "metadata",
    "name",
    "record_type",
    "replaced_by",
    "role",
    "sources",
    "status",
    "thread_id",
    "timestamp",
    "updated_at",
    "user_id",
    "valid_from",
    "valid_to",
}


def parsed(answer: Answer) -> Any:
    """Give the document of an answer that holds nothing but JSON."""
    assert "\x1b" not in answer.out
    return json.loads(answer.out)


def test_version_and_help_come_without_a_database(cli: CommandLine) -> None:
    assert cli.works("--version").out == f"agentmemory {agentmemory.__version__}\n"
    listed = cli.works("--help").out
    assert cli.works().out == listed
    for command in (
        "demo",
        "search",
        "add",
        "card",
        "threads",
        "messages",
        "stats",
        "doctor",
        "reembed",
    ):
        assert f"  {command} " in listed
        assert "--json" in cli.works(command, "--help").out
    assert list(Path().iterdir()) == []


def test_the_console_script_and_the_module_are_the_same_program(tmp_path: Path) -> None:
    script = ("-c", "import sys; from agentmemory.cli import main; sys.exit(main())")
    as_script = run_process("--version", directory=tmp_path, program=script)
    assert as_script == run_process("--version", directory=tmp_path)
    assert as_script.code == 0


def test_what_was_added_is_found_with_its_type_time_and_score(cli: CommandLine) -> None:
    answer = cli.works(
        "add",
        "The boiler was replaced.",
        "--user",
        "bo",
        "--type",
        "fact",
        "--agent",
        "a1",
        "--time",
        "2026-05-26T20:30:00+02:00",
        "--metadata",
        '{"room": "cellar"}',
        "--id",
        "boiler",
    )
    assert "Stored a fact for user bo in memory.db." in answer.out
    assert "boiler" in answer.out
    out = cli.works("search", "boiler", "--user", "bo", "--embedder", "none").out
    assert " 1. fact  2026-05-26 18:30Z  score " in out
    assert "    The boiler was replaced.\n" in out
    (found,) = parsed(cli.works("search", "boiler", "-u", "bo", "--json"))["results"]
    assert found["id"] == "boiler"
    assert found["record_type"] == "fact"
    assert found["timestamp"] == "2026-05-26T18:30:00Z"
    assert found["metadata"] == {"room": "cellar"}
    assert (found["user_id"], found["agent_id"], found["thread_id"]) == ("bo", "a1", None)


def test_the_keys_of_every_json_document_stay(told: CommandLine) -> None:
    stored = parsed(told.works("add", "x", "--user", "bo", "--json"))
    assert set(stored) == RECORD_KEYS
    search = parsed(told.works("search", "cake", "--user", "maya", "--json"))
    assert set(search) == {"query", "results"}
    assert set(search["results"][0]) == RECORD_KEYS | {"score", "distance", "explain"}
    explain = search["results"][0]["explain"]
    assert set(explain) == {
        "cosine",
        "distance_kind",
        "lexical",
        "lexical_rank",
        "notes",
        "stages",
        "vector_rank",
    }
    assert set(explain["stages"][0]) == {"rank", "reason", "score", "stage"}
    threads = parsed(told.works("threads", "--json"))
    assert set(threads) == {"threads", "next_cursor"}
    assert set(threads["threads"][0]) == {
        "agent_id",
        "created_at",
        "first_message",
        "metadata",
        "thread_id",
        "updated_at",
        "user_id",
    }
    messages = parsed(told.works("messages", "-t", "demo-session-1", "--json"))
    assert set(messages) == {"thread_id", "messages", "next_cursor"}
    assert set(messages["messages"][0]) == RECORD_KEYS
    card = parsed(told.works("card", "-t", "demo-session-2", "--recent", "1", "--json"))
    assert set(card) == {
        "content",
        "notes",
        "query",
        "recent_messages",
        "relevant_results",
        "sections",
        "summary",
        "thread_id",
        "token_count",
        "topics",
    }
    assert set(parsed(told.works("stats", "--json"))) == {
        "capabilities",
        "chunks",
        "database",
        "embedder",
        "jobs",
        "links",
        "records",
        "schema_version",
        "size_bytes",
        "threads",
        "vectors",
    }
    assert set(parsed(told.works("reembed", "--json"))) == {"records"}


def test_a_search_stays_with_its_user_unless_everybody_is_asked_for(cli: CommandLine) -> None:
    cli.works("add", "bo likes tea", "--user", "bo", "--embedder", "none")
    cli.works("add", "cy likes tea", "--user", "cy", "--embedder", "none")

    def found(*whose: str) -> set[str]:
        answer = cli.works("search", "tea", "--json", "--embedder", "none", *whose)
        return {result["content"] for result in parsed(answer)["results"]}

    assert found("--user", "bo") == {"bo likes tea"}
    assert found("--all-users") == {"bo likes tea", "cy likes tea"}
    assert found("--no-user") == set()
    out = cli.works("search", "tea", "--all-users", "--embedder", "none").out
    assert "user bo" in out
    assert "user cy" in out
    for whose in ((), ("--user", "bo", "--all-users"), ("--no-user", "--all-users")):
        assert "exactly one of `--user ID`" in cli.fails("search", "tea", *whose)


async def test_records_of_no_user_are_found_as_such(tmp_path: Path) -> None:
    async with AsyncAgentMemory(tmp_path / "memory.db", embedder=None) as memory:
        await memory.add_memory("the office closes at six", user_id=None)
    answer = run_process("search", "office", "--no-user", "--json", directory=tmp_path)
    (found,) = parsed(answer)["results"]
    assert found["user_id"] is None


def test_a_search_narrows_by_type_thread_agent_and_number(told: CommandLine) -> None:
    def found(*options: str) -> list[dict[str, Any]]:
        answer = told.works(
            "search", "Maya", "--user", "maya", "--json", "--embedder", "none", *options
        )
        results = parsed(answer)["results"]
        assert isinstance(results, list)
        return results

    assert len(found("--limit", "3")) == 3
    kinds = {item["record_type"] for item in found("--type", "fact", "--type", "guideline")}
    assert kinds == {"fact", "guideline"}
    assert {item["thread_id"] for item in found("-t", "demo-session-1")} == {"demo-session-1"}
    assert found("--agent", "somebody-else") == []
    assert "demo-home" in {item["id"] for item in found("--type", "fact")}
    assert "demo-home" not in {item["id"] for item in found("--type", "fact", "--valid-only")}


def test_nothing_found_is_no_error_but_a_note(told: CommandLine) -> None:
    answer = told.works("search", "zeppelin", "--user", "maya", "--embedder", "none")
    assert answer.out == ""
    assert answer.err == "note: nothing was found\n"
    empty = told.works("search", "zeppelin", "--user", "maya", "--embedder", "none", "--json")
    assert parsed(empty) == {"query": "zeppelin", "results": []}


def test_explain_says_of_each_stage_what_it_did(cli: CommandLine) -> None:
    cli.works("demo")
    out = cli.works("search", "trouble with noise", "--user", "maya", "--explain").out
    assert "words     no word of the query in it, nor in the turns beside it" in out
    assert "meaning   place 1 of the nearest by vector (cosine " in out
    assert "fusion    place 1, score " in out
    assert re.search(r"retrieve  \d+ brought by both arms \(\d+\.\d ms\)", out)
    assert "distance  0." in out
    assert "id        demo-session-2-13" in out
    words = cli.works("search", "cake", "--user", "maya", "--explain", "--embedder", "none").out
    assert "words     place 1 of the matches by words (BM25 " in words
    assert "meaning   no vectors were compared" in words
    assert "words " not in cli.works("search", "cake", "--user", "maya").out


def test_text_comes_from_stdin_as_it_is(tmp_path: Path) -> None:
    text = "first line\n\n  indented 緑茶 é\n"
    answer = run_process(
        "add", "-", "--user", "bo", "--json", directory=tmp_path, stdin=text.encode()
    )
    assert parsed(answer)["content"] == text.rstrip("\n")
    broken = run_process("add", "-", "--user", "bo", directory=tmp_path, stdin=b"caf\xe9")
    assert the_error(broken) == "stdin is not text in UTF-8: its byte 3 is 0xe9"
    empty = run_process("add", "-", "--user", "bo", directory=tmp_path, stdin=b"\n")
    assert "`TEXT` is empty" in the_error(empty)


def test_a_memory_of_a_thread_takes_its_user_and_agent(told: CommandLine) -> None:
    stored = parsed(told.works("add", "Maya sings.", "-t", "demo-session-1", "--json"))
    assert (stored["user_id"], stored["agent_id"]) == ("maya", "juno")
    assert stored["thread_id"] == "demo-session-1"
    assert "no thread 'demo-session-1'" in told.fails(
        "add", "Bo sings.", "-t", "demo-session-1", "--user", "bo"
    )


def test_a_card_is_printed_as_a_prompt_takes_it(told: CommandLine) -> None:
    options = ("-t", "demo-session-2", "--embedder", "none", "--min", "fact=1", "--recent", "2")
    document = parsed(told.works("card", *options, "--json"))
    assert told.works("card", *options).out == document["content"] + "\n"
    assert [item["id"] for item in document["recent_messages"]] == [
        "demo-session-2-14",
        "demo-session-2-15",
    ]
    assert "fact" in {item["record_type"] for item in document["relevant_results"]}
    explained = told.works("card", *options, "--explain").out
    assert explained.startswith(document["content"])
    assert "tokens    " in explained
    assert "card      " in explained


def test_a_card_takes_a_query_a_number_and_a_budget(told: CommandLine) -> None:
    def relevant(*options: str) -> list[str]:
        answer = told.works("card", "-t", "demo-session-2", "--json", *options)
        return [item["id"] for item in parsed(answer)["relevant_results"]]

    assert relevant("--query", "hazelnuts", "--embedder", "none")[0] == "demo-allergy"
    assert len(relevant("--query", "Maya restaurant", "--limit", "2")) == 2
    assert relevant("--limit", "0") == []
    assert relevant("--query", "hazelnuts", "--budget", "1") == []


def test_threads_come_newest_first_with_how_they_begin(told: CommandLine) -> None:
    out = told.works("threads").out
    assert out.index("demo-session-2") < out.index("demo-session-1")
    assert "user maya · agent juno" in out
    assert "    Maya: Hi Juno! A free evening" in out
    assert told.works("threads", "--user", "nobody").err == "note: there are no threads\n"


def test_pages_go_on_where_the_cursor_says(told: CommandLine) -> None:
    first = parsed(told.works("threads", "--limit", "1", "--json"))
    second = parsed(
        told.works("threads", "--limit", "1", "--cursor", first["next_cursor"], "--json")
    )
    assert first["threads"][0]["thread_id"] == "demo-session-2"
    assert second["threads"][0]["thread_id"] == "demo-session-1"
    assert second["next_cursor"] is None
    latest = parsed(told.works("messages", "-t", "demo-session-1", "-n", "5", "--json"))
    assert [item["id"][-2:] for item in latest["messages"]] == ["10", "11", "12", "13", "14"]
    noted = told.works("messages", "-t", "demo-session-1", "-n", "5").err
    assert f"--cursor {latest['next_cursor']}" in noted
    earlier = parsed(
        told.works("messages", "-t", "demo-session-1", "--cursor", latest["next_cursor"], "--json")
    )
    assert [item["id"][-2:] for item in earlier["messages"]][-1] == "09"
    assert len(earlier["messages"]) == 9


def test_stats_count_what_is_there(told: CommandLine) -> None:
    document = parsed(told.works("stats", "--json"))
    assert document["records"] == {
        "fact": 3,
        "guideline": 1,
        "memory": 1,
        "message": 29,
        "preference": 3,
    }
    assert document["threads"] == 2
    assert document["embedder"] is None
    assert document["size_bytes"] > 0
    out = told.works("stats").out
    assert "records   37 (fact 3, guideline 1, memory 1, message 29, preference 3)" in out
    assert "embedder  none: searched by words" in out


def test_reembed_gives_vectors_to_what_was_stored_without(told: CommandLine) -> None:
    assert told.works("reembed").out == "Made new vectors for 37 records.\n"
    document = parsed(told.works("stats", "--json"))
    assert document["vectors"] == document["chunks"]
    assert document["embedder"] == "local/wordllama"


def test_the_database_is_the_option_else_the_variable_else_memory_db(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.works("add", "x", "--user", "bo")
    monkeypatch.setenv("AGENTMEMORY_DB", "variable.db")
    cli.works("add", "x", "--user", "bo")
    cli.works("add", "x", "--user", "bo", "--db", "option.db")
    cli.works("add", "x", "--user", "bo", "--db", f"sqlite:///{Path('url.db').absolute()}")
    made = sorted(path.name for path in Path().iterdir())
    assert made == ["memory.db", "option.db", "url.db", "variable.db"]


def test_several_stores_in_one_file_are_kept_apart(cli: CommandLine) -> None:
    cli.works("add", "tea", "--user", "bo", "--store", "home")
    cli.works("add", "tea", "--user", "bo", "--store", "work")
    cli.works("add", "tea", "--user", "bo", "--store", "work")
    assert parsed(cli.works("stats", "--store", "home", "--json"))["records"] == {"memory": 1}
    assert parsed(cli.works("stats", "--store", "work", "--json"))["records"] == {"memory": 2}
    assert "holds no store" in cli.fails("stats")
    assert "schema_policy" not in cli.fails("stats", "--store", "attic")


def without(package: str) -> tuple[str, str]:
    """Give the program as it runs where a package is not installed."""
    hide = f"import sys; sys.modules[{package!r}] = None"
    return "-c", f"{hide}; from agentmemory.cli import main; sys.exit(main())"


def test_without_the_local_extra_a_note_says_what_is_missing(tmp_path: Path) -> None:
    hidden = without("wordllama")
    answer = run_process("demo", directory=tmp_path, program=hidden)
    assert answer.code == 0
    assert "2. Searching it, by words only" in answer.out
    assert answer.err.startswith("note: searching by words only; ")
    assert answer.err.count("\n") == 1
    asked = run_process(
        "search", "cake", "-u", "maya", "--embedder", "local", directory=tmp_path, program=hidden
    )
    assert "'local/wordllama' needs wordllama" in the_error(asked)


@pytest.mark.parametrize("name", ["typer", "rich"])
def test_without_the_cli_extra_one_line_says_how_to_install_it(tmp_path: Path, name: str) -> None:
    line = the_error(run_process("demo", directory=tmp_path, program=without(name)))
    assert f"needs {name}" in line
    assert 'pip install -e ".[cli]"' in line


async def test_vectors_of_another_model_are_refused_with_a_way_out(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    async with AsyncAgentMemory(path, embedder=HashEmbedder()) as memory:
        await memory.add_memory("tea", user_id="bo")
    line = the_error(run_process("search", "tea", "--user", "bo", directory=tmp_path))
    assert "`--embedder none`" in line
    words = run_process("search", "tea", "-u", "bo", "--embedder", "none", directory=tmp_path)
    assert words.code == 0
    renewed = run_process("reembed", directory=tmp_path)
    assert renewed.out == "Made new vectors for 1 record.\n"
    assert run_process("search", "tea", "--user", "bo", directory=tmp_path).code == 0
