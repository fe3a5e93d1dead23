-- Attachments that users record through the volume API, beside those of the compute service. server_uuid or host is set.
CREATE TABLE volume_direct_attachments (
    id TEXT PRIMARY KEY NOT NULL,
    volume_id TEXT NOT NULL REFERENCES volumes (id),
    server_uuid TEXT,
    host TEXT,
    mountpoint TEXT NOT NULL,
    mode TEXT NOT NULL,
    attached_at TIMESTAMP NOT NULL
);
CREATE INDEX volume_direct_attachments_volume ON volume_direct_attachments (volume_id);
-- NULL until the flag is set, or a user records an attachment.
ALTER TABLE volumes ADD COLUMN readonly BOOLEAN;
-- What an administrator has set; NULL for none.
ALTER TABLE volumes ADD COLUMN migration_status TEXT;
