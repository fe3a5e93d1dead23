-- QoS specs of volume types. specs: a JSON object of strings.
CREATE TABLE volume_qos_specs (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL UNIQUE,
    consumer TEXT NOT NULL,
    specs TEXT NOT NULL,
    created_at TIMESTAMP NOT NULL
);
-- The QoS specs of the type, if any.
ALTER TABLE volume_types ADD COLUMN qos_specs_id TEXT;
