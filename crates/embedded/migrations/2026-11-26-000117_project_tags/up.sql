-- A JSON array of the project's tags.
ALTER TABLE projects ADD COLUMN tags TEXT NOT NULL DEFAULT '[]';
