-- Images that lists leave out unless they are asked for.
ALTER TABLE images ADD COLUMN hidden BOOLEAN NOT NULL DEFAULT FALSE;
