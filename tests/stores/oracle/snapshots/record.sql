-- record.agent_profiles (query)
-- :owner0
SELECT agent_id FROM DEFAULT_RECORD WHERE (CASE record_type WHEN 'agent_profile' THEN agent_id END IN (:owner0))
-- record.expect (query)
-- :id0
SELECT r.id, r.revision FROM DEFAULT_RECORD r WHERE (r.id IN (:id0)) ORDER BY r.seq FOR UPDATE
-- record.insert (many)
-- :actor string, :agent_id string, :compressed clob, :confidence double, :content clob, :created_at timestamp, :event_time timestamp, :expires_at timestamp, :hit_count number, :id string, :invalidated_at timestamp, :invalidation_reason clob, :last_hit_at timestamp, :layer string, :metadata json, :metadata_terms json, :record_type string, :review_reason clob, :revision number, :role string, :stability string, :status string, :tags json, :thread_id string, :tier string, :trust string, :updated_at timestamp, :user_id string, :valid_from timestamp, :valid_to timestamp
INSERT INTO DEFAULT_RECORD (id, record_type, user_id, agent_id, thread_id, role, actor, content, compressed, metadata, status, invalidation_reason, invalidated_at, review_reason, tier, layer, tags, confidence, hit_count, last_hit_at, stability, trust, event_time, valid_from, valid_to, created_at, updated_at, expires_at, revision, metadata_terms) VALUES (:id, :record_type, :user_id, :agent_id, :thread_id, :role, :actor, :content, :compressed, :metadata, :status, :invalidation_reason, :invalidated_at, :review_reason, :tier, :layer, :tags, :confidence, :hit_count, :last_hit_at, :stability, :trust, :event_time, :valid_from, :valid_to, :created_at, :updated_at, :expires_at, :revision, :metadata_terms)
-- record.lock_nodes (query)
-- :seq0
SELECT r.seq, r.id, r.status, r.invalidation_reason, r.review_reason, r.layer FROM DEFAULT_RECORD r WHERE (r.seq IN (:seq0)) ORDER BY r.seq FOR UPDATE
-- record.lock_target (query)
-- :f_id0, :f_now, :f_type0, :f_type1, :f_user
SELECT r.seq, r.id, r.status, r.invalidation_reason, r.review_reason, r.layer, r.record_type, r.thread_id FROM DEFAULT_RECORD r WHERE r.user_id = :f_user AND (r.expires_at IS NULL OR r.expires_at > :f_now) AND (r.record_type IN (:f_type0, :f_type1)) AND r.tier NOT IN ('archived', 'deprecated') AND (r.id IN (:f_id0)) ORDER BY r.seq FOR UPDATE
-- record.numbers (query)
-- :id0, :id1
SELECT r.id, r.seq FROM DEFAULT_RECORD r WHERE (r.id IN (:id0, :id1))
-- record.review (many)
-- :reason clob, :seq
UPDATE DEFAULT_RECORD SET review_reason = :reason WHERE seq = :seq
-- record.settle (many)
-- :now timestamp, :reason clob, :seq, :status string
UPDATE DEFAULT_RECORD SET status = :status, invalidation_reason = :reason, updated_at = :now, invalidated_at = CASE WHEN :status = 'invalid' THEN COALESCE(invalidated_at, :now) END, revision = revision + 1 WHERE seq = :seq
-- record.taken (query)
-- :id0, :id1
SELECT r.id FROM DEFAULT_RECORD r WHERE (r.id IN (:id0, :id1))
-- record.update (dml)
-- :content clob, :event_time timestamp, :invalidation_reason clob, :layer string, :metadata json, :metadata_terms json, :now timestamp, :review_reason clob, :seq, :status string, :tags json, :tier string
UPDATE DEFAULT_RECORD SET updated_at = :now, revision = revision + 1, content = :content, metadata = :metadata, status = :status, invalidation_reason = :invalidation_reason, review_reason = :review_reason, tier = :tier, layer = :layer, tags = :tags, event_time = :event_time, metadata_terms = :metadata_terms, invalidated_at = COALESCE(invalidated_at, :now) WHERE seq = :seq
-- record.update (dml)
-- :now timestamp, :seq, :status string
UPDATE DEFAULT_RECORD SET updated_at = :now, revision = revision + 1, status = :status, invalidated_at = NULL WHERE seq = :seq
-- record.user_profiles (query)
-- :owner0
SELECT user_id FROM DEFAULT_RECORD WHERE (CASE record_type WHEN 'user_profile' THEN user_id END IN (:owner0))
-- record.written (query)
-- :id0
WITH picked (seq) AS (SELECT r.seq FROM DEFAULT_RECORD r WHERE (r.id IN (:id0))), up (root, seq, step, link_seq) AS (SELECT l.target_seq, l.source_seq, 1, l.seq FROM picked p JOIN DEFAULT_RECORD r ON r.seq = p.seq JOIN DEFAULT_LINK l ON l.target_seq = r.seq WHERE r.status = 'invalid' AND l.relation_type IN ('duplicates', 'refines', 'supersedes') UNION ALL SELECT u.root, l.source_seq, 2, l.seq FROM up u JOIN DEFAULT_LINK l ON l.target_seq = u.seq WHERE l.relation_type IN ('duplicates', 'refines', 'supersedes')) CYCLE seq SET is_cycle TO 'Y' DEFAULT 'N', best (root, id, place) AS (SELECT u.root, w.id, ROW_NUMBER() OVER (PARTITION BY u.root ORDER BY w.status DESC, u.step, u.link_seq DESC) FROM up u JOIN DEFAULT_RECORD w ON w.seq = u.seq WHERE u.is_cycle = 'N' AND w.seq <> u.root) SELECT r.seq, r.id, r.record_type, r.user_id, r.agent_id, r.thread_id, r.role, r.actor, r.content, r.compressed, r.metadata, r.status, r.invalidation_reason, r.invalidated_at, r.review_reason, r.tier, r.layer, r.tags, r.confidence, r.hit_count, r.last_hit_at, r.stability, r.trust, r.event_time, r.valid_from, r.valid_to, r.created_at, r.updated_at, r.expires_at, r.revision, CASE WHEN r.record_type = 'message' THEN NULL ELSE (SELECT JSON_ARRAYAGG(s.message_id ORDER BY s.position RETURNING JSON) FROM DEFAULT_SOURCE s WHERE s.record_seq = r.seq) END, b.id FROM picked p JOIN DEFAULT_RECORD r ON r.seq = p.seq LEFT JOIN best b ON b.root = r.seq AND b.place = 1 ORDER BY r.seq