-- Where an operation takes a member of a server group, and where the member could come back to. Members take their places one after the
-- other, so that operations at once cannot break a group's rule together.
CREATE TABLE group_places (
    server_uuid TEXT PRIMARY KEY NOT NULL,
    saga_id TEXT NOT NULL,
    host TEXT NOT NULL,
    source_host TEXT
);
