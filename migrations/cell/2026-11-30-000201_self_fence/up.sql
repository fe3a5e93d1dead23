-- The promise of the accepted life: the milliseconds without a renewed word after which the host's agent stops its guests itself.
ALTER TABLE services ADD COLUMN agent_self_fence_ms BIGINT;
