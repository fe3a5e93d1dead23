-- What users are told of requests that failed after their answer.
CREATE TABLE volume_messages (
    id TEXT PRIMARY KEY NOT NULL,
    project_id TEXT NOT NULL,
    request_id TEXT NOT NULL,
    volume_id TEXT NOT NULL,
    created_at TIMESTAMP NOT NULL
);
CREATE INDEX volume_messages_project ON volume_messages (project_id);
