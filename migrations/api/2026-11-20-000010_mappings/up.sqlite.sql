-- Where everything is, and what is shared by all cells.
CREATE TABLE cell_mappings (
    id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    uuid TEXT NOT NULL UNIQUE,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP,
    name TEXT NOT NULL UNIQUE,
    database_url TEXT NOT NULL,
    disabled BOOLEAN NOT NULL
);

CREATE TABLE host_mappings (
    id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP,
    host TEXT NOT NULL UNIQUE,
    cell_uuid TEXT NOT NULL REFERENCES cell_mappings (uuid)
);
CREATE INDEX host_mappings_by_cell ON host_mappings (cell_uuid);

CREATE TABLE instance_mappings (
    id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP,
    instance_uuid TEXT NOT NULL UNIQUE,
    cell_uuid TEXT REFERENCES cell_mappings (uuid),
    project_id TEXT NOT NULL,
    user_id TEXT,
    queued_for_delete BOOLEAN
);
CREATE INDEX instance_mappings_by_cell ON instance_mappings (cell_uuid, project_id);
CREATE INDEX instance_mappings_by_owner ON instance_mappings (project_id, user_id);

CREATE TABLE request_specs (
    instance_uuid TEXT PRIMARY KEY NOT NULL,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP,
    spec TEXT NOT NULL
);

CREATE TABLE build_requests (
    instance_uuid TEXT PRIMARY KEY NOT NULL,
    created_at TIMESTAMP NOT NULL,
    project_id TEXT NOT NULL,
    instance TEXT NOT NULL
);
CREATE INDEX build_requests_by_project ON build_requests (project_id);
