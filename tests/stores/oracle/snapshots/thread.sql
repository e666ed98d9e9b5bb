-- thread.insert (dml)
-- :agent_id string, :config json, :created_at timestamp, :id string, :metadata json, :metadata_terms json, :revision number, :updated_at timestamp, :user_id string
INSERT INTO DEFAULT_THREAD (id, user_id, agent_id, metadata, config, created_at, updated_at, revision, metadata_terms) VALUES (:id, :user_id, :agent_id, :metadata, :config, :created_at, :updated_at, :revision, :metadata_terms)
-- thread.lock (query)
-- :id0, :id1, :id2, :id3
SELECT th.id, th.user_id FROM DEFAULT_THREAD th WHERE (th.id IN (:id0, :id1, :id2, :id3)) ORDER BY th.id FOR UPDATE
-- thread.lock_of_record (query)
-- :f_id0, :f_now, :f_type0, :f_type1, :f_user
SELECT th.id FROM DEFAULT_THREAD th WHERE th.id IN (SELECT r.thread_id FROM DEFAULT_RECORD r WHERE r.user_id = :f_user AND (r.expires_at IS NULL OR r.expires_at > :f_now) AND (r.record_type IN (:f_type0, :f_type1)) AND r.tier NOT IN ('archived', 'deprecated') AND (r.id IN (:f_id0))) ORDER BY th.id FOR UPDATE
-- thread.read (query)
-- :thread_id
SELECT id, user_id, agent_id, metadata, config, created_at, updated_at, revision FROM DEFAULT_THREAD WHERE id = :thread_id
-- thread.update (dml)
-- :config json, :metadata json, :metadata_terms json, :now, :thread_id
UPDATE DEFAULT_THREAD SET updated_at = :now, revision = revision + 1, metadata = :metadata, metadata_terms = :metadata_terms, config = :config WHERE id = :thread_id
-- thread.update (dml)
-- :now, :thread_id
UPDATE DEFAULT_THREAD SET updated_at = :now, revision = revision + 1 WHERE id = :thread_id