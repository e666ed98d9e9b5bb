-- job.count_open (query)
-- :kind0, :thread_id, :until_seq
SELECT COUNT(*) FROM DEFAULT_JOB j WHERE j.state IN ('ready', 'leased') AND j.thread_id = :thread_id AND j.seq <= :until_seq AND (j.kind IN (:kind0))
-- job.count_open (query)
SELECT COUNT(*) FROM DEFAULT_JOB j WHERE j.state IN ('ready', 'leased')
-- job.delete (dml)
-- :job_id
DELETE FROM DEFAULT_JOB WHERE id = :job_id
-- job.drop_held (dml)
-- :thread_id
DELETE FROM DEFAULT_JOB WHERE thread_id = :thread_id AND state = 'held'
-- job.drop_held (dml)
DELETE FROM DEFAULT_JOB WHERE thread_id IS NULL AND state = 'held'
-- job.due (query)
-- :after, :now, :rows_wanted
SELECT j.seq FROM DEFAULT_JOB j WHERE ((j.state = 'ready' AND j.run_after <= :now) OR (j.state = 'leased' AND j.lease_until <= :now)) AND j.seq > :after AND NOT EXISTS (SELECT 1 FROM DEFAULT_JOB e WHERE e.thread_id = j.thread_id AND e.seq < j.seq AND e.state IN ('ready', 'leased')) ORDER BY j.seq FETCH FIRST :rows_wanted ROWS ONLY
-- job.due (query)
-- :after, :kind0, :kind1, :kind2, :kind3, :now, :rows_wanted
SELECT j.seq FROM DEFAULT_JOB j WHERE ((j.state = 'ready' AND j.run_after <= :now) OR (j.state = 'leased' AND j.lease_until <= :now)) AND j.seq > :after AND (j.kind IN (:kind0, :kind1, :kind2, :kind3)) AND NOT EXISTS (SELECT 1 FROM DEFAULT_JOB e WHERE e.thread_id = j.thread_id AND e.seq < j.seq AND e.state IN ('ready', 'leased')) ORDER BY j.seq FETCH FIRST :rows_wanted ROWS ONLY
-- job.give_back (dml)
-- :error clob, :job_id, :now, :owner, :run_after, :state
UPDATE DEFAULT_JOB SET state = :state, lease_owner = NULL, lease_until = NULL, last_error = :error, run_after = :run_after, updated_at = :now WHERE id = :job_id AND lease_owner = :owner AND state = 'leased'
-- job.give_back (dml)
-- :job_id, :now, :owner, :state
UPDATE DEFAULT_JOB SET state = :state, lease_owner = NULL, lease_until = NULL, attempts = attempts - 1, updated_at = :now WHERE id = :job_id AND lease_owner = :owner AND state = 'leased'
-- job.held (query)
-- :job_id, :owner
SELECT j.thread_id FROM DEFAULT_JOB j WHERE j.id = :job_id AND j.lease_owner = :owner AND j.state = 'leased' FOR UPDATE
-- job.insert (many)
-- :id, :kind, :now timestamp, :payload json, :state, :thread_id string
INSERT INTO DEFAULT_JOB (id, kind, thread_id, payload, state, attempts, deaths, run_after, created_at, updated_at) VALUES (:id, :kind, :thread_id, :payload, :state, 0, 0, :now, :now, :now)
-- job.lease (dml)
-- :lease_until, :now, :owner, :seq0, :seq1
UPDATE DEFAULT_JOB SET state = 'leased', lease_owner = :owner, lease_until = :lease_until, attempts = attempts + 1, deaths = deaths + CASE state WHEN 'leased' THEN 1 ELSE 0 END, updated_at = :now WHERE (seq IN (:seq0, :seq1)) AND (state = 'ready' OR (state = 'leased' AND lease_until <= :now))
-- job.leased (query)
-- :lease_until, :owner, :seq0, :seq1
SELECT j.id, j.kind, j.thread_id, j.payload, j.state, j.attempts, j.run_after, j.lease_owner, j.lease_until, j.last_error, j.created_at, j.deaths FROM DEFAULT_JOB j WHERE (j.seq IN (:seq0, :seq1)) AND j.state = 'leased' AND j.lease_owner = :owner AND j.lease_until = :lease_until ORDER BY j.seq
-- job.leased_at (query)
-- :lease_until, :now, :owner
SELECT j.id, j.kind, j.thread_id, j.payload, j.state, j.attempts, j.run_after, j.lease_owner, j.lease_until, j.last_error, j.created_at, j.deaths FROM DEFAULT_JOB j WHERE j.state = 'leased' AND j.lease_owner = :owner AND j.lease_until = :lease_until AND j.updated_at = :now ORDER BY j.seq
-- job.list (query)
-- :rows_wanted, :state0, :thread_id
SELECT j.id, j.kind, j.thread_id, j.payload, j.state, j.attempts, j.run_after, j.lease_owner, j.lease_until, j.last_error, j.created_at, j.deaths FROM DEFAULT_JOB j WHERE j.thread_id = :thread_id AND (j.state IN (:state0)) ORDER BY j.seq FETCH FIRST :rows_wanted ROWS ONLY
-- job.list (query)
-- :rows_wanted, :state0, :state1, :state2, :state3
SELECT j.id, j.kind, j.thread_id, j.payload, j.state, j.attempts, j.run_after, j.lease_owner, j.lease_until, j.last_error, j.created_at, j.deaths FROM DEFAULT_JOB j WHERE (j.state IN (:state0, :state1, :state2, :state3)) ORDER BY j.seq FETCH FIRST :rows_wanted ROWS ONLY
-- job.list_dead (query)
SELECT j.seq FROM DEFAULT_JOB j WHERE j.state = 'dead'
-- job.lock_dead (query)
SELECT j.seq FROM DEFAULT_JOB j WHERE j.state = 'dead' ORDER BY j.seq FOR UPDATE
-- job.lock_due (query)
-- :now, :seq0, :seq1
SELECT j.seq FROM DEFAULT_JOB j WHERE (j.seq IN (:seq0, :seq1)) AND ((j.state = 'ready' AND j.run_after <= :now) OR (j.state = 'leased' AND j.lease_until <= :now)) AND NOT EXISTS (SELECT 1 FROM DEFAULT_JOB e WHERE e.thread_id = j.thread_id AND e.seq < j.seq AND e.state IN ('ready', 'leased')) ORDER BY j.seq FOR UPDATE SKIP LOCKED
-- job.lock_thread (query)
-- :job_id
SELECT th.id FROM DEFAULT_THREAD th WHERE th.id IN (SELECT j.thread_id FROM DEFAULT_JOB j WHERE j.id = :job_id) FOR UPDATE
-- job.newest (query)
SELECT COALESCE(MAX(j.seq), 0) FROM DEFAULT_JOB j
-- job.next_at (query)
SELECT MIN(CASE j.state WHEN 'leased' THEN j.lease_until ELSE j.run_after END) FROM DEFAULT_JOB j WHERE j.state IN ('ready', 'leased') AND NOT EXISTS (SELECT 1 FROM DEFAULT_JOB e WHERE e.thread_id = j.thread_id AND e.seq < j.seq AND e.state IN ('ready', 'leased'))
-- job.next_at (query)
-- :kind0
SELECT MIN(CASE j.state WHEN 'leased' THEN j.lease_until ELSE j.run_after END) FROM DEFAULT_JOB j WHERE j.state IN ('ready', 'leased') AND (j.kind IN (:kind0)) AND NOT EXISTS (SELECT 1 FROM DEFAULT_JOB e WHERE e.thread_id = j.thread_id AND e.seq < j.seq AND e.state IN ('ready', 'leased'))
-- job.read (query)
-- :job_id
SELECT j.id, j.kind, j.thread_id, j.payload, j.state, j.attempts, j.run_after, j.lease_owner, j.lease_until, j.last_error, j.created_at, j.deaths, j.updated_at FROM DEFAULT_JOB j WHERE j.id = :job_id
-- job.renew (dml)
-- :job_id, :lease_until, :owner
UPDATE DEFAULT_JOB SET lease_until = :lease_until WHERE id = :job_id AND lease_owner = :owner AND state = 'leased'
-- job.revive (dml)
-- :now, :seq0, :seq1, :seq2, :seq3
UPDATE DEFAULT_JOB SET state = 'ready', attempts = 0, deaths = 0, run_after = :now, updated_at = :now WHERE (seq IN (:seq0, :seq1, :seq2, :seq3)) AND state = 'dead'
-- job.taken (query)
-- :id0
SELECT j.id FROM DEFAULT_JOB j WHERE (j.id IN (:id0))