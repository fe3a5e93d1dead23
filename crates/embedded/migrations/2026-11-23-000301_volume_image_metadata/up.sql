-- The image that filled a volume, as it was then: a JSON object of strings. Null for volumes without an image and of an older release.
ALTER TABLE volumes ADD COLUMN image_metadata TEXT;
