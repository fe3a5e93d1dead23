-- The imports of images, which clients follow as tasks. They are kept for two days, also when their image is gone.
CREATE TABLE image_tasks (
    id TEXT PRIMARY KEY NOT NULL,
    image_id TEXT NOT NULL,
    owner TEXT NOT NULL,
    user_id TEXT NOT NULL,
    request_id TEXT NOT NULL,
    method TEXT NOT NULL,
    created_at TIMESTAMP NOT NULL,
    expires_at TIMESTAMP NOT NULL
);
CREATE INDEX image_tasks_image ON image_tasks (image_id, created_at);
CREATE INDEX image_tasks_expiry ON image_tasks (expires_at);
