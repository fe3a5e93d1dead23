-- Servers of this cell and what belongs to each of them.
-- COLLATE "C": text sorts by its bytes, as on SQLite and as the merge over cells compares it.
CREATE TABLE instances (
    id SERIAL PRIMARY KEY NOT NULL,
    uuid TEXT COLLATE "C" NOT NULL UNIQUE,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP,
    deleted_at TIMESTAMP,
    deleted BOOLEAN NOT NULL,
    hidden BOOLEAN,
    project_id TEXT COLLATE "C" NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    display_name TEXT COLLATE "C" NOT NULL,
    display_description TEXT COLLATE "C",
    hostname TEXT COLLATE "C",
    host TEXT COLLATE "C",
    node TEXT COLLATE "C",
    availability_zone TEXT COLLATE "C",
    vm_state TEXT COLLATE "C" NOT NULL,
    task_state TEXT COLLATE "C",
    power_state INTEGER NOT NULL,
    progress INTEGER NOT NULL,
    flavor TEXT COLLATE "C" NOT NULL,
    flavor_id TEXT COLLATE "C" NOT NULL,
    old_flavor TEXT COLLATE "C",
    new_flavor TEXT COLLATE "C",
    old_vm_state TEXT COLLATE "C",
    image_ref TEXT COLLATE "C" NOT NULL,
    key_name TEXT COLLATE "C",
    key_data TEXT COLLATE "C",
    config_drive BOOLEAN NOT NULL,
    locked BOOLEAN NOT NULL,
    locked_by TEXT COLLATE "C",
    locked_reason TEXT COLLATE "C",
    launched_at TIMESTAMP,
    terminated_at TIMESTAMP,
    launch_index INTEGER NOT NULL,
    reservation_id TEXT COLLATE "C",
    root_device_name TEXT COLLATE "C",
    access_ip_v4 TEXT COLLATE "C",
    access_ip_v6 TEXT COLLATE "C",
    user_data TEXT COLLATE "C",
    injected_files TEXT COLLATE "C" NOT NULL,
    system_metadata TEXT COLLATE "C" NOT NULL,
    security_groups TEXT COLLATE "C" NOT NULL,
    trusted_certs TEXT COLLATE "C",
    keypair TEXT COLLATE "C",
    auto_disk_config BOOLEAN NOT NULL
);
CREATE INDEX instances_by_project ON instances (project_id, deleted, created_at, uuid);
CREATE INDEX instances_by_host ON instances (host, deleted);
CREATE INDEX instances_by_creation ON instances (deleted, created_at, uuid);
CREATE INDEX instances_by_update ON instances (updated_at);

CREATE TABLE instance_metadata (
    instance_uuid TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    value TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (instance_uuid, key)
);

CREATE TABLE tags (
    instance_uuid TEXT COLLATE "C" NOT NULL,
    tag TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (instance_uuid, tag)
);
CREATE INDEX tags_by_tag ON tags (tag);

CREATE TABLE instance_info_caches (
    instance_uuid TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    network_info TEXT COLLATE "C" NOT NULL,
    updated_at TIMESTAMP NOT NULL
);

CREATE TABLE block_device_mappings (
    id SERIAL PRIMARY KEY NOT NULL,
    uuid TEXT COLLATE "C" NOT NULL UNIQUE,
    instance_uuid TEXT COLLATE "C" NOT NULL,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP,
    boot_index INTEGER,
    device_name TEXT COLLATE "C",
    source_type TEXT COLLATE "C" NOT NULL,
    destination_type TEXT COLLATE "C" NOT NULL,
    volume_id TEXT COLLATE "C",
    attachment_id TEXT COLLATE "C",
    connection_info TEXT COLLATE "C",
    volume_size INTEGER,
    volume_type TEXT COLLATE "C",
    delete_on_termination BOOLEAN NOT NULL,
    image_id TEXT COLLATE "C",
    snapshot_id TEXT COLLATE "C",
    tag TEXT COLLATE "C",
    no_device BOOLEAN NOT NULL,
    disk_bus TEXT COLLATE "C",
    device_type TEXT COLLATE "C",
    guest_format TEXT COLLATE "C"
);
CREATE INDEX block_device_mappings_by_instance ON block_device_mappings (instance_uuid);
CREATE INDEX block_device_mappings_by_volume ON block_device_mappings (volume_id);

