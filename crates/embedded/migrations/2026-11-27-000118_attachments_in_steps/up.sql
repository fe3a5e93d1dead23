-- Users make attachments in steps, as in Cinder since 3.27: reserved, attaching, attached. The recorded ones were all attached.
ALTER TABLE volume_direct_attachments ADD COLUMN status TEXT NOT NULL DEFAULT 'attached';
