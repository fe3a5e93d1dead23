-- What other domains have goes: the older release has no place for it.
DELETE FROM role_assignments WHERE user_id IN (SELECT id FROM users WHERE domain_id <> 'default')
    OR target IN (SELECT 'project:' || id FROM projects WHERE domain_id <> 'default')
    OR target IN (SELECT 'domain:' || id FROM domains WHERE id <> 'default');
DELETE FROM group_role_assignments WHERE target IN (SELECT 'project:' || id FROM projects WHERE domain_id <> 'default')
    OR target IN (SELECT 'domain:' || id FROM domains WHERE id <> 'default');
DELETE FROM application_credentials WHERE user_id IN (SELECT id FROM users WHERE domain_id <> 'default')
    OR project_id IN (SELECT id FROM projects WHERE domain_id <> 'default');
DELETE FROM user_groups WHERE domain_id <> 'default';
DELETE FROM users WHERE domain_id <> 'default';
DELETE FROM projects WHERE domain_id <> 'default';
ALTER TABLE user_groups DROP COLUMN domain_id;
ALTER TABLE user_groups ADD CONSTRAINT user_groups_name_key UNIQUE (name);
ALTER TABLE projects DROP COLUMN domain_id;
ALTER TABLE projects ADD CONSTRAINT projects_name_key UNIQUE (name);
ALTER TABLE users DROP COLUMN domain_id;
ALTER TABLE users ADD CONSTRAINT users_name_key UNIQUE (name);
DROP TABLE domains;
