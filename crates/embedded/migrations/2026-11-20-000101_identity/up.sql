-- The embedded identity service. There is one domain, `default`; ids are 32 hexadecimal digits.
CREATE TABLE projects (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL UNIQUE,
    description TEXT NOT NULL,
    enabled BOOLEAN NOT NULL,
    created_at TIMESTAMP NOT NULL
);
CREATE TABLE users (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL UNIQUE,
    description TEXT NOT NULL,
    email TEXT,
    enabled BOOLEAN NOT NULL,
    default_project_id TEXT,
    password_hash TEXT NOT NULL,
    password_changed_at TIMESTAMP NOT NULL,
    created_at TIMESTAMP NOT NULL
);
CREATE TABLE roles (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL UNIQUE,
    description TEXT NOT NULL
);
-- target is `project:<id>`, `domain:default` or `system`.
CREATE TABLE role_assignments (
    user_id TEXT NOT NULL REFERENCES users (id),
    target TEXT NOT NULL,
    role_id TEXT NOT NULL REFERENCES roles (id),
    PRIMARY KEY (user_id, target, role_id)
);
CREATE TABLE revoked_tokens (
    audit_id TEXT PRIMARY KEY NOT NULL,
    expires_at TIMESTAMP NOT NULL
);
