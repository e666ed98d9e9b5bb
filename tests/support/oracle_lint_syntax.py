"""Rules of the Oracle linter on how SQL is written; a rule's name is its function's."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.oracle_sql import COMPARISONS, Finding, Sql, is_plsql
from tests.support.oracle_tokens import (
    RESERVED,
    SET_OPERATORS,
    Block,
    Token,
    inside,
    split_list,
    table_factors,
)

MAX_NAME_BYTES = 128
MAX_IN_LIST = 1000


def no_limit(sql: Sql) -> Iterator[Finding]:
    """LIMIT is no word of Oracle's: FETCH FIRST n ROWS ONLY."""
    for token in sql.tokens:
        following = sql.after(token)
        if (
            token.is_word("LIMIT")
            and following is not None
            and following.kind in ("number", "bind")
        ):
            yield "LIMIT; write FETCH FIRST n ROWS ONLY"


def no_on_conflict(sql: Sql) -> Iterator[Finding]:
    """ON CONFLICT and INSERT OR: MERGE."""
    for token in sql.tokens:
        following = sql.after(token)
        if following is None:
            continue
        if token.is_word("ON") and following.is_word("CONFLICT", "DUPLICATE"):
            yield "ON CONFLICT; write MERGE"
        if token.place == 0 and token.is_word("INSERT") and following.is_word("OR"):
            yield "INSERT OR …; write MERGE"


def no_foreign_operators(sql: Sql) -> Iterator[Finding]:
    """Operators and words of other databases."""
    for token in sql.tokens:
        if token.text in ("::", "->", "->>", "@>", "<@", "<=>", "<->", "?"):
            yield f"operator {token.text}; write CAST, JSON_VALUE, JSON_EXISTS or VECTOR_DISTANCE"
        if token.is_word("ILIKE", "RECURSIVE", "GLOB", "REGEXP", "AUTOINCREMENT", "SERIAL"):
            yield f"{token.upper} is no word of Oracle's"
        following = sql.after(token)
        if token.is_word("NOW", "RANDOM", "JSON_EACH", "IFNULL", "GROUP_CONCAT", "STRING_AGG") and (
            following is not None and following.text == "("
        ):
            yield f"{token.upper}() is no function of Oracle's"


def no_as_before_table_alias(sql: Sql) -> Iterator[Finding]:
    """An alias of a table follows it without AS."""
    for name, following in table_factors(sql.tokens):
        if following and following[0].is_word("AS") and not sql.tokens[0].is_word("CREATE"):
            yield f"AS before the alias of {name[-1].text}"


def no_fetch_for_update(sql: Sql) -> Iterator[Finding]:
    """ORA-02014: rows cannot be locked of a query that groups, sorts out or limits them."""
    for block in sql.blocks:
        locks = any(
            token.is_word("FOR")
            and (following := sql.after(token)) is not None
            and following.is_word("UPDATE")
            for token in block.tokens
            if token.depth == block.depth
        )
        if not locks:
            continue
        if block.depth:
            yield "FOR UPDATE in a subquery"
        for clause in ("FETCH", "OFFSET", "GROUP"):
            if block.has(clause):
                yield f"{clause} with FOR UPDATE (ORA-02014)"
        for view in sql.blocks:
            if view.depth > block.depth and view.tokens[0] in block.clauses.get("FROM", ()):
                for clause in ("ORDER", "FETCH", "GROUP"):
                    if view.has(clause):
                        yield f"FOR UPDATE of a view with {clause} (ORA-02014)"
        select = block.top("SELECT")
        if select and select[0].is_word("DISTINCT", "UNIQUE"):
            yield "DISTINCT with FOR UPDATE (ORA-01786)"
        if any(token.is_word("COUNT", "MAX", "MIN", "SUM", "AVG", "OVER") for token in select):
            yield "an aggregate with FOR UPDATE (ORA-01786)"
        if any(token.is_word(*SET_OPERATORS) and not token.depth for token in sql.tokens):
            yield "a set operator with FOR UPDATE (ORA-01786)"


def no_reserved_bind_names(sql: Sql) -> Iterator[Finding]:
    """ORA-01745: binds are named as columns are; a leading digit is a bind by position."""
    for token in sql.tokens:
        if token.kind != "bind":
            continue
        name = token.text[1:]
        if name.upper() in RESERVED:
            yield f"bind {token.text} is a reserved word (ORA-01745)"
        if not name[0].isalpha():
            yield f"bind {token.text} does not begin with a letter (ORA-01036)"
        if len(name.encode()) > MAX_NAME_BYTES:
            yield f"bind {token.text} is longer than {MAX_NAME_BYTES} bytes"


