-- What a backup's volume was called and said of itself, which a restore brings back. volume_metadata: JSON; null in backups of earlier releases.
ALTER TABLE volume_backups ADD COLUMN volume_name TEXT;
ALTER TABLE volume_backups ADD COLUMN volume_description TEXT;
ALTER TABLE volume_backups ADD COLUMN volume_metadata TEXT;
