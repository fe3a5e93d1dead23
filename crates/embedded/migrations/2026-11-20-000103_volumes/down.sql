DROP TABLE volume_quotas;
DROP TABLE volume_attachments;
DROP TABLE volumes;