def no_reserved_names(sql: Sql) -> Iterator[Finding]:
    """ORA-00904 and ORA-00972: names of columns, tables and aliases."""
    for token in sql.tokens:
        before, following = sql.after(token, -1), sql.after(token)
        if token.kind == "word" and len(token.text.encode()) > MAX_NAME_BYTES:
            yield f"name {token.text[:20]}… is longer than {MAX_NAME_BYTES} bytes (ORA-00972)"
        if token.kind != "word" or token.upper not in RESERVED:
            continue
        qualifies = following is not None and following.text == "."
        qualified = before is not None and before.text == "." and not token.is_word("ROWID")
        if qualifies or qualified:
            yield f"{token.text} is a reserved word and names nothing"
        # In CAST it is a type.
        sized = following is not None and following.text == "("
        if before is not None and before.is_word("AS") and sql.is_query() and not sized:
            yield f"alias {token.text} is a reserved word"
    for part in _definitions(sql):
        if part[0].upper in RESERVED and not part[0].is_word("CHECK", "UNIQUE"):
            yield f"column {part[0].text} is a reserved word"
        if part[0].text.startswith("_"):
            yield f"column {part[0].text} does not begin with a letter (ORA-00911)"


def _definitions(sql: Sql) -> Iterator[list[Token]]:
    """Yield the definitions of columns and constraints of a CREATE TABLE."""
    words = [token.upper for token in sql.tokens[:4]]
    if words[:1] == ["CREATE"] and "TABLE" in words:
        opening = next((token for token in sql.tokens if token.text == "("), None)
        if opening is not None:
            yield from split_list(inside(sql.tokens, opening), opening.depth + 1)


def no_large_comparisons(sql: Sql) -> Iterator[Finding]:
    """ORA-00932 and ORA-22848: CLOB, JSON and vectors cannot be compared, sorted or grouped."""
    for token in sql.tokens:
        column = sql.uncomparable(token)
        if column is None:
            continue
        before = sql.after(token, -3 if (dot := sql.after(token, -1)) and dot.text == "." else -1)
        following = sql.after(token)
        sides = [side for side in (before, following) if side is not None]
        assigned = _is_assignment(sql, token)
        if any(side.text in COMPARISONS for side in sides) and not assigned:
            yield f"{column.type} column {token.text} in a comparison"
        if following is not None and following.is_word("IN", "BETWEEN"):
            yield f"{column.type} column {token.text} in {following.upper}"
    for block in sql.blocks:
        yield from _large_in_clauses(sql, block)


def _is_assignment(sql: Sql, token: Token) -> bool:
    """Tell whether a column stands in the SET clause of an UPDATE or MERGE."""
    for before in reversed(sql.tokens[: token.place]):
        if before.depth == token.depth and before.is_word("WHERE", "ON", "SELECT", "WHEN"):
            return False
        if before.is_word("SET"):
            return True
    return False


def _large_in_clauses(sql: Sql, block: Block) -> Iterator[Finding]:
    for clause, what in (("GROUP", "GROUP BY"), ("ORDER", "ORDER BY")):
        for token in block.top(clause):
            if (column := sql.uncomparable(token)) is not None:
                yield f"{column.type} column {token.text} in {what}"
    select = block.top("SELECT")
    sorted_out = bool(select) and select[0].is_word("DISTINCT", "UNIQUE")
    for token in select:
        if sorted_out and (column := sql.uncomparable(token)) is not None:
            yield f"{column.type} column {token.text} with DISTINCT"
    for token in block.clauses.get("SELECT", ()):
        if token.is_word("DISTINCT") and token.depth > block.depth:
            following = [sql.after(token), sql.after(token, 3)]
            for name in following:
                if name is not None and (column := sql.uncomparable(name)) is not None:
                    yield f"{column.type} column {name.text} with DISTINCT"
    if any(_is_sorting_set_operator(sql, token) for token in sql.tokens):
        for token in select:
            if (column := sql.uncomparable(token)) is not None:
                yield f"{column.type} column {token.text} in a set operation without ALL"


def _is_sorting_set_operator(sql: Sql, token: Token) -> bool:
    following = sql.after(token)
    return token.is_word(*SET_OPERATORS) and not (
        following is not None and following.is_word("ALL")
    )


def no_empty_strings(sql: Sql) -> Iterator[Finding]:
    """An empty text is NULL, which equals nothing."""
    for token in sql.tokens:
        if token.kind == "string" and token.text.lower().lstrip("n") == "''":
            yield "an empty string, which is NULL"


def no_long_lists(sql: Sql) -> Iterator[Finding]:
    """ORA-01795: at most 1000 values in a list, on servers before 23ai."""
    for token in sql.tokens:
        opening = sql.after(token)
        if token.is_word("IN") and opening is not None and opening.text == "(":
            items = split_list(inside(sql.tokens, opening), opening.depth + 1)
            if len(items) > MAX_IN_LIST:
                yield f"a list of {len(items)} values (ORA-01795)"


def no_fetch_without_order(sql: Sql) -> Iterator[Finding]:
    """The first rows of no order are any rows."""
    for block in sql.blocks:
        if block.has("FETCH") and not block.has("ORDER"):
            yield "FETCH without ORDER BY"