CREATE TABLE virtual_interfaces (
    id SERIAL PRIMARY KEY NOT NULL,
    port_id TEXT COLLATE "C" NOT NULL,
    instance_uuid TEXT COLLATE "C" NOT NULL,
    created_at TIMESTAMP NOT NULL,
    address TEXT COLLATE "C" NOT NULL,
    network_id TEXT COLLATE "C" NOT NULL,
    tag TEXT COLLATE "C",
    UNIQUE (instance_uuid, port_id)
);

CREATE TABLE instance_faults (
    id SERIAL PRIMARY KEY NOT NULL,
    instance_uuid TEXT COLLATE "C" NOT NULL,
    created_at TIMESTAMP NOT NULL,
    code INTEGER NOT NULL,
    message TEXT COLLATE "C" NOT NULL,
    details TEXT COLLATE "C",
    host TEXT COLLATE "C"
);
CREATE INDEX instance_faults_by_instance ON instance_faults (instance_uuid, id);

CREATE TABLE migrations (
    id SERIAL PRIMARY KEY NOT NULL,
    uuid TEXT COLLATE "C" NOT NULL UNIQUE,
    instance_uuid TEXT COLLATE "C" NOT NULL,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP,
    migration_type TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    source_compute TEXT COLLATE "C" NOT NULL,
    source_node TEXT COLLATE "C" NOT NULL,
    dest_compute TEXT COLLATE "C",
    dest_node TEXT COLLATE "C",
    dest_host TEXT COLLATE "C",
    old_flavor_id TEXT COLLATE "C" NOT NULL,
    new_flavor_id TEXT COLLATE "C" NOT NULL,
    old_instance_type_id INTEGER NOT NULL,
    new_instance_type_id INTEGER NOT NULL,
    cross_cell_move BOOLEAN NOT NULL,
    hidden BOOLEAN NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    project_id TEXT COLLATE "C" NOT NULL
);
CREATE INDEX migrations_by_instance ON migrations (instance_uuid, status);
CREATE INDEX migrations_by_creation ON migrations (created_at, uuid);
CREATE INDEX migrations_by_status ON migrations (status, updated_at);

CREATE TABLE migration_contexts (
    instance_uuid TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    migration_id INTEGER NOT NULL,
    context TEXT COLLATE "C" NOT NULL
);

CREATE TABLE instance_actions (
    id SERIAL PRIMARY KEY NOT NULL,
    instance_uuid TEXT COLLATE "C" NOT NULL,
    request_id TEXT COLLATE "C" NOT NULL,
    action TEXT COLLATE "C" NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    project_id TEXT COLLATE "C" NOT NULL,
    start_time TIMESTAMP NOT NULL,
    finish_time TIMESTAMP,
    updated_at TIMESTAMP NOT NULL,
    message TEXT COLLATE "C",
    UNIQUE (instance_uuid, request_id, action)
);
CREATE INDEX instance_actions_by_update ON instance_actions (instance_uuid, updated_at);

CREATE TABLE instance_action_events (
    id SERIAL PRIMARY KEY NOT NULL,
    action_id INTEGER NOT NULL REFERENCES instance_actions (id) ON DELETE CASCADE,
    event TEXT COLLATE "C" NOT NULL,
    start_time TIMESTAMP NOT NULL,
    finish_time TIMESTAMP,
    result TEXT COLLATE "C",
    traceback TEXT COLLATE "C",
    host TEXT COLLATE "C",
    details TEXT COLLATE "C"
);
CREATE INDEX instance_action_events_by_action ON instance_action_events (action_id);
