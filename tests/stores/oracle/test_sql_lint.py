"""The Oracle linter finds what is wrong, and nothing in what is right; ours is right."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.statement import BindType, Statement, StatementKind
from tests.support.oracle_lint import SQL_RULES, STATEMENT_RULES, lint, lint_text, schema_of
from tests.support.oracle_statements import all_statements
from tests.support.oracle_tokens import UnreadableSqlError, tokenize

T = Tables("DEFAULT")
SCHEMA = schema_of(T)

# Every rule of `SQL_RULES` with statements that Oracle refuses or takes otherwise than meant.
BAD_SQL = {
    "no_limit": (
        "SELECT r.id FROM DEFAULT_RECORD r ORDER BY r.seq LIMIT 10",
        "SELECT r.id FROM DEFAULT_RECORD r ORDER BY r.seq LIMIT :rows_wanted",
    ),
    "no_on_conflict": (
        "INSERT INTO DEFAULT_META (name, value) VALUES (:n, :v) ON CONFLICT (name) DO NOTHING",
        "INSERT OR IGNORE INTO DEFAULT_META (name, value) VALUES (:n, :v)",
    ),
    "no_foreign_operators": (
        "SELECT r.seq::text FROM DEFAULT_RECORD r",
        "SELECT r.metadata->>'a' FROM DEFAULT_RECORD r",
        "SELECT r.id FROM DEFAULT_RECORD r WHERE r.metadata @> :m",
        "SELECT r.id FROM DEFAULT_RECORD r WHERE r.id ILIKE :x ESCAPE '!'",
        "WITH RECURSIVE a (n) AS (SELECT 1 FROM dual) SELECT a.n FROM a",
        "SELECT NOW() FROM dual",
        "SELECT r.id FROM DEFAULT_RECORD r, json_each(:ids) j WHERE r.id = j.value",
    ),
    "no_as_before_table_alias": (
        "SELECT r.id FROM DEFAULT_RECORD AS r",
        "SELECT x.id FROM (SELECT r.id FROM DEFAULT_RECORD r) AS x",
        "SELECT r.id FROM DEFAULT_THREAD t JOIN DEFAULT_RECORD AS r ON r.thread_id = t.id",
        "SELECT r.id FROM DEFAULT_THREAD t, DEFAULT_RECORD AS r WHERE r.thread_id = t.id",
        "UPDATE DEFAULT_RECORD AS r SET r.tier = :tier",
        "DELETE FROM DEFAULT_RECORD AS r WHERE r.seq = :seq",
        (
            "MERGE INTO DEFAULT_META AS m USING (SELECT :n n FROM dual) s ON (m.name = s.n) "
            "WHEN NOT MATCHED THEN INSERT (name, value) VALUES (s.n, :v)"
        ),
        (
            "MERGE INTO DEFAULT_META m USING (SELECT :n n FROM dual) AS s ON (m.name = s.n) "
            "WHEN NOT MATCHED THEN INSERT (name, value) VALUES (s.n, :v)"
        ),
        "SELECT j.x FROM JSON_TABLE(:d, '$[*]' COLUMNS (x NUMBER PATH '$')) AS j",
    ),
    "no_fetch_for_update": (
        "SELECT j.id FROM DEFAULT_JOB j ORDER BY j.seq FETCH FIRST 5 ROWS ONLY FOR UPDATE",
        "SELECT j.id FROM DEFAULT_JOB j ORDER BY j.seq OFFSET 5 ROWS FOR UPDATE",
        "SELECT DISTINCT j.kind FROM DEFAULT_JOB j FOR UPDATE",
        "SELECT j.kind FROM DEFAULT_JOB j GROUP BY j.kind FOR UPDATE",
        "SELECT MAX(j.seq) FROM DEFAULT_JOB j FOR UPDATE SKIP LOCKED",
        "SELECT j.id FROM DEFAULT_JOB j UNION ALL SELECT r.id FROM DEFAULT_RECORD r FOR UPDATE",
        (
            "SELECT r.id FROM DEFAULT_RECORD r WHERE r.seq IN "
            "(SELECT l.target_seq FROM DEFAULT_LINK l FOR UPDATE)"
        ),
        "SELECT x.id FROM (SELECT r.id FROM DEFAULT_RECORD r ORDER BY r.seq) x FOR UPDATE",
    ),
    "no_reserved_bind_names": (
        "SELECT r.id FROM DEFAULT_RECORD r WHERE r.user_id = :user",
        "SELECT r.id FROM DEFAULT_RECORD r WHERE r.seq = :Level",
        "SELECT r.id FROM DEFAULT_RECORD r WHERE r.seq = :1",
        "SELECT r.id FROM DEFAULT_RECORD r WHERE r.seq = :_seq",
        f"SELECT r.id FROM DEFAULT_RECORD r WHERE r.seq = :{'s' * 129}",
    ),
    "no_reserved_names": (
        "SELECT r.size FROM DEFAULT_RECORD r",
        "SELECT level.id FROM DEFAULT_RECORD level",
        "SELECT r.seq AS number FROM DEFAULT_RECORD r",
        f"SELECT r.seq AS {'é' * 65} FROM DEFAULT_RECORD r".replace("é", "ab"),
        "CREATE TABLE x (id NUMBER(19), comment CLOB)",
        "CREATE TABLE x (id NUMBER(19), date TIMESTAMP(6))",
        "CREATE TABLE x (_id NUMBER(19))",
    ),
    "no_large_comparisons": (
        "SELECT r.id FROM DEFAULT_RECORD r WHERE r.content = :text",
        "SELECT r.id FROM DEFAULT_RECORD r WHERE :text <> r.content",
        "SELECT id FROM DEFAULT_RECORD WHERE content = :text",
        "SELECT r.id FROM DEFAULT_RECORD r WHERE r.metadata = :m",
        "SELECT r.id FROM DEFAULT_RECORD r WHERE r.content IN (:a, :b)",
        "SELECT r.id FROM DEFAULT_RECORD r JOIN DEFAULT_SUMMARY s ON s.content = r.content",
        "SELECT c.id FROM DEFAULT_CHUNK c WHERE c.embedding = :v",
        "SELECT r.tags, COUNT(*) FROM DEFAULT_RECORD r GROUP BY r.tags",
        "SELECT r.id FROM DEFAULT_RECORD r ORDER BY r.content",
        "SELECT DISTINCT r.content FROM DEFAULT_RECORD r",
        "SELECT COUNT(DISTINCT r.content) FROM DEFAULT_RECORD r",
        "SELECT r.content FROM DEFAULT_RECORD r UNION SELECT s.content FROM DEFAULT_SUMMARY s",
    ),
    "no_empty_strings": (
        "SELECT r.id FROM DEFAULT_RECORD r WHERE r.actor <> ''",
        "SELECT COALESCE(r.actor, '') FROM DEFAULT_RECORD r",
    ),
    "no_long_lists": (
        (
            "SELECT r.id FROM DEFAULT_RECORD r WHERE r.seq IN "
            f"({', '.join(f':s{number}' for number in range(1001))})"
        ),
    ),
    "no_fetch_without_order": (
        "SELECT r.id FROM DEFAULT_RECORD r FETCH FIRST 1 ROWS ONLY",
        (
            "SELECT r.id FROM DEFAULT_RECORD r WHERE r.seq IN "
            "(SELECT s.seq FROM DEFAULT_RECORD s FETCH FIRST 9 ROWS ONLY) ORDER BY r.seq"
        ),
    ),
    "no_rownum_with_order": (
        "SELECT r.id FROM DEFAULT_RECORD r WHERE ROWNUM <= 10 ORDER BY r.seq",
    ),
    "nulls_in_their_place": (
        "SELECT r.id FROM DEFAULT_RECORD r ORDER BY r.expires_at, r.seq",
        "SELECT r.id FROM DEFAULT_RECORD r ORDER BY r.seq, r.user_id DESC",
        "SELECT id FROM DEFAULT_RECORD ORDER BY thread_id",
    ),
    "no_trailing_semicolon": (
        "SELECT r.id FROM DEFAULT_RECORD r;",
        "BEGIN CTX_DDL.SYNC_INDEX('DEFAULT_CHUNK_TEXT_INDEX'); END",
        "BEGIN NULL; END; /",
    ),
    "no_merge_of_join_columns": (
        (
            "MERGE INTO DEFAULT_META m USING (SELECT :n n, :v v FROM dual) s ON (m.name = s.n) "
            "WHEN MATCHED THEN UPDATE SET m.name = s.n, m.value = s.v"
        ),
        (
            "MERGE INTO DEFAULT_META m USING (SELECT :n n, :v v FROM dual) s ON m.name = s.n "
            "WHEN MATCHED THEN UPDATE SET m.value = s.v"
        ),
    ),
    "no_returning": (
        "INSERT INTO DEFAULT_META (name, value) VALUES (:n, :v) RETURNING *",
        "DELETE FROM DEFAULT_RECORD r WHERE r.seq = :seq RETURNING r.id",
    ),
    "no_quoted_names": (
        'SELECT r."id" FROM DEFAULT_RECORD r',
        'SELECT r.id AS "Id" FROM DEFAULT_RECORD r',
        'SELECT x."count" FROM (SELECT COUNT(*) AS "count" FROM DEFAULT_RECORD r) x',
    ),
    "like_with_escape": (
        "SELECT r.id FROM DEFAULT_RECORD r WHERE r.id LIKE :pattern",
        "SELECT r.id FROM DEFAULT_RECORD r WHERE r.record_type LIKE 'user_%'",
        "SELECT r.id FROM DEFAULT_RECORD r WHERE r.id NOT LIKE :a AND r.actor LIKE :b ESCAPE '!'",
    ),
    "select_from_something": (
        "SELECT 1",
        "SELECT r.id FROM DEFAULT_RECORD r WHERE r.seq = (SELECT :seq)",
    ),
    "known_columns": (
        "SELECT r.colour FROM DEFAULT_RECORD r",
        "SELECT r.id FROM DEFAULT_RECORD r JOIN DEFAULT_LINK l ON l.record_seq = r.seq",
        "UPDATE DEFAULT_RECORD r SET r.tier = :tier WHERE r.number_of_hits > 1",
    ),
    "complete_inserts": (
        "INSERT INTO DEFAULT_META VALUES (:n, :v)",
        "INSERT INTO DEFAULT_META (name, value) VALUES (:n)",
        "INSERT INTO DEFAULT_META (name, worth) VALUES (:n, :v)",
        "INSERT INTO DEFAULT_META (name) VALUES (:n)",
        (
            "INSERT INTO DEFAULT_SOURCE (record_seq, position, message_id) "
            "SELECT r.seq, 0 FROM DEFAULT_RECORD r"
        ),
        "INSERT INTO DEFAULT_RECORD (id, effective_time) VALUES (:id, :at)",
    ),
    "known_updates": (
        "UPDATE DEFAULT_RECORD r SET r.tier = :tier, colour = :colour",
        "UPDATE DEFAULT_RECORD SET effective_time = :at",
        "UPDATE DEFAULT_RECORD r SET tier = t.tier FROM DEFAULT_CHUNK t WHERE t.record_seq = r.seq",
        "DELETE FROM DEFAULT_RECORD r USING DEFAULT_LINK l WHERE l.source_seq = r.seq",
    ),
    "no_stars": (
        "SELECT * FROM DEFAULT_RECORD",
        "SELECT r.* FROM DEFAULT_RECORD r",
        "SELECT r.id, r.* FROM DEFAULT_RECORD r",
    ),
    "sorted_distinct": (
        "SELECT DISTINCT r.record_type FROM DEFAULT_RECORD r ORDER BY r.seq",
        "SELECT DISTINCT r.tier, r.status FROM DEFAULT_RECORD r ORDER BY r.tier, LOWER(r.status)",
    ),
    "no_grouping_by_place": ("SELECT r.tier, COUNT(*) FROM DEFAULT_RECORD r GROUP BY 1",),
    "not_in_without_null": (
        (
            "SELECT t.id FROM DEFAULT_THREAD t WHERE t.id NOT IN "
            "(SELECT r.thread_id FROM DEFAULT_RECORD r)"
        ),
    ),
    "recursion_as_oracle_has_it": (
        (
            "WITH up AS (SELECT l.source_seq seq FROM DEFAULT_LINK l WHERE l.target_seq = :s UNION ALL "
            "SELECT l.source_seq FROM up u JOIN DEFAULT_LINK l ON l.target_seq = u.seq) "
            "CYCLE seq SET is_cycle TO 'Y' DEFAULT 'N' SELECT up.seq FROM up"
        ),
        (
            "WITH up (seq) AS (SELECT l.source_seq FROM DEFAULT_LINK l WHERE l.target_seq = :s UNION "
            "SELECT l.source_seq FROM up u JOIN DEFAULT_LINK l ON l.target_seq = u.seq) "
            "CYCLE seq SET is_cycle TO 'Y' DEFAULT 'N' SELECT up.seq FROM up"
        ),
        (
            "WITH up (seq) AS (SELECT l.source_seq FROM DEFAULT_LINK l WHERE l.target_seq = :s "
            "UNION ALL SELECT l.source_seq FROM up u JOIN DEFAULT_LINK l ON l.target_seq = u.seq) "
            "SELECT up.seq FROM up"
        ),
    ),
    "closed_json_paths": (
        "SELECT r.id FROM DEFAULT_RECORD r WHERE JSON_EXISTS(r.metadata, '$?(@.a == :a)')",
        "SELECT r.id FROM DEFAULT_RECORD r WHERE JSON_EXISTS(r.metadata, '$?(@.a == $a)')",
        (
            "SELECT r.id FROM DEFAULT_RECORD r "
            'WHERE JSON_EXISTS(r.metadata, \'$?(@.a == $v0)\' PASSING :a AS "v0", :b AS "v1")'
        ),
        "SELECT r.id FROM DEFAULT_RECORD r WHERE JSON_EXISTS(r.metadata, :path)",
    ),
    "json_says_what_it_returns": (
        "SELECT JSON_VALUE(r.metadata, '$.a') FROM DEFAULT_RECORD r",
        "SELECT JSON_ARRAYAGG(s.message_id ORDER BY s.position) FROM DEFAULT_SOURCE s",
        "SELECT LISTAGG(s.message_id, ',') FROM DEFAULT_SOURCE s",
    ),
    "conditions_are_no_values": (
        "SELECT r.id FROM DEFAULT_RECORD r WHERE JSON_EXISTS(r.metadata, '$.a') = 1",
        "SELECT EXISTS (SELECT 1 FROM DEFAULT_LINK l) FROM DEFAULT_RECORD r",
        "SELECT r.id FROM DEFAULT_RECORD r WHERE TRUE",
    ),
    "contains_with_score": (
        "SELECT c.id FROM DEFAULT_CHUNK c WHERE CONTAINS(c.tokens, :q, 1)",
        "SELECT c.id FROM DEFAULT_CHUNK c WHERE CONTAINS(c.fields, :q, 1) > 0",
        "SELECT c.id FROM DEFAULT_CHUNK c WHERE CONTAINS(c.tokens, 'xtea', 1) > 0",
        "SELECT c.id, SCORE(2) FROM DEFAULT_CHUNK c WHERE CONTAINS(c.tokens, :q, 1) > 0",
    ),
    "vectors_by_their_index": (
        "SELECT c.id FROM DEFAULT_CHUNK c ORDER BY VECTOR_DISTANCE(c.embedding, :v)",
        "SELECT c.id FROM DEFAULT_CHUNK c ORDER BY VECTOR_DISTANCE(c.embedding, :v, EUCLIDEAN)",
        (
            "SELECT c.id FROM DEFAULT_CHUNK c ORDER BY VECTOR_DISTANCE(c.embedding, :v, COSINE) "
            "FETCH APPROX FIRST :n ROWS ONLY"
        ),
        "SELECT c.id FROM DEFAULT_CHUNK c ORDER BY c.id FETCH APPROX FIRST 9 ROWS ONLY",
    ),
    "time_comes_from_the_caller": (
        "SELECT r.id FROM DEFAULT_RECORD r WHERE r.expires_at > SYSTIMESTAMP",
        "UPDATE DEFAULT_RECORD r SET r.updated_at = SYSDATE",
    ),
    "sound_ddl": (
        "CREATE TABLE x (id NUMBER(19) DEFAULT :n)",
        "CREATE TABLE x (name VARCHAR2(8000 BYTE))",
        "CREATE TABLE x (name VARCHAR2(100))",
        "CREATE GLOBAL TEMPORARY TABLE x (v VECTOR(*, FLOAT32)) ON COMMIT DELETE ROWS",
        "CREATE INDEX x ON DEFAULT_RECORD (user_id, content)",
    ),
}

GOOD_SQL = (
    (
        "SELECT r.id, r.content FROM DEFAULT_RECORD r WHERE r.user_id = :owner ORDER BY r.seq DESC "
        "FETCH FIRST :wanted ROWS ONLY"
    ),
    "SELECT j.seq FROM DEFAULT_JOB j WHERE j.state = 'ready' ORDER BY j.seq FOR UPDATE SKIP LOCKED",
    "SELECT x.id FROM (SELECT r.id FROM DEFAULT_RECORD r) x FOR UPDATE",
    (
        "SELECT x.id FROM (SELECT r.id, ROW_NUMBER() OVER (PARTITION BY r.user_id ORDER BY r.seq) place "
        "FROM DEFAULT_RECORD r) x WHERE x.place <= :most"
    ),
    (
        "SELECT c.record_seq, SCORE(1) FROM DEFAULT_CHUNK c WHERE CONTAINS(c.tokens, :q, 1) > 0 "
        "ORDER BY SCORE(1) DESC, c.id FETCH FIRST 60 ROWS ONLY"
    ),
    (
        "SELECT c.record_seq, VECTOR_DISTANCE(c.embedding, :v, COSINE) distance FROM DEFAULT_CHUNK c "
        "WHERE c.user_id = :owner ORDER BY distance FETCH APPROX FIRST 60 ROWS ONLY "
        "WITH TARGET ACCURACY 95"
    ),
    (
        "MERGE INTO DEFAULT_META m USING (SELECT :n name, :v value FROM dual) s ON (m.name = s.name) "
        "WHEN MATCHED THEN UPDATE SET m.value = s.value "
        "WHEN NOT MATCHED THEN INSERT (name, value) VALUES (s.name, s.value)"
    ),
    "UPDATE DEFAULT_RECORD r SET r.content = :text, r.metadata = :m WHERE r.seq = :seq",
    (
        "DELETE FROM DEFAULT_RECORD r WHERE r.seq IN (:s0, :s1) AND NOT EXISTS "
        "(SELECT 1 FROM DEFAULT_LINK l WHERE l.source_seq = r.seq)"
    ),
    "INSERT INTO DEFAULT_GONE (seq) SELECT r.seq FROM DEFAULT_RECORD r WHERE r.user_id = :owner",
    (
        "SELECT r.id FROM DEFAULT_RECORD r WHERE "
        'JSON_EXISTS(r.metadata_terms, \'$[*]?(@ == $v0 || @ == $v1)\' PASSING :a AS "v0", :b AS "v1")'
    ),
    "SELECT r.id FROM DEFAULT_RECORD r WHERE r.actor LIKE :p ESCAPE '!' ORDER BY r.actor NULLS FIRST",
    "SELECT DISTINCT r.actor FROM DEFAULT_RECORD r ORDER BY r.actor NULLS LAST",
    "SELECT r.id FROM DEFAULT_RECORD r WHERE r.record_type LIKE '%profile'",
    "SELECT r.actor FROM DEFAULT_RECORD r WHERE r.actor IS NOT NULL ORDER BY r.actor, r.seq",
    (
        "SELECT COUNT(*), COUNT(DISTINCT r.user_id), 2 * r.hit_count FROM DEFAULT_RECORD r "
        "GROUP BY r.hit_count"
    ),
    "SELECT EXTRACT(YEAR FROM r.created_at) FROM DEFAULT_RECORD r",
    (
        "WITH up (seq, step) AS (SELECT l.source_seq, 1 FROM DEFAULT_LINK l WHERE l.target_seq = :s "
        "UNION ALL SELECT l.source_seq, u.step + 1 FROM up u JOIN DEFAULT_LINK l "
        "ON l.target_seq = u.seq) CYCLE seq SET is_cycle TO 'Y' DEFAULT 'N' "
        "SELECT u.seq, MIN(u.step) FROM up u WHERE u.is_cycle = 'N' GROUP BY u.seq"
    ),
    "SELECT r.content FROM DEFAULT_RECORD r UNION ALL SELECT s.content FROM DEFAULT_SUMMARY s",
    "SELECT JSON_ARRAYAGG(s.message_id ORDER BY s.position RETURNING JSON) FROM DEFAULT_SOURCE s",
    "SELECT r.id FROM DEFAULT_RECORD r WHERE r.actor = 'it''s /* no comment */ -- :bind'",
    "BEGIN CTX_DDL.SYNC_INDEX('DEFAULT_CHUNK_TEXT_INDEX'); END;",
)

QUERY = StatementKind.QUERY
_ONE = "SELECT r.id FROM DEFAULT_RECORD r WHERE r.seq = :seq"
_SET = "UPDATE DEFAULT_RECORD r SET r.review_reason = :reason"


def _statement(text, kind=QUERY, **rest):
    return Statement(name="x", text=text, kind=kind, **rest)


BAD_STATEMENTS = {
    "binds_match": (
        _statement(_ONE),
        _statement(_ONE, binds={"seq": 1, "user_id": "mira"}),
        _statement(_ONE, binds={"seq": 1}, types={"reason": BindType.CLOB}),
        _statement(_SET, StatementKind.MANY, rows=({"reason": "a"}, {"why": "b"})),
    ),
    "binds_typed": (
        _statement(_SET, StatementKind.DML, binds={"reason": None}),
        _statement(_SET, StatementKind.DML, binds={"reason": {"a": 1}}),
        _statement(_SET, StatementKind.DML, binds={"reason": "ä" * 2001}),
        _statement(_ONE, binds={"seq": True}),
        _statement(_ONE, binds={"seq": datetime(2026, 5, 1)}),  # noqa: DTZ001 - what is found
        _statement(_ONE, binds={"seq": b"\x00"}),
        _statement(_ONE, binds={"seq": np.zeros(3, dtype=np.float32)}),
        _statement(_ONE, binds={"seq": np.int64(3)}),
    ),
    "kinds_match": (
        _statement(_ONE, StatementKind.DML, binds={"seq": 1}),
        _statement(_SET, binds={"reason": "a"}),
        _statement("DROP TABLE DEFAULT_RECORD", StatementKind.DML),
        _statement(_SET, StatementKind.MANY),
        _statement(_SET, StatementKind.MANY, rows=({"reason": "a"}, {})),
        _statement(_SET, StatementKind.DML, binds={"reason": "a"}, rows=({"reason": "a"},)),
    ),
}


@pytest.mark.parametrize(
    ("rule", "text"), [(rule, text) for rule, texts in BAD_SQL.items() for text in texts]
)
def test_rule_finds_what_is_wrong(rule, text):
    assert rule in {name for name, _ in lint_text(text, SCHEMA)}


@pytest.mark.parametrize("text", GOOD_SQL)
def test_nothing_is_found_in_what_is_right(text):
    assert lint_text(text, SCHEMA) == []


def test_every_rule_has_a_bad_statement():
    assert set(BAD_SQL) == {rule.__name__ for rule in SQL_RULES}
    assert set(BAD_STATEMENTS) == {rule.__name__ for rule in STATEMENT_RULES}


@pytest.mark.parametrize(
    ("rule", "statement"),
    [(rule, statement) for rule, statements in BAD_STATEMENTS.items() for statement in statements],
)
def test_rule_finds_binds_that_do_not_fit(rule, statement):
    assert rule in {name for name, _ in lint(statement, SCHEMA)}


def test_nothing_is_found_in_binds_that_fit():
    statement = _statement(
        "UPDATE DEFAULT_RECORD r SET r.content = :text, r.tags = :tags, r.expires_at = :at, "
        "r.confidence = :c WHERE r.seq = :seq",
        StatementKind.DML,
        binds={"text": "ä" * 9000, "tags": ["a"], "at": None, "c": 0.5, "seq": 7},
        types={"text": BindType.CLOB, "tags": BindType.JSON, "at": BindType.TIMESTAMP},
    )
    assert lint(statement, SCHEMA) == []
    now = datetime(2026, 5, 1, tzinfo=UTC)
    assert lint(_statement(_ONE, binds={"seq": now}), SCHEMA) == []


@pytest.mark.parametrize(
    "text", ["SELECT 1 FROM (dual", "SELECT 1) FROM dual", "SELECT ` FROM dual"]
)
def test_what_is_no_sql_is_refused(text):
    with pytest.raises(UnreadableSqlError):
        tokenize(text)


@pytest.mark.parametrize("t", [T, Tables("NOTES_2", "MEMORY_OWNER")])
def test_every_statement_of_the_store_is_right(t):
    schema = schema_of(t)
    found = {item.name: lint(item, schema) for item in all_statements(t) if lint(item, schema)}
    assert found == {}
