-- Whoever takes of a quota in a commit changes this row first, so that two such commits come one after the other.
CREATE TABLE quota_turns (
    holder TEXT PRIMARY KEY NOT NULL,
    turns BIGINT NOT NULL
);
-- Quotas count a project's servers that live, and those that came since.
CREATE INDEX instance_mappings_by_life ON instance_mappings (project_id, queued_for_delete, id);
