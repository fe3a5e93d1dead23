-- Backups of volumes, which outlive them; their bytes are files beside those of the volumes. metadata, image_metadata: JSON.
CREATE TABLE volume_backups (
    id TEXT PRIMARY KEY NOT NULL,
    volume_id TEXT NOT NULL,
    snapshot_id TEXT,
    name TEXT,
    description TEXT,
    container TEXT NOT NULL,
    project_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    status TEXT NOT NULL,
    fail_reason TEXT,
    size_gb INTEGER NOT NULL,
    bootable BOOLEAN NOT NULL,
    image_id TEXT,
    image_metadata TEXT,
    metadata TEXT NOT NULL,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL,
    made_size BIGINT,
    made_sha256 TEXT
);
CREATE INDEX volume_backups_project ON volume_backups (project_id);
