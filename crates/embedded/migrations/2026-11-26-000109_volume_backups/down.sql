DROP TABLE volume_backups;
