-- registry.insert (dml)
-- :new_applied json, :new_owner string, :new_settings json, :new_state, :new_until timestamp, :new_version, :now, :store
INSERT INTO AGENTMEMORY_STORE (store_id, schema_version, state, applied, settings, lease_owner, lease_until, created_at, updated_at) VALUES (:store, :new_version, :new_state, :new_applied, :new_settings, :new_owner, :new_until, :now, :now)
-- registry.lock (query)
-- :store
SELECT schema_version, state, applied, settings, lease_owner, lease_until FROM AGENTMEMORY_STORE WHERE store_id = :store FOR UPDATE
-- registry.read (query)
-- :store
SELECT schema_version, state, applied, settings, lease_owner, lease_until FROM AGENTMEMORY_STORE WHERE store_id = :store
-- registry.update (dml)
-- :new_applied json, :new_owner string, :new_settings json, :new_state, :new_until timestamp, :new_version, :now, :store
UPDATE AGENTMEMORY_STORE SET schema_version = :new_version, state = :new_state, applied = :new_applied, settings = :new_settings, lease_owner = :new_owner, lease_until = :new_until, updated_at = :now WHERE store_id = :store