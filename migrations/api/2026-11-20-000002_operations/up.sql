-- Who may run a server's guest, and the counters that fence everything done to it (INVARIANTS S3 and S4).
CREATE TABLE ownership (
    server_uuid TEXT PRIMARY KEY NOT NULL,
    owner_cell TEXT,
    owner_host TEXT,
    epoch BIGINT NOT NULL,
    attempt BIGINT NOT NULL
);

-- One row per operation that spans participants, kept for its history.
CREATE TABLE sagas (
    id TEXT PRIMARY KEY NOT NULL,
    server_uuid TEXT NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    step TEXT NOT NULL,
    context TEXT NOT NULL,
    error TEXT,
    lease_owner TEXT NOT NULL,
    lease_epoch BIGINT NOT NULL,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL
);
CREATE INDEX sagas_server ON sagas (server_uuid);
CREATE INDEX sagas_state ON sagas (state);
CREATE INDEX sagas_created ON sagas (created_at, id);

-- At most one operation per server: the key is the rule.
CREATE TABLE operations (
    server_uuid TEXT PRIMARY KEY NOT NULL,
    saga_id TEXT NOT NULL,
    started_at TIMESTAMP NOT NULL
);

CREATE TABLE journal (
    saga_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    step TEXT NOT NULL,
    side TEXT NOT NULL,
    attempt BIGINT NOT NULL,
    event TEXT NOT NULL,
    error TEXT,
    at TIMESTAMP NOT NULL,
    PRIMARY KEY (saga_id, seq)
);

-- Undos and clean-ups that could not be done yet, with everything needed to do them later.
CREATE TABLE debts (
    saga_id TEXT NOT NULL,
    step TEXT NOT NULL,
    side TEXT NOT NULL,
    owed_seq BIGINT NOT NULL,
    server_uuid TEXT NOT NULL,
    context TEXT NOT NULL,
    reason TEXT NOT NULL,
    tries BIGINT NOT NULL,
    needs_operator BOOLEAN NOT NULL,
    created_at TIMESTAMP NOT NULL,
    PRIMARY KEY (saga_id, owed_seq)
);
CREATE INDEX debts_server ON debts (server_uuid);
