-- Clients know a move by one number, that of its first record, also where the server's records were copied to.
ALTER TABLE migrations ADD COLUMN first_id INTEGER;
