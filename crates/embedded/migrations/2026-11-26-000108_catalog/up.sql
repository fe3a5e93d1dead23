-- What administrators add to the catalog, beside the services, endpoints and region that are built in.
CREATE TABLE catalog_regions (
    id TEXT PRIMARY KEY NOT NULL,
    description TEXT NOT NULL,
    parent_region_id TEXT
);
CREATE TABLE catalog_services (
    id TEXT PRIMARY KEY NOT NULL,
    service_type TEXT NOT NULL,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    enabled BOOLEAN NOT NULL
);
-- The service or the region may be a built-in one, which has no row.
CREATE TABLE catalog_endpoints (
    id TEXT PRIMARY KEY NOT NULL,
    service_id TEXT NOT NULL,
    region_id TEXT,
    interface TEXT NOT NULL,
    url TEXT NOT NULL,
    enabled BOOLEAN NOT NULL
);
