-- The progress that was told of a snapshot, such as 80%; NULL if its status says it.
ALTER TABLE volume_snapshots ADD COLUMN progress TEXT;
