-- The server that took the port. Users may write any `device_id` into their ports; this is written by operations on servers alone.
ALTER TABLE ports ADD COLUMN server_id TEXT;
-- A binding is made by an operation or an administrator, never by another user.
UPDATE ports SET server_id = device_id WHERE device_id <> '' AND id IN (SELECT port_id FROM port_bindings);
CREATE INDEX ports_by_server ON ports (server_id);
