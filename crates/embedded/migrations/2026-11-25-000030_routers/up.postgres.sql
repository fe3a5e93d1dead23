-- Routers. `number` is the order of creation.
CREATE TABLE routers (
    number SERIAL PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    project_id TEXT NOT NULL,
    description TEXT NOT NULL,
    admin_state_up BOOLEAN NOT NULL,
    enable_snat BOOLEAN NOT NULL,
    routes TEXT NOT NULL,
    tags TEXT NOT NULL,
    revision_number INTEGER NOT NULL,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL
);
CREATE INDEX routers_by_project ON routers (project_id);
-- The router that has the port as an interface or as its gateway. Users may write any `device_id` into their ports, but not this.
ALTER TABLE ports ADD COLUMN router_id TEXT;
CREATE INDEX ports_by_router ON ports (router_id);
CREATE UNIQUE INDEX ports_one_gateway ON ports (router_id) WHERE router_id IS NOT NULL AND device_owner = 'network:router_gateway';
