-- Domains: each has its own users, groups and projects, whose names are unique within it.
CREATE TABLE domains (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL UNIQUE,
    description TEXT NOT NULL,
    enabled BOOLEAN NOT NULL,
    created_at TIMESTAMP NOT NULL
);
INSERT INTO domains (id, name, description, enabled, created_at)
VALUES ('default', 'Default', 'The default domain', TRUE, '2026-11-20 00:00:00');
ALTER TABLE users ADD COLUMN domain_id TEXT NOT NULL DEFAULT 'default' REFERENCES domains (id);
ALTER TABLE users DROP CONSTRAINT users_name_key;
ALTER TABLE users ADD CONSTRAINT users_domain_name UNIQUE (domain_id, name);
ALTER TABLE projects ADD COLUMN domain_id TEXT NOT NULL DEFAULT 'default' REFERENCES domains (id);
ALTER TABLE projects DROP CONSTRAINT projects_name_key;
ALTER TABLE projects ADD CONSTRAINT projects_domain_name UNIQUE (domain_id, name);
ALTER TABLE user_groups ADD COLUMN domain_id TEXT NOT NULL DEFAULT 'default' REFERENCES domains (id);
ALTER TABLE user_groups DROP CONSTRAINT user_groups_name_key;
ALTER TABLE user_groups ADD CONSTRAINT user_groups_domain_name UNIQUE (domain_id, name);
