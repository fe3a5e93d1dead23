-- Limits that an administrator has set for a project; what is not here has the configured default.
CREATE TABLE network_quotas (
    project_id TEXT NOT NULL,
    resource TEXT NOT NULL,
    hard_limit BIGINT NOT NULL,
    PRIMARY KEY (project_id, resource)
);
-- Who makes something raises their project's number first, so that two makers come one after the other.
CREATE TABLE network_quota_turns (
    project_id TEXT PRIMARY KEY NOT NULL,
    turns BIGINT NOT NULL
);
CREATE INDEX networks_by_project ON networks (project_id);
CREATE INDEX subnets_by_project ON subnets (project_id);
CREATE INDEX ports_by_project ON ports (project_id);
CREATE INDEX security_groups_by_project ON security_groups (project_id);
CREATE INDEX security_group_rules_by_project ON security_group_rules (project_id);
