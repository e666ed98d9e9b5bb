"""The script that explains every statement asks for each plan once and goes on after a failure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from agentmemory.errors import StoreError
from agentmemory.stores.oracle.explain import explain
from agentmemory.stores.oracle.statement import Statement, StatementKind
from tests.support.oracle_statements import all_statements


class PlanningEngine:
    """Answers EXPLAIN PLAN as a database does, and fails for what it is told to."""

    def __init__(self, failing: str = "") -> None:
        self.failing = failing
        self.planned: list[Statement] = []
        self._last = ""

    async def read(self, work):
        return await work(self)

    async def run(self, *statements: Statement):
        answers = []
        for statement in statements:
            if statement.name == "explain.plan":
                self.planned.append(statement)
                self._last = statement.text
                if self.failing and self.failing in statement.text:
                    raise StoreError("ORA-00942: table or view does not exist")
            answers.append([(f"plan of {self._last}",)] if statement.name == "explain.read" else [])
        return answers


async def reports(engine, statements):
    return [item.report() async for item in explain(engine, statements)]


async def test_every_distinct_statement_on_rows_is_planned_with_its_binds():
    engine = PlanningEngine()
    statements = all_statements()
    printed = await reports(engine, [*statements, *statements])
    distinct = {item.text: item for item in reversed(statements)}
    assert len(printed) == len(distinct)
    on_rows = [item for item in reversed(distinct.values()) if item.kind is not StatementKind.BLOCK]
    planned_of = {item.text.partition(" FOR ")[2]: item for item in engine.planned}
    assert set(planned_of) == {item.text for item in on_rows}
    assert len(engine.planned) == len(on_rows)
    for statement in on_rows:
        planned = planned_of[statement.text]
        assert set(planned.binds) == set(statement.rows[0] if statement.rows else statement.binds)


async def test_a_report_says_what_is_meant_and_what_is_planned():
    engine = PlanningEngine()
    wanted = next(item for item in all_statements() if item.name == "registry.read")
    (printed,) = await reports(engine, [wanted])
    assert printed.startswith("== registry.read\n-- meant: primary key of the registry")
    assert wanted.text in printed
    assert "plan of EXPLAIN PLAN" in printed


async def test_a_statement_that_cannot_be_planned_does_not_end_it():
    engine = PlanningEngine(failing="DEFAULT_JOB")
    printed = await reports(engine, all_statements())
    failed = [text for text in printed if "!! ORA-00942" in text]
    assert failed
    assert len(failed) < len(printed)


def test_without_a_database_it_says_what_is_missing():
    root = Path(__file__).parents[3]
    ended = subprocess.run(
        [sys.executable, "-m", "agentmemory.stores.oracle.explain"],
        capture_output=True,
        text=True,
        cwd=root,
        env={"PATH": "/usr/bin"},
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2
    assert "AGENTMEMORY_ORACLE_DSN" in ended.stderr
