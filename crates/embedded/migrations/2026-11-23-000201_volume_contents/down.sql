ALTER TABLE volumes DROP COLUMN made_sha256;
ALTER TABLE volumes DROP COLUMN made_size;
