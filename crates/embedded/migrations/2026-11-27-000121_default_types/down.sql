DROP TABLE project_default_types;
