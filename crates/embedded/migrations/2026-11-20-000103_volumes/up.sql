-- The embedded volume service's records; the bytes are files. metadata, connection_info: JSON.
CREATE TABLE volumes (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT,
    description TEXT,
    project_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    status TEXT NOT NULL,
    size_gb INTEGER NOT NULL,
    bootable BOOLEAN NOT NULL,
    multiattach BOOLEAN NOT NULL,
    availability_zone TEXT NOT NULL,
    volume_type TEXT,
    image_id TEXT,
    metadata TEXT NOT NULL,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL
);
CREATE INDEX volumes_project ON volumes (project_id);
CREATE TABLE volume_attachments (
    id TEXT PRIMARY KEY NOT NULL,
    volume_id TEXT NOT NULL REFERENCES volumes (id),
    server_uuid TEXT NOT NULL,
    host TEXT,
    status TEXT NOT NULL,
    mountpoint TEXT,
    connection_info TEXT NOT NULL,
    created_at TIMESTAMP NOT NULL,
    attached_at TIMESTAMP
);
CREATE INDEX volume_attachments_volume ON volume_attachments (volume_id);
CREATE INDEX volume_attachments_server ON volume_attachments (server_uuid);
-- -1 is without limit, and so is a row that is not there.
CREATE TABLE volume_quotas (
    project_id TEXT NOT NULL,
    resource TEXT NOT NULL,
    hard_limit BIGINT NOT NULL,
    PRIMARY KEY (project_id, resource)
);
