-- meta.read (query)
-- :name
SELECT m.value FROM DEFAULT_META m WHERE m.name = :name