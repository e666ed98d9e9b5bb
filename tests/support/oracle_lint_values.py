"""Rules of the Oracle linter on what SQL means: columns, JSON, vectors, text, time, binds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import numpy as np

from agentmemory.stores.oracle.statement import BindType, Statement, StatementKind
from tests.support.oracle_sql import Finding, Sql, is_plsql
from tests.support.oracle_tokens import Token, inside, split_list

MAX_STRING_BYTES = 4000
MAX_BINDS = 65_535
VIRTUAL_COLUMNS = frozenset({"EFFECTIVE_TIME"})


def known_columns(sql: Sql) -> Iterator[Finding]:
    """ORA-00904: a qualified name is a column of its table."""
    for token in sql.tokens:
        dot, owner = sql.after(token, -1), sql.after(token, -2)
        if token.kind != "word" or dot is None or dot.text != "." or owner is None:
            continue
        tables = sql.aliases.get(owner.upper)
        if tables and not token.is_word("ROWID") and sql.column(token) is None:
            yield f"{owner.text}.{token.text} is no column of {' or '.join(sorted(tables))}"


def complete_inserts(sql: Sql) -> Iterator[Finding]:
    """An INSERT names its columns, gives each a value, and every one that may not be NULL."""
    tokens = sql.tokens
    if not tokens or not tokens[0].is_word("INSERT"):
        return
    name = next(
        (
            place
            for place in range(2, len(tokens))
            if (place + 1 == len(tokens) or tokens[place + 1].text != ".")
            and tokens[place].text != "."
        ),
        None,
    )
    opening = tokens[name + 1] if name is not None and name + 1 < len(tokens) else None
    if name is None or opening is None or opening.text != "(":
        yield "INSERT without its columns"
        return
    named = [item[0].upper for item in split_list(inside(tokens, opening), 1)]
    yield from _values_for(sql, opening, named)
    table = sql.schema.get(tokens[name].upper)
    if table is None:
        return
    for column in named:
        if column in VIRTUAL_COLUMNS and tokens[name].upper.endswith("_RECORD"):
            yield f"INSERT into the virtual column {column} (ORA-54013)"
        elif column not in table:
            yield f"{column} is no column of {tokens[name].upper}"
    for column, kind in table.items():
        if not kind.nullable and not kind.generated and column not in named:
            yield f"INSERT without a value for {column}, which may not be NULL (ORA-01400)"


def _values_for(sql: Sql, opening: Token, named: list[str]) -> Iterator[Finding]:
    for token in sql.tokens:
        following = sql.after(token)
        if token.is_word("VALUES") and following is not None and following.text == "(":
            values = split_list(inside(sql.tokens, following), following.depth + 1)
            if len(values) != len(named):
                yield f"{len(named)} columns and {len(values)} values (ORA-00947)"
    main = next((block for block in sql.blocks if block.depth == opening.depth), None)
    if main is not None:
        chosen = split_list(main.clauses["SELECT"], main.depth)
        if len(chosen) != len(named):
            yield f"{len(named)} columns and {len(chosen)} values (ORA-00947)"


def known_updates(sql: Sql) -> Iterator[Finding]:
    """An UPDATE sets columns that are there and not made by the database; it has no FROM."""
    if not sql.tokens or not sql.tokens[0].is_word("UPDATE", "DELETE"):
        return
    if sql.tokens[0].is_word("UPDATE") and any(
        token.is_word("FROM") and not token.depth for token in sql.tokens
    ):
        yield "UPDATE … FROM; write MERGE or a subquery"
    if any(token.is_word("USING") and not token.depth for token in sql.tokens):
        yield "DELETE … USING; write a subquery"
    known = set().union(*(sql.schema[table] for tables in sql.aliases.values() for table in tables))
    for item in _assignments(sql):
        names = [token for token in item if token.kind == "word"]
        column = names[1] if len(item) > 2 and item[1].text == "." else names[0]
        if known and column.upper not in known:
            yield f"{column.text} is no column of what is updated"
        if column.upper in VIRTUAL_COLUMNS:
            yield f"UPDATE of the virtual column {column.text} (ORA-54017)"


def _assignments(sql: Sql) -> list[list[Token]]:
    found: list[Token] = []
    active = False
    for token in sql.tokens:
        if not token.depth and token.is_word("SET", "WHERE"):
            active = token.is_word("SET")
        elif active:
            found.append(token)
    return [item for item in split_list(found, 0) if item[0].kind == "word"]


def no_stars(sql: Sql) -> Iterator[Finding]:
    """SELECT * changes its meaning with the table, and cannot stand beside other columns."""
    for block in sql.blocks:
        for token in block.top("SELECT"):
            before = sql.after(token, -1)
            if (
                token.text == "*"
                and before is not None
                and (before.text in (",", ".") or before.is_word("SELECT", "DISTINCT"))
            ):
                yield "SELECT *"


def sorted_distinct(sql: Sql) -> Iterator[Finding]:
    """ORA-01791: what is sorted by stands in the list of a SELECT DISTINCT."""
    for block in sql.blocks:
        select = block.top("SELECT")
        if not select or not select[0].is_word("DISTINCT") or not block.has("ORDER"):
            continue
        listed = split_list(block.clauses["SELECT"][1:], block.depth)
        shown = {_text(item) for item in listed} | {item[-1].upper for item in listed}
        for item in split_list(block.clauses["ORDER"], block.depth):
            words = [
                token
                for token in item
                if not token.is_word("BY", "ASC", "DESC", "NULLS", "FIRST", "LAST")
            ]
            if _text(words) not in shown and words[0].kind != "number":
                yield f"ORDER BY {_text(words)}, which SELECT DISTINCT does not list"


def _text(tokens: Sequence[Token]) -> str:
    return "".join(token.upper for token in tokens)


def no_grouping_by_place(sql: Sql) -> Iterator[Finding]:
    """GROUP BY 1 groups by the number 1."""
    for block in sql.blocks:
        for item in split_list(block.clauses.get("GROUP", ()), block.depth):
            words = [token for token in item if not token.is_word("BY")]
            if len(words) == 1 and words[0].kind == "number":
                yield f"GROUP BY {words[0].text}"


def not_in_without_null(sql: Sql) -> Iterator[Finding]:
    """NOT IN is never true once the list holds a NULL."""
    for token in sql.tokens:
        following, opening = sql.after(token), sql.after(token, 2)
        if not token.is_word("NOT") or following is None or not following.is_word("IN"):
            continue
        if opening is None:
            continue
        block = next(
            (item for item in sql.blocks if item.tokens[0].place == opening.place + 1), None
        )
        if block is None:
            continue
        name = block.clauses["SELECT"][-1]
        column = sql.column(name)
        guarded = any(
            item.is_word("NOT") and (n := sql.after(item)) is not None and n.is_word("NULL")
            for item in block.top("WHERE")
        )
        if column is not None and column.nullable and not guarded:
            yield f"NOT IN a list of {name.text}, which may be NULL; write NOT EXISTS"


def recursion_as_oracle_has_it(sql: Sql) -> Iterator[Finding]:
    """ORA-32039, 32044, 32486: a recursive WITH lists its columns, uses UNION ALL and CYCLE."""
    for token in sql.tokens:
        name = _name_before_as(sql, token)
        opening = sql.after(token)
        if name is None or opening is None or opening.text != "(":
            continue
        body = inside(sql.tokens, opening)
        if not any(
            item.is_word(name.upper)
            and (b := sql.after(item, -1)) is not None
            and (b.is_word("FROM", "JOIN") or b.text == ",")
            for item in body
        ):
            continue
        if not _has_column_list(sql, token):
            yield f"recursive WITH {name.text} without a list of columns (ORA-32039)"
        unions = [
            item for item in body if item.depth == opening.depth + 1 and item.is_word("UNION")
        ]
        if (
            any((n := sql.after(item)) is None or not n.is_word("ALL") for item in unions)
            or not unions
        ):
            yield f"recursive WITH {name.text} without UNION ALL (ORA-32040)"
        closing = sql.tokens[body[-1].place + 1]
        cycle = sql.after(closing)
        if cycle is None or not cycle.is_word("CYCLE", "SEARCH"):
            yield f"recursive WITH {name.text} without CYCLE (ORA-32044)"


def _name_before_as(sql: Sql, token: Token) -> Token | None:
    """Return the name of the WITH query whose AS this is."""
    if not token.is_word("AS"):
        return None
    before = sql.after(token, -1)
    if before is not None and before.text == ")":
        place = before.place - 1
        while sql.tokens[place].depth > before.depth:
            place -= 1
        before = sql.after(sql.tokens[place], -1)
    if before is None or before.kind != "word":
        return None
    start = sql.after(before, -1)
    is_first = start is not None and start.is_word("WITH")
    follows = (
        start is not None
        and start.text == ","
        and any(
            item.is_word("WITH") and item.depth == before.depth
            for item in sql.tokens[: before.place]
        )
    )
    # "SELECT a, b AS (" does not occur: an alias is no parenthesis.
    return before if is_first or follows else None


def _has_column_list(sql: Sql, token: Token) -> bool:
    before = sql.after(token, -1)
    return before is not None and before.text == ")"


_PATH_FUNCTIONS = ("JSON_EXISTS", "JSON_VALUE", "JSON_QUERY", "JSON_TABLE")


def closed_json_paths(sql: Sql) -> Iterator[Finding]:
    """A JSON path takes values by PASSING alone, and uses all that it is passed."""
    for token in sql.tokens:
        opening = sql.after(token)
        if not token.is_word(*_PATH_FUNCTIONS) or opening is None or opening.text != "(":
            continue
        body = inside(sql.tokens, opening)
        path = next((item.text for item in body if item.kind == "string"), "")
        if not path:
            yield f"{token.upper} whose path is no literal"
        if re.search(r"(?<![\w:]):[A-Za-z]", path):
            yield f"{token.upper} with a bind inside the path"
        used = set(re.findall(r"\$([A-Za-z_]\w*)", path))
        passed = {item.text.strip('"') for item in body if item.kind == "quoted"}
        if used != passed:
            yield f"{token.upper}: the path uses {sorted(used)} and is passed {sorted(passed)}"


_JSON_MAKERS = (
    "JSON_VALUE",
    "JSON_ARRAYAGG",
    "JSON_OBJECTAGG",
    "JSON_OBJECT",
    "JSON_ARRAY",
    "JSON_SERIALIZE",
)


def json_says_what_it_returns(sql: Sql) -> Iterator[Finding]:
    """Without RETURNING, JSON functions return VARCHAR2(4000): longer values are NULL or fail."""
    for token in sql.tokens:
        opening = sql.after(token)
        if opening is None or opening.text != "(":
            continue
        says = any(item.is_word("RETURNING") for item in inside(sql.tokens, opening))
        if token.is_word(*_JSON_MAKERS) and not says:
            yield f"{token.upper} without RETURNING"
        if token.is_word("LISTAGG") and not any(
            item.is_word("OVERFLOW") for item in inside(sql.tokens, opening)
        ):
            yield "LISTAGG without ON OVERFLOW (ORA-01489)"


def conditions_are_no_values(sql: Sql) -> Iterator[Finding]:
    """Conditions are not numbers, and BOOLEAN is not everywhere: no = 1, no TRUE."""
    if not sql.is_query():
        return
    for token in sql.tokens:
        if token.is_word("TRUE", "FALSE"):
            yield f"{token.upper}; compare words or numbers"
        opening = sql.after(token)
        if opening is None or opening.text != "(":
            continue
        if token.is_word("EXISTS", "JSON_EXISTS"):
            closing = sql.tokens[inside(sql.tokens, opening)[-1].place + 1]
            following = sql.after(closing)
            if following is not None and following.text in ("=", "<>", ">"):
                yield f"{token.upper} compared with a number"
    for block in sql.blocks:
        for item in split_list(block.clauses["SELECT"], block.depth):
            if item[0].is_word("EXISTS", "JSON_EXISTS") and item[0].depth == block.depth:
                yield f"{item[0].upper} in a list of columns; write CASE WHEN"


def contains_with_score(sql: Sql) -> Iterator[Finding]:
    """CONTAINS is compared with 0, SCORE names the label of one; both need the text index."""
    labels: set[str] = set()
    for token in sql.tokens:
        opening = sql.after(token)
        if not token.is_word("CONTAINS") or opening is None or opening.text != "(":
            continue
        arguments = split_list(inside(sql.tokens, opening), opening.depth + 1)
        closing = sql.tokens[inside(sql.tokens, opening)[-1].place + 1]
        following = sql.after(closing)
        if following is None or following.text != ">":
            yield "CONTAINS that is not compared with > 0"
        if arguments[0][-1].upper != "TOKENS":
            yield f"CONTAINS on {arguments[0][-1].text}, which has no text index (DRG-10599)"
        if len(arguments) > 1 and arguments[1][0].kind != "bind":
            yield "CONTAINS whose query is no bind"
        labels |= {item[0].text for item in arguments[2:]}
    for token in sql.tokens:
        label = sql.after(token, 2)
        scores = token.is_word("SCORE") and label is not None and label.kind == "number"
        if scores and label is not None and label.text not in labels:
            yield f"SCORE({label.text}) without CONTAINS(…, {label.text})"


def vectors_by_their_index(sql: Sql) -> Iterator[Finding]:
    """A vector index serves its own metric only, and APPROX only an order by distance."""
    for token in sql.tokens:
        opening = sql.after(token)
        if token.is_word("VECTOR_DISTANCE") and opening is not None:
            arguments = split_list(inside(sql.tokens, opening), opening.depth + 1)
            if len(arguments) != 3 or arguments[2][0].upper != "COSINE":
                yield "VECTOR_DISTANCE without COSINE, the metric of the index"
    for block in sql.blocks:
        fetch = block.top("FETCH")
        if not any(token.is_word("APPROX", "APPROXIMATE") for token in fetch):
            continue
        if not any(token.kind == "number" for token in fetch[:3]):
            yield "FETCH APPROX whose number is no literal"
        if not any(token.is_word("VECTOR_DISTANCE") for token in block.tokens):
            yield "FETCH APPROX without VECTOR_DISTANCE"


def time_comes_from_the_caller(sql: Sql) -> Iterator[Finding]:
    """The clock is the caller's; what the server calls now has its own zone, too."""
    if not sql.is_query():
        return
    for token in sql.tokens:
        if token.is_word(
            "SYSDATE", "SYSTIMESTAMP", "CURRENT_TIMESTAMP", "CURRENT_DATE", "LOCALTIMESTAMP"
        ):
            yield f"{token.upper}; bind the time"


