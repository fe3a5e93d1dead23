-- Placement: providers with inventories, and what consumers take of them. `inventories.used` is the sum of the allocations
-- of that class, kept in the same transaction so that capacity is checked without a recount.
CREATE TABLE resource_providers (
    uuid TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL UNIQUE,
    generation BIGINT NOT NULL,
    parent_uuid TEXT REFERENCES resource_providers (uuid)
);
CREATE TABLE inventories (
    provider_uuid TEXT NOT NULL REFERENCES resource_providers (uuid),
    resource_class TEXT NOT NULL,
    total BIGINT NOT NULL,
    reserved BIGINT NOT NULL,
    min_unit BIGINT NOT NULL,
    max_unit BIGINT NOT NULL,
    step_size BIGINT NOT NULL,
    allocation_ratio REAL NOT NULL,
    used BIGINT NOT NULL CHECK (used >= 0),
    PRIMARY KEY (provider_uuid, resource_class)
);
CREATE TABLE provider_traits (
    provider_uuid TEXT NOT NULL REFERENCES resource_providers (uuid),
    name TEXT NOT NULL,
    PRIMARY KEY (provider_uuid, name)
);
CREATE INDEX provider_traits_by_name ON provider_traits (name);
CREATE TABLE provider_aggregates (
    provider_uuid TEXT NOT NULL REFERENCES resource_providers (uuid),
    aggregate_uuid TEXT NOT NULL,
    PRIMARY KEY (provider_uuid, aggregate_uuid)
);
CREATE TABLE consumers (
    uuid TEXT PRIMARY KEY NOT NULL,
    project_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    consumer_type TEXT NOT NULL,
    generation BIGINT NOT NULL
);
CREATE INDEX consumers_by_project ON consumers (project_id);
CREATE TABLE allocations (
    consumer_uuid TEXT NOT NULL REFERENCES consumers (uuid),
    provider_uuid TEXT NOT NULL REFERENCES resource_providers (uuid),
    resource_class TEXT NOT NULL,
    used BIGINT NOT NULL CHECK (used > 0),
    PRIMARY KEY (consumer_uuid, provider_uuid, resource_class)
);
CREATE INDEX allocations_by_provider ON allocations (provider_uuid);
CREATE TABLE custom_traits (
    name TEXT PRIMARY KEY NOT NULL
);
CREATE TABLE custom_resource_classes (
    name TEXT PRIMARY KEY NOT NULL
);
