-- The compute services and nodes of this cell.
-- COLLATE "C": text sorts by its bytes, as on SQLite and as the merge over cells compares it.
CREATE TABLE services (
    id SERIAL PRIMARY KEY NOT NULL,
    uuid TEXT COLLATE "C" NOT NULL UNIQUE,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP,
    host TEXT COLLATE "C" NOT NULL,
    binary_name TEXT COLLATE "C" NOT NULL,
    topic TEXT COLLATE "C" NOT NULL,
    availability_zone TEXT COLLATE "C" NOT NULL,
    disabled BOOLEAN NOT NULL,
    disabled_reason TEXT COLLATE "C",
    forced_down BOOLEAN NOT NULL,
    last_seen_up TIMESTAMP,
    report_count INTEGER NOT NULL,
    version INTEGER NOT NULL,
    UNIQUE (host, binary_name)
);

CREATE TABLE compute_nodes (
    id SERIAL PRIMARY KEY NOT NULL,
    uuid TEXT COLLATE "C" NOT NULL UNIQUE,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP,
    host TEXT COLLATE "C" NOT NULL,
    hypervisor_hostname TEXT COLLATE "C" NOT NULL,
    hypervisor_type TEXT COLLATE "C" NOT NULL,
    hypervisor_version INTEGER NOT NULL,
    host_ip TEXT COLLATE "C" NOT NULL,
    vcpus INTEGER NOT NULL,
    memory_mb INTEGER NOT NULL,
    local_gb INTEGER NOT NULL,
    vcpus_used INTEGER NOT NULL,
    memory_mb_used INTEGER NOT NULL,
    local_gb_used INTEGER NOT NULL,
    running_vms INTEGER NOT NULL,
    current_workload INTEGER NOT NULL,
    cpu_allocation_ratio DOUBLE PRECISION NOT NULL,
    ram_allocation_ratio DOUBLE PRECISION NOT NULL,
    disk_allocation_ratio DOUBLE PRECISION NOT NULL,
    cpu_info TEXT COLLATE "C" NOT NULL,
    service_id TEXT COLLATE "C" NOT NULL,
    mapped BOOLEAN NOT NULL,
    UNIQUE (host, hypervisor_hostname)
);
