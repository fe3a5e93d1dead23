-- The embedded image service's records; the bytes are files. properties, tags: JSON.
CREATE TABLE images (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT,
    status TEXT NOT NULL,
    visibility TEXT NOT NULL,
    owner TEXT NOT NULL,
    disk_format TEXT,
    container_format TEXT,
    min_disk INTEGER NOT NULL,
    min_ram INTEGER NOT NULL,
    size BIGINT,
    os_hash_value TEXT,
    protected BOOLEAN NOT NULL,
    properties TEXT NOT NULL,
    tags TEXT NOT NULL,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL
);
CREATE INDEX images_owner ON images (owner);
-- Projects that a shared image is shared with; status is `pending`, `accepted` or `rejected`.
CREATE TABLE image_members (
    image_id TEXT NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    member_id TEXT NOT NULL,
    status TEXT NOT NULL,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL,
    PRIMARY KEY (image_id, member_id)
);
