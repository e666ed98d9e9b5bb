-- summary.insert (dml)
-- :content clob, :covers_seq, :created_at, :thread_id, :topics json
INSERT INTO DEFAULT_SUMMARY (thread_id, revision, content, topics, covers_seq, status, created_at) VALUES (:thread_id, -1, :content, :topics, :covers_seq, 'valid', :created_at)
-- summary.latest (query)
-- :thread_id
SELECT s.thread_id, s.revision, s.content, s.topics, s.covers_seq, s.created_at FROM DEFAULT_SUMMARY s WHERE s.thread_id = :thread_id ORDER BY s.covers_seq DESC, s.revision DESC FETCH FIRST 1 ROWS ONLY
-- summary.latest (query)
-- :before_seq, :thread_id
SELECT s.thread_id, s.revision, s.content, s.topics, s.covers_seq, s.created_at FROM DEFAULT_SUMMARY s WHERE s.thread_id = :thread_id AND s.covers_seq < :before_seq ORDER BY s.covers_seq DESC, s.revision DESC FETCH FIRST 1 ROWS ONLY
-- summary.number (dml)
-- :thread_id
UPDATE DEFAULT_SUMMARY SET revision = seq WHERE thread_id = :thread_id AND revision = -1
-- summary.outdate (dml)
-- :seq, :thread_id
DELETE FROM DEFAULT_SUMMARY WHERE thread_id = :thread_id AND covers_seq >= :seq
-- summary.prune (dml)
-- :thread_id
DELETE FROM DEFAULT_SUMMARY WHERE thread_id = :thread_id AND seq <= (SELECT s.seq FROM DEFAULT_SUMMARY s WHERE s.thread_id = :thread_id ORDER BY s.seq DESC OFFSET 20 ROWS FETCH NEXT 1 ROWS ONLY)