-- Limits that operators set; what is not here has the built-in one. An empty user stands for the whole project.
CREATE TABLE quotas (
    project_id TEXT COLLATE "C" NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    resource TEXT COLLATE "C" NOT NULL,
    hard_limit BIGINT NOT NULL,
    PRIMARY KEY (project_id, user_id, resource)
);

CREATE TABLE quota_classes (
    class_name TEXT COLLATE "C" NOT NULL,
    resource TEXT COLLATE "C" NOT NULL,
    hard_limit BIGINT NOT NULL,
    PRIMARY KEY (class_name, resource)
);
