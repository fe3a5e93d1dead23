DROP INDEX security_group_rules_by_project;
DROP INDEX security_groups_by_project;
DROP INDEX ports_by_project;
DROP INDEX subnets_by_project;
DROP INDEX networks_by_project;
DROP TABLE network_quota_turns;
DROP TABLE network_quotas;
