-- probe.models (query)
SELECT owner, model_name FROM all_mining_models WHERE mining_function = 'EMBEDDING' ORDER BY owner, model_name
-- probe.privileges (query)
SELECT privilege FROM session_privs ORDER BY privilege
-- probe.product (query)
SELECT product, version_full FROM product_component_version ORDER BY product FETCH FIRST 1 ROWS ONLY
-- probe.text (query)
SELECT COUNT(*) FROM all_objects WHERE owner = 'CTXSYS' AND object_name = 'CTX_DDL' AND object_type = 'PACKAGE'
-- probe.user (query)
SELECT SYS_CONTEXT('USERENV', 'SESSION_USER'), SYS_CONTEXT('USERENV', 'CURRENT_SCHEMA') FROM dual
-- probe.vector_memory (query)
SELECT SUM(alloc_bytes) FROM v$vector_memory_pool WHERE SUBSTR(pool, 1, 3) = '1MB'