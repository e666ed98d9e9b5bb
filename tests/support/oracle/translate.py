"""Oracle SQL to PostgreSQL, by rules over tokens; what no rule knows is refused.

`RULES` is the table of all rules for queries and changes of rows; `translate_ddl` and `blocks`
have those for definitions and PL/SQL. The rules cover what the Oracle store writes, no more.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import oracledb

from tests.support.oracle.contains import score
from tests.support.oracle.sql_tokens import (
    Piece,
    Pieces,
    UntranslatableError,
    arguments,
    calls,
    closing,
    cut,
    join,
    matches,
    raw,
    words,
)
from tests.support.oracle.values import Bind

SAME_FUNCTIONS: Final = frozenset(
    [
        "ABS",
        "AVG",
        "CEIL",
        "COALESCE",
        "COUNT",
        "DENSE_RANK",
        "FLOOR",
        "INITCAP",
        "JSON_ARRAYAGG",
        "JSON_EXISTS",
        "JSON_QUERY",
        "JSON_SERIALIZE",
        "JSON_TABLE",
        "JSON_VALUE",
        "LAG",
        "LEAD",
        "LENGTH",
        "LOWER",
        "LPAD",
        "MAX",
        "MIN",
        "MOD",
        "NULLIF",
        "POWER",
        "RANK",
        "ROW_NUMBER",
        "SIGN",
        "SQRT",
        "SUM",
        "UPPER",
    ]
)
"""Functions that mean the same in PostgreSQL."""

RENAMED_FUNCTIONS: Final = {
    "INSTR": "strpos",
    "NVL": "coalesce",
    "LENGTHB": "octet_length",
    "SUBSTR": "oracle_sys.substr",
    "LEAST": "oracle_sys.least_of",
    "GREATEST": "oracle_sys.greatest_of",
    "ROUND": "oracle_sys.round",
    "TRUNC": "oracle_sys.trunc",
    "SYS_CONTEXT": "oracle_sys.sys_context",
    "VECTOR_DIMENSION_COUNT": "vector_dims",
}
"""Functions that PostgreSQL has under another name, or that the emulation brings along."""

SYNTAX_WORDS: Final = frozenset(
    [
        "AND",
        "ANY",
        "ALL",
        "AS",
        "BY",
        "IN",
        "INTO",
        "NOT",
        "ON",
        "OR",
        "OVER",
        "VALUES",
        "SET",
        "SELECT",
        "FROM",
        "WHERE",
        "WHEN",
        "THEN",
        "ELSE",
        "UNION",
        "USING",
        "EXISTS",
        "INSERT",
        "WITH",
        "CASE",
        "INTERSECT",
        "EXCEPT",
        "COLUMNS",
        "PASSING",
        "KEEP",
        "WITHIN",
        "TABLE",
        "KEY",
        "CHECK",
        "UNIQUE",
        "LATERAL",
        "PARTITION",
        "BETWEEN",
        "LIKE",
        "HAVING",
        "END",
        "CAST",
        "FIRST",
        "NEXT",
        "OFFSET",
    ]
)
"""Words that may stand before a parenthesis without calling anything."""

NUL: Final = "\uf8ff\U000f0000"
"""Stands for the character 0, which Oracle stores in texts and PostgreSQL does not."""

DISTANCES: Final = {"COSINE": "<=>", "EUCLIDEAN": "<->", "DOT": "<#>", "MANHATTAN": "<+>"}

TYPES: Final = {
    "VARCHAR2": "varchar",
    "CLOB": "text",
    "BLOB": "bytea",
    "JSON": "jsonb",
    "BINARY_DOUBLE": "double precision",
    "NUMBER": "numeric",
    "VECTOR": "vector",
}


@dataclass(slots=True)
class Context:
    """What rules know of the statement.

    Args:
        binds: The values that are bound, by name in capitals.
        scores: SQL of the score of each label of a CONTAINS.
        values: Parameters of the translated statement, in order.
        places: Number of the parameter of each bind.
    """

    binds: Mapping[str, Bind]
    scores: dict[str, str] = field(default_factory=dict)
    values: list[Any] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)

    def value(self, piece: Piece) -> Bind:
        """Return the bound value of a bind."""
        return self.binds[piece.text[1:].upper()]


@dataclass(frozen=True, slots=True)
class Translated:
    """SQL for PostgreSQL with numbered parameters, and their values."""

    sql: str
    values: list[Any]


Rule = Callable[[Pieces, Context], Pieces]


_translated: dict[tuple[Any, ...], tuple[str, list[str]]] = {}


def translate(text: str, binds: Mapping[str, Bind]) -> Translated:
    """Translate a query or a change of rows.

    Raises:
        UntranslatableError: A rule is missing.
        oracledb.DatabaseError: The database would refuse a value.
    """
    typed = {name: to_postgres(bound) for name, bound in binds.items()}
    key = (text, *((name, kind, value is None) for name, (kind, value) in typed.items()))
    if key in _translated:
        sql, names = _translated[key]
        return Translated(sql, [typed[name][1] for name in names])
    context = Context(binds)
    pieces = cut(text)
    for rule in RULES:
        pieces = rule(pieces, context)
    translated = Translated(join(pieces), context.values)
    # Of a CONTAINS the value decides, too.
    if len(context.places) == len(context.values):
        _translated[key] = translated.sql, list(context.places)
    return translated


def _rank_by_text(pieces: Pieces, context: Context) -> Pieces:
    """CONTAINS(c.tokens, :q, 1) > 0 and SCORE(1): the expression becomes conditions on words."""
    for place in calls(pieces, "CONTAINS"):
        given, end = arguments(pieces, place + 1)
        if len(given) not in (2, 3) or len(given[1]) != 1 or given[1][0].kind != "bind":
            raise UntranslatableError(f"CONTAINS{join(pieces[place + 1 : end + 1])}")
        query = context.value(given[1][0]).value
        found = score(query, join(given[0]), len(context.values) + 1)
        context.values.extend(found.values)
        if len(given) == 3:
            context.scores[given[2][0].text] = found.sql
        pieces[place : end + 1] = [raw(found.sql)]
    for place in calls(pieces, "SCORE"):
        given, end = arguments(pieces, place + 1)
        label = given[0][0].text
        if label not in context.scores:
            raise UntranslatableError(f"SCORE({label}) without CONTAINS")
        pieces[place : end + 1] = [raw(context.scores[label])]
    return pieces


def _compare_vectors(pieces: Pieces, _: Context) -> Pieces:
    """VECTOR_DISTANCE(a, b, COSINE): an operator of pgvector."""
    for place in calls(pieces, "VECTOR_DISTANCE"):
        given, end = arguments(pieces, place + 1)
        if len(given) != 3 or given[2][0].upper not in DISTANCES:
            raise UntranslatableError(join(pieces[place : end + 1]))
        operator = DISTANCES[given[2][0].upper]
        pieces[place : end + 1] = [
            raw("("),
            *given[0],
            raw(operator),
            *given[1],
            raw(")"),
        ]
    return pieces


def _ask_hybrid_index(pieces: Pieces, _: Context) -> Pieces:
    """DBMS_HYBRID_VECTOR.SEARCH, and the row ids it answers with."""
    for place in range(len(pieces) - 2, -1, -1):
        if matches(pieces, place, "DBMS_HYBRID_VECTOR", ".", "SEARCH", "("):
            pieces[place : place + 3] = [raw("oracle_sys.hybrid_search")]
        elif matches(pieces, place, ".", "ROWID"):
            pieces[place + 1] = raw("ctid")
    for place in calls(pieces, "CHARTOROWID"):
        given, end = arguments(pieces, place + 1)
        pieces[place : end + 1] = [raw("("), *given[0], raw(")::tid")]
    return pieces


def _limit_rows(pieces: Pieces, _: Context) -> Pieces:
    """FETCH APPROX FIRST n ROWS ONLY WITH TARGET ACCURACY 95: without what is for the index."""
    place = 0
    while place < len(pieces):
        if matches(pieces, place, "FETCH"):
            if pieces[place + 1].upper in ("APPROX", "APPROXIMATE", "EXACT"):
                del pieces[place + 1]
            if not matches(pieces, place, "FETCH", "FIRST", "#") and not matches(
                pieces, place, "FETCH", "NEXT", "#"
            ):
                raise UntranslatableError(join(pieces[place : place + 6]))
            if not matches(pieces, place + 3, "ROWS", "ONLY") and not matches(
                pieces, place + 3, "ROW", "ONLY"
            ):
                raise UntranslatableError(join(pieces[place : place + 6]))
            pieces[place + 2 : place + 3] = [raw("("), pieces[place + 2], raw(")")]
            if matches(pieces, place + 7, "WITH", "TARGET", "ACCURACY"):
                del pieces[place + 7 : place + 11]
        elif matches(pieces, place, "OFFSET", "#", "ROWS"):
            pieces[place + 1 : place + 2] = [raw("("), pieces[place + 1], raw(")")]
        place += 1
    return pieces


def _lock_rows(pieces: Pieces, _: Context) -> Pieces:
    """FOR UPDATE OF r.seq: PostgreSQL names the table. WAIT n: not emulated."""
    for place in range(len(pieces)):
        if matches(pieces, place, "FOR", "UPDATE"):
            if matches(pieces, place + 2, "OF", "*", ".", "*"):
                del pieces[place + 4 : place + 6]
            if any(piece.upper == "WAIT" for piece in pieces[place:]):
                raise UntranslatableError("FOR UPDATE WAIT")
            break
    return pieces


def _recurse(pieces: Pieces, _: Context) -> Pieces:
    """WITH of queries that name themselves: RECURSIVE, and CYCLE needs a path."""
    if matches(pieces, 0, "WITH"):
        pieces.insert(1, raw("RECURSIVE"))
    place = 0
    cycles = 0
    while place < len(pieces):
        if matches(pieces, place, "CYCLE"):
            end = place
            while not matches(pieces, end, "DEFAULT"):
                end += 1
            cycles += 1
            pieces[end + 2 : end + 2] = words(f"USING cycle_path_{cycles}")
        elif matches(pieces, place, "SEARCH", "BREADTH") or matches(
            pieces, place, "SEARCH", "DEPTH"
        ):
            raise UntranslatableError("SEARCH of a recursive query")
        place += 1
    return pieces


def _subtract(pieces: Pieces, _: Context) -> Pieces:
    """MINUS is EXCEPT."""
    return [raw("EXCEPT") if piece.upper == "MINUS" else piece for piece in pieces]


def _assign(pieces: Pieces, _: Context) -> Pieces:
    """SET m.value = …: the assigned column has no alias in PostgreSQL."""
    if not matches(pieces, 0, "UPDATE") and not matches(pieces, 0, "MERGE"):
        return pieces
    place = 0
    while place < len(pieces):
        if matches(pieces, place, "SET"):
            depth, at = 0, place + 1
            fresh = True
            while at < len(pieces) and depth >= 0:
                piece = pieces[at]
                if fresh and matches(pieces, at + 1, "."):
                    del pieces[at : at + 2]
                fresh = False
                depth += (piece.text == "(") - (piece.text == ")")
                if depth == 0 and piece.text == ",":
                    fresh = True
                if depth == 0 and piece.upper in ("WHERE", "WHEN") and piece.kind == "word":
                    break
                at += 1
        place += 1
    return pieces


def _say_null(pieces: Pieces, context: Context) -> Pieces:
    """An empty text is NULL; an empty value that has no type is, too."""
    out: Pieces = []
    for piece in pieces:
        empty = piece.kind == "string" and piece.text.lstrip("nN") == "''"
        untyped = False
        if piece.kind == "bind":
            bound = context.value(piece)
            untyped = bound.value is None and bound.type is oracledb.DB_TYPE_VARCHAR
        out.append(raw("NULL") if empty or untyped else piece)
    return out


def _tell_time(pieces: Pieces, _: Context) -> Pieces:
    """SYSTIMESTAMP and SYS_EXTRACT_UTC."""
    for place in calls(pieces, "SYS_EXTRACT_UTC"):
        given, end = arguments(pieces, place + 1)
        pieces[place : end + 1] = [raw("(("), *given[0], raw(") AT TIME ZONE 'UTC')")]
    return [
        raw("clock_timestamp()") if piece.upper == "SYSTIMESTAMP" else piece for piece in pieces
    ]


def _tell_user(pieces: Pieces, _: Context) -> Pieces:
    """USER is who logged in, not the role that carries the emulation."""
    return [
        raw("oracle_sys.sys_context('USERENV', 'SESSION_USER')")
        if piece.kind == "word" and piece.upper == "USER" and not matches(pieces, place - 1, ".")
        else piece
        for place, piece in enumerate(pieces)
    ]


def _name_types(pieces: Pieces, _: Context) -> Pieces:
    """Names of types, in CAST, RETURNING and JSON_TABLE."""
    out: Pieces = []
    place = 0
    while place < len(pieces):
        piece = pieces[place]
        typed = piece.kind == "word" and piece.upper in TYPES
        if typed and not matches(pieces, place + 1, ".") and not matches(pieces, place - 1, "."):
            size = ""
            if matches(pieces, place + 1, "("):
                if piece.upper == "VARCHAR2":
                    size = f"({pieces[place + 2].text})"
                place = closing(pieces, place + 1)
            out.append(raw(f"{TYPES[piece.upper]}{size}"))
        else:
            out.append(piece)
        place += 1
    return out


def _call_functions(pieces: Pieces, _: Context) -> Pieces:
    """Functions by the names they have in PostgreSQL; an unknown one is refused."""
    for place in range(len(pieces) - 1):
        piece = pieces[place]
        if piece.kind != "word" or pieces[place + 1].text != "(" or matches(pieces, place - 1, "."):
            continue
        name = piece.upper
        if name in RENAMED_FUNCTIONS:
            pieces[place] = raw(RENAMED_FUNCTIONS[name])
        elif name not in SAME_FUNCTIONS | SYNTAX_WORDS and not _names_a_query(pieces, place):
            raise UntranslatableError(f"the function {name}")
    return pieces


def _names_a_query(pieces: Pieces, place: int) -> bool:
    """Whether `name (columns)` names a table, a query or its columns instead of calling."""
    if matches(pieces, place - 1, "INTO"):
        return True
    return matches(pieces, closing(pieces, place + 1) + 1, "AS", "(")


def _bind(pieces: Pieces, context: Context) -> Pieces:
    """Binds become numbered parameters with the type that the driver would send."""
    out: Pieces = []
    for piece in pieces:
        if piece.kind != "bind":
            out.append(piece)
            continue
        name = piece.text[1:].upper()
        bound = context.binds[name]
        kind, value = to_postgres(bound)
        if name not in context.places:
            context.values.append(value)
            context.places[name] = len(context.values)
        out.append(raw(f"${context.places[name]}::{kind}"))
    return out


def _quote(pieces: Pieces, _: Context) -> Pieces:
    """Quoted names in capitals are the unquoted ones; quotes of National strings go."""
    out: Pieces = []
    for place, piece in enumerate(pieces):
        aliased = matches(pieces, place - 1, "AS") and not piece.text.isupper()
        if piece.kind == "quoted" and not aliased and piece.text.isupper():
            out.append(raw(piece.text[1:-1].lower()))
        else:
            out.append(piece)
    return out


def _refuse(pieces: Pieces, _: Context) -> Pieces:
    """What has no rule: ROWNUM, CONNECT BY, hints of another meaning, and a division."""
    for place, piece in enumerate(pieces):
        if piece.kind != "word" or matches(pieces, place - 1, "."):
            continue
        if piece.upper in ("ROWNUM", "ROWID", "CONNECT", "PRIOR", "DECODE", "SYSDATE", "LISTAGG"):
            raise UntranslatableError(piece.upper)
    if any(piece.kind == "mark" and piece.text == "/" for piece in pieces):
        raise UntranslatableError("a division: whole numbers divide otherwise in PostgreSQL")
    return pieces


RULES: Final[tuple[Rule, ...]] = (
    _refuse,
    _rank_by_text,
    _compare_vectors,
    _ask_hybrid_index,
    _limit_rows,
    _lock_rows,
    _recurse,
    _subtract,
    _assign,
    _say_null,
    _tell_time,
    _tell_user,
    _name_types,
    _call_functions,
    _bind,
    _quote,
)
"""All rules, in the order they are applied."""


def to_postgres(bound: Bind) -> tuple[str, Any]:
    """Return the type and the value that PostgreSQL gets for a bound value."""
    value, kind = bound.value, bound.type
    if kind is oracledb.DB_TYPE_JSON:
        return "jsonb", None if value is None else dump_json(value)
    if kind is oracledb.DB_TYPE_VECTOR:
        return "vector", None if value is None else f"[{','.join(map(repr, value))}]"
    if kind in (oracledb.DB_TYPE_TIMESTAMP, oracledb.DB_TYPE_DATE):
        return "timestamp", value
    if kind is oracledb.DB_TYPE_BINARY_DOUBLE:
        return "float8", value
    if kind in (oracledb.DB_TYPE_NUMBER, oracledb.DB_TYPE_BINARY_INTEGER):
        small = value is None or (isinstance(value, int) and abs(value) < 2**63)
        return ("bigint" if small else "numeric"), value
    if kind in (oracledb.DB_TYPE_BLOB, oracledb.DB_TYPE_RAW, oracledb.DB_TYPE_LONG_RAW):
        return "bytea", value
    if kind in (oracledb.DB_TYPE_CLOB, oracledb.DB_TYPE_LONG, oracledb.DB_TYPE_NCLOB):
        return "text", value and value.replace("\0", NUL)
    if kind in (oracledb.DB_TYPE_VARCHAR, oracledb.DB_TYPE_NVARCHAR, oracledb.DB_TYPE_CHAR):
        return "varchar", value and value.replace("\0", NUL)
    if kind is oracledb.DB_TYPE_BOOLEAN:
        return "boolean", value
    raise UntranslatableError(f"a bind of type {kind.name}")


def dump_json(value: Any) -> str:
    """Write a JSON value; a Decimal is written digit by digit."""
    if isinstance(value, Mapping):
        items = (f"{dump_json(key)}:{dump_json(item)}" for key, item in value.items())
        return f"{{{','.join(items)}}}"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(dump_json, value))}]"
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, dt.datetime | bytes):
        raise UntranslatableError(f"JSON with a {type(value).__name__}")
    return json.dumps(value.replace("\0", NUL) if isinstance(value, str) else value)
