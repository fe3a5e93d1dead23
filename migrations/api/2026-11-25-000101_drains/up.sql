-- Drains: the moves of all servers off a host or a cell. Whoever holds the lease drives one; nobody holds a new one.
CREATE TABLE drains (
    id TEXT PRIMARY KEY NOT NULL,
    state TEXT NOT NULL,
    plan TEXT NOT NULL,
    hosts_disabled BOOLEAN NOT NULL,
    is_settled BOOLEAN NOT NULL,
    reason TEXT,
    lease_owner TEXT NOT NULL,
    lease_epoch BIGINT NOT NULL,
    lease_until TIMESTAMP NOT NULL,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL
);
CREATE INDEX drains_to_drive ON drains (id) WHERE NOT is_settled;

-- The hosts that a drain empties, so that no two drains empty one.
CREATE TABLE drained_hosts (
    host TEXT PRIMARY KEY NOT NULL,
    drain_id TEXT NOT NULL REFERENCES drains (id) ON DELETE CASCADE
);
CREATE INDEX drained_hosts_by_drain ON drained_hosts (drain_id);

-- The servers of a drain, with the operations that it began for them.
CREATE TABLE drain_servers (
    drain_id TEXT NOT NULL REFERENCES drains (id) ON DELETE CASCADE,
    server_uuid TEXT NOT NULL,
    host TEXT NOT NULL,
    state TEXT NOT NULL,
    tries INTEGER NOT NULL,
    next_try_at TIMESTAMP,
    move_kind TEXT,
    target TEXT,
    operation_id TEXT,
    confirm_id TEXT,
    reason TEXT,
    updated_at TIMESTAMP NOT NULL,
    PRIMARY KEY (drain_id, server_uuid)
);
CREATE INDEX drain_servers_by_state ON drain_servers (drain_id, state, tries);