def sound_ddl(sql: Sql) -> Iterator[Finding]:
    """DDL takes no binds, sizes fit, keys and indexes are on what can be compared."""
    if not sql.tokens or sql.is_query() or is_plsql(sql.text):
        return
    for token in sql.tokens:
        if token.kind == "bind":
            yield f"bind {token.text} in DDL (ORA-01027)"
        size = sql.after(token, 2)
        if token.is_word("VARCHAR2") and size is not None and size.kind == "number":
            if int(size.text) > MAX_STRING_BYTES:
                yield f"VARCHAR2({size.text}), longer than {MAX_STRING_BYTES} bytes (ORA-00910)"
            unit = sql.after(token, 3)
            if unit is None or not unit.is_word("BYTE", "CHAR"):
                yield "VARCHAR2 whose size depends on the session (BYTE or CHAR)"
    words = [token.upper for token in sql.tokens]
    if "TEMPORARY" in words and "VECTOR" in words:
        yield "a vector in a temporary table"
    if (
        words[0] == "CREATE"
        and "INDEX" in words[:3]
        and "VECTOR" not in words[:2]
        and "INDEXTYPE" not in words
    ):
        for token in sql.tokens:
            if token.depth and any(
                token.upper in columns
                and columns[token.upper].type in ("CLOB", "BLOB", "JSON", "VECTOR")
                for name, columns in sql.schema.items()
                if name in words
            ):
                yield f"index on {token.text} (ORA-02327)"


