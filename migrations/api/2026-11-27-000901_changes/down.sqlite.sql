DROP TRIGGER aggregate_added;
DROP TRIGGER aggregate_changed;
DROP TRIGGER aggregate_removed;
DROP TABLE changes;
