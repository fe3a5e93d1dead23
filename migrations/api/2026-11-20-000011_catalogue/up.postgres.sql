-- What users and operators define once for all cells.
-- COLLATE "C": text sorts by its bytes, as on SQLite and as the merge over cells compares it.
CREATE TABLE flavors (
    id SERIAL PRIMARY KEY NOT NULL,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP,
    flavorid TEXT COLLATE "C" NOT NULL UNIQUE,
    name TEXT COLLATE "C" NOT NULL UNIQUE,
    vcpus INTEGER NOT NULL,
    memory_mb INTEGER NOT NULL,
    root_gb INTEGER NOT NULL,
    ephemeral_gb INTEGER NOT NULL,
    swap_mb INTEGER NOT NULL,
    rxtx_factor DOUBLE PRECISION NOT NULL,
    extra_specs TEXT COLLATE "C" NOT NULL,
    is_public BOOLEAN NOT NULL,
    disabled BOOLEAN NOT NULL,
    description TEXT COLLATE "C"
);

CREATE TABLE flavor_projects (
    flavor_id INTEGER NOT NULL REFERENCES flavors (id) ON DELETE CASCADE,
    project_id TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (flavor_id, project_id)
);

CREATE TABLE key_pairs (
    id SERIAL PRIMARY KEY NOT NULL,
    created_at TIMESTAMP NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    fingerprint TEXT COLLATE "C" NOT NULL,
    public_key TEXT COLLATE "C" NOT NULL,
    key_type TEXT COLLATE "C" NOT NULL,
    UNIQUE (user_id, name)
);

CREATE TABLE server_groups (
    id SERIAL PRIMARY KEY NOT NULL,
    uuid TEXT COLLATE "C" NOT NULL UNIQUE,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP,
    project_id TEXT COLLATE "C" NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    policy TEXT COLLATE "C" NOT NULL,
    rules TEXT COLLATE "C" NOT NULL
);
CREATE INDEX server_groups_by_project ON server_groups (project_id);

CREATE TABLE server_group_members (
    id SERIAL PRIMARY KEY NOT NULL,
    group_uuid TEXT COLLATE "C" NOT NULL REFERENCES server_groups (uuid) ON DELETE CASCADE,
    instance_uuid TEXT COLLATE "C" NOT NULL UNIQUE
);
CREATE INDEX server_group_members_by_group ON server_group_members (group_uuid);

CREATE TABLE aggregates (
    id SERIAL PRIMARY KEY NOT NULL,
    uuid TEXT COLLATE "C" NOT NULL UNIQUE,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP,
    name TEXT COLLATE "C" NOT NULL UNIQUE
);

CREATE TABLE aggregate_hosts (
    aggregate_id INTEGER NOT NULL REFERENCES aggregates (id) ON DELETE CASCADE,
    host TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (aggregate_id, host)
);
CREATE INDEX aggregate_hosts_by_host ON aggregate_hosts (host);

CREATE TABLE aggregate_metadata (
    aggregate_id INTEGER NOT NULL REFERENCES aggregates (id) ON DELETE CASCADE,
    key TEXT COLLATE "C" NOT NULL,
    value TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (aggregate_id, key)
);
