r"""Prints every statement of the store with the plan a database makes for it.

Run in a checkout, with a store that has been created and, so that plans mean something, filled::

    AGENTMEMORY_ORACLE_DSN=localhost/FREEPDB1 AGENTMEMORY_ORACLE_USER=memory \
    AGENTMEMORY_ORACLE_PASSWORD=… python -m agentmemory.stores.oracle.explain > plans.txt

Nothing is changed: EXPLAIN PLAN parses a statement and does not run it. May import plan_notes,
engine, schema and statement; the samples of statements are the tests'.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import anyio

from agentmemory.errors import AgentMemoryError
from agentmemory.stores.oracle.engine import OracleEngine
from agentmemory.stores.oracle.plan_notes import PLAN_NOTES
from agentmemory.stores.oracle.schema import DEFAULT_STORE_ID, Tables, check_owner, check_store_id
from agentmemory.stores.oracle.statement import Statement, StatementKind, Transaction

SAMPLES: Final = "tests.support.oracle_statements"
"""The module whose function `all_statements(tables)` returns a sample of every statement."""

_MARK: Final = "AGENTMEMORY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """One statement with its plan.

    Args:
        statement: The statement.
        plan: Lines of the plan; empty for one that has none, such as DDL.
        error: Why the database would not explain it; None if it did.
    """

    statement: Statement
    plan: tuple[str, ...] = ()
    error: str | None = None

    def report(self) -> str:
        """Return it as text: name, note, SQL, plan."""
        note = PLAN_NOTES.get(self.statement.name)
        lines = [f"== {self.statement.name}"]
        if note:
            lines.append(f"-- meant: {note}")
        lines += [self.statement.text, *self.plan]
        if self.error:
            lines.append(f"!! {self.error}")
        return "\n".join([*lines, ""])


def explain_plan(statement: Statement) -> Statement:
    """Have the database plan a statement; the plan is kept for the session."""
    binds = statement.rows[0] if statement.rows else statement.binds
    return Statement(
        name="explain.plan",
        text=f"EXPLAIN PLAN SET STATEMENT_ID = '{_MARK}' FOR {statement.text}",
        kind=StatementKind.BLOCK,
        binds=binds,
        types=statement.types,
    )


def clear_plan() -> Statement:
    """Remove the plan of the statement before."""
    return Statement(
        name="explain.clear",
        text="DELETE FROM plan_table WHERE statement_id = :mark",
        kind=StatementKind.DML,
        binds={"mark": _MARK},
    )


def read_plan() -> Statement:
    """Read the plan as the database prints it."""
    return Statement(
        name="explain.read",
        text="SELECT plan_table_output FROM "
        "TABLE(DBMS_XPLAN.DISPLAY('PLAN_TABLE', :mark, 'TYPICAL'))",
        kind=StatementKind.QUERY,
        binds={"mark": _MARK},
    )


async def explain(
    engine: OracleEngine, statements: Iterable[Statement]
) -> AsyncIterator[Explained]:
    """Yield each distinct statement with its plan; one that fails does not end it."""
    seen: set[str] = set()
    for statement in statements:
        if statement.text in seen:
            continue
        seen.add(statement.text)
        yield await _explain_one(engine, statement)


async def _explain_one(engine: OracleEngine, statement: Statement) -> Explained:
    found = Explained(statement=statement)
    if statement.kind is StatementKind.BLOCK:
        return found

    async def work(transaction: Transaction) -> tuple[str, ...]:
        await transaction.run(clear_plan())
        await transaction.run(explain_plan(statement))
        (rows,) = await transaction.run(read_plan())
        return tuple(str(row[0]) for row in rows)

    try:
        return replace(found, plan=await engine.read(work))
    except AgentMemoryError as error:
        return replace(found, error=str(error))


def _arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="agentmemory.stores.oracle.explain", description=__doc__)
    for name in ("dsn", "user", "password"):
        variable = f"AGENTMEMORY_ORACLE_{name.upper()}"
        parser.add_argument(f"--{name}", default=os.environ.get(variable), help=f"or {variable}")
    parser.add_argument("--store-id", default=DEFAULT_STORE_ID, type=check_store_id)
    parser.add_argument("--owner", default=None, type=check_owner, help="the schema of the store")
    given = parser.parse_args(arguments)
    for name in ("dsn", "user", "password"):
        if not getattr(given, name):
            parser.error(f"give --{name} or AGENTMEMORY_ORACLE_{name.upper()}")
    return given


def _samples(t: Tables) -> Iterable[Statement]:
    try:
        module = importlib.import_module(SAMPLES)
    except ModuleNotFoundError as error:
        sys.exit(f"{SAMPLES} is not there ({error}); run this at the top of a checkout")
    statements: Iterable[Statement] = module.all_statements(t)
    return statements


async def _run(given: argparse.Namespace) -> None:
    import oracledb

    pool: Any = oracledb.create_pool_async(
        user=given.user, password=given.password, dsn=given.dsn, min=1, max=2
    )
    engine = OracleEngine(pool)
    try:
        await engine.open()
        sys.stdout.write(f"-- {engine.capabilities.banner}\n\n")
        async for item in explain(engine, _samples(Tables(given.store_id, given.owner))):
            sys.stdout.write(item.report() + "\n")
    finally:
        await engine.close()
        await pool.close(force=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Explain every statement on the database that arguments or the environment name."""
    anyio.run(_run, _arguments(sys.argv[1:] if arguments is None else arguments))


if __name__ == "__main__":
    main()
