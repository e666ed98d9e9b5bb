-- What Oracle has and PostgreSQL has not, as far as the Oracle store uses it.

CREATE EXTENSION vector;
CREATE SCHEMA oracle_sys;
SET search_path = oracle_sys, public;

CREATE TABLE dual (dummy varchar);
INSERT INTO dual VALUES ('X');

-- NULL is an empty text when texts are joined.
CREATE FUNCTION concat_texts(text, text) RETURNS text IMMUTABLE LANGUAGE sql
    RETURN nullif(coalesce($1, '') OPERATOR(pg_catalog.||) coalesce($2, ''), '');
CREATE OPERATOR || (LEFTARG = text, RIGHTARG = text, FUNCTION = concat_texts);

CREATE FUNCTION substr(text, bigint, bigint DEFAULT NULL) RETURNS text IMMUTABLE LANGUAGE sql
    RETURN nullif(CASE WHEN $3 IS NULL THEN pg_catalog.substr($1, $2::int)
                       WHEN $3 < 1 THEN NULL
                       ELSE pg_catalog.substr($1, $2::int, $3::int) END, '');

-- The least and greatest of values are NULL if one of them is.
CREATE FUNCTION least_of(VARIADIC anycompatiblearray) RETURNS anycompatible
    IMMUTABLE LANGUAGE sql AS
    'SELECT CASE WHEN bool_or(x IS NULL) THEN NULL ELSE min(x) END FROM unnest($1) x';
CREATE FUNCTION greatest_of(VARIADIC anycompatiblearray) RETURNS anycompatible
    IMMUTABLE LANGUAGE sql AS
    'SELECT CASE WHEN bool_or(x IS NULL) THEN NULL ELSE max(x) END FROM unnest($1) x';

CREATE FUNCTION round(double precision, bigint DEFAULT 0) RETURNS double precision
    IMMUTABLE LANGUAGE sql
    RETURN pg_catalog.round($1::numeric, $2::int)::double precision;
CREATE FUNCTION trunc(double precision, bigint DEFAULT 0) RETURNS double precision
    IMMUTABLE LANGUAGE sql
    RETURN pg_catalog.trunc($1::numeric, $2::int)::double precision;


CREATE FUNCTION sys_context(text, text) RETURNS varchar STABLE LANGUAGE sql
    RETURN nullif(CASE
        WHEN upper($1) = 'USERENV' AND upper($2) = 'CURRENT_SCHEMA'
            THEN upper((string_to_array(current_setting('search_path'), ',') ) [1])
        WHEN upper($1) = 'USERENV' AND upper($2) IN ('SESSION_USER', 'CURRENT_USER')
            THEN upper(current_setting('oracle_session.login', true))
        ELSE current_setting('oracle_context.' OPERATOR(pg_catalog.||) lower($2), true)
    END, '');

-- Indexes and jobs that the database would keep.
CREATE TABLE domain_indexes (
    owner varchar, index_name varchar, table_name varchar, kind varchar,
    PRIMARY KEY (owner, index_name)
);
CREATE TABLE scheduler_jobs (job_name varchar PRIMARY KEY);

-- What a session may ask about the database and itself; tests change the rows.
CREATE TABLE product_component_version (
    product varchar, version varchar, version_full varchar, status varchar
);
INSERT INTO product_component_version VALUES
    ('Oracle AI Database 26ai Enterprise Edition', '23.0.0.0.0', '23.26.0.0.0', 'Production');
CREATE TABLE session_privs (privilege varchar);
INSERT INTO session_privs VALUES
    ('CREATE SESSION'), ('CREATE TABLE'), ('CREATE JOB'), ('CREATE VIEW'), ('CREATE SEQUENCE');
CREATE TABLE session_roles (role varchar);
INSERT INTO session_roles VALUES ('CTXAPP');
CREATE TABLE all_objects (owner varchar, object_name varchar, object_type varchar);
INSERT INTO all_objects VALUES ('CTXSYS', 'CTX_DDL', 'PACKAGE');
CREATE TABLE all_mining_models (owner varchar, model_name varchar, mining_function varchar);
CREATE TABLE v$vector_memory_pool (
    con_id numeric, pool varchar, alloc_bytes bigint, used_bytes bigint, populate_status varchar
);
INSERT INTO v$vector_memory_pool VALUES
    (0, '1MB POOL', 402653184, 0, 'DONE'), (0, '64KB POOL', 134217728, 0, 'DONE'),
    (0, 'METADATA POOL', 16777216, 0, 'DONE');

-- A hybrid vector index: a record is as good a match as it holds words, any is one by its meaning.
-- It knows neither of scopes nor of what is expired: the store has to see to that by itself.
CREATE FUNCTION hybrid_search(request jsonb) RETURNS jsonb STABLE LANGUAGE plpgsql AS $body$
DECLARE
    indexed text;
    answer jsonb;
BEGIN
    SELECT lower(d.owner || '.' || d.table_name) INTO indexed FROM oracle_sys.domain_indexes d
    WHERE d.kind = 'HYBRID' AND d.index_name = request->>'hybrid_index_name';
    IF indexed IS NULL THEN
        RAISE undefined_table USING MESSAGE = 'there is no such hybrid vector index';
    END IF;
    EXECUTE format($sql$
        SELECT coalesce(jsonb_agg(jsonb_build_object(
            'rowid', r.ctid::text, 'score', 1, 'vector_score', 50,
            'text_score', 10 * (
                SELECT count(*) FROM regexp_matches($1, '\{([^}]*)\}', 'g') AS w (found)
                WHERE strpos(lower(r.content), w.found[1]) > 0
            )
        ) ORDER BY r.seq), '[]') FROM %s r
    $sql$, indexed) INTO answer USING request->'text'->>'contains';
    RETURN answer;
END
$body$;

CREATE VIEW all_tables AS
    SELECT upper(n.nspname)::varchar AS owner, upper(c.relname)::varchar AS table_name
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'v') AND n.nspname NOT IN ('pg_catalog', 'information_schema',
        'oracle_sys', 'public') AND c.relname NOT LIKE '%\_\_rows';
CREATE VIEW user_tables AS
    SELECT table_name FROM all_tables
    WHERE owner = upper((string_to_array(current_setting('search_path'), ','))[1]);
CREATE VIEW all_indexes AS
    SELECT upper(schemaname)::varchar AS owner, upper(indexname)::varchar AS index_name,
        upper(tablename)::varchar AS table_name, 'NORMAL'::varchar AS index_type,
        'VALID'::varchar AS status, NULL::varchar AS domidx_status,
        NULL::varchar AS domidx_opstatus, NULL::varchar AS ityp_name
    FROM pg_indexes WHERE schemaname NOT IN ('pg_catalog', 'oracle_sys')
    UNION ALL
    SELECT owner, index_name, table_name,
        CASE WHEN kind IN ('HNSW', 'IVF') THEN 'VECTOR' ELSE 'DOMAIN' END, 'VALID', 'VALID',
        'VALID', kind
    FROM domain_indexes;
