CREATE INDEX resource_providers_by_parent ON resource_providers (parent_uuid);
