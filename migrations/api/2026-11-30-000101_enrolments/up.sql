-- The keys with which agents of hosts may speak on their cell's NATS. No two hosts have one key.
CREATE TABLE enrolments (
    host TEXT PRIMARY KEY NOT NULL,
    cell_uuid TEXT NOT NULL,
    public_key TEXT NOT NULL UNIQUE,
    created_at TIMESTAMP NOT NULL
);
