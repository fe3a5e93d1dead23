-- The compute nodes and services that were written, each once, for readers that keep them in memory. A sign of life, or a
-- count that finds the same, is no change. `changed` is the number of the change. Each number is higher than all before
-- it, and the only writer of the file commits in their order.
CREATE TABLE changes (
    changed INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    id TEXT NOT NULL UNIQUE
);
CREATE TRIGGER node_added AFTER INSERT ON compute_nodes
BEGIN INSERT OR REPLACE INTO changes (id) VALUES (NEW.uuid); END;
CREATE TRIGGER node_changed AFTER UPDATE ON compute_nodes WHEN
    (OLD.uuid, OLD.host, OLD.hypervisor_hostname, OLD.hypervisor_type, OLD.hypervisor_version, OLD.host_ip, OLD.vcpus,
     OLD.memory_mb, OLD.local_gb, OLD.vcpus_used, OLD.memory_mb_used, OLD.local_gb_used, OLD.running_vms, OLD.current_workload,
     OLD.cpu_allocation_ratio, OLD.ram_allocation_ratio, OLD.disk_allocation_ratio, OLD.cpu_info, OLD.service_id, OLD.mapped)
    IS NOT
    (NEW.uuid, NEW.host, NEW.hypervisor_hostname, NEW.hypervisor_type, NEW.hypervisor_version, NEW.host_ip, NEW.vcpus,
     NEW.memory_mb, NEW.local_gb, NEW.vcpus_used, NEW.memory_mb_used, NEW.local_gb_used, NEW.running_vms, NEW.current_workload,
     NEW.cpu_allocation_ratio, NEW.ram_allocation_ratio, NEW.disk_allocation_ratio, NEW.cpu_info, NEW.service_id, NEW.mapped)
BEGIN INSERT OR REPLACE INTO changes (id) VALUES (NEW.uuid); END;
CREATE TRIGGER node_removed AFTER DELETE ON compute_nodes
BEGIN INSERT OR REPLACE INTO changes (id) VALUES (OLD.uuid); END;
CREATE TRIGGER service_added AFTER INSERT ON services
BEGIN INSERT OR REPLACE INTO changes (id) VALUES (NEW.uuid); END;
CREATE TRIGGER service_changed AFTER UPDATE ON services
WHEN OLD.disabled IS NOT NEW.disabled OR OLD.disabled_reason IS NOT NEW.disabled_reason
        OR OLD.forced_down IS NOT NEW.forced_down OR OLD.version IS NOT NEW.version
        OR OLD.host IS NOT NEW.host OR OLD.binary_name IS NOT NEW.binary_name
BEGIN INSERT OR REPLACE INTO changes (id) VALUES (NEW.uuid); END;
CREATE TRIGGER service_removed AFTER DELETE ON services
BEGIN INSERT OR REPLACE INTO changes (id) VALUES (OLD.uuid); END;
