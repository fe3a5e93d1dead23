ALTER TABLE request_specs DROP COLUMN memory_mb;
ALTER TABLE request_specs DROP COLUMN vcpus;
