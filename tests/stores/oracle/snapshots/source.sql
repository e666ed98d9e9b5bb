-- source.add (many)
-- :message_id string, :record_id string
INSERT INTO DEFAULT_SOURCE (record_seq, position, message_id) SELECT r.seq, (SELECT MAX(p.position) + 1 FROM DEFAULT_SOURCE p WHERE p.record_seq = r.seq), :message_id FROM DEFAULT_RECORD r WHERE r.id = :record_id AND EXISTS (SELECT 1 FROM DEFAULT_SOURCE s WHERE s.record_seq = r.seq) AND NOT EXISTS (SELECT 1 FROM DEFAULT_SOURCE o WHERE o.record_seq = r.seq AND o.message_id = :message_id)
-- source.delete (dml)
-- :seq
DELETE FROM DEFAULT_SOURCE WHERE record_seq = :seq
-- source.insert (many)
-- :message_id, :position, :record_id
INSERT INTO DEFAULT_SOURCE (record_seq, position, message_id) VALUES ((SELECT r.seq FROM DEFAULT_RECORD r WHERE r.id = :record_id), :position, :message_id)
-- source.lock_records (query)
-- :id0
SELECT r.seq FROM DEFAULT_RECORD r WHERE (r.id IN (:id0)) ORDER BY r.seq FOR UPDATE