@lru_cache(maxsize=10_000)
def _bind_names(text: str) -> frozenset[str]:
    return frozenset(token.text[1:] for token in Sql(text).tokens if token.kind == "bind")


def binds_match(statement: Statement) -> Iterator[Finding]:
    """ORA-01008 and ORA-01036: binds used are the binds given."""
    used = _bind_names(statement.text)
    for given in _rows(statement):
        if used - set(given):
            yield f"binds {sorted(used - set(given))} are used and not given (ORA-01008)"
        if set(given) - used:
            yield f"binds {sorted(set(given) - used)} are given and not used (ORA-01036)"
    if set(statement.types) - used:
        yield f"types of binds {sorted(set(statement.types) - used)} that are not used"
    if len(used) > MAX_BINDS:
        yield f"{len(used)} binds"


def _rows(statement: Statement) -> list[Any]:
    if statement.kind is StatementKind.MANY:
        return list(statement.rows)
    return [statement.binds]


def binds_typed(statement: Statement) -> Iterator[Finding]:
    """Values that do not tell their type to the driver are given one."""
    for row in _rows(statement):
        for name, value in row.items():
            kind = statement.types.get(name)
            if problem := _type_problem(value, kind):
                yield f"bind {name} is {type(value).__name__} and {problem}"


def _type_problem(value: Any, kind: BindType | None) -> str:
    if value is None:
        return "" if kind else "has no type"
    if isinstance(value, bool):
        return "is no number"
    if isinstance(value, dict | list | tuple):
        return "" if kind is BindType.JSON else "is not typed as JSON"
    if isinstance(value, np.ndarray):
        return "" if kind is BindType.VECTOR else "is not typed as VECTOR"
    if isinstance(value, bytes):
        return "" if kind is BindType.BLOB else "is not typed as BLOB"
    if isinstance(value, datetime):
        return "" if value.tzinfo is not None else "has no time zone"
    if isinstance(value, str):
        long = len(value.encode()) > MAX_STRING_BYTES
        return (
            "is longer than 4000 bytes without being a CLOB"
            if long and kind not in (BindType.CLOB, BindType.JSON)
            else ""
        )
    if isinstance(value, int | float):
        return ""
    return "is nothing that can be bound"


def kinds_match(statement: Statement) -> Iterator[Finding]:
    """A statement is run as what it is; a batch has rows of the same binds."""
    first = statement.text.split(None, 1)[0].upper()
    expected = {
        "SELECT": (StatementKind.QUERY,),
        "WITH": (StatementKind.QUERY,),
        "INSERT": (StatementKind.DML, StatementKind.MANY),
        "UPDATE": (StatementKind.DML, StatementKind.MANY),
        "DELETE": (StatementKind.DML, StatementKind.MANY),
        "MERGE": (StatementKind.DML, StatementKind.MANY),
        "LOCK": (StatementKind.DML,),
    }.get(first, (StatementKind.BLOCK,))
    if statement.kind not in expected:
        yield f"a statement that begins with {first} is run as {statement.kind}"
    if statement.kind is StatementKind.MANY:
        if not statement.rows or statement.binds:
            yield "a batch without rows, or with binds of its own"
        if len({frozenset(row) for row in statement.rows}) > 1:
            yield "a batch whose rows have different binds"
    elif statement.rows:
        yield "rows of a statement that is no batch"
