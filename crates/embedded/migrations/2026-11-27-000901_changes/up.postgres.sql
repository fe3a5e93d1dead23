-- The resource providers that were written, each once, for readers that keep them in memory. Every change of a provider,
-- of what it has or of what is allocated of it writes its row. `changed` is the id of the transaction. Transactions do not
-- commit in the order of their ids, so a reader begins again at the lowest id that was still running when it last read
-- (crates/store/src/mirror.rs).
CREATE TABLE changes (
    id TEXT PRIMARY KEY NOT NULL,
    changed BIGINT NOT NULL
);
CREATE INDEX changes_by_moment ON changes (changed);
CREATE FUNCTION note_change() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO changes (id, changed)
    VALUES (coalesce(NEW.uuid, OLD.uuid), txid_current())
    ON CONFLICT (id) DO UPDATE SET changed = EXCLUDED.changed;
    RETURN NULL;
END $$;
CREATE TRIGGER provider_written AFTER INSERT OR UPDATE OR DELETE ON resource_providers FOR EACH ROW EXECUTE FUNCTION note_change();
