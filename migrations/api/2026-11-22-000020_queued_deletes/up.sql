-- Who asked for the delete of a server that nobody can reach yet; none when nothing waits to be carried out.
ALTER TABLE instance_mappings ADD COLUMN delete_request TEXT;
CREATE INDEX instance_mappings_to_delete ON instance_mappings (cell_uuid, id) WHERE delete_request IS NOT NULL;
-- The backfill of rows that an older release wrote.
CREATE INDEX instance_mappings_unknown ON instance_mappings (cell_uuid, id) WHERE queued_for_delete IS NULL;
