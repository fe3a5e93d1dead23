ALTER TABLE users DROP COLUMN last_failed_login;
ALTER TABLE users DROP COLUMN failed_logins;
DROP TABLE token_revocations;
DROP TABLE identity_state;
