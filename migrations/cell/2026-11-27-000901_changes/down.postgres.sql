DROP TRIGGER node_written ON compute_nodes;
DROP TRIGGER node_changed ON compute_nodes;
DROP TRIGGER service_written ON services;
DROP TRIGGER service_changed ON services;
DROP FUNCTION note_change();
DROP TABLE changes;
