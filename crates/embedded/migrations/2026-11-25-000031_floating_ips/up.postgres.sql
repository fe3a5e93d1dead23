-- Floating IPs. `floating_port_id` is the port that holds the address; `port_id` is the one that the address leads to.
CREATE TABLE floating_ips (
    number SERIAL PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    project_id TEXT NOT NULL,
    description TEXT NOT NULL,
    floating_network_id TEXT NOT NULL,
    floating_ip_address TEXT NOT NULL,
    floating_port_id TEXT NOT NULL,
    port_id TEXT REFERENCES ports (id),
    fixed_ip_address TEXT,
    router_id TEXT REFERENCES routers (id),
    tags TEXT NOT NULL,
    revision_number INTEGER NOT NULL,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL
);
CREATE INDEX floating_ips_by_project ON floating_ips (project_id);
CREATE INDEX floating_ips_by_router ON floating_ips (router_id);
-- A fixed address has one floating IP of a network.
CREATE UNIQUE INDEX floating_ips_one_per_address ON floating_ips (port_id, fixed_ip_address, floating_network_id) WHERE port_id IS NOT NULL;
