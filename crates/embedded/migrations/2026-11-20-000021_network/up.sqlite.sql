-- The network service. `number` is the order of creation.
CREATE TABLE networks (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    project_id TEXT NOT NULL,
    description TEXT NOT NULL,
    admin_state_up BOOLEAN NOT NULL,
    shared BOOLEAN NOT NULL,
    external BOOLEAN NOT NULL,
    mtu INTEGER NOT NULL,
    network_type TEXT,
    physical_network TEXT,
    segmentation_id INTEGER,
    qos_policy_id TEXT,
    port_security_enabled BOOLEAN NOT NULL,
    tags TEXT NOT NULL,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL
);
-- `next_address` is where the search for a free address starts.
CREATE TABLE subnets (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    network_id TEXT NOT NULL REFERENCES networks (id),
    name TEXT NOT NULL,
    project_id TEXT NOT NULL,
    description TEXT NOT NULL,
    ip_version INTEGER NOT NULL,
    cidr TEXT NOT NULL,
    gateway_ip TEXT,
    allocation_pools TEXT NOT NULL,
    dns_nameservers TEXT NOT NULL,
    host_routes TEXT NOT NULL,
    enable_dhcp BOOLEAN NOT NULL,
    tags TEXT NOT NULL,
    next_address TEXT,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL
);
CREATE INDEX subnets_by_network ON subnets (network_id);
CREATE TABLE ports (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    network_id TEXT NOT NULL REFERENCES networks (id),
    name TEXT NOT NULL,
    project_id TEXT NOT NULL,
    description TEXT NOT NULL,
    mac_address TEXT NOT NULL UNIQUE,
    admin_state_up BOOLEAN NOT NULL,
    device_id TEXT NOT NULL,
    device_owner TEXT NOT NULL,
    vnic_type TEXT NOT NULL,
    profile TEXT NOT NULL,
    security_groups TEXT NOT NULL,
    allowed_address_pairs TEXT NOT NULL,
    extra_dhcp_opts TEXT NOT NULL,
    port_security_enabled BOOLEAN NOT NULL,
    qos_policy_id TEXT,
    tags TEXT NOT NULL,
    revision_number INTEGER NOT NULL,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL
);
CREATE INDEX ports_by_device ON ports (device_id);
CREATE INDEX ports_by_network ON ports (network_id);
-- The key is what makes an address belong to one port.
CREATE TABLE port_addresses (
    subnet_id TEXT NOT NULL REFERENCES subnets (id),
    ip_address TEXT NOT NULL,
    port_id TEXT NOT NULL REFERENCES ports (id),
    place INTEGER NOT NULL,
    PRIMARY KEY (subnet_id, ip_address)
);
CREATE INDEX port_addresses_by_port ON port_addresses (port_id);
CREATE TABLE port_bindings (
    port_id TEXT NOT NULL REFERENCES ports (id),
    host TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('ACTIVE', 'INACTIVE')),
    vnic_type TEXT NOT NULL,
    vif_type TEXT NOT NULL,
    profile TEXT NOT NULL,
    plugged BOOLEAN NOT NULL,
    PRIMARY KEY (port_id, host)
);
CREATE UNIQUE INDEX port_bindings_one_active ON port_bindings (port_id) WHERE status = 'ACTIVE';
CREATE TABLE security_groups (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    project_id TEXT NOT NULL,
    description TEXT NOT NULL,
    stateful BOOLEAN NOT NULL,
    is_default BOOLEAN NOT NULL,
    tags TEXT NOT NULL,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL
);
CREATE UNIQUE INDEX security_groups_one_default ON security_groups (project_id) WHERE is_default;
CREATE TABLE security_group_rules (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    security_group_id TEXT NOT NULL REFERENCES security_groups (id),
    project_id TEXT NOT NULL,
    direction TEXT NOT NULL,
    ethertype TEXT NOT NULL,
    protocol TEXT,
    port_range_min INTEGER,
    port_range_max INTEGER,
    remote_ip_prefix TEXT,
    remote_group_id TEXT,
    description TEXT NOT NULL,
    created_at TIMESTAMP NOT NULL
);
CREATE INDEX security_group_rules_by_group ON security_group_rules (security_group_id);
CREATE TABLE qos_policies (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    project_id TEXT NOT NULL,
    description TEXT NOT NULL,
    shared BOOLEAN NOT NULL,
    is_default BOOLEAN NOT NULL,
    tags TEXT NOT NULL,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL
);
CREATE TABLE qos_rules (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    policy_id TEXT NOT NULL REFERENCES qos_policies (id),
    kind TEXT NOT NULL,
    direction TEXT NOT NULL,
    amount BIGINT NOT NULL,
    burst BIGINT,
    UNIQUE (policy_id, kind, direction)
);
