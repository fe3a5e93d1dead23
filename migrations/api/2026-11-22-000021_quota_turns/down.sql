DROP INDEX instance_mappings_by_life;
DROP TABLE quota_turns;
