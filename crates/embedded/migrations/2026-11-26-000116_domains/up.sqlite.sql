-- Domains: each has its own users, groups and projects, whose names are unique within it.
CREATE TABLE domains (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL UNIQUE,
    description TEXT NOT NULL,
    enabled BOOLEAN NOT NULL,
    created_at TIMESTAMP NOT NULL
);
INSERT INTO domains (id, name, description, enabled, created_at)
VALUES ('default', 'Default', 'The default domain', 1, '2026-11-20 00:00:00');
-- SQLite cannot drop a constraint, so the tables with unique names are made anew. A dropped table's rows count as deleted, so the tables that
-- refer to it are dropped first and made again after it.
CREATE TEMPORARY TABLE kept_role_assignments AS SELECT * FROM role_assignments;
CREATE TEMPORARY TABLE kept_application_credentials AS SELECT * FROM application_credentials;
CREATE TEMPORARY TABLE kept_application_credential_roles AS SELECT * FROM application_credential_roles;
CREATE TEMPORARY TABLE kept_user_group_members AS SELECT * FROM user_group_members;
CREATE TEMPORARY TABLE kept_group_role_assignments AS SELECT * FROM group_role_assignments;
CREATE TEMPORARY TABLE kept_users AS SELECT * FROM users;
CREATE TEMPORARY TABLE kept_projects AS SELECT * FROM projects;
CREATE TEMPORARY TABLE kept_user_groups AS SELECT * FROM user_groups;
DROP TABLE group_role_assignments;
DROP TABLE user_group_members;
DROP TABLE application_credential_roles;
DROP TABLE application_credentials;
DROP TABLE role_assignments;
DROP TABLE users;
DROP TABLE projects;
DROP TABLE user_groups;
CREATE TABLE users (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    email TEXT,
    enabled BOOLEAN NOT NULL,
    default_project_id TEXT,
    password_hash TEXT NOT NULL,
    password_changed_at TIMESTAMP NOT NULL,
    created_at TIMESTAMP NOT NULL,
    failed_logins INTEGER NOT NULL DEFAULT 0,
    last_failed_login TIMESTAMP,
    domain_id TEXT NOT NULL DEFAULT 'default' REFERENCES domains (id),
    UNIQUE (domain_id, name)
);
INSERT INTO users (id, name, description, email, enabled, default_project_id, password_hash, password_changed_at, created_at,
    failed_logins, last_failed_login)
SELECT id, name, description, email, enabled, default_project_id, password_hash, password_changed_at, created_at,
    failed_logins, last_failed_login FROM kept_users;
CREATE TABLE projects (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    enabled BOOLEAN NOT NULL,
    created_at TIMESTAMP NOT NULL,
    domain_id TEXT NOT NULL DEFAULT 'default' REFERENCES domains (id),
    UNIQUE (domain_id, name)
);
INSERT INTO projects (id, name, description, enabled, created_at)
SELECT id, name, description, enabled, created_at FROM kept_projects;
CREATE TABLE user_groups (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    created_at TIMESTAMP NOT NULL,
    domain_id TEXT NOT NULL DEFAULT 'default' REFERENCES domains (id),
    UNIQUE (domain_id, name)
);
INSERT INTO user_groups (id, name, description, created_at)
SELECT id, name, description, created_at FROM kept_user_groups;
CREATE TABLE role_assignments (
    user_id TEXT NOT NULL REFERENCES users (id),
    target TEXT NOT NULL,
    role_id TEXT NOT NULL REFERENCES roles (id),
    PRIMARY KEY (user_id, target, role_id)
);
INSERT INTO role_assignments SELECT * FROM kept_role_assignments;
CREATE TABLE application_credentials (
    id TEXT PRIMARY KEY NOT NULL,
    user_id TEXT NOT NULL REFERENCES users (id),
    project_id TEXT NOT NULL REFERENCES projects (id),
    name TEXT NOT NULL,
    description TEXT,
    secret_hash TEXT NOT NULL,
    expires_at TIMESTAMP,
    unrestricted BOOLEAN NOT NULL,
    created_at TIMESTAMP NOT NULL,
    UNIQUE (user_id, name)
);
CREATE INDEX application_credentials_project ON application_credentials (project_id);
INSERT INTO application_credentials SELECT * FROM kept_application_credentials;
CREATE TABLE application_credential_roles (
    credential_id TEXT NOT NULL REFERENCES application_credentials (id) ON DELETE CASCADE,
    role_id TEXT NOT NULL REFERENCES roles (id),
    PRIMARY KEY (credential_id, role_id)
);
CREATE INDEX application_credential_roles_role ON application_credential_roles (role_id);
INSERT INTO application_credential_roles SELECT * FROM kept_application_credential_roles;
CREATE TABLE user_group_members (
    group_id TEXT NOT NULL REFERENCES user_groups (id) ON DELETE CASCADE,
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    PRIMARY KEY (group_id, user_id)
);
CREATE INDEX user_group_members_user ON user_group_members (user_id);
INSERT INTO user_group_members SELECT * FROM kept_user_group_members;
CREATE TABLE group_role_assignments (
    group_id TEXT NOT NULL REFERENCES user_groups (id) ON DELETE CASCADE,
    target TEXT NOT NULL,
    role_id TEXT NOT NULL REFERENCES roles (id),
    PRIMARY KEY (group_id, target, role_id)
);
CREATE INDEX group_role_assignments_role ON group_role_assignments (role_id);
CREATE INDEX group_role_assignments_target ON group_role_assignments (target);
INSERT INTO group_role_assignments SELECT * FROM kept_group_role_assignments;
DROP TABLE kept_users;
DROP TABLE kept_projects;
DROP TABLE kept_user_groups;
DROP TABLE kept_role_assignments;
DROP TABLE kept_application_credentials;
DROP TABLE kept_application_credential_roles;
DROP TABLE kept_user_group_members;
DROP TABLE kept_group_role_assignments;
