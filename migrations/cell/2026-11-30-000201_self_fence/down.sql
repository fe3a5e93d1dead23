ALTER TABLE services DROP COLUMN agent_self_fence_ms;
