DROP TRIGGER provider_added;
DROP TRIGGER provider_changed;
DROP TRIGGER provider_removed;
DROP TABLE changes;
