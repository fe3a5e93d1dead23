-- Where everything is, and what is shared by all cells.
-- COLLATE "C": text sorts by its bytes, as on SQLite and as the merge over cells compares it.
CREATE TABLE cell_mappings (
    id SERIAL PRIMARY KEY NOT NULL,
    uuid TEXT COLLATE "C" NOT NULL UNIQUE,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP,
    name TEXT COLLATE "C" NOT NULL UNIQUE,
    database_url TEXT COLLATE "C" NOT NULL,
    disabled BOOLEAN NOT NULL
);

CREATE TABLE host_mappings (
    id SERIAL PRIMARY KEY NOT NULL,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP,
    host TEXT COLLATE "C" NOT NULL UNIQUE,
    cell_uuid TEXT COLLATE "C" NOT NULL REFERENCES cell_mappings (uuid)
);
CREATE INDEX host_mappings_by_cell ON host_mappings (cell_uuid);

CREATE TABLE instance_mappings (
    id SERIAL PRIMARY KEY NOT NULL,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP,
    instance_uuid TEXT COLLATE "C" NOT NULL UNIQUE,
    cell_uuid TEXT COLLATE "C" REFERENCES cell_mappings (uuid),
    project_id TEXT COLLATE "C" NOT NULL,
    user_id TEXT COLLATE "C",
    queued_for_delete BOOLEAN
);
CREATE INDEX instance_mappings_by_cell ON instance_mappings (cell_uuid, project_id);
CREATE INDEX instance_mappings_by_owner ON instance_mappings (project_id, user_id);

CREATE TABLE request_specs (
    instance_uuid TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP,
    spec TEXT COLLATE "C" NOT NULL
);

CREATE TABLE build_requests (
    instance_uuid TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    created_at TIMESTAMP NOT NULL,
    project_id TEXT COLLATE "C" NOT NULL,
    instance TEXT COLLATE "C" NOT NULL
);
CREATE INDEX build_requests_by_project ON build_requests (project_id);
