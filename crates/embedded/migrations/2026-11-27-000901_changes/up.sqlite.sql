-- The resource providers that were written, each once, for readers that keep them in memory. Every change of a provider,
-- of what it has or of what is allocated of it writes its row. `changed` is the number of the change. Each number is
-- higher than all before it, and the only writer of the file commits in their order.
CREATE TABLE changes (
    changed INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    id TEXT NOT NULL UNIQUE
);
CREATE TRIGGER provider_added AFTER INSERT ON resource_providers
BEGIN INSERT OR REPLACE INTO changes (id) VALUES (NEW.uuid); END;
CREATE TRIGGER provider_changed AFTER UPDATE ON resource_providers
BEGIN INSERT OR REPLACE INTO changes (id) VALUES (NEW.uuid); END;
CREATE TRIGGER provider_removed AFTER DELETE ON resource_providers
BEGIN INSERT OR REPLACE INTO changes (id) VALUES (OLD.uuid); END;
