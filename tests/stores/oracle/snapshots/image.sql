-- image.delete (dml)
-- :id0
DELETE FROM DEFAULT_IMAGE WHERE record_seq IN (SELECT r.seq FROM DEFAULT_RECORD r WHERE (r.id IN (:id0)))
-- image.insert (many)
-- :data blob, :height, :mime_type, :record_id, :size_bytes, :width
INSERT INTO DEFAULT_IMAGE (record_seq, mime_type, width, height, size_bytes, data) VALUES ((SELECT r.seq FROM DEFAULT_RECORD r WHERE r.id = :record_id), :mime_type, :width, :height, :size_bytes, :data)
-- image.read (query)
-- :id0
SELECT r.id, i.mime_type, i.width, i.height, i.size_bytes, i.data FROM DEFAULT_RECORD r JOIN DEFAULT_IMAGE i ON i.record_seq = r.seq WHERE (r.id IN (:id0))
-- image.read (query)
-- :id0
SELECT r.id, i.mime_type, i.width, i.height, i.size_bytes FROM DEFAULT_RECORD r JOIN DEFAULT_IMAGE i ON i.record_seq = r.seq WHERE (r.id IN (:id0))