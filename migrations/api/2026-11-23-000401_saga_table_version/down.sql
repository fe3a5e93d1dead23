ALTER TABLE sagas DROP COLUMN table_version;