def no_rownum_with_order(sql: Sql) -> Iterator[Finding]:
    """ROWNUM counts before ORDER BY sorts."""
    for block in sql.blocks:
        if block.has("ORDER") and any(token.is_word("ROWNUM") for token in block.top("WHERE")):
            yield "ROWNUM beside ORDER BY, which sorts afterwards"


def nulls_in_their_place(sql: Sql) -> Iterator[Finding]:
    """Oracle sorts NULL last where SQLite sorts it first; an order that may meet one says where."""
    for block in sql.blocks:
        for item in split_list(block.clauses.get("ORDER", ()), block.depth):
            words = [token for token in item if token.text.upper() != "BY"]
            if any(token.is_word("NULLS") for token in words):
                continue
            names = [token for token in words if not token.is_word("ASC", "DESC")]
            if len(names) not in (1, 3) or _is_never_null(sql, block, names[-1]):
                continue
            if (column := sql.column(names[-1])) and column.nullable:
                yield f"ORDER BY {names[-1].text}, which may be NULL, without NULLS FIRST or LAST"


def _is_never_null(sql: Sql, block: Block, name: Token) -> bool:
    """Tell whether the WHERE clause lets no row through whose column is NULL."""
    return any(
        token.upper == name.upper
        and [item.upper for item in sql.tokens[token.place + 1 : token.place + 4]]
        == ["IS", "NOT", "NULL"]
        for token in block.top("WHERE")
    )


def no_trailing_semicolon(sql: Sql) -> Iterator[Finding]:
    """ORA-00933 and PLS-00103: a statement has none, a PL/SQL block has one."""
    ends = sql.text.rstrip().endswith(";")
    if is_plsql(sql.text) and not ends:
        yield "a PL/SQL block without its last semicolon (PLS-00103)"
    elif not is_plsql(sql.text) and ends:
        yield "a semicolon at the end (ORA-00933)"
    if sql.text.rstrip().endswith("/"):
        yield "a slash at the end, which is a command of SQL*Plus"


def no_merge_of_join_columns(sql: Sql) -> Iterator[Finding]:
    """ORA-38104: what a MERGE joins by cannot be updated by it."""
    if not sql.tokens or not sql.tokens[0].is_word("MERGE"):
        return
    joined: set[str] = set()
    for token in sql.tokens:
        opening = sql.after(token)
        if token.is_word("ON") and not token.depth and opening is not None and opening.text == "(":
            names = inside(sql.tokens, opening)
            joined |= {
                name.upper
                for name in names
                if name.kind == "word"
                and (dot := sql.after(name, -1)) is not None
                and dot.text == "."
            }
        if token.is_word("ON") and not token.depth and opening is not None and opening.text != "(":
            yield "MERGE … ON without parentheses (ORA-00969)"
    changing = False
    for token in sql.tokens:
        if token.is_word("SET"):
            changing = True
        elif token.is_word("WHEN", "WHERE", "INSERT"):
            changing = False
        following = sql.after(token)
        if changing and following is not None and following.text == "=" and token.upper in joined:
            yield f"MERGE updates {token.text}, which it joins by (ORA-38104)"


def no_returning(sql: Sql) -> Iterator[Finding]:
    """RETURNING needs INTO and an output bind; RETURNING * is not there at all."""
    for token in sql.tokens:
        if token.is_word("RETURNING") and not token.depth:
            following = sql.after(token)
            star = following is not None and following.text == "*"
            yield "RETURNING *" if star else "RETURNING; select the row in the same pipeline"


def no_quoted_names(sql: Sql) -> Iterator[Finding]:
    """Quoted names are other names; only what is PASSED to a JSON path has to be quoted."""
    for token in sql.tokens:
        if token.kind != "quoted":
            continue
        before, bind = sql.after(token, -1), sql.after(token, -2)
        passed = (
            before is not None and before.is_word("AS") and bind is not None and bool(token.depth)
        )
        if not passed:
            yield f"quoted name {token.text}"


def like_with_escape(sql: Sql) -> Iterator[Finding]:
    """% and _ of a caller's text are wildcards unless a LIKE says how they are escaped."""
    for token in sql.tokens:
        pattern = sql.after(token)
        ours = pattern is not None and pattern.kind == "string" and "_" not in pattern.text
        if token.is_word("LIKE") and not ours:
            rest = [item for item in sql.tokens[token.place + 1 :] if item.depth <= token.depth]
            words = {item.upper for item in rest[:4]}
            if "ESCAPE" not in words:
                yield "LIKE without ESCAPE"


def select_from_something(sql: Sql) -> Iterator[Finding]:
    """A SELECT without FROM is new in 23ai; dual costs nothing."""
    for block in sql.blocks:
        if not block.has("FROM"):
            yield "SELECT without FROM; write FROM dual"
