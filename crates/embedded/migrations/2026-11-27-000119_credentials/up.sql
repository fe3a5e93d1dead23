-- Users' credentials for other programs (EC2, TOTP and so on), whose contents are sealed with one key of the deployment. That key is sealed
-- with the token keys.
CREATE TABLE credentials (
    id TEXT PRIMARY KEY NOT NULL,
    user_id TEXT NOT NULL REFERENCES users (id),
    project_id TEXT REFERENCES projects (id),
    type TEXT NOT NULL,
    sealed_blob TEXT NOT NULL
);
CREATE INDEX credentials_user ON credentials (user_id);
CREATE INDEX credentials_project ON credentials (project_id);
ALTER TABLE identity_state ADD COLUMN credential_key TEXT;
