ALTER TABLE migrations DROP COLUMN first_id;
