"""Every code block of the README and of the documentation runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.snippets import Session, SnippetError, blocks

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for pattern in ("README.md", "CONTRIBUTING.md", "docs/**/*.md")
    for page in ROOT.glob(pattern)
    if "_build" not in page.parts
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_blocks_of_a_page_run_in_order(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Session(str(page), tmp_path).run(page.read_text(encoding="utf-8"))


def run(markdown: str, directory: Path) -> dict[str, object]:
    session = Session("page.md", directory)
    session.run(markdown)
    return session.namespace


def test_blocks_share_names_and_may_await_at_top_level(tmp_path: Path) -> None:
    space = run(
        "```python\nimport asyncio\nevent = asyncio.Event()\n```\ntext\n"
        "```python\nevent.set()\nawait event.wait()\nloop = asyncio.get_running_loop()\n```\n"
        "```python\nawait asyncio.sleep(0)\nsame = loop is asyncio.get_running_loop()\n```\n",
        tmp_path,
    )
    assert space["same"] is True


def test_a_block_that_fails_says_where(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run("# Title\n\n```python\nx = 1\nx / 0\n```\n", tmp_path)
    assert caught.traceback[-1].lineno + 1 == 5
    assert str(caught.traceback[-1].path).endswith("page.md")


def test_a_block_in_a_list_is_run_too(tmp_path: Path) -> None:
    assert run("- one\n\n  ```python\n  if True:\n      x = 1\n  ```\n", tmp_path)["x"] == 1


def test_a_block_opts_out_only_with_a_reason_the_reader_sees(tmp_path: Path) -> None:
    space = run("```python no-run\n# Needs an API key.\nimport math\nx = 1 / 0\n```\n", tmp_path)
    assert "math" in space
    assert "x" not in space
    with pytest.raises(SnippetError, match="Needs"):
        run("```python no-run\nx = 1\n```\n", tmp_path)
    with pytest.raises(SnippetError, match="option 'skip'"):
        run("```python skip\nx = 1\n```\n", tmp_path)


def test_a_block_that_opted_out_must_compile_and_import_what_exists(tmp_path: Path) -> None:
    with pytest.raises(SyntaxError):
        run("```python no-run\n# Needs a key.\nx = = 1\n```\n", tmp_path)
    with pytest.raises(ImportError):
        run("```python no-run\n# Needs a key.\nfrom agentmemory import NoSuchName\n```\n", tmp_path)


def test_our_commands_run_in_the_directory_of_the_page(tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text('{"a": 1}', encoding="utf-8")
    run(
        "```bash\n# a comment\npython -m json.tool \\\n  in.json out.json  # pretty\n```\n",
        tmp_path,
    )
    assert (tmp_path / "out.json").exists()


def test_a_command_that_fails_or_that_nobody_knows_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SnippetError, match="exited"):
        run("```console\n$ python -m json.tool missing.json\n```\n", tmp_path)
    with pytest.raises(SnippetError, match="KNOWN_COMMANDS"):
        run("```bash\nmake install\n```\n", tmp_path)
    run("```console\n$ nox -s tests\nall the output\n```\n", tmp_path)


def test_a_command_opts_out_with_a_reason_too(tmp_path: Path) -> None:
    block = (
        "```console no-run\n# Needs the data.\n$ python -m {} \\\n    --data missing.json\n```\n"
    )
    run(block.format("json.tool"), tmp_path)
    with pytest.raises(SnippetError, match="not there"):
        run(block.format("no_such_module"), tmp_path)
    with pytest.raises(SnippetError, match="KNOWN_COMMANDS"):
        run("```bash no-run\n# Needs a compiler.\nmake\n```\n", tmp_path)
    with pytest.raises(SnippetError, match="Needs"):
        run("```bash no-run\npython -m json.tool missing.json\n```\n", tmp_path)


def test_a_command_may_go_on_in_the_next_line(tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text("[]", encoding="utf-8")
    run("```console\n$ python -m json.tool \\\n    in.json out.json\n```\n", tmp_path)
    assert (tmp_path / "out.json").exists()


def test_fences_are_closed_and_name_a_language() -> None:
    with pytest.raises(SnippetError, match="language 'py'"):
        blocks("```py\nx\n```\n")
    with pytest.raises(SnippetError, match="language ''"):
        blocks("```\nx\n```\n")
    with pytest.raises(SnippetError, match="nothing closes"):
        blocks("```python\nx\n")


def test_a_block_inside_an_admonition_counts() -> None:
    (block,) = blocks("# T\n\n````{note}\ntext\n```python\nx\n```\n````\n")
    assert (block.language, block.line, block.text) == ("python", 6, "x\n")
