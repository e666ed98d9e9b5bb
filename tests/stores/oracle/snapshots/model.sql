-- model.embed (query)
-- :texts json
SELECT VECTOR_EMBEDDING(MINILM USING j.content AS DATA) FROM JSON_TABLE(:texts, '$[*]' COLUMNS (place FOR ORDINALITY, content VARCHAR2(4000 BYTE) PATH '$')) j ORDER BY j.place