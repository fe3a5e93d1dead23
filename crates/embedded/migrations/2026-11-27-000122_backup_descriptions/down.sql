ALTER TABLE volume_backups DROP COLUMN volume_name;
ALTER TABLE volume_backups DROP COLUMN volume_description;
ALTER TABLE volume_backups DROP COLUMN volume_metadata;
