"""A command line in a directory of its own, and the demo's database ready made."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine, run_process


@pytest.fixture
def cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AGENTMEMORY_DB", raising=False)
    monkeypatch.delenv("AGENTMEMORY_TRACEBACK", raising=False)
    return CommandLine(capsys)


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the database that the demo makes without the local model."""
    directory = tmp_path_factory.mktemp("story")
    answer = run_process("demo", "--embedder", "none", directory=directory)
    assert answer.code == 0, answer
    return directory / "memory.db"


@pytest.fixture
def told(cli: CommandLine, story: Path) -> CommandLine:
    """Give a command line whose `memory.db` holds the demo's story."""
    shutil.copy(story, "memory.db")
    return cli
