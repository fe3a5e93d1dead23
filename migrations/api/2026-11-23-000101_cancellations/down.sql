ALTER TABLE sagas DROP COLUMN cancellation;
