DROP TABLE aggregate_metadata;
DROP TABLE aggregate_hosts;
DROP TABLE aggregates;
DROP TABLE server_group_members;
DROP TABLE server_groups;
DROP TABLE key_pairs;
DROP TABLE flavor_projects;
DROP TABLE flavors;
