-- What the service wrote when it made a volume: how many bytes, and their SHA-256 in hex. Null for volumes of an older release.
ALTER TABLE volumes ADD COLUMN made_size BIGINT;
ALTER TABLE volumes ADD COLUMN made_sha256 TEXT;
