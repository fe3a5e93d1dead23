ALTER TABLE identity_state DROP COLUMN credential_key;
DROP TABLE credentials;
