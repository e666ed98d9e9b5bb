-- stats.counts (query)
SELECT (SELECT COUNT(*) FROM DEFAULT_THREAD), (SELECT COUNT(*) FROM DEFAULT_CHUNK), (SELECT COUNT(*) FROM DEFAULT_CHUNK c WHERE c.embedding IS NOT NULL), (SELECT COUNT(*) FROM DEFAULT_LINK) FROM dual
-- stats.jobs (query)
SELECT j.state, COUNT(*) FROM DEFAULT_JOB j GROUP BY j.state ORDER BY j.state
-- stats.records (query)
-- :now
SELECT r.record_type, COUNT(*) FROM DEFAULT_RECORD r WHERE r.expires_at IS NULL OR r.expires_at > :now GROUP BY r.record_type ORDER BY r.record_type