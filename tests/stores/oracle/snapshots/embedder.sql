-- embedder.any_vector (query)
SELECT c.id FROM DEFAULT_CHUNK c WHERE c.embedding IS NOT NULL ORDER BY c.id FETCH FIRST 1 ROWS ONLY
-- embedder.drop_vectors (dml)
UPDATE DEFAULT_CHUNK SET embedding = NULL WHERE embedding IS NOT NULL
-- embedder.hold (dml)
LOCK TABLE DEFAULT_META IN ROW SHARE MODE
-- embedder.read (query)
SELECT JSON_QUERY(m.value, '$' RETURNING VARCHAR2(4000) NULL ON ERROR) FROM DEFAULT_META m WHERE m.name = 'embedder'
-- embedder.seize (dml)
LOCK TABLE DEFAULT_META IN EXCLUSIVE MODE
-- embedder.tie (dml)
-- :fingerprint json
MERGE INTO DEFAULT_META m USING (SELECT 'embedder' AS name FROM dual) n ON (m.name = n.name) WHEN MATCHED THEN UPDATE SET m.value = :fingerprint WHEN NOT MATCHED THEN INSERT (name, value) VALUES (n.name, :fingerprint)