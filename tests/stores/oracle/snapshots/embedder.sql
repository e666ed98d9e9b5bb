-- embedder.any_vector (query)
SELECT c.id FROM DEFAULT_CHUNK c WHERE c.embedding IS NOT NULL ORDER BY c.id FETCH FIRST 1 ROWS ONLY
-- embedder.drop_vectors (dml)
UPDATE DEFAULT_CHUNK SET embedding = NULL WHERE embedding IS NOT NULL
-- embedder.hold (block)
LOCK TABLE DEFAULT_META IN ROW SHARE MODE
-- embedder.read (query)
SELECT value FROM DEFAULT_META WHERE name = 'embedder'
-- embedder.seize (block)
LOCK TABLE DEFAULT_META IN EXCLUSIVE MODE
-- embedder.tie (dml)
-- :fingerprint json
MERGE INTO DEFAULT_META m USING (SELECT 'embedder' AS name FROM dual) n ON (m.name = n.name) WHEN MATCHED THEN UPDATE SET m.value = :fingerprint WHEN NOT MATCHED THEN INSERT (name, value) VALUES (n.name, :fingerprint)