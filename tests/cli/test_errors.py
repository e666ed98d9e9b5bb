"""What goes wrong is one readable line on stderr and exit code 2; nothing is written."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from agentmemory.cli import running
from tests.support.command_line import CommandLine, run_process, the_error

USAGE = [
    (("bogus",), "No such command 'bogus'"),
    (("search",), "Missing argument 'QUERY'"),
    (("search", "x", "--bogus"), "No such option: --bogus"),
    (("search", "x", "--limit", "many"), "Invalid value for '--limit'"),
    (("add", "two", "words", "--user", "bo"), "unexpected extra argument"),
    (("card",), "Missing option '--thread'"),
]


@pytest.mark.parametrize(("arguments", "text"), USAGE, ids=" ".join)
def test_a_wrong_call_is_told_with_the_page_that_helps(
    cli: CommandLine, arguments: tuple[str, ...], text: str
) -> None:
    line = cli.fails(*arguments)
    assert text in line
    assert "--help`" in line


def test_an_option_before_the_command_is_told_where_it_belongs(cli: CommandLine) -> None:
    assert "options follow the command" in cli.fails("--db", "x.db", "stats")


WRITES = [
    (("add", " ", "--user", "bo"), "`TEXT` is empty"),
    (("add", "\udcff", "--user", "bo"), "`TEXT` holds a lone surrogate"),
    (("add", "x"), "`--user` is missing"),
    (("add", "x", "--user", ""), "`--user` is empty"),
    (("add", "x", "--user", "b" * 129), "`--user` has 129 bytes"),
    (("add", "x", "--user", "bo", "--type", "message"), "`--type` is 'message'"),
    (("add", "x", "--user", "bo", "--time", "2026-05-26"), "`--time` is '2026-05-26'"),
    (("add", "x", "--user", "bo", "--time", "yesterday"), "`--time` is 'yesterday'"),
    (("add", "x", "--user", "bo", "--metadata", "{"), "`--metadata` is not JSON"),
    (("add", "x", "--user", "bo", "--metadata", "[1]"), "`--metadata` is not a JSON object"),
    (("add", "x", "--user", "bo", "--store", "1"), "`--store` is '1'"),
    (("add", "x", "--user", "bo", "--embedder", "big"), "`--embedder` is 'big'"),
    (("add", "x", "--thread", "t1"), "there is no database at 'memory.db'"),
    (("add", "x", "--user", "bo", "--db", "ftp://x"), "`--db` is 'ftp://x'"),
    (("add", "x", "--user", "bo", "--db", ""), "`--db` is ''"),
    (("add", "x", "--user", "bo", "--db", "no/such/dir.db"), "does not exist"),
    (("demo", "--db", "no/such/dir.db"), "does not exist"),
    (("demo", "--embedder", "big"), "`--embedder` is 'big'"),
]


@pytest.mark.parametrize(("arguments", "text"), WRITES)
def test_a_bad_value_is_named_as_the_option_it_came_from_and_nothing_is_stored(
    cli: CommandLine, arguments: tuple[str, ...], text: str
) -> None:
    assert text in cli.fails(*arguments, "--json")
    for path in Path().iterdir():
        assert not holds_records(path)


def holds_records(path: Path) -> bool:
    connection = sqlite3.connect(path)
    try:
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        records = [name for (name,) in tables if name.lower().endswith("_record")]
        assert records or not path.stat().st_size
        return any(
            connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in records
        )
    finally:
        connection.close()


READS = [
    (("search", "x", "--user", "maya", "--limit", "0"), "`--limit` is 0; accepted: 1 to 1000"),
    (("search", "x", "--user", "maya", "--type", "opinion"), "`--type` holds 'opinion'"),
    (("search", " ", "--user", "maya"), "`QUERY` is empty"),
    (("search", "x", "--user", " "), "`--user` is empty"),
    (("threads", "--limit", "1001"), "`--limit` is 1001"),
    (("threads", "--cursor", "abc"), "`--cursor` is 'abc'"),
    (("messages", "-t", "nope"), "no thread 'nope'"),
    (("messages", "-t", "demo-session-1", "--cursor", "abc"), "`--cursor` is 'abc'"),
    (("card", "-t", "nope"), "no thread 'nope'"),
    (("card", "-t", "demo-session-1", "--min", "fact"), "`--min` is 'fact'"),
    (("card", "-t", "demo-session-1", "--min", "fact=-1"), "`--min` is 'fact=-1'"),
    (("card", "-t", "demo-session-1", "--min", "opinion=1"), "`--min` holds 'opinion'"),
    (("card", "-t", "demo-session-1", "--min", "fact=3", "-n", "2"), "more than `--limit` 2"),
    (("card", "-t", "demo-session-1", "--limit", "-1"), "`--limit` is -1"),
    (("card", "-t", "demo-session-1", "--recent", "1001"), "`--recent` is 1001"),
]


@pytest.mark.parametrize(("arguments", "text"), READS)
def test_a_bad_question_is_named_as_the_option_it_came_from(
    told: CommandLine, arguments: tuple[str, ...], text: str
) -> None:
    assert text in told.fails(*arguments, "--json")


READING = [
    ("search", "x", "--user", "bo"),
    ("card", "-t", "t1"),
    ("threads",),
    ("messages", "-t", "t1"),
    ("stats",),
    ("reembed",),
]


@pytest.mark.parametrize("command", READING, ids=lambda command: command[0])
def test_reading_a_database_that_is_not_there_makes_none(
    cli: CommandLine, command: tuple[str, ...]
) -> None:
    line = cli.fails(*command, "--db", "nowhere.db")
    assert "there is no database at 'nowhere.db'" in line
    assert "agentmemory demo" in line
    assert ":memory:" in cli.fails(*command, "--db", ":memory:")
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("command", READING, ids=lambda command: command[0])
def test_reading_a_file_that_is_not_ours_leaves_it_as_it_is(
    cli: CommandLine, command: tuple[str, ...]
) -> None:
    Path("empty.db").touch()
    Path("notes.txt").write_text("my diary", encoding="utf-8")
    Path("folder.db").mkdir()
    connection = sqlite3.connect("foreign.db")
    connection.execute("CREATE TABLE mine (x)")
    connection.commit()
    connection.close()
    names = ["empty.db", "folder.db", "foreign.db", "notes.txt"]
    before = [Path(name).read_bytes() for name in names if Path(name).is_file()]
    for name in names:
        assert f"{name}'" in cli.fails(*command, "--db", name)
    assert [Path(name).read_bytes() for name in names if Path(name).is_file()] == before
    assert sorted(path.name for path in Path().iterdir()) == names


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_is_named(cli: CommandLine) -> None:
    cli.works("add", "x", "--user", "bo")
    Path("memory.db").chmod(0)
    assert "memory.db" in cli.fails("stats")


def test_a_fault_of_ours_is_a_line_too_and_a_traceback_only_on_request(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(**_: object) -> None:
        msg = "two\nlines"
        raise RuntimeError(msg)

    monkeypatch.setattr(running, "app", fault)
    assert cli.fails("stats").startswith("unexpected RuntimeError: two\\nlines; ")
    monkeypatch.setenv("AGENTMEMORY_TRACEBACK", "1")
    assert "Traceback (most recent call last)" in cli("stats").err


def test_errors_of_a_real_process_end_it_with_2_and_one_line(tmp_path: Path) -> None:
    line = the_error(run_process("stats", directory=tmp_path))
    assert line.startswith("there is no database at 'memory.db'")
    assert the_error(run_process("stats", "--nonsense", directory=tmp_path))
    assert list(tmp_path.iterdir()) == []
