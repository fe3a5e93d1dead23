DROP TRIGGER aggregate_written ON aggregates;
DROP FUNCTION note_change();
DROP TABLE changes;
