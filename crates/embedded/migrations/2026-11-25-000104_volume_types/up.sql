-- Types of volumes. extra_specs: a JSON object of strings. The rows of volumes have the name.
CREATE TABLE volume_types (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL UNIQUE,
    description TEXT,
    is_public BOOLEAN NOT NULL,
    extra_specs TEXT NOT NULL,
    created_at TIMESTAMP NOT NULL
);
-- The projects that may use a type that is not public.
CREATE TABLE volume_type_access (
    type_id TEXT NOT NULL REFERENCES volume_types (id),
    project_id TEXT NOT NULL,
    PRIMARY KEY (type_id, project_id)
);
INSERT INTO volume_types (id, name, description, is_public, extra_specs, created_at) VALUES
    ('f214e3df-16b3-512a-9773-80732799ebcf', 'local', 'A file', TRUE, '{}', '2026-01-01 00:00:00'),
    ('4f994bbb-e235-57f4-bbea-46732c71e56c', 'local-multiattach', 'A file that several servers may share', TRUE,
        '{"multiattach": "<is> True"}', '2026-01-01 00:00:00');
