-- The volume types that projects use unless a request names one.
CREATE TABLE project_default_types (
    project_id TEXT PRIMARY KEY NOT NULL,
    type_id TEXT NOT NULL
);
CREATE INDEX project_default_types_by_type ON project_default_types (type_id);
