-- What a server's flavor takes of its project's quotas, beside the request spec that names the flavor, so that a project's use is one sum.
ALTER TABLE request_specs ADD COLUMN vcpus INTEGER NOT NULL DEFAULT 0;
ALTER TABLE request_specs ADD COLUMN memory_mb INTEGER NOT NULL DEFAULT 0;
UPDATE request_specs SET vcpus = COALESCE(json_extract(spec, '$.flavor.vcpus'), 0), memory_mb = COALESCE(json_extract(spec, '$.flavor.memory_mb'), 0);
