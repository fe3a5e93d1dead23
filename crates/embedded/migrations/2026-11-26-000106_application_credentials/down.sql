DROP TABLE application_credential_roles;
DROP TABLE application_credentials;
