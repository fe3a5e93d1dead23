-- Limits that operators set; what is not here has the built-in one. An empty user stands for the whole project.
CREATE TABLE quotas (
    project_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    resource TEXT NOT NULL,
    hard_limit BIGINT NOT NULL,
    PRIMARY KEY (project_id, user_id, resource)
);

CREATE TABLE quota_classes (
    class_name TEXT NOT NULL,
    resource TEXT NOT NULL,
    hard_limit BIGINT NOT NULL,
    PRIMARY KEY (class_name, resource)
);
