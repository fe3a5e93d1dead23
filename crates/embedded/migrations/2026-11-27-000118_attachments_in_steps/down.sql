-- Ends the attachments that are on their way: the older release takes every recorded one for attached.
DELETE FROM volume_direct_attachments WHERE status <> 'attached';
ALTER TABLE volume_direct_attachments DROP COLUMN status;
