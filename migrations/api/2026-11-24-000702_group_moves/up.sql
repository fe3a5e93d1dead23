-- Moves of whole server groups. At most one of a group is open.
CREATE TABLE group_moves (
    id TEXT PRIMARY KEY NOT NULL,
    group_uuid TEXT NOT NULL,
    state TEXT NOT NULL,
    record TEXT NOT NULL,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL
);
CREATE UNIQUE INDEX group_moves_open ON group_moves (group_uuid) WHERE state IN ('reserving', 'moving', 'confirming', 'returning');
CREATE INDEX group_moves_by_group ON group_moves (group_uuid, created_at);
