-- gone.add_derived (dml)
INSERT INTO DEFAULT_GONE (seq) SELECT DISTINCT s.record_seq FROM DEFAULT_GONE g JOIN DEFAULT_RECORD m ON m.seq = g.seq JOIN DEFAULT_SOURCE s ON s.message_id = m.id WHERE s.record_seq NOT IN (SELECT z.seq FROM DEFAULT_GONE z) AND NOT EXISTS (SELECT 1 FROM DEFAULT_SOURCE o WHERE o.record_seq = s.record_seq AND o.message_id NOT IN (SELECT x.id FROM DEFAULT_GONE y JOIN DEFAULT_RECORD x ON x.seq = y.seq))
-- gone.add_derived_alone (dml)
-- :message0, :message1
INSERT INTO DEFAULT_GONE (seq) SELECT DISTINCT s.record_seq FROM DEFAULT_SOURCE s WHERE (s.message_id IN (:message0, :message1)) AND NOT EXISTS (SELECT 1 FROM DEFAULT_SOURCE o WHERE o.record_seq = s.record_seq AND NOT (o.message_id IN (:message0, :message1)))
-- gone.add_expired (dml)
-- :f_now, :f_rows, :f_tier0, :f_tier1, :f_tier2, :f_tier3, :f_tier4, :f_tier5, :f_tier6, :f_tier7
INSERT INTO DEFAULT_GONE (seq) SELECT r.seq FROM DEFAULT_RECORD r WHERE r.expires_at <= :f_now AND (r.tier IN (:f_tier0, :f_tier1, :f_tier2, :f_tier3, :f_tier4, :f_tier5, :f_tier6, :f_tier7)) ORDER BY r.expires_at NULLS LAST, r.seq FETCH FIRST :f_rows ROWS ONLY
-- gone.add_filtered (dml)
-- :f_id0, :f_now, :f_type0, :f_type1, :f_user
INSERT INTO DEFAULT_GONE (seq) SELECT r.seq FROM DEFAULT_RECORD r WHERE r.user_id = :f_user AND (r.expires_at IS NULL OR r.expires_at > :f_now) AND (r.record_type IN (:f_type0, :f_type1)) AND r.tier NOT IN ('archived', 'deprecated') AND (r.id IN (:f_id0))
-- gone.add_filtered (dml)
-- :f_known_at, :f_m0, :f_m1, :f_now, :f_tier0, :f_tier1, :f_user
INSERT INTO DEFAULT_GONE (seq) SELECT r.seq FROM DEFAULT_RECORD r WHERE r.user_id = :f_user AND (r.expires_at IS NULL OR r.expires_at > :f_now) AND (r.tier IN (:f_tier0, :f_tier1)) AND r.created_at <= :f_known_at AND (r.status = 'valid' OR r.invalidated_at > :f_known_at) AND (JSON_EXISTS(r.metadata_terms, '$[*]?(@ > $v0 && @ < $v1)' PASSING :f_m0 AS "v0", :f_m1 AS "v1"))
-- gone.add_of_threads (dml)
INSERT INTO DEFAULT_GONE (seq) SELECT r.seq FROM DEFAULT_RECORD r WHERE r.thread_id IN (SELECT x.id FROM DEFAULT_GONE_THREAD x) AND r.seq NOT IN (SELECT g.seq FROM DEFAULT_GONE g)
-- gone.add_scope (dml)
-- :f_user
INSERT INTO DEFAULT_GONE (seq) SELECT r.seq FROM DEFAULT_RECORD r WHERE r.user_id = :f_user
-- gone.add_scope (dml)
-- :f_agent, :f_thread
INSERT INTO DEFAULT_GONE (seq) SELECT r.seq FROM DEFAULT_RECORD r WHERE r.agent_id = :f_agent AND r.thread_id = :f_thread
-- gone.add_scope (dml)
INSERT INTO DEFAULT_GONE (seq) SELECT r.seq FROM DEFAULT_RECORD r WHERE r.user_id IS NULL
-- gone.add_thread (dml)
-- :thread_id
INSERT INTO DEFAULT_GONE_THREAD (id) SELECT th.id FROM DEFAULT_THREAD th WHERE th.id = :thread_id
-- gone.add_threads (dml)
-- :f_user
INSERT INTO DEFAULT_GONE_THREAD (id) SELECT th.id FROM DEFAULT_THREAD th WHERE th.user_id = :f_user
-- gone.add_threads (dml)
-- :f_agent, :f_thread
INSERT INTO DEFAULT_GONE_THREAD (id) SELECT th.id FROM DEFAULT_THREAD th WHERE th.agent_id = :f_agent AND th.id = :f_thread
-- gone.add_touched (dml)
INSERT INTO DEFAULT_GONE (seq) SELECT DISTINCT s.record_seq FROM DEFAULT_GONE g JOIN DEFAULT_RECORD m ON m.seq = g.seq JOIN DEFAULT_SOURCE s ON s.message_id = m.id WHERE s.record_seq NOT IN (SELECT z.seq FROM DEFAULT_GONE z)
-- gone.after (query)
SELECT DISTINCT v.seq FROM (SELECT (SELECT MIN(o.seq) FROM DEFAULT_RECORD o WHERE o.thread_id = m.thread_id AND o.record_type = 'message' AND o.seq > m.seq) AS seq FROM DEFAULT_GONE g JOIN DEFAULT_RECORD m ON m.seq = g.seq WHERE m.record_type = 'message' AND m.thread_id NOT IN (SELECT x.id FROM DEFAULT_GONE_THREAD x)) v WHERE v.seq IS NOT NULL AND v.seq NOT IN (SELECT z.seq FROM DEFAULT_GONE z) ORDER BY v.seq
-- gone.among (query)
-- :seq0
SELECT g.seq FROM DEFAULT_GONE g WHERE (g.seq IN (:seq0))
-- gone.before (query)
SELECT DISTINCT v.seq FROM (SELECT (SELECT MAX(o.seq) FROM DEFAULT_RECORD o WHERE o.thread_id = m.thread_id AND o.record_type = 'message' AND o.seq < m.seq) AS seq FROM DEFAULT_GONE g JOIN DEFAULT_RECORD m ON m.seq = g.seq WHERE m.record_type = 'message' AND m.thread_id NOT IN (SELECT x.id FROM DEFAULT_GONE_THREAD x)) v WHERE v.seq IS NOT NULL AND v.seq NOT IN (SELECT z.seq FROM DEFAULT_GONE z) ORDER BY v.seq
-- gone.clear (dml)
DELETE FROM DEFAULT_GONE
-- gone.clear_threads (dml)
DELETE FROM DEFAULT_GONE_THREAD
-- gone.count (query)
SELECT COUNT(*) FROM DEFAULT_GONE
-- gone.count_jobs (query)
SELECT COUNT(*) FROM DEFAULT_GONE_THREAD x JOIN DEFAULT_JOB j ON j.thread_id = x.id
-- gone.count_links (query)
SELECT COUNT(*) FROM (SELECT l.seq FROM DEFAULT_GONE g JOIN DEFAULT_LINK l ON l.source_seq = g.seq UNION SELECT l.seq FROM DEFAULT_GONE g JOIN DEFAULT_LINK l ON l.target_seq = g.seq) v
-- gone.count_summaries (query)
SELECT COUNT(*) FROM (SELECT s.seq FROM DEFAULT_GONE_THREAD x JOIN DEFAULT_SUMMARY s ON s.thread_id = x.id UNION SELECT s.seq FROM DEFAULT_GONE g JOIN DEFAULT_RECORD m ON m.seq = g.seq JOIN DEFAULT_SUMMARY s ON s.thread_id = m.thread_id AND s.covers_seq >= m.seq WHERE m.record_type = 'message') v
-- gone.count_threads (query)
SELECT COUNT(*) FROM DEFAULT_GONE_THREAD
-- gone.count_types (query)
SELECT r.record_type, COUNT(*) FROM DEFAULT_GONE g JOIN DEFAULT_RECORD r ON r.seq = g.seq GROUP BY r.record_type
-- gone.delete_chunk (dml)
DELETE FROM DEFAULT_CHUNK WHERE record_seq IN (SELECT g.seq FROM DEFAULT_GONE g)
-- gone.delete_image (dml)
DELETE FROM DEFAULT_IMAGE WHERE record_seq IN (SELECT g.seq FROM DEFAULT_GONE g)
-- gone.delete_job (dml)
DELETE FROM DEFAULT_JOB WHERE thread_id IN (SELECT x.id FROM DEFAULT_GONE_THREAD x)
-- gone.delete_link_from (dml)
DELETE FROM DEFAULT_LINK WHERE source_seq IN (SELECT g.seq FROM DEFAULT_GONE g)
-- gone.delete_link_to (dml)
DELETE FROM DEFAULT_LINK WHERE target_seq IN (SELECT g.seq FROM DEFAULT_GONE g)
-- gone.delete_named (dml)
DELETE FROM DEFAULT_SOURCE WHERE message_id IN (SELECT r.id FROM DEFAULT_GONE g JOIN DEFAULT_RECORD r ON r.seq = g.seq) AND record_seq NOT IN (SELECT z.seq FROM DEFAULT_GONE z)
-- gone.delete_record (dml)
DELETE FROM DEFAULT_RECORD WHERE seq IN (SELECT g.seq FROM DEFAULT_GONE g)
-- gone.delete_source (dml)
DELETE FROM DEFAULT_SOURCE WHERE record_seq IN (SELECT g.seq FROM DEFAULT_GONE g)
-- gone.delete_summary (dml)
DELETE FROM DEFAULT_SUMMARY WHERE seq IN (SELECT s.seq FROM DEFAULT_GONE_THREAD x JOIN DEFAULT_SUMMARY s ON s.thread_id = x.id UNION SELECT s.seq FROM DEFAULT_GONE g JOIN DEFAULT_RECORD m ON m.seq = g.seq JOIN DEFAULT_SUMMARY s ON s.thread_id = m.thread_id AND s.covers_seq >= m.seq WHERE m.record_type = 'message')
-- gone.delete_thread (dml)
DELETE FROM DEFAULT_THREAD WHERE id IN (SELECT x.id FROM DEFAULT_GONE_THREAD x)
-- gone.freed (query)
SELECT DISTINCT l.target_seq FROM DEFAULT_GONE g JOIN DEFAULT_LINK l ON l.source_seq = g.seq WHERE l.relation_type IN ('duplicates', 'refines', 'supersedes') AND l.target_seq NOT IN (SELECT z.seq FROM DEFAULT_GONE z) ORDER BY l.target_seq
-- gone.keep (dml)
-- :f_now, :f_tier0, :f_tier1, :f_tier2, :f_tier3, :f_tier4, :f_tier5, :f_tier6, :f_tier7
DELETE FROM DEFAULT_GONE WHERE seq NOT IN (SELECT r.seq FROM DEFAULT_GONE g JOIN DEFAULT_RECORD r ON r.seq = g.seq WHERE r.expires_at <= :f_now AND (r.tier IN (:f_tier0, :f_tier1, :f_tier2, :f_tier3, :f_tier4, :f_tier5, :f_tier6, :f_tier7)))
-- gone.lock (dml)
UPDATE DEFAULT_RECORD SET revision = revision WHERE seq IN (SELECT g.seq FROM DEFAULT_GONE g)
-- gone.lock_gathered_talks (query)
SELECT th.id FROM DEFAULT_THREAD th WHERE th.id IN (SELECT r.thread_id FROM DEFAULT_GONE g JOIN DEFAULT_RECORD r ON r.seq = g.seq WHERE r.record_type = 'message') ORDER BY th.id FOR UPDATE
-- gone.lock_scope_talks (query)
-- :f_user
SELECT th.id FROM DEFAULT_THREAD th WHERE th.id IN (SELECT r.thread_id FROM DEFAULT_RECORD r WHERE r.record_type = 'message' AND r.user_id = :f_user) ORDER BY th.id FOR UPDATE
-- gone.lock_talks (query)
-- :f_id0, :f_now, :f_type0, :f_type1, :f_user
SELECT th.id FROM DEFAULT_THREAD th WHERE th.id IN (SELECT r.thread_id FROM DEFAULT_RECORD r WHERE r.record_type = 'message' AND r.user_id = :f_user AND (r.expires_at IS NULL OR r.expires_at > :f_now) AND (r.record_type IN (:f_type0, :f_type1)) AND r.tier NOT IN ('archived', 'deprecated') AND (r.id IN (:f_id0))) ORDER BY th.id FOR UPDATE
-- gone.lock_threads (query)
SELECT th.id FROM DEFAULT_THREAD th WHERE th.id IN (SELECT x.id FROM DEFAULT_GONE_THREAD x) ORDER BY th.id FOR UPDATE
-- gone.orphans (query)
SELECT l.source_seq, MIN(r.id) FROM DEFAULT_GONE g JOIN DEFAULT_RECORD r ON r.seq = g.seq JOIN DEFAULT_LINK l ON l.target_seq = g.seq AND l.relation_type = 'depends_on' WHERE l.source_seq NOT IN (SELECT z.seq FROM DEFAULT_GONE z) GROUP BY l.source_seq
-- gone.partly (query)
SELECT s.record_seq, MIN(m.id) FROM DEFAULT_GONE g JOIN DEFAULT_RECORD m ON m.seq = g.seq JOIN DEFAULT_SOURCE s ON s.message_id = m.id WHERE s.record_seq NOT IN (SELECT z.seq FROM DEFAULT_GONE z) GROUP BY s.record_seq
-- gone.sample (query)
SELECT v.seq, v.id FROM (SELECT r.seq, r.id, ROW_NUMBER() OVER (ORDER BY r.seq) AS place, COUNT(*) OVER () AS total FROM DEFAULT_GONE g JOIN DEFAULT_RECORD r ON r.seq = g.seq) v WHERE v.place <= 16 OR v.place > v.total - 16 ORDER BY v.seq
-- gone.sample_threads (query)
SELECT x.id FROM DEFAULT_GONE_THREAD x ORDER BY x.id FETCH FIRST 16 ROWS ONLY
-- gone.touched (query)
-- :message0
SELECT DISTINCT s.record_seq FROM DEFAULT_SOURCE s WHERE (s.message_id IN (:message0)) AND s.record_seq NOT IN (SELECT z.seq FROM DEFAULT_GONE z)