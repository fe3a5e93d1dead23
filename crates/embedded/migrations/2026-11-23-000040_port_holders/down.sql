DROP INDEX ports_by_server;
ALTER TABLE ports DROP COLUMN server_id;
