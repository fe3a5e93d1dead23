ALTER TABLE volume_snapshots DROP COLUMN progress;
