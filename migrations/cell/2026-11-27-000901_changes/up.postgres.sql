-- The compute nodes and services that were written, each once, for readers that keep them in memory. A sign of life, or a
-- count that finds the same, is no change. `changed` is the id of the transaction. Transactions do not commit in the order
-- of their ids, so a reader begins again at the lowest id that was still running when it last read (crates/store/src/mirror.rs).
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
CREATE TRIGGER node_written AFTER INSERT OR DELETE ON compute_nodes FOR EACH ROW EXECUTE FUNCTION note_change();
CREATE TRIGGER node_changed AFTER UPDATE ON compute_nodes FOR EACH ROW WHEN (
    (OLD.uuid, OLD.host, OLD.hypervisor_hostname, OLD.hypervisor_type, OLD.hypervisor_version, OLD.host_ip, OLD.vcpus,
     OLD.memory_mb, OLD.local_gb, OLD.vcpus_used, OLD.memory_mb_used, OLD.local_gb_used, OLD.running_vms, OLD.current_workload,
     OLD.cpu_allocation_ratio, OLD.ram_allocation_ratio, OLD.disk_allocation_ratio, OLD.cpu_info, OLD.service_id, OLD.mapped)
    IS DISTINCT FROM
    (NEW.uuid, NEW.host, NEW.hypervisor_hostname, NEW.hypervisor_type, NEW.hypervisor_version, NEW.host_ip, NEW.vcpus,
     NEW.memory_mb, NEW.local_gb, NEW.vcpus_used, NEW.memory_mb_used, NEW.local_gb_used, NEW.running_vms, NEW.current_workload,
     NEW.cpu_allocation_ratio, NEW.ram_allocation_ratio, NEW.disk_allocation_ratio, NEW.cpu_info, NEW.service_id, NEW.mapped)
) EXECUTE FUNCTION note_change();
CREATE TRIGGER service_written AFTER INSERT OR DELETE ON services FOR EACH ROW EXECUTE FUNCTION note_change();
CREATE TRIGGER service_changed AFTER UPDATE ON services FOR EACH ROW
    WHEN (OLD.disabled IS DISTINCT FROM NEW.disabled OR OLD.disabled_reason IS DISTINCT FROM NEW.disabled_reason
        OR OLD.forced_down IS DISTINCT FROM NEW.forced_down OR OLD.version IS DISTINCT FROM NEW.version
        OR OLD.host IS DISTINCT FROM NEW.host OR OLD.binary_name IS DISTINCT FROM NEW.binary_name) EXECUTE FUNCTION note_change();
