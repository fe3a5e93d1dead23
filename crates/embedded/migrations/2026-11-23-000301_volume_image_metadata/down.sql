ALTER TABLE volumes DROP COLUMN image_metadata;
