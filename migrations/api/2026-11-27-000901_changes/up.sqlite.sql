-- The aggregates that were written, each once, for readers that keep them in memory. Every change of an aggregate writes
-- its row. `changed` is the number of the change. Each number is higher than all before it, and the only writer of the
-- file commits in their order.
CREATE TABLE changes (
    changed INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    id TEXT NOT NULL UNIQUE
);
CREATE TRIGGER aggregate_added AFTER INSERT ON aggregates
BEGIN INSERT OR REPLACE INTO changes (id) VALUES (NEW.id); END;
CREATE TRIGGER aggregate_changed AFTER UPDATE ON aggregates
BEGIN INSERT OR REPLACE INTO changes (id) VALUES (NEW.id); END;
CREATE TRIGGER aggregate_removed AFTER DELETE ON aggregates
BEGIN INSERT OR REPLACE INTO changes (id) VALUES (OLD.id); END;
