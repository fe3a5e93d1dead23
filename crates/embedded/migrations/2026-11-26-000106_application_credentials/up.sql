-- Application credentials: with its secret, of which only the hash is kept, a program gets tokens for one project of the user's.
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
-- The roles that a credential gives, as long as the user has them.
CREATE TABLE application_credential_roles (
    credential_id TEXT NOT NULL REFERENCES application_credentials (id) ON DELETE CASCADE,
    role_id TEXT NOT NULL REFERENCES roles (id),
    PRIMARY KEY (credential_id, role_id)
);
CREATE INDEX application_credential_roles_role ON application_credential_roles (role_id);
