-- The highest fence per server whose effect was written to this database.
CREATE TABLE fences (
    server_uuid TEXT PRIMARY KEY NOT NULL,
    epoch BIGINT NOT NULL,
    attempt BIGINT NOT NULL
);
