ALTER TABLE volume_types DROP COLUMN qos_specs_id;
DROP TABLE volume_qos_specs;
