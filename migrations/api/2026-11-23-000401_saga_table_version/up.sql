-- The version of the table by which a saga runs: a later release goes on with what an earlier one began.
ALTER TABLE sagas ADD COLUMN table_version INTEGER NOT NULL DEFAULT 1;
