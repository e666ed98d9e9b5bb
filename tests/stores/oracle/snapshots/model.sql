-- model.embed (query)
-- :content
SELECT VECTOR_EMBEDDING(MINILM USING :content AS DATA) FROM dual