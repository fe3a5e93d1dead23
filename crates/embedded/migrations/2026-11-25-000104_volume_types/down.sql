DROP TABLE volume_type_access;
DROP TABLE volume_types;
