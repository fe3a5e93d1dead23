-- Offers of volumes to other projects. The key that the offer's taker must know is kept as its SHA-256 in hex only.
CREATE TABLE volume_transfers (
    id TEXT PRIMARY KEY NOT NULL,
    volume_id TEXT NOT NULL UNIQUE REFERENCES volumes (id),
    name TEXT,
    project_id TEXT NOT NULL,
    key_sha256 TEXT NOT NULL,
    no_snapshots BOOLEAN NOT NULL,
    created_at TIMESTAMP NOT NULL
);
CREATE INDEX volume_transfers_project ON volume_transfers (project_id);
