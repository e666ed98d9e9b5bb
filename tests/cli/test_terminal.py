"""What a person sees on a terminal, and what a pipe gets instead."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path

import apsw
import pytest

from agentmemory.cli.screen import harmless, harmless_line
from tests.support.command_line import CommandLine, Terminal, environment, run_process

COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def cells(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in line)


def screen_of(shown: str) -> list[str]:
    """Give the lines of a screen without colours; progress is what a line overwrote."""
    plain = COLOUR.sub("", shown).replace("\r\n", "\n")
    return [line.rpartition("\r")[2] for line in plain.split("\n")]


def shown_by(*arguments: str, directory: Path, columns: int = 80) -> list[str]:
    with Terminal(*arguments, directory=directory, columns=columns) as terminal:
        code, shown = terminal.finish()
    assert code == 0, shown
    return screen_of(shown)


def test_on_a_terminal_nothing_is_wider_than_it_and_words_stay_whole(tmp_path: Path) -> None:
    lines = shown_by("demo", directory=tmp_path)
    assert max(cells(line) for line in lines) <= 80
    assert any("来月、陶芸の先生と窯を見に行きます。" in line for line in lines)
    listed = "\n".join(shown_by("threads", directory=tmp_path))
    assert "demo-session-1  user maya" in listed
    assert "…" in listed


def test_wide_characters_are_wrapped_and_cut_by_the_columns_they_take(tmp_path: Path) -> None:
    text = "陶芸の先生はとても親切です。" * 12
    stored = run_process("add", text, "--user", "bo", directory=tmp_path)
    assert stored.code == 0
    lines = shown_by("search", "陶芸", "-u", "bo", "--explain", directory=tmp_path, columns=60)
    assert max(cells(line) for line in lines) <= 60
    assert "".join(line.strip() for line in lines).count("先生") == 12


def test_progress_and_colours_are_for_terminals_only(tmp_path: Path) -> None:
    with Terminal("demo", directory=tmp_path) as terminal:
        terminal.wait_for("Opening the database")
        code, shown = terminal.finish()
    assert code == 0
    assert COLOUR.search(shown)
    piped = run_process("demo", directory=tmp_path)
    assert piped.err == ""
    assert not COLOUR.search(piped.out)
    with Terminal("stats", "--json", directory=tmp_path) as terminal:
        _, shown = terminal.finish()
    assert not COLOUR.search("".join(line for line in shown.splitlines() if '"' in line))


def test_a_pipe_gets_each_text_on_one_line_as_it_was_stored(tmp_path: Path) -> None:
    text = "a long text " * 30
    assert run_process("add", text, "--user", "bo", directory=tmp_path).code == 0
    answer = run_process("search", "long text", "-u", "bo", directory=tmp_path)
    assert text.rstrip() in answer.out


MARKUP = "[bold]no[/bold] [/red] :smile: [link=https://example.com]x[/link]"


def test_stored_text_is_never_markup(cli: CommandLine) -> None:
    cli.works("add", MARKUP, "--user", "[red]bo[/red]", "--id", "[x]")
    out = cli.works("search", "smile", "--all-users", "--explain", "--embedder", "none").out
    assert MARKUP in out
    assert "user [red]bo[/red]" in out
    assert "id        [x]\n" in out
    assert "[/nope]" in cli.fails("card", "-t", "[/nope]")


def test_stored_text_does_not_steer_the_terminal(cli: CommandLine) -> None:
    cli.works("add", "\x1b[2Jgone \u202egnp.exe\x07 tea", "--user", "bo\x1b[31m")
    for command in (
        ("search", "tea", "--all-users"),
        ("search", "tea", "--all-users", "--explain"),
    ):
        out = cli.works(*command).out
        assert "\\x1b[2Jgone \\u202egnp.exe\\x07 tea" in out
        assert "user bo\\x1b[31m" in out
    assert "\x1b" not in cli.fails("card", "-t", "\x1b[2J")


def test_harmless_text_keeps_its_lines_and_a_harmless_line_is_one() -> None:
    assert harmless("a\r\nb\rc\u2028d\te") == "a\nb\nc\nd\te"
    assert harmless("\x9b31m\x7f") == "\\x9b31m\\x7f"
    assert harmless_line("a\nb\tc") == "a\\nb\\tc"
    for kept in ("緑茶 é 👩‍👩‍👧", "שלום\u200f", "naïve"):
        assert harmless(kept) == kept


def test_text_that_the_locale_cannot_hold_is_escaped_and_json_is_utf8(
    tmp_path: Path, story: Path
) -> None:
    shutil.copy(story, tmp_path)
    narrow = {"PYTHONIOENCODING": "ascii"}
    options = ("search", "kiln lesson", "-u", "maya", "--embedder", "none")
    answer = run_process(*options, directory=tmp_path, env=narrow)
    assert answer.code == 0
    assert "\\u9676\\u82b8" in answer.out
    document = run_process(*options, "--json", directory=tmp_path, env=narrow)
    assert "陶芸" in document.out


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path, story: Path) -> None:
    shutil.copy(story, tmp_path)
    for json in ((), ("--json",)):
        process = subprocess.Popen(
            [sys.executable, "-m", "agentmemory", "messages", "-t", "demo-session-1", *json],
            cwd=tmp_path,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        errors = process.stderr.read()
        process.stderr.close()
        assert process.wait(timeout=60) == 141
        assert errors == b""


def test_ctrl_c_while_waiting_for_text_ends_quietly(tmp_path: Path) -> None:
    with Terminal("add", "-", "--user", "bo", directory=tmp_path) as terminal:
        terminal.wait_for("reading the text from the terminal")
        terminal.interrupt()
        code, shown = terminal.finish()
    assert code == 130
    assert "Traceback" not in shown
    assert "error" not in shown
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_while_the_database_works_ends_quietly_and_stores_nothing(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    assert run_process("add", "one", "--user", "bo", directory=tmp_path).code == 0
    holder = apsw.Connection(str(path))
    holder.execute("BEGIN IMMEDIATE")
    try:
        with Terminal("add", "two", "-u", "bo", directory=tmp_path) as terminal:
            terminal.wait_for("Storing")
            terminal.interrupt()
            code, shown = terminal.finish()
    finally:
        holder.execute("ROLLBACK")
        holder.close()
    assert code == 130
    assert "Traceback" not in shown
    assert "error" not in shown
    assert '"memory": 1' in run_process("stats", "--json", directory=tmp_path).out


def test_text_can_be_typed_on_the_terminal(tmp_path: Path) -> None:
    with Terminal("add", "-", "--user", "bo", directory=tmp_path) as terminal:
        terminal.wait_for("reading the text from the terminal")
        terminal.type("typed by hand\n\x04")
        code, _ = terminal.finish()
    assert code == 0
    assert "typed by hand" in run_process("search", "typed", "-u", "bo", directory=tmp_path).out


@pytest.mark.parametrize("code", ["from agentmemory.cli import main; raise SystemExit(main())"])
def test_a_disk_that_is_full_is_an_error(tmp_path: Path, code: str) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full on this system")
    with full.open("wb") as device:
        done = subprocess.run(
            [sys.executable, "-c", code, "--help"],
            cwd=tmp_path,
            env=environment(),
            stdout=device,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == b"error: No space left on device\n"
