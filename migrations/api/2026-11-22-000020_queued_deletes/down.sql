DROP INDEX instance_mappings_unknown;
DROP INDEX instance_mappings_to_delete;
ALTER TABLE instance_mappings DROP COLUMN delete_request;
