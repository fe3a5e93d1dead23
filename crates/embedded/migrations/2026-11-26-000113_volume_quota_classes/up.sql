-- The limits of projects that have none of their own, by class; only the class default has an effect.
CREATE TABLE volume_quota_classes (
    class TEXT NOT NULL,
    resource TEXT NOT NULL,
    hard_limit BIGINT NOT NULL,
    PRIMARY KEY (class, resource)
);
-- What operators have set of the service's processes; a process without a row is enabled.
CREATE TABLE volume_services (
    process TEXT NOT NULL,
    host TEXT NOT NULL,
    disabled BOOLEAN NOT NULL,
    disabled_reason TEXT,
    frozen BOOLEAN NOT NULL,
    PRIMARY KEY (process, host)
);
