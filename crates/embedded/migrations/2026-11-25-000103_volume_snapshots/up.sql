-- Snapshots of volumes; their bytes are files beside those of the volumes. metadata, image_metadata: JSON.
CREATE TABLE volume_snapshots (
    id TEXT PRIMARY KEY NOT NULL,
    volume_id TEXT NOT NULL REFERENCES volumes (id),
    name TEXT,
    description TEXT,
    project_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    status TEXT NOT NULL,
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
CREATE INDEX volume_snapshots_project ON volume_snapshots (project_id);
CREATE INDEX volume_snapshots_volume ON volume_snapshots (volume_id);
-- The snapshot or volume that a volume was made from.
ALTER TABLE volumes ADD COLUMN snapshot_id TEXT;
ALTER TABLE volumes ADD COLUMN source_volid TEXT;
