-- Who wishes that the operation be cancelled, and why; none when nobody does.
ALTER TABLE sagas ADD COLUMN cancellation TEXT;
