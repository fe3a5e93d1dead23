-- Until when a saga's owner holds it without renewing; what was begun before this release is nobody's.
ALTER TABLE sagas ADD COLUMN lease_until TIMESTAMP NOT NULL DEFAULT '1970-01-01 00:00:00';
