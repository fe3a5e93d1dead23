DROP TRIGGER provider_written ON resource_providers;
DROP FUNCTION note_change();
DROP TABLE changes;
