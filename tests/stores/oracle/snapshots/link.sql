-- link.clashes (query)
-- :id, :relation_type, :source_id, :target_id
SELECT 1, l.id FROM DEFAULT_LINK l WHERE l.id = :id UNION ALL SELECT 2, l.id FROM DEFAULT_RECORD s JOIN DEFAULT_LINK l ON l.source_seq = s.seq JOIN DEFAULT_RECORD e ON e.seq = l.target_seq WHERE s.id = :source_id AND e.id = :target_id AND l.relation_type = :relation_type ORDER BY 1
-- link.delete (dml)
-- :seq
DELETE FROM DEFAULT_LINK WHERE seq = :seq
-- link.dependencies (query)
-- :seq0
SELECT l.source_seq, r.seq, r.id, r.status, r.invalidation_reason, r.review_reason, r.layer FROM DEFAULT_LINK l JOIN DEFAULT_RECORD r ON r.seq = l.target_seq WHERE l.relation_type = 'depends_on' AND (l.source_seq IN (:seq0))
-- link.dependency_edges (query)
-- :seq0, :seq1
SELECT l.source_seq, l.target_seq FROM DEFAULT_LINK l WHERE l.relation_type = 'depends_on' AND (l.target_seq IN (:seq0, :seq1))
-- link.find (query)
-- :f_known_at, :f_m0, :f_m1, :f_now, :f_tier0, :f_tier1, :f_user, :l_id0
SELECT l.seq, l.source_seq, l.target_seq FROM DEFAULT_LINK l JOIN DEFAULT_RECORD s ON s.seq = l.source_seq JOIN DEFAULT_RECORD e ON e.seq = l.target_seq WHERE s.user_id = :f_user AND (s.expires_at IS NULL OR s.expires_at > :f_now) AND (s.tier IN (:f_tier0, :f_tier1)) AND s.created_at <= :f_known_at AND (JSON_EXISTS(s.metadata_terms, '$[*]?(@ > $v0 && @ < $v1)' PASSING :f_m0 AS "v0", :f_m1 AS "v1")) AND e.user_id = :f_user AND (e.expires_at IS NULL OR e.expires_at > :f_now) AND (e.tier IN (:f_tier0, :f_tier1)) AND e.created_at <= :f_known_at AND (JSON_EXISTS(e.metadata_terms, '$[*]?(@ > $v0 && @ < $v1)' PASSING :f_m0 AS "v0", :f_m1 AS "v1")) AND (l.id IN (:l_id0))
-- link.heads (query)
-- :seq0
SELECT l.target_seq, l.relation_type, s.id FROM DEFAULT_LINK l JOIN DEFAULT_RECORD s ON s.seq = l.source_seq WHERE (l.target_seq IN (:seq0)) AND l.relation_type IN ('duplicates', 'refines', 'supersedes') AND NOT EXISTS (SELECT 1 FROM DEFAULT_LINK o WHERE o.target_seq = l.target_seq AND o.relation_type IN ('duplicates', 'refines', 'supersedes') AND o.seq > l.seq)
-- link.insert (dml)
-- :created_at, :id, :link_time timestamp, :metadata json, :opposite_relation_type, :relation_type, :source_seq, :target_seq
INSERT INTO DEFAULT_LINK (id, source_seq, target_seq, relation_type, opposite_relation_type, link_time, metadata, created_at) VALUES (:id, :source_seq, :target_seq, :relation_type, :opposite_relation_type, :link_time, :metadata, :created_at)
-- link.list (query)
-- :f_known_at, :f_m0, :f_m1, :f_now, :f_tier0, :f_tier1, :f_user, :l_after, :l_id0, :l_kind0, :l_record, :l_rows
SELECT l.id, s.id, s.record_type, e.id, e.record_type, l.relation_type, l.opposite_relation_type, l.link_time, l.metadata, l.created_at, l.seq FROM DEFAULT_LINK l JOIN DEFAULT_RECORD s ON s.seq = l.source_seq JOIN DEFAULT_RECORD e ON e.seq = l.target_seq WHERE s.user_id = :f_user AND (s.expires_at IS NULL OR s.expires_at > :f_now) AND (s.tier IN (:f_tier0, :f_tier1)) AND s.created_at <= :f_known_at AND (JSON_EXISTS(s.metadata_terms, '$[*]?(@ > $v0 && @ < $v1)' PASSING :f_m0 AS "v0", :f_m1 AS "v1")) AND e.user_id = :f_user AND (e.expires_at IS NULL OR e.expires_at > :f_now) AND (e.tier IN (:f_tier0, :f_tier1)) AND e.created_at <= :f_known_at AND (JSON_EXISTS(e.metadata_terms, '$[*]?(@ > $v0 && @ < $v1)' PASSING :f_m0 AS "v0", :f_m1 AS "v1")) AND (l.relation_type IN (:l_kind0)) AND (l.id IN (:l_id0)) AND l.seq > :l_after AND l.seq IN (SELECT f.seq FROM DEFAULT_RECORD x JOIN DEFAULT_LINK f ON f.source_seq = x.seq WHERE x.id = :l_record UNION ALL SELECT i.seq FROM DEFAULT_RECORD x JOIN DEFAULT_LINK i ON i.target_seq = x.seq WHERE x.id = :l_record) ORDER BY l.seq FETCH FIRST :l_rows ROWS ONLY
-- link.list (query)
-- :f_now, :f_user, :l_rows
SELECT l.id, s.id, s.record_type, e.id, e.record_type, l.relation_type, l.opposite_relation_type, l.link_time, l.metadata, l.created_at, l.seq FROM DEFAULT_LINK l JOIN DEFAULT_RECORD s ON s.seq = l.source_seq JOIN DEFAULT_RECORD e ON e.seq = l.target_seq WHERE s.user_id = :f_user AND (s.expires_at IS NULL OR s.expires_at > :f_now) AND s.tier NOT IN ('archived', 'deprecated') AND e.user_id = :f_user AND (e.expires_at IS NULL OR e.expires_at > :f_now) AND e.tier NOT IN ('archived', 'deprecated') ORDER BY l.seq FETCH FIRST :l_rows ROWS ONLY
-- link.lock_dependants (query)
-- :seq0, :seq1
SELECT r.seq, r.id, r.status, r.invalidation_reason, r.review_reason, r.layer FROM DEFAULT_RECORD r WHERE r.seq IN (SELECT l.source_seq FROM DEFAULT_LINK l WHERE l.relation_type = 'depends_on' AND (l.target_seq IN (:seq0, :seq1))) ORDER BY r.seq FOR UPDATE
-- link.lock_ends (query)
-- :f_id0, :f_id1, :f_known_at, :f_m0, :f_m1, :f_now, :f_tier0, :f_tier1, :f_type0, :f_type1, :f_type2, :f_type3, :f_user
SELECT r.seq, r.id, r.status, r.invalidation_reason, r.review_reason, r.layer, r.record_type, r.user_id FROM DEFAULT_RECORD r WHERE r.user_id = :f_user AND (r.expires_at IS NULL OR r.expires_at > :f_now) AND (r.record_type IN (:f_type0, :f_type1, :f_type2, :f_type3)) AND (r.tier IN (:f_tier0, :f_tier1)) AND r.created_at <= :f_known_at AND (r.status = 'valid' OR r.invalidated_at > :f_known_at) AND (JSON_EXISTS(r.metadata_terms, '$[*]?(@ > $v0 && @ < $v1)' PASSING :f_m0 AS "v0", :f_m1 AS "v1")) AND (r.id IN (:f_id0, :f_id1)) ORDER BY r.seq FOR UPDATE
-- link.lock_ends_of (query)
-- :id
SELECT r.seq, r.id, r.status, r.invalidation_reason, r.review_reason, r.layer FROM DEFAULT_RECORD r WHERE r.seq IN (SELECT l.source_seq FROM DEFAULT_LINK l WHERE l.id = :id UNION ALL SELECT l.target_seq FROM DEFAULT_LINK l WHERE l.id = :id) ORDER BY r.seq FOR UPDATE
-- link.read (query)
-- :id
SELECT l.id, s.id, s.record_type, e.id, e.record_type, l.relation_type, l.opposite_relation_type, l.link_time, l.metadata, l.created_at FROM DEFAULT_LINK l JOIN DEFAULT_RECORD s ON s.seq = l.source_seq JOIN DEFAULT_RECORD e ON e.seq = l.target_seq WHERE l.id = :id
-- link.type_taken (query)
-- :id, :relation_type
SELECT o.id FROM DEFAULT_LINK l JOIN DEFAULT_LINK o ON o.source_seq = l.source_seq AND o.target_seq = l.target_seq AND o.relation_type = :relation_type WHERE l.id = :id AND o.seq <> l.seq
-- link.update (dml)
-- :link_time timestamp, :metadata json, :relation_type, :seq
UPDATE DEFAULT_LINK SET relation_type = :relation_type, link_time = :link_time, metadata = :metadata WHERE seq = :seq
-- link.updated (query)
-- :seq
SELECT l.id, s.id, s.record_type, e.id, e.record_type, l.relation_type, l.opposite_relation_type, l.link_time, l.metadata, l.created_at FROM DEFAULT_LINK l JOIN DEFAULT_RECORD s ON s.seq = l.source_seq JOIN DEFAULT_RECORD e ON e.seq = l.target_seq WHERE l.seq = :seq