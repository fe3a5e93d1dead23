-- The accepted life of a host's agent, the directory in which it started, and its last word. All controllers accept lives by one
-- compare-and-set here.
ALTER TABLE services ADD COLUMN agent_life TEXT;
ALTER TABLE services ADD COLUMN agent_place TEXT;
ALTER TABLE services ADD COLUMN agent_start BIGINT;
ALTER TABLE services ADD COLUMN agent_heard_at TIMESTAMP;
ALTER TABLE services ADD COLUMN agent_last_word TEXT;
-- The moment of the operator's word that the host is off: a host that was heard of since may run guests again.
ALTER TABLE services ADD COLUMN forced_down_at TIMESTAMP;
