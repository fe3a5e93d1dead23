ALTER TABLE volumes DROP COLUMN migration_status;
ALTER TABLE volumes DROP COLUMN readonly;
DROP TABLE volume_direct_attachments;
