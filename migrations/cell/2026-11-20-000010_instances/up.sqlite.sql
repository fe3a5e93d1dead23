-- Servers of this cell and what belongs to each of them.
CREATE TABLE instances (
    id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    uuid TEXT NOT NULL UNIQUE,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP,
    deleted_at TIMESTAMP,
    deleted BOOLEAN NOT NULL,
    hidden BOOLEAN,
    project_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    display_name TEXT NOT NULL,
    display_description TEXT,
    hostname TEXT,
    host TEXT,
    node TEXT,
    availability_zone TEXT,
    vm_state TEXT NOT NULL,
    task_state TEXT,
    power_state INTEGER NOT NULL,
    progress INTEGER NOT NULL,
    flavor TEXT NOT NULL,
    flavor_id TEXT NOT NULL,
    old_flavor TEXT,
    new_flavor TEXT,
    old_vm_state TEXT,
    image_ref TEXT NOT NULL,
    key_name TEXT,
    key_data TEXT,
    config_drive BOOLEAN NOT NULL,
    locked BOOLEAN NOT NULL,
    locked_by TEXT,
    locked_reason TEXT,
    launched_at TIMESTAMP,
    terminated_at TIMESTAMP,
    launch_index INTEGER NOT NULL,
    reservation_id TEXT,
    root_device_name TEXT,
    access_ip_v4 TEXT,
    access_ip_v6 TEXT,
    user_data TEXT,
    injected_files TEXT NOT NULL,
    system_metadata TEXT NOT NULL,
    security_groups TEXT NOT NULL,
    trusted_certs TEXT,
    keypair TEXT,
    auto_disk_config BOOLEAN NOT NULL
);
CREATE INDEX instances_by_project ON instances (project_id, deleted, created_at, uuid);
CREATE INDEX instances_by_host ON instances (host, deleted);
CREATE INDEX instances_by_creation ON instances (deleted, created_at, uuid);
CREATE INDEX instances_by_update ON instances (updated_at);

CREATE TABLE instance_metadata (
    instance_uuid TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (instance_uuid, key)
);

CREATE TABLE tags (
    instance_uuid TEXT NOT NULL,
    tag TEXT NOT NULL,
    PRIMARY KEY (instance_uuid, tag)
);
CREATE INDEX tags_by_tag ON tags (tag);

CREATE TABLE instance_info_caches (
    instance_uuid TEXT PRIMARY KEY NOT NULL,
    network_info TEXT NOT NULL,
    updated_at TIMESTAMP NOT NULL
);

CREATE TABLE block_device_mappings (
    id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    uuid TEXT NOT NULL UNIQUE,
    instance_uuid TEXT NOT NULL,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP,
    boot_index INTEGER,
    device_name TEXT,
    source_type TEXT NOT NULL,
    destination_type TEXT NOT NULL,
    volume_id TEXT,
    attachment_id TEXT,
    connection_info TEXT,
    volume_size INTEGER,
    volume_type TEXT,
    delete_on_termination BOOLEAN NOT NULL,
    image_id TEXT,
    snapshot_id TEXT,
    tag TEXT,
    no_device BOOLEAN NOT NULL,
    disk_bus TEXT,
    device_type TEXT,
    guest_format TEXT
);
CREATE INDEX block_device_mappings_by_instance ON block_device_mappings (instance_uuid);
CREATE INDEX block_device_mappings_by_volume ON block_device_mappings (volume_id);

CREATE TABLE virtual_interfaces (
    id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    port_id TEXT NOT NULL,
    instance_uuid TEXT NOT NULL,
    created_at TIMESTAMP NOT NULL,
    address TEXT NOT NULL,
    network_id TEXT NOT NULL,
    tag TEXT,
    UNIQUE (instance_uuid, port_id)
);

CREATE TABLE instance_faults (
    id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    instance_uuid TEXT NOT NULL,
    created_at TIMESTAMP NOT NULL,
    code INTEGER NOT NULL,
    message TEXT NOT NULL,
    details TEXT,
    host TEXT
);
CREATE INDEX instance_faults_by_instance ON instance_faults (instance_uuid, id);

CREATE TABLE migrations (
    id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    uuid TEXT NOT NULL UNIQUE,
    instance_uuid TEXT NOT NULL,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP,
    migration_type TEXT NOT NULL,
    status TEXT NOT NULL,
    source_compute TEXT NOT NULL,
    source_node TEXT NOT NULL,
    dest_compute TEXT,
    dest_node TEXT,
    dest_host TEXT,
    old_flavor_id TEXT NOT NULL,
    new_flavor_id TEXT NOT NULL,
    old_instance_type_id INTEGER NOT NULL,
    new_instance_type_id INTEGER NOT NULL,
    cross_cell_move BOOLEAN NOT NULL,
    hidden BOOLEAN NOT NULL,
    user_id TEXT NOT NULL,
    project_id TEXT NOT NULL
);
CREATE INDEX migrations_by_instance ON migrations (instance_uuid, status);
CREATE INDEX migrations_by_creation ON migrations (created_at, uuid);
CREATE INDEX migrations_by_status ON migrations (status, updated_at);

CREATE TABLE migration_contexts (
    instance_uuid TEXT PRIMARY KEY NOT NULL,
    migration_id INTEGER NOT NULL,
    context TEXT NOT NULL
);

CREATE TABLE instance_actions (
    id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    instance_uuid TEXT NOT NULL,
    request_id TEXT NOT NULL,
    action TEXT NOT NULL,
    user_id TEXT NOT NULL,
    project_id TEXT NOT NULL,
    start_time TIMESTAMP NOT NULL,
    finish_time TIMESTAMP,
    updated_at TIMESTAMP NOT NULL,
    message TEXT,
    UNIQUE (instance_uuid, request_id, action)
);
CREATE INDEX instance_actions_by_update ON instance_actions (instance_uuid, updated_at);

CREATE TABLE instance_action_events (
    id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    action_id INTEGER NOT NULL REFERENCES instance_actions (id) ON DELETE CASCADE,
    event TEXT NOT NULL,
    start_time TIMESTAMP NOT NULL,
    finish_time TIMESTAMP,
    result TEXT,
    traceback TEXT,
    host TEXT,
    details TEXT
);
CREATE INDEX instance_action_events_by_action ON instance_action_events (action_id);
