-- What users and operators define once for all cells.
CREATE TABLE flavors (
    id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP,
    flavorid TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL UNIQUE,
    vcpus INTEGER NOT NULL,
    memory_mb INTEGER NOT NULL,
    root_gb INTEGER NOT NULL,
    ephemeral_gb INTEGER NOT NULL,
    swap_mb INTEGER NOT NULL,
    rxtx_factor DOUBLE PRECISION NOT NULL,
    extra_specs TEXT NOT NULL,
    is_public BOOLEAN NOT NULL,
    disabled BOOLEAN NOT NULL,
    description TEXT
);

CREATE TABLE flavor_projects (
    flavor_id INTEGER NOT NULL REFERENCES flavors (id) ON DELETE CASCADE,
    project_id TEXT NOT NULL,
    PRIMARY KEY (flavor_id, project_id)
);

CREATE TABLE key_pairs (
    id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    created_at TIMESTAMP NOT NULL,
    user_id TEXT NOT NULL,
    name TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    public_key TEXT NOT NULL,
    key_type TEXT NOT NULL,
    UNIQUE (user_id, name)
);

CREATE TABLE server_groups (
    id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    uuid TEXT NOT NULL UNIQUE,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP,
    project_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    name TEXT NOT NULL,
    policy TEXT NOT NULL,
    rules TEXT NOT NULL
);
CREATE INDEX server_groups_by_project ON server_groups (project_id);

CREATE TABLE server_group_members (
    id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    group_uuid TEXT NOT NULL REFERENCES server_groups (uuid) ON DELETE CASCADE,
    instance_uuid TEXT NOT NULL UNIQUE
);
CREATE INDEX server_group_members_by_group ON server_group_members (group_uuid);

CREATE TABLE aggregates (
    id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    uuid TEXT NOT NULL UNIQUE,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP,
    name TEXT NOT NULL UNIQUE
);

CREATE TABLE aggregate_hosts (
    aggregate_id INTEGER NOT NULL REFERENCES aggregates (id) ON DELETE CASCADE,
    host TEXT NOT NULL,
    PRIMARY KEY (aggregate_id, host)
);
CREATE INDEX aggregate_hosts_by_host ON aggregate_hosts (host);

CREATE TABLE aggregate_metadata (
    aggregate_id INTEGER NOT NULL REFERENCES aggregates (id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (aggregate_id, key)
);
