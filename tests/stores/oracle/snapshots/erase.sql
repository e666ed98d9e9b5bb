-- erase.find_chunk (query)
-- :sample0, :sample1
SELECT DISTINCT x.record_seq FROM DEFAULT_CHUNK x WHERE (x.record_seq IN (:sample0, :sample1))
-- erase.find_image (query)
-- :sample0, :sample1
SELECT DISTINCT x.record_seq FROM DEFAULT_IMAGE x WHERE (x.record_seq IN (:sample0, :sample1))
-- erase.find_job (query)
-- :sample0
SELECT DISTINCT x.thread_id FROM DEFAULT_JOB x WHERE (x.thread_id IN (:sample0))
-- erase.find_link_from (query)
-- :sample0, :sample1
SELECT DISTINCT x.source_seq FROM DEFAULT_LINK x WHERE (x.source_seq IN (:sample0, :sample1))
-- erase.find_link_to (query)
-- :sample0, :sample1
SELECT DISTINCT x.target_seq FROM DEFAULT_LINK x WHERE (x.target_seq IN (:sample0, :sample1))
-- erase.find_record (query)
-- :sample0, :sample1
SELECT DISTINCT x.id FROM DEFAULT_RECORD x WHERE (x.id IN (:sample0, :sample1))
-- erase.find_source (query)
-- :sample0, :sample1
SELECT DISTINCT x.record_seq FROM DEFAULT_SOURCE x WHERE (x.record_seq IN (:sample0, :sample1))
-- erase.find_source_of (query)
-- :sample0, :sample1
SELECT DISTINCT x.message_id FROM DEFAULT_SOURCE x WHERE (x.message_id IN (:sample0, :sample1))
-- erase.find_summary (query)
-- :sample0
SELECT DISTINCT x.thread_id FROM DEFAULT_SUMMARY x WHERE (x.thread_id IN (:sample0))
-- erase.find_thread (query)
-- :sample0
SELECT DISTINCT x.id FROM DEFAULT_THREAD x WHERE (x.id IN (:sample0))
-- erase.note (dml)
-- :detail json, :now, :subject json
INSERT INTO DEFAULT_AUDIT (happened_at, action, subject, detail) VALUES (:now, 'forget', :subject, :detail)
-- erase.optimize_hybrid_index (block)
BEGIN CTX_DDL.SYNC_INDEX('DEFAULT_RECORD_HYBRID_INDEX'); CTX_DDL.OPTIMIZE_INDEX('DEFAULT_RECORD_HYBRID_INDEX', 'FULL'); END;
-- erase.optimize_text_index (block)
BEGIN CTX_DDL.SYNC_INDEX('DEFAULT_CHUNK_TEXT_INDEX'); CTX_DDL.OPTIMIZE_INDEX('DEFAULT_CHUNK_TEXT_INDEX', 'FULL'); END;