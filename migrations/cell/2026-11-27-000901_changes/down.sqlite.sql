DROP TRIGGER node_added;
DROP TRIGGER node_changed;
DROP TRIGGER node_removed;
DROP TRIGGER service_added;
DROP TRIGGER service_changed;
DROP TRIGGER service_removed;
DROP TABLE changes;
