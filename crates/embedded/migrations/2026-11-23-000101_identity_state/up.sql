-- One row. `revision` is raised by every change of users, projects, roles and assignments: whoever remembers what a token is worth
-- forgets it when the revision has moved. `accounts_made` says that the first accounts have been made, and are not made again.
CREATE TABLE identity_state (
    id INTEGER PRIMARY KEY NOT NULL,
    revision BIGINT NOT NULL,
    accounts_made BOOLEAN NOT NULL
);
-- An older release made `demo` before it made the administrator: with nobody else, its first start was interrupted.
INSERT INTO identity_state (id, revision, accounts_made)
SELECT 1, 1, EXISTS (SELECT 1 FROM users WHERE name <> 'demo');
-- Tokens that carry a lower revision and are of this user (any when empty) at this target (any when empty) have ended for good.
CREATE TABLE token_revocations (
    user_id TEXT NOT NULL,
    target TEXT NOT NULL,
    revision BIGINT NOT NULL,
    expires_at TIMESTAMP NOT NULL,
    PRIMARY KEY (user_id, target)
);
-- Wrong passwords since the last right one, where the configuration asks for a lockout.
ALTER TABLE users ADD COLUMN failed_logins INTEGER NOT NULL DEFAULT 0;
ALTER TABLE users ADD COLUMN last_failed_login TIMESTAMP;
