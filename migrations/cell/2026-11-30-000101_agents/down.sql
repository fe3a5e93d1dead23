ALTER TABLE services DROP COLUMN agent_life;
ALTER TABLE services DROP COLUMN agent_place;
ALTER TABLE services DROP COLUMN agent_start;
ALTER TABLE services DROP COLUMN agent_heard_at;
ALTER TABLE services DROP COLUMN agent_last_word;
ALTER TABLE services DROP COLUMN forced_down_at;
