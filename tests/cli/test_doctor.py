"""`doctor` and databases behind a URL."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import CommandLine
from tests.support.oracle.postgres import stop_embedded_server
from tests.support.oracle.server import PASSWORD
from tests.support.oracle.store import oracle_server
from tests.support.oracle_engines import URL


@pytest.fixture(scope="module", autouse=True)
def _no_server_is_left():
    yield
    stop_embedded_server()


@pytest.fixture
def oracle():
    with oracle_server() as server:
        yield server


def findings(cli: CommandLine, *arguments: str, code: int = 0) -> dict[str, Any]:
    answer = cli("doctor", "--json", *arguments)
    assert answer.code == code, answer
    document = json.loads(answer.out)
    found: dict[str, Any] = document["findings"]
    return found


def test_of_a_file(told: CommandLine) -> None:
    found = findings(told, "--embedder", "none")
    assert found["agentmemory"]["available"]
    assert found["embedder"] == {"available": False, "detail": "none: searched by words"}
    assert found["database"]["available"]
    assert found["store"]["detail"].endswith("37 records, 0 vectors")
    assert found["jobs"]["detail"] == "none failed"
    shown = told.works("doctor").out
    assert "memory.db" in shown
    assert "yes  store" in shown


def test_of_nothing(cli: CommandLine) -> None:
    found = findings(cli, code=2)
    assert not found["database"]["available"]
    assert "there is no database" in found["database"]["detail"]
    assert list(Path().iterdir()) == []


def test_of_a_file_that_holds_no_such_store(told: CommandLine) -> None:
    found = findings(told, "--store", "attic", code=2)
    assert found["database"]["available"]
    assert not found["store"]["available"]


def test_of_an_oracle_database_before_and_after_there_is_a_store(
    cli: CommandLine, oracle: Any
) -> None:
    before = findings(cli, "--db", URL, code=2)
    assert before["database"]["available"]
    assert before["create_table"]["available"]
    assert not before["store"]["available"]
    cli.works("add", "Maya is left-handed.", "--user", "maya", "--db", URL, "--embedder", "none")
    after = findings(cli, "--db", URL)
    assert after["text_index"]["available"]
    assert after["store"]["available"]
    assert oracle.open_sessions == []


def test_commands_work_on_an_oracle_database_and_show_no_password(
    cli: CommandLine, oracle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTMEMORY_DB", URL)
    added = cli.works("add", "Maya is left-handed.", "--user", "maya", "--embedder", "none")
    found = cli.works("search", "left", "--user", "maya", "--embedder", "none")
    counted = cli.works("stats")
    assert "left-handed" in found.out
    assert "memory 1" in counted.out
    assert "oracle://memory_app:***@" in counted.out
    document = json.loads(cli.works("stats", "--json").out)
    assert document["capabilities"]["text_index"]["available"]
    refused = cli("demo", "--embedder", "none")
    assert refused.code == 2
    for answer in (added, found, counted, refused):
        for secret in (PASSWORD, "correct%20horse"):
            assert secret not in answer.out + answer.err


def test_the_demo_joins_an_oracle_database_only_when_told_to(cli: CommandLine, oracle: Any) -> None:
    refused = cli("demo", "--embedder", "none", "--db", URL)
    assert refused.code == 2
    assert "no store" in refused.err
    told = cli.works("demo", "--embedder", "none", "--force", "--db", URL)
    assert "correct%20horse" not in told.out
    assert "agentmemory stats\n" in told.out


def test_a_database_that_cannot_be_reached_is_a_finding(cli: CommandLine) -> None:
    found = findings(cli, "--db", "oracle://u:secret@127.0.0.1:1/s", code=2)
    assert not found["database"]["available"]
    assert "127.0.0.1:1/s" in found["database"]["detail"]
    assert "secret" not in json.dumps(found)


def test_a_file_without_rights_is_left_alone(told: CommandLine, tmp_path: Path) -> None:
    shutil.copy("memory.db", "copy.db")
    before = Path("copy.db").read_bytes()
    findings(told, "--db", "copy.db")
    assert Path("copy.db").read_bytes() == before
