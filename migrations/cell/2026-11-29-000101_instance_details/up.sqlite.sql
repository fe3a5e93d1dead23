-- Values of a server that lists seldom look at are one JSON object. SQLite would write the table once for each column that goes, so it is
-- written anew.
CREATE TABLE instances_anew (
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
    image_ref TEXT NOT NULL,
    key_name TEXT,
    locked BOOLEAN NOT NULL,
    locked_by TEXT,
    launched_at TIMESTAMP,
    terminated_at TIMESTAMP,
    root_device_name TEXT,
    access_ip_v4 TEXT,
    access_ip_v6 TEXT,
    user_data TEXT,
    details TEXT NOT NULL
);
INSERT INTO instances_anew (
    id, uuid, created_at, updated_at, deleted_at, deleted, hidden, project_id, user_id, display_name,
    display_description, hostname, host, node, availability_zone, vm_state, task_state, power_state, progress, flavor,
    flavor_id, image_ref, key_name, locked, locked_by, launched_at, terminated_at, root_device_name, access_ip_v4,
    access_ip_v6, user_data, details
)
SELECT
    id, uuid, created_at, updated_at, deleted_at, deleted, hidden, project_id, user_id, display_name,
    display_description, hostname, host, node, availability_zone, vm_state, task_state, power_state, progress, flavor,
    flavor_id, image_ref, key_name, locked, locked_by, launched_at, terminated_at, root_device_name, access_ip_v4,
    access_ip_v6, user_data,
    json_object(
        'key_data', key_data,
        'locked_reason', locked_reason,
        'reservation_id', reservation_id,
        'launch_index', launch_index,
        'config_drive', json(CASE WHEN config_drive THEN 'true' ELSE 'false' END),
        'auto_disk_config', json(CASE WHEN auto_disk_config THEN 'true' ELSE 'false' END),
        'old_flavor', json(old_flavor),
        'new_flavor', json(new_flavor),
        'old_vm_state', old_vm_state,
        'injected_files', json(injected_files),
        'system_metadata', json(system_metadata),
        'security_groups', json(security_groups),
        'trusted_certs', json(trusted_certs),
        'keypair', json(keypair)
    )
FROM instances;
-- The number of a removed server is not given again.
DELETE FROM sqlite_sequence WHERE name = 'instances_anew';
INSERT INTO sqlite_sequence (name, seq) SELECT 'instances_anew', seq FROM sqlite_sequence WHERE name = 'instances';
DROP TABLE instances;
ALTER TABLE instances_anew RENAME TO instances;
CREATE INDEX instances_by_project ON instances (project_id, deleted, created_at, uuid);
CREATE INDEX instances_by_host ON instances (host, deleted);
CREATE INDEX instances_by_creation ON instances (deleted, created_at, uuid);
CREATE INDEX instances_by_update ON instances (updated_at);
