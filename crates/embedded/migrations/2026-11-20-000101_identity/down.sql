DROP TABLE revoked_tokens;
DROP TABLE role_assignments;
DROP TABLE roles;
DROP TABLE users;
DROP TABLE projects;
