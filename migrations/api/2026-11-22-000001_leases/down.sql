ALTER TABLE sagas DROP COLUMN lease_until;
