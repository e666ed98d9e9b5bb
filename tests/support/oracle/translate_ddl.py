"""Definitions of tables and indexes, and locks on tables: Oracle SQL to PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.oracle.sql_tokens import (
    Piece,
    Pieces,
    UntranslatableError,
    closing,
    cut,
    join,
    matches,
    raw,
    split,
    words,
)

_PLAIN_TYPES = {
    "CLOB": "text",
    "BLOB": "bytea",
    "JSON": "jsonb",
    "BINARY_DOUBLE": "double precision",
}


@dataclass(frozen=True, slots=True)
class Definition:
    """What a definition becomes.

    Args:
        statements: SQL for PostgreSQL, in order.
        domain_index: Owner or None, index, table and type of an index that PostgreSQL has not.
        dropped_index: Owner or None, and index, of an index that may be such a one.
        temporary: Table whose rows belong to one transaction.
    """

    statements: tuple[str, ...] = ()
    domain_index: tuple[str | None, str, str, str] | None = None
    dropped_index: tuple[str | None, str, bool] | None = None
    temporary: str | None = None


def is_definition(text: str) -> bool:
    """Whether a statement defines something, and so commits."""
    return text.split(maxsplit=1)[0].upper() in (
        "CREATE",
        "DROP",
        "ALTER",
        "TRUNCATE",
        "COMMENT",
        "GRANT",
        "REVOKE",
    )


def translate_definition(text: str) -> Definition:
    """Translate one definition.

    Raises:
        UntranslatableError: It is of an unknown form.
    """
    pieces = cut(text)
    if matches(pieces, 0, "CREATE", "TABLE"):
        return _create_table(pieces, 2, temporary=False)
    if matches(pieces, 0, "CREATE", "GLOBAL", "TEMPORARY", "TABLE"):
        return _create_table(pieces, 4, temporary=True)
    if matches(pieces, 0, "CREATE", "INDEX"):
        return _create_index(pieces, 2, "")
    if matches(pieces, 0, "CREATE", "UNIQUE", "INDEX"):
        return _create_index(pieces, 3, "UNIQUE ")
    if matches(pieces, 0, "CREATE", "VECTOR", "INDEX"):
        return _create_vector_index(pieces)
    if matches(pieces, 0, "CREATE", "HYBRID", "VECTOR", "INDEX"):
        return _create_hybrid_index(pieces)
    if matches(pieces, 0, "DROP", "TABLE"):
        return _drop_table(pieces)
    if matches(pieces, 0, "DROP", "INDEX"):
        return _drop_index(pieces)
    raise UntranslatableError(text)


def _if(pieces: Pieces, at: int, *phrase: str) -> tuple[str, int]:
    if matches(pieces, at, *phrase):
        return " ".join(phrase) + " ", at + len(phrase)
    return "", at


def _name(pieces: Pieces, at: int) -> tuple[str | None, str, int]:
    if matches(pieces, at + 1, "."):
        return pieces[at].text.lower(), pieces[at + 2].text.lower(), at + 3
    return None, pieces[at].text.lower(), at + 1


def _full(owner: str | None, name: str) -> str:
    return name if owner is None else f"{owner}.{name}"


def _create_table(pieces: Pieces, at: int, *, temporary: bool) -> Definition:
    unless, at = _if(pieces, at, "IF", "NOT", "EXISTS")
    owner, name, at = _name(pieces, at)
    end = closing(pieces, at)
    rest = join(pieces[end + 1 :]).upper()
    if rest != ("ON COMMIT DELETE ROWS" if temporary else ""):
        raise UntranslatableError(f"CREATE TABLE … {rest}")
    body = [join(_column(part)) for part in split(pieces[at + 1 : end])]
    full = _full(owner, name)
    if not temporary:
        return Definition((f"CREATE TABLE {unless}{full} ({', '.join(body)})",))
    columns = ", ".join(part[0].text for part in split(pieces[at + 1 : end]))
    # A table of all sessions, and a view of it that shows each its own rows.
    rows = (
        f"CREATE UNLOGGED TABLE {unless}{full}__rows ({', '.join(body)}, "
        f"of_session int NOT NULL DEFAULT pg_backend_pid())"
    )
    own = (
        f"CREATE OR REPLACE VIEW {full} AS SELECT {columns} FROM {full}__rows "
        f"WHERE of_session = pg_backend_pid()"
    )
    return Definition((rows, own), temporary=name)


def _column(pieces: Pieces) -> Pieces:
    """Translate the definition of one column, or a constraint, which stays as it is."""
    name = pieces[0]
    if name.upper in ("PRIMARY", "UNIQUE", "CHECK", "CONSTRAINT", "FOREIGN"):
        return pieces
    return [name, *_type(name, pieces, 1)]


def _type(name: Piece, pieces: Pieces, at: int) -> Pieces:
    kind = pieces[at].upper
    rest = at + 1
    size: Pieces = []
    if matches(pieces, rest, "("):
        end = closing(pieces, rest)
        size, rest = pieces[rest + 1 : end], end + 1
    after = _rest(pieces[rest:])
    if kind == "VARCHAR2":
        if len(size) != 2 or size[1].upper not in ("BYTE", "CHAR"):
            raise UntranslatableError("VARCHAR2 that does not say what its length counts")
        counted = "octet_length" if size[1].upper == "BYTE" else "length"
        # The name tells the error of a text that is too long from that of another constraint.
        check = (
            f"CONSTRAINT bytes_of_{name.text.lower()} "
            f"CHECK ({counted}({name.text}) <= {size[0].text})"
        )
        return [raw("varchar"), raw(check), *after]
    if kind == "NUMBER":
        scale = len(size) > 1
        return [raw(f"numeric({join(size)})" if scale else "bigint"), *after]
    if kind == "TIMESTAMP":
        return [raw(f"timestamp({join(size) or '6'})"), *after]
    if kind == "VECTOR":
        fixed = size and size[0].kind == "number"
        return [raw(f"vector({size[0].text})" if fixed else "vector"), *after]
    if kind in _PLAIN_TYPES and not size:
        return [raw(_PLAIN_TYPES[kind]), *after]
    raise UntranslatableError(f"the type of {name.text}: {join(pieces[at:rest])}")


def _rest(pieces: Pieces) -> Pieces:
    if matches(pieces, 0, "GENERATED", "BY", "DEFAULT", "ON", "NULL", "AS", "IDENTITY"):
        end = closing(pieces, 7) + 1 if matches(pieces, 7, "(") else 7
        if matches(pieces, 7, "(") and join(pieces[8 : end - 1]).upper() != "ORDER":
            raise UntranslatableError(join(pieces[:end]))
        return [*words("GENERATED BY DEFAULT AS IDENTITY"), *pieces[end:]]
    if matches(pieces, 0, "GENERATED", "ALWAYS", "AS", "("):
        end = closing(pieces, 3) + 1
        after = pieces[end + 1 :] if matches(pieces, end, "VIRTUAL") else pieces[end:]
        return [*pieces[:end], raw("STORED"), *after]
    return pieces


def _create_index(pieces: Pieces, at: int, unique: str) -> Definition:
    unless, at = _if(pieces, at, "IF", "NOT", "EXISTS")
    owner, index, at = _name(pieces, at)
    if not matches(pieces, at, "ON"):
        raise UntranslatableError(join(pieces))
    table_owner, table, at = _name(pieces, at + 1)
    end = closing(pieces, at)
    if matches(pieces, end + 1, "INDEXTYPE", "IS"):
        # CTXSYS.CONTEXT PARAMETERS ('…')
        kind = pieces[end + 5].upper if matches(pieces, end + 4, ".") else pieces[end + 3].upper
        return Definition(domain_index=(owner, index, table, kind))
    if end + 1 < len(pieces):
        raise UntranslatableError(join(pieces[end + 1 :]))
    if owner not in (None, table_owner):
        raise UntranslatableError("an index in another schema than its table")
    keys = [
        part if len(part) == 1 else [raw("("), *part, raw(")")]
        for part in split(pieces[at + 1 : end])
    ]
    listed = ", ".join(join(key) for key in keys)
    return Definition(
        (f"CREATE {unique}INDEX {unless}{index} ON {_full(table_owner, table)} ({listed})",)
    )


def _create_vector_index(pieces: Pieces) -> Definition:
    _, at = _if(pieces, 3, "IF", "NOT", "EXISTS")
    owner, index, at = _name(pieces, at)
    _, table, at = _name(pieces, at + 1)
    end = closing(pieces, at)
    if matches(pieces, end + 1, "ORGANIZATION", "INMEMORY", "NEIGHBOR", "GRAPH"):
        return Definition(domain_index=(owner, index, table, "HNSW"))
    if matches(pieces, end + 1, "ORGANIZATION", "NEIGHBOR", "PARTITIONS"):
        return Definition(domain_index=(owner, index, table, "IVF"))
    raise UntranslatableError(join(pieces[end + 1 :]))


def _create_hybrid_index(pieces: Pieces) -> Definition:
    """CREATE HYBRID VECTOR INDEX … ON … (…) [FILTER BY …] PARAMETERS ('VECTORIZER …')."""
    owner, index, at = _name(pieces, 4)
    _, table, at = _name(pieces, at + 1)
    end = closing(pieces, at) + 1
    if matches(pieces, end, "FILTER", "BY"):
        while not matches(pieces, end, "PARAMETERS"):
            end += 1
    if not matches(pieces, end, "PARAMETERS", "("):
        raise UntranslatableError(join(pieces[end:]))
    return Definition(domain_index=(owner, index, table, "HYBRID"))


def _drop_table(pieces: Pieces) -> Definition:
    unless, at = _if(pieces, 2, "IF", "EXISTS")
    owner, name, at = _name(pieces, at)
    rest = {piece.upper for piece in pieces[at:]}
    if not rest <= {"PURGE", "CASCADE", "CONSTRAINTS"}:
        raise UntranslatableError(join(pieces[at:]))
    cascade = " CASCADE" if "CASCADE" in rest else ""
    full = _full(owner, name)
    return Definition((f"DROP TABLE {unless}{full}{cascade}", f"DROP TABLE IF EXISTS {full}__rows"))


def _drop_index(pieces: Pieces) -> Definition:
    unless, at = _if(pieces, 2, "IF", "EXISTS")
    owner, index, at = _name(pieces, at)
    if {piece.upper for piece in pieces[at:]} - {"FORCE", "ONLINE"}:
        raise UntranslatableError(join(pieces[at:]))
    return Definition(dropped_index=(owner, index, bool(unless)))
