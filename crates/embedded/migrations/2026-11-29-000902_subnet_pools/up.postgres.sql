-- Blocks that subnets are taken from. `prefixes` is a JSON list of blocks.
CREATE TABLE subnet_pools (
    number SERIAL PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    project_id TEXT NOT NULL,
    description TEXT NOT NULL,
    ip_version INTEGER NOT NULL,
    prefixes TEXT NOT NULL,
    default_prefixlen INTEGER NOT NULL,
    min_prefixlen INTEGER NOT NULL,
    max_prefixlen INTEGER NOT NULL,
    default_quota INTEGER,
    shared BOOLEAN NOT NULL,
    is_default BOOLEAN NOT NULL,
    tags TEXT NOT NULL,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL
);
CREATE UNIQUE INDEX default_subnet_pools ON subnet_pools (ip_version) WHERE is_default;
CREATE INDEX subnet_pools_by_project ON subnet_pools (project_id);
ALTER TABLE subnets ADD COLUMN subnetpool_id TEXT;
CREATE INDEX subnets_by_pool ON subnets (subnetpool_id);
