"""The Oracle linter: what Oracle refuses or means otherwise than it looks, without a database.

Each rule is a function from a statement to findings; its name is the rule's. The table of bad
statements in tests/stores/oracle/test_sql_lint.py proves each one. Sources are Oracle's
documentation: SQL Language Reference (26ai), AI Vector Search User's Guide, JSON Developer's
Guide, Oracle Text Reference, Database Error Messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from agentmemory.stores.oracle import ddl
from agentmemory.stores.oracle.schema import REGISTRY, Tables
from agentmemory.stores.oracle.statement import Statement
from tests.support import oracle_lint_syntax as syntax
from tests.support import oracle_lint_values as values
from tests.support.oracle_sql import Column, Schema, Sql

SQL_RULES = (
    syntax.no_limit,
    syntax.no_on_conflict,
    syntax.no_foreign_operators,
    syntax.no_as_before_table_alias,
    syntax.no_fetch_for_update,
    syntax.no_reserved_bind_names,
    syntax.no_reserved_names,
    syntax.no_large_comparisons,
    syntax.no_empty_strings,
    syntax.no_long_lists,
    syntax.no_fetch_without_order,
    syntax.no_rownum_with_order,
    syntax.nulls_in_their_place,
    syntax.no_trailing_semicolon,
    syntax.no_merge_of_join_columns,
    syntax.no_returning,
    syntax.no_quoted_names,
    syntax.like_with_escape,
    syntax.select_from_something,
    values.known_columns,
    values.complete_inserts,
    values.known_updates,
    values.no_stars,
    values.sorted_distinct,
    values.no_grouping_by_place,
    values.not_in_without_null,
    values.recursion_as_oracle_has_it,
    values.closed_json_paths,
    values.json_says_what_it_returns,
    values.conditions_are_no_values,
    values.contains_with_score,
    values.vectors_by_their_index,
    values.time_comes_from_the_caller,
    values.sound_ddl,
)
"""Rules on the text of a statement."""

STATEMENT_RULES: tuple[Callable[[Statement], Iterator[str]], ...] = (
    values.binds_match,
    values.binds_typed,
    values.kinds_match,
)
"""Rules on a statement with its binds."""


def lint_text(text: str, schema: Schema) -> list[tuple[str, str]]:
    """Return the findings on SQL: rule and message."""
    sql = Sql(text, schema)
    return [(rule.__name__, message) for rule in SQL_RULES for message in rule(sql)]


def lint_binds(statement: Statement) -> list[tuple[str, str]]:
    """Return the findings on how the binds of a statement fit: rule and message."""
    return [(rule.__name__, message) for rule in STATEMENT_RULES for message in rule(statement)]


def lint(statement: Statement, schema: Schema) -> list[tuple[str, str]]:
    """Return the findings on a statement: rule and message."""
    return [*lint_text(statement.text, schema), *lint_binds(statement)]


def schema_of(t: Tables) -> Schema:
    """Return the columns of a store's tables, as its DDL has them."""
    found = {t.plain(table): _columns(body) for table, body in ddl.columns(t).items()}
    found[REGISTRY] = _columns(ddl.REGISTRY_COLUMNS)
    return found


_TYPE = re.compile(r"(\w+) ([A-Z][A-Z0-9_]*)")
_GENERATED = re.compile(r"\b(?:GENERATED|DEFAULT)\b")


def _columns(body: tuple[str, ...]) -> dict[str, Column]:
    columns = {}
    for line in body:
        match = _TYPE.match(line)
        if match and match[1] not in ("PRIMARY", "UNIQUE", "CHECK", "FOREIGN"):
            generated = _GENERATED.search(line) is not None
            nullable = "NOT NULL" not in line and "PRIMARY KEY" not in line and not generated
            columns[match[1].upper()] = Column(match[2], nullable=nullable, generated=generated)
    return columns
