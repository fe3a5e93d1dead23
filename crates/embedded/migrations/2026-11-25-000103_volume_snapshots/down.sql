ALTER TABLE volumes DROP COLUMN source_volid;
ALTER TABLE volumes DROP COLUMN snapshot_id;
DROP TABLE volume_snapshots;
