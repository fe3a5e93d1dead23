-- Values of a server that lists seldom look at are one JSON object. Changing the new column's type writes the table once and leaves no
-- old versions of its rows.
ALTER TABLE instances ADD COLUMN details JSON;
ALTER TABLE instances ALTER COLUMN details TYPE JSON USING json_build_object(
    'key_data', key_data,
    'locked_reason', locked_reason,
    'reservation_id', reservation_id,
    'launch_index', launch_index,
    'config_drive', config_drive,
    'auto_disk_config', auto_disk_config,
    'old_flavor', old_flavor::json,
    'new_flavor', new_flavor::json,
    'old_vm_state', old_vm_state,
    'injected_files', injected_files::json,
    'system_metadata', system_metadata::json,
    'security_groups', security_groups::json,
    'trusted_certs', trusted_certs::json,
    'keypair', keypair::json
);
ALTER TABLE instances
    ALTER COLUMN details SET NOT NULL,
    DROP COLUMN key_data,
    DROP COLUMN locked_reason,
    DROP COLUMN reservation_id,
    DROP COLUMN launch_index,
    DROP COLUMN config_drive,
    DROP COLUMN auto_disk_config,
    DROP COLUMN old_flavor,
    DROP COLUMN new_flavor,
    DROP COLUMN old_vm_state,
    DROP COLUMN injected_files,
    DROP COLUMN system_metadata,
    DROP COLUMN security_groups,
    DROP COLUMN trusted_certs,
    DROP COLUMN keypair;
