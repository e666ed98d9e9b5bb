-- vector.drop (dml)
-- :seq0, :seq1
UPDATE DEFAULT_CHUNK SET embedding = NULL WHERE (record_seq IN (:seq0, :seq1)) AND position = 0 AND embedding IS NOT NULL
-- vector.held (query)
-- :seq0, :seq1
SELECT r.id FROM DEFAULT_CHUNK c JOIN DEFAULT_RECORD r ON r.seq = c.record_seq WHERE (c.record_seq IN (:seq0, :seq1)) AND c.position = 0 AND c.embedding IS NOT NULL ORDER BY r.seq
-- vector.put (many)
-- :embedding vector, :record_id
UPDATE DEFAULT_CHUNK SET embedding = :embedding WHERE position = 0 AND record_seq = (SELECT r.seq FROM DEFAULT_RECORD r WHERE r.id = :record_id)