-- Groups of users, in the domain `default`. Each member has the roles of the group.
CREATE TABLE user_groups (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL UNIQUE,
    description TEXT NOT NULL,
    created_at TIMESTAMP NOT NULL
);
CREATE TABLE user_group_members (
    group_id TEXT NOT NULL REFERENCES user_groups (id) ON DELETE CASCADE,
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    PRIMARY KEY (group_id, user_id)
);
CREATE INDEX user_group_members_user ON user_group_members (user_id);
-- As role_assignments, whose targets these have.
CREATE TABLE group_role_assignments (
    group_id TEXT NOT NULL REFERENCES user_groups (id) ON DELETE CASCADE,
    target TEXT NOT NULL,
    role_id TEXT NOT NULL REFERENCES roles (id),
    PRIMARY KEY (group_id, target, role_id)
);
CREATE INDEX group_role_assignments_role ON group_role_assignments (role_id);
CREATE INDEX group_role_assignments_target ON group_role_assignments (target);